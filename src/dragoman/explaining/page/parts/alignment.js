// Word alignment: the words of both sides, and lines between those that the alignment links.
const { el, svg, percent } = page;
const NAMED = 4; // words that the line below the picture names
const PRINTED = 640; // pixels that a line of words may have on paper

const other = (side) => (side === "source" ? "target" : "source");

// The alignment as the picture needs it.
function read(part) {
  const weights = page.array(part.alignment.weights);
  return {
    part, words: { source: page.stack("encoder").words, target: part.written }, links: part.alignment.links,
    weight: (source, target) => weights.at(target, source),
    between: (side, word, far) => (side === "source" ? weights.at(far, word) : weights.at(word, far)),
  };
}

// ---- the picture ----

class Picture {
  constructor(aligned, chosen) {
    Object.assign(this, { aligned, chosen }); // chosen(side, word) receives the word under the pointer or the focus
    this.buttons = { source: this.buttonsOf("source"), target: this.buttonsOf("target") };
    this.lines = aligned.links.map(([source, target]) =>
      svg("path", { class: "link", "stroke-width": (1.5 + 3 * aligned.weight(source, target)).toFixed(2) }));
    this.svg = svg("svg", { "aria-hidden": "true" }, this.lines);
    this.box = el("div", { class: "alignment" }, this.row("source", "Words of the source"), this.row("target", "Words of the translation"), this.svg);
    new ResizeObserver(() => this.layout()).observe(this.box);
  }

  buttonsOf(side) {
    const point = (word) => () => this.point(side, word);
    const go = (word) => side === "target" && page.set({ step: this.aligned.part.steps.findIndex((step) => step.token.word === word) });
    return this.aligned.words[side].map((text, word) =>
      el("button", { type: "button", class: "token", onpointerenter: (event) => page.moved(event) && this.point(side, word), onfocus: point(word), onclick: () => (this.point(side, word), go(word)) }, el("bdi", {}, text)));
  }

  row(side, label) {
    const dir = page.directionOf(this.aligned.words[side].join(" "));
    return page.rove(el("div", { class: `words ${side}`, role: "group", "aria-label": label, dir }, this.buttons[side]));
  }

  point(side, word) {
    const far = other(side);
    this.buttons[side].forEach((button, at) => {
      button.classList.toggle("pointed", at === word);
      button.style.removeProperty("background");
    });
    this.buttons[far].forEach((button, at) => {
      button.classList.remove("pointed");
      button.style.setProperty("background", page.heat(this.aligned.between(side, word, at)));
    });
    this.lines.forEach((line, i) => {
      const on = this.aligned.links[i][side === "source" ? 0 : 1] === word;
      line.classList.toggle("on", on);
      line.classList.toggle("off", !on);
    });
    this.chosen(side, word);
  }

  // Draw two lines of words if these fit, else two columns; then the lines from word to word.
  layout(room = this.box.clientWidth) {
    this.box.classList.remove("columns");
    const rows = [...this.box.querySelectorAll(".words")];
    const columns = rows.some((row) => row.scrollWidth > room);
    this.box.classList.toggle("columns", columns);
    const origin = this.box.getBoundingClientRect();
    this.svg.setAttribute("width", origin.width);
    this.svg.setAttribute("height", origin.height);
    this.aligned.links.forEach(([source, target], i) => {
      const [a, b] = [this.buttons.source[source], this.buttons.target[target]].map((button) => button.getBoundingClientRect());
      this.lines[i].setAttribute("d", columns ? across(a, b, origin) : down(a, b, origin));
    });
  }
}

function down(a, b, origin) {
  const [x, X] = [a, b].map((box) => box.left + box.width / 2 - origin.left);
  const [y, Y] = [a.bottom - origin.top, b.top - origin.top];
  return `M${x},${y} C${x},${(y + Y) / 2} ${X},${(y + Y) / 2} ${X},${Y}`;
}

function across(a, b, origin) {
  const [x, X] = [a.right - origin.left, b.left - origin.left];
  const [y, Y] = [a, b].map((box) => box.top + box.height / 2 - origin.top);
  return `M${x},${y} C${(x + X) / 2},${y} ${(x + X) / 2},${Y} ${X},${Y}`;
}

// ---- in words ----

function sentence(aligned, side, word) {
  const far = aligned.words[other(side)];
  const order = far.map((_, at) => at).sort((a, b) => aligned.between(side, word, b) - aligned.between(side, word, a));
  const named = order.slice(0, NAMED).flatMap((at, i) => [i ? ", " : " ", page.quoted(far[at]), ` ${percent(aligned.between(side, word, at))}`]);
  const says = side === "target" ? ", when it was written, looked at" : " was looked at by";
  return [page.quoted(aligned.words[side][word]), says, named, "."];
}

// The links as a table, in the order of the target; a word without a link has a line too.
function table(aligned) {
  const lines = aligned.words.target.flatMap((text, target) => {
    const linked = aligned.links.filter((link) => link[1] === target);
    if (!linked.length) return [el("tr", {}, el("th", { scope: "row" }, page.word(text)), el("td", { class: "muted" }, "no word"), el("td", {}))];
    return linked.map(([source]) => el("tr", {}, el("th", { scope: "row" }, page.word(text)), el("td", {}, page.word(aligned.words.source[source])),
      el("td", {}, page.bar(aligned.weight(source, target), 1, { signed: false, text: percent(aligned.weight(source, target)) }))));
  });
  return page.scroller("Links between words", el("table", { class: "numbers links" }, page.heading("translation", "source", "weight"), el("tbody", {}, lines)));
}

let shown = null; // the picture on the page
addEventListener("beforeprint", () => shown?.layout(PRINTED));
addEventListener("afterprint", () => shown?.layout());

function build(root, part) {
  const aligned = read(part);
  const line = el("p", { class: "readout", role: "status" }, "Point at a word, or use the arrow keys, to see its weights on all the words of the other side.");
  const picture = new Picture(aligned, (side, word) => line.replaceChildren(...sentence(aligned, side, word).flat(Infinity)));
  const { how } = part.alignment;
  shown = picture;
  root.append(
    el("p", {}, "A line joins each word of the translation to the word of the source that it looked at most. The thicker the line, the larger the weight. The weights of a word's pieces are added up on the source's side and averaged on the other."),
    picture.box, line,
    el("p", { class: "small how" }, `Read off the cross-attention: ${how}${/[.!?]$/.test(how) ? "" : "."} `, page.link("why", "Where the model looked is not yet why it wrote a word.")),
    page.more("All links as a table", (box) => box.append(table(aligned))));
  page.listen("step", () => {
    const { word } = part.steps[page.state.step].token;
    if (word !== null && !picture.box.contains(document.activeElement)) picture.point("target", word);
  });
}

page.section({
  id: "alignment",
  title: "Which word came from which",
  lead: "The words of both sides, joined where the model looked.",
  when: (part) => Boolean(part.alignment && part.written.length && page.stack("encoder")?.words.length),
  build,
});
