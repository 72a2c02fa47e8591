// Contributions: the words that support a written token, and those that decide between it and another. Attention does not
// answer that.
const { el, number, percent, state } = page;

// ---- contributions ----

const plain = (text) => text.replaceAll("▁", " ").trim();
const naming = (token) => plain(token.text) || page.tokenText(token);

// The words that step t has read, as {side, name, erased}: the last is their place among the erased words.
// The only word that a language model has read can't be erased, because nothing would be left.
function erasable(part, t) {
  return part.contributions.erased.flatMap(([side, word], erased) => {
    const stack = page.stack(side);
    const tokens = stack.tokens.filter((token) => token.word === word);
    const read = stack.tokens.slice(0, side === "encoder" ? stack.tokens.length : t + 1).filter((token) => token.word === word);
    if (!read.length || (!page.stack("encoder") && read.length > t)) return [];
    const name = read.length === tokens.length ? stack.words[word] : plain(read.map((token) => token.text).join(""));
    return [{ side, name, erased }];
  });
}

// The drop of the token written at step t without each word.
function contributions(part, t) {
  const falls = page.array(part.contributions.written_erasure);
  return erasable(part, t).map((each) => ({ ...each, value: falls.at(each.erased, t) }));
}

// The drop of the written token's lead over candidate c without each word.
function contrast(part, t, c) {
  const { written_erasure: written, erasure } = part.contributions;
  return erasable(part, t).map((each) => ({ ...each, value: page.array(written).at(each.erased, t) - page.array(erasure).at(each.erased, t, c) }));
}

const runnerUp = (step) => step.candidates.findIndex((each) => each.id !== step.token.id);
const strongest = (found) => found.reduce((best, each) => (best === null || each.value > best.value ? each : best), null);

// ---- bars ----

const titles = () => ({ encoder: "The source", decoder: page.stack("encoder") ? "The translation so far" : "The text so far" });

// Tables of words with bars, one a side; `unit` says what a bar is.
function tables(found, order, unit) {
  const largest = Math.max(...found.map((each) => Math.abs(each.value)));
  const line = (each) => el("tr", {}, el("th", { scope: "row" }, page.word(each.name)), el("td", {}, page.bar(each.value, largest)));
  const sides = page.part.stacks.map(({ name }) => {
    const own = found.filter((each) => each.side === name);
    if (order === "strength") own.sort((a, b) => b.value - a.value);
    const empty = el("p", { class: "muted small" }, "There is nothing to erase yet.");
    const table = el("table", { class: "numbers" }, page.heading("word", unit), el("tbody", {}, own.map(line)));
    return el("div", { class: `side ${name}` }, el("h4", {}, titles()[name]), own.length ? page.scroller(titles()[name], table) : empty);
  });
  return el("div", { class: "sides" }, sides);
}

// ---- in words ----

function answer(part, t, found) {
  const step = part.steps[t];
  const best = strongest(found);
  const written = page.quoted(naming(step.token));
  if (!best) return ["There is no word yet whose absence could say something about ", written, "."];
  if (best.value <= 0) return ["No single word is missed: without any of them ", written, " stays as likely or becomes likelier."];
  const falls = ["Without ", page.quoted(best.name), ", the log-probability of ", written, ` falls by ${number(best.value)} nats: the probability goes from ${percent(Math.exp(step.log_prob))} to ${percent(Math.exp(step.log_prob - best.value))}.`];
  const source = strongest(found.filter((each) => each.side === "encoder"));
  if (!source || source === best || source.value <= 0) return falls;
  return [...falls, " That is a word of the translation itself. Of the source, ", page.quoted(source.name), ` is missed most: ${number(source.value)} nats.`];
}

// ---- this rather than that ----

// The candidate that a reader means: as it is shown, without the mark of a space, or in other capitals.
function meant(step, typed) {
  const text = typed.trim();
  const ways = [page.tokenText, naming, (each) => naming(each).toLowerCase()];
  for (const [i, way] of ways.entries()) {
    const at = step.candidates.findIndex((each) => way(each) === (i < 2 ? text : text.toLowerCase()));
    if (at >= 0) return at;
  }
  return -1;
}

function offered(step) {
  const names = step.candidates.map(naming);
  return step.candidates.map((each, i) => (names.indexOf(names[i]) === names.lastIndexOf(names[i]) ? names[i] : page.tokenText(each)));
}

// The decision in words. The lead can be negative if the text was given.
function verdict(step, rival, lead, best) {
  const [x, y] = [step.token, rival].map((each) => () => page.quoted(naming(each)));
  const start = [x(), " rather than ", y(), ": "];
  if (!best) return [...start, "there is no word yet to erase."];
  const supports = best.value > 0;
  const without = () => ["without ", page.quoted(best.name), " "];
  if (lead < 0) {
    const trailing = [...start, x(), ` trails by ${number(-lead)} nats`];
    return supports ? [...trailing, "; ", without(), `it trails by ${number(best.value)} more.`] : [...trailing, ", and no single word helps it."];
  }
  if (!supports) return [...start, `no single word holds up the lead of ${number(lead)} nats.`];
  const turns = best.value > lead ? [`: then `, y(), ` would lead by ${number(best.value - lead)}.`] : [` to ${number(lead - best.value)}.`];
  return [...start, without(), `the lead of ${number(lead)} nats falls by ${number(best.value)}`, turns];
}

