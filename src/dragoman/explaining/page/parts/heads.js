// What the heads do: where each head's weight goes in this sentence, and what its removal does to it.
const { el, number, percent, count, state } = page;
const LITTLE = 0.05; // nats: what a head's removal must change to be called felt
const MARKED = 0.1; // of its weight that a head must give to a role to be marked with it

// What the names of the roles leave open.
const ROLES = {
  "same word": "the word itself, over all its pieces",
  "start of sentence": "the start symbol",
  "end of sentence": "the end symbol",
  punctuation: "other words without a letter or digit",
  "aligned word": "source words linked to the word that is being written",
  "word aligned with the last one read": "source words linked to the word that was read last",
};

// ---- what is shown ----

// The attentions of the part as [site, stack, kind, layer], and their heads.
function attentions(part) {
  return Object.keys(part.heads.removed).map((site) => {
    const [stack, layer, kind] = site.split(".");
    return { site, stack, layer: +layer, kind };
  });
}

function heads(part, stack, kind) {
  return attentions(part).filter((each) => each.stack === stack && each.kind === kind).flatMap(({ site, layer }) => {
    const removed = page.array(part.heads.removed[site]).data;
    const roles = Object.entries(part.heads.roles[site] ?? {}).map(([role, shares]) => [role, page.array(shares).data]);
    return [...removed].map((change, head) => ({ stack, kind, layer, head, change, roles: roles.map(([role, shares]) => [role, shares[head]]) }));
  });
}

const kinds = (part) => [...new Set(attentions(part).map(({ stack, kind }) => `${stack} ${kind}`))];
const everyHead = (part) => kinds(part).flatMap((name) => heads(part, ...name.split(" ")));
const called = ({ stack, kind, layer, head }) => `head ${head} of layer ${layer} (${stack}, ${page.kindName(kind)})`;

// ---- the table ----

// A link to the attention section that chooses the head first.
function way({ stack, kind, layer, head }) {
  const link = page.link("attention", `layer ${layer}, head ${head}`);
  link.addEventListener("click", () => page.set({ stack, attention: kind, layer, head }));
  link.setAttribute("aria-label", `Show layer ${layer}, head ${head} in “Where it looked”`);
  return link;
}

function share([role, x], strongest) {
  const best = x === strongest && x >= MARKED;
  return el("td", { class: best ? "right share best" : "right share", "data-role": role, style: { background: page.heat(x) } },
    percent(x), best ? el("span", { class: "hidden" }, " (its strongest)") : null);
}

function table(found, largest) {
  const roles = found[0].roles.map(([role]) => role);
  const line = (each) => {
    const strongest = Math.max(...each.roles.map(([, x]) => x));
    return el("tr", { "data-head": `${each.layer}.${each.head}` }, el("th", { scope: "row" }, way(each)), each.roles.map((role) => share(role, strongest)),
      el("td", { class: "removed" }, page.bar(each.change, largest)));
  };
  return page.scroller("Heads, what they look at and what their removal does",
    el("table", { class: "numbers heads" }, page.heading("head", ...roles, "change when removed"), el("tbody", {}, found.map(line))));
}

function legend(found) {
  const said = found[0].roles.map(([role]) => role).filter((role) => ROLES[role]);
  return said.length ? el("dl", { class: "small legend" }, said.map((role) => [el("dt", {}, role), el("dd", {}, ROLES[role])])) : "";
}

// ---- in words ----

function summary(part) {
  const all = everyHead(part);
  const most = all.reduce((worst, each) => (each.change < worst.change ? each : worst));
  const felt = all.filter((each) => Math.abs(each.change) >= LITTLE).length;
  const needed = most.change < 0
    ? `This sentence needs ${called(most)} most: without it, the log-probability of what ${part.source === null ? "the text says" : "was written"} falls by ${number(-most.change)} nats.`
    : "This sentence needs none of the heads: without any one of them it stays as likely or becomes likelier.";
  const least = all.reduce((best, each) => (each.change > best.change ? each : best));
  const better = least.change > 0 ? ` Without ${called(least)} it rises most, by ${number(least.change)}.` : "";
  return `${needed}${better} Of all ${count(all.length)} heads, ${count(felt)} change it by ${LITTLE} nats or more.`;
}

function build(root, part) {
  const names = kinds(part);
  let [shown, order] = [`${state.stack} ${state.attention}`, "place"];
  if (!names.includes(shown)) shown = names[0];
  const largest = Math.max(...everyHead(part).map((each) => Math.abs(each.change)));
  const box = el("div", {});
  const draw = () => {
    const found = heads(part, ...shown.split(" "));
    if (order === "change") found.sort((a, b) => a.change - b.change);
    box.replaceChildren(table(found, largest), legend(found));
  };
  const announce = () => page.announce(`${shown.replace(" ", ", ").replace("_", "-")}, ${order === "change" ? "the most needed first" : "by layer"}`);
  const options = names.map((name) => [name, name.split(" ").map(page.kindName).join(", ")]);
  root.append(
    el("p", { class: "summary" }, summary(part)),
    el("p", {}, "Each row is a head. The shares say how much of its weight goes where; the largest is marked if it is a tenth or more. The last column says what happens to the log-probability of the whole output when only this head is removed. Orange, below zero: the head was needed. Blue: the output is likelier without it."),
    el("div", { class: "controls" },
      page.menu("Attention", options, shown, (chosen) => ((shown = chosen), draw(), announce())),
      page.choice("Order", [["place", "by layer"], ["change", "the most needed first"]], order, (chosen) => ((order = chosen), draw(), announce()))),
    box,
    el("p", { class: "small" }, "One sentence says little about a head. To measure every head on a whole test set, run ", el("code", { dir: "ltr" }, "dragoman explain MODEL --heads"), "."));
  draw();
}

page.section({
  id: "heads",
  title: "What the heads do",
  lead: "Where each head's weight goes, and what happens without it.",
  when: (part) => Boolean(part.heads && Object.keys(part.heads.removed).length),
  build,
});