const shell = (text) => (/["$`\\!]/.test(text) ? `'${text.replaceAll("'", "'\\''")}'` : `"${text}"`);

// The word that a token is written in, as `dragoman explain --instead` names it: the second of two is word#2.
function named(part, t) {
  const { word } = part.steps[t].token;
  if (word === null || (part.source === null && t === part.steps.length - 1)) return null;
  const text = part.written[word];
  const before = part.written.slice(0, word + 1).filter((each) => each === text).length;
  return part.written.filter((each) => each === text).length > 1 ? `${text}#${before}` : text;
}

function command(part, t, typed) {
  const target = page.record.has_given_target ? `--target ${shell(part.target)} ` : "";
  const pair = `${named(part, t)}=${typed}`;
  return `dragoman explain ${shell(page.record.model)} ${shell(part.source ?? part.target)} ${target}--instead ${/^[\p{L}\p{N}=]+$/u.test(pair) ? pair : shell(pair)}`;
}

function unknown(part, t, typed) {
  const says = [page.quoted(typed), ` is not among the ${part.steps[t].candidates.length} likeliest tokens of this step, which are all that this page holds.`];
  if (!named(part, t)) return [says, []];
  return [[says, " To ask about it:"], [el("p", {}, el("code", { dir: "ltr" }, command(part, t, typed)))]];
}

function compared(part, t, c, order) {
  const step = part.steps[t];
  const rival = step.candidates[c];
  const lead = step.log_prob - rival.log_prob;
  const found = contrast(part, t, c);
  return [verdict(step, rival, lead, strongest(found)), [
    tables(found, order, "fall of the lead without it"),
    el("p", { class: "small muted" }, "The lead is how much larger the log-probability of the written token is. Blue words hold the lead up; without an orange word it would be larger."),
  ]];
}

function question(part, orders) {
  const list = el("datalist", { id: "why-candidates" });
  const input = el("input", { type: "text", list: list.id, autocomplete: "off", spellcheck: "false", dir: "auto" });
  const label = el("span", {});
  const said = el("p", { class: "verdict", role: "status" });
  const [chips, result] = [el("div", {}), el("div", {})];
  const show = () => {
    const step = part.steps[state.step];
    const at = meant(step, input.value);
    const [words, details] = !input.value.trim() ? ["Type another token that could have been written.", []]
      : at < 0 ? unknown(part, state.step, input.value.trim())
      : step.candidates[at].id === step.token.id ? [[page.quoted(naming(step.token)), " is what was written. Choose another token to compare it with."], []]
      : compared(part, state.step, at, orders.now);
    said.replaceChildren(...[words].flat(Infinity));
    result.replaceChildren(...details);
    chips.firstChild.mark();
  };
  const renew = () => {
    const step = part.steps[state.step];
    label.replaceChildren("Why ", ...page.quoted(naming(step.token)), " rather than");
    const names = offered(step);
    list.replaceChildren(...names.map((value, i) => (step.candidates[i].id === step.token.id ? "" : el("option", { value }))));
    input.value = names[runnerUp(step)] ?? "";
    const others = step.candidates.flatMap((each, i) => (each.id === step.token.id ? [] : [i]));
    chips.replaceChildren(page.tokenChoice("Tokens that could have been written", others.map((i) => step.candidates[i]), () => others.indexOf(meant(step, input.value)), (i) => ((input.value = names[others[i]]), show())));
    show();
  };
  input.addEventListener("change", show);
  input.addEventListener("input", () => meant(part.steps[state.step], input.value) >= 0 && show());
  renew();
  page.listen("step", renew);
  return { box: [el("div", { class: "controls" }, el("label", { class: "menu" }, label, input), list), chips, said, result], show };
}

// ---- the section ----

function build(root, part) {
  const orders = { now: "text" };
  const line = el("p", { class: "readout", role: "status" });
  const bars = el("div", {});
  const steps = page.tokenChoice(part.source === null ? "Token that came next" : "Written token", part.steps.map((step) => step.token), () => state.step, (step) => page.set({ step }));
  const draw = () => {
    const found = contributions(part, state.step);
    line.replaceChildren(...answer(part, state.step, found).flat(Infinity));
    bars.replaceChildren(tables(found, orders.now, "fall in nats"));
  };
  const asked = question(part, orders);
  root.append(
    el("p", {}, "Choose a token. Each word that the model had read is deleted in turn, and the model is asked again. A bar shows the drop of the token's log-probability. Blue words support it, orange words oppose it. A fall of 1 nat divides the probability by 2.7. Attention says where the model looked; this tests what it needed. ",
      part.source === null ? "Each token here is the one that came next." : ""),
    steps,
    el("div", { class: "controls" },
      page.choice("Order", [["text", "as in the text"], ["strength", "strongest first"]], orders.now, (chosen) => ((orders.now = chosen), draw(), asked.show()))),
    line, bars,
    el("h3", {}, "This rather than that"),
    el("p", {}, "Many words make several continuations likely at once. This compares two of them."),
    ...asked.box);
  draw();
  page.listen("step", () => (steps.mark(), draw()));
}

page.section({
  id: "why",
  title: "Why this word",
  lead: "The words that support each written token, and those that decide between it and another.",
  when: (part) => Boolean(part.contributions && part.steps.length),
  build,
});
