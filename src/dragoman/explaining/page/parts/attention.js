// Attention: the weights of one head as a table for the arrow keys, and the arithmetic of a cell.
const { el, number, percent, state } = page;
const LARGEST = 60; // most tokens on a side of the whole table; if there are more, it shows a window
const WINDOW = 40;
const NUMBERED = 16; // columns up to which cells have room for numbers

const SHOWN = [
  ["products", "products"],
  ["masked", "after the mask"],
  ["weights", "weights"],
];

// ---- what is shown ----

const record = () => {
  const stack = page.stack(state.stack);
  const layer = stack.layers[state.layer];
  return { stack, layer, attention: layer.attentions.find((each) => each.name === state.attention) };
};

// The numbers of the table: of one head, or the mean of the weights of all heads.
function matrixOf(attention, head, shown) {
  const of = page.headOf(attention, head ?? 0);
  const heads = Array.from({ length: of.heads }, (_, each) => each);
  const weights = page.array(attention.weights);
  const mean = (t, s) => heads.reduce((sum, each) => sum + weights.at(each, t, s), 0) / of.heads;
  const masked = (t, s) => (of.visible(t, s) ? of.product(t, s) : -Infinity);
  const value = head === null ? mean : { weights: of.weight, products: of.product, masked }[shown];
  let max = shown === "weights" || head === null ? 1 : 0;
  if (!max) for (let t = 0; t < of.queries; t++) for (let s = 0; s < of.keys; s++) if (Number.isFinite(value(t, s))) max = Math.max(max, Math.abs(value(t, s)));
  return { rows: of.queries, columns: of.keys, value, max };
}

// The head whose arithmetic is shown: the chosen one, or with the mean the one that looks hardest at the chosen key.
function headShown(attention) {
  if (state.head !== null) return state.head;
  const weights = page.array(attention.weights);
  let best = 0;
  for (let head = 1; head < weights.shape[0]; head++)
    if (weights.at(head, state.query, state.key) > weights.at(best, state.query, state.key)) best = head;
  return best;
}

// ---- names of rows and columns ----

const chip = (token) => page.token(token);
const writes = (stack, t) => (stack.name === "decoder" ? page.part.steps[t]?.token : null);

// A row of the decoder belongs to two words: the one that is read there and the one that is written next.
const rowName = (stack, t) => {
  const next = writes(stack, t);
  return [chip(stack.tokens[t]), next ? el("span", { class: "writes" }, "→ ", el("bdi", {}, page.tokenText(next))) : null];
};

const plain = (token) => `“${page.tokenText(token)}”`;

// ---- the table ----

// A window of at most WINDOW tokens of many, which follows the chosen cell.
const windowed = (length, at) => {
  if (length <= LARGEST) return [0, length];
  const first = Math.max(0, Math.min(length - WINDOW, at - WINDOW / 2));
  return [first, first + WINDOW];
};

class Grid {
  constructor(point) {
    this.point = point; // called with the cell under the pointer or the focus
    this.box = el("div", { class: "heat-map" });
    this.box.addEventListener("pointerover", (event) => page.moved(event) && this.pointed(event));
    this.box.addEventListener("focusin", (event) => this.pointed(event));
    this.box.addEventListener("click", (event) => this.taken(event));
    this.box.addEventListener("keydown", (event) => this.key(event));
  }

  // Show a matrix; `names` are {rows, columns} of tokens, `stack` the one of the rows.
  show(matrix, keys, stack) {
    Object.assign(this, { matrix, keys, stack });
    this.at = [state.query, state.key];
    this.draw();
  }

  draw() {
    const [rows, columns] = [windowed(this.matrix.rows, this.at[0]), windowed(this.matrix.columns, this.at[1])];
    Object.assign(this, { rows, columns });
    const numbered = columns[1] - columns[0] <= NUMBERED;
    const table = el("table", { class: `grid ${numbered ? "numbered" : ""}`.trim(), role: "grid", "aria-label": "Queries in rows, keys in columns", "aria-rowcount": String(this.matrix.rows + 1), "aria-colcount": String(this.matrix.columns + 1) },
      el("thead", {}, el("tr", { role: "row" }, el("td", { class: "corner" }, "query ↓ key →"), range(columns).map((s) =>
        el("th", { scope: "col", role: "columnheader", "aria-colindex": String(s + 2) }, el("span", {}, chip(this.keys.tokens[s])))))),
      el("tbody", {}, range(rows).map((t) => this.line(t, columns, numbered))));
    this.box.replaceChildren(table);
  }

  line(t, columns, numbered) {
    return el("tr", { role: "row", "aria-rowindex": String(t + 2) },
      el("th", { scope: "row", role: "rowheader" }, rowName(this.stack, t)),
      range(columns).map((s) => this.cell(t, s, numbered)));
  }

  cell(t, s, numbered) {
    const x = this.matrix.value(t, s);
    const hidden = x === -Infinity;
    const chosen = t === state.query && s === state.key;
    return el("td", {
      role: "gridcell",
      class: hidden ? "cell masked" : "cell",
      tabindex: t === this.at[0] && s === this.at[1] ? "0" : "-1",
      "aria-selected": String(chosen),
      "aria-colindex": String(s + 2),
      "aria-label": `${plain(this.stack.tokens[t])} to ${plain(this.keys.tokens[s])}: ${hidden ? "hidden by the mask" : number(x)}`,
      "data-query": String(t),
      "data-key": String(s),
      style: hidden ? {} : { background: page.heat(x, this.matrix.max) },
    }, numbered ? short(x, this.matrix.max) : "");
  }

  find([t, s]) {
    return this.box.querySelector(`[data-query="${t}"][data-key="${s}"]`);
  }

  pointed(event) {
    const cell = event.target.closest(".cell");
    if (cell) this.point(+cell.dataset.query, +cell.dataset.key);
  }

  taken(event) {
    const cell = event.target.closest(".cell");
    if (cell) page.set({ query: +cell.dataset.query, key: +cell.dataset.key });
  }

  key(event) {
    const cell = event.target.closest(".cell");
    if (!cell || event.ctrlKey || event.altKey || event.metaKey) return;
    const [t, s] = [+cell.dataset.query, +cell.dataset.key];
    const moves = { ArrowUp: [t - 1, s], ArrowDown: [t + 1, s], ArrowLeft: [t, s - 1], ArrowRight: [t, s + 1], Home: [t, 0], End: [t, this.matrix.columns - 1] };
    if (event.key === "Enter" || event.key === " ") page.set({ query: t, key: s });
    else if (event.key in moves) this.move(moves[event.key]);
    else return;
    event.preventDefault();
  }

  // Go to a cell, and move the window if the cell is outside.
  move([t, s]) {
    const to = [Math.max(0, Math.min(this.matrix.rows - 1, t)), Math.max(0, Math.min(this.matrix.columns - 1, s))];
    this.find(this.at)?.setAttribute("tabindex", "-1");
    this.at = to;
    if (!this.find(to)) this.draw();
    const cell = this.find(to);
    cell.setAttribute("tabindex", "0");
    cell.focus();
  }

  // Mark the cell that was chosen, here or by another section.
  mark() {
    const chosen = [state.query, state.key];
    const focused = this.box.contains(document.activeElement) && document.activeElement.closest(".cell");
    this.box.querySelector('[aria-selected="true"]')?.setAttribute("aria-selected", "false");
    this.find(this.at)?.setAttribute("tabindex", "-1");
    this.at = chosen;
    if (!this.find(chosen)) this.draw();
    const cell = this.find(chosen);
    cell.setAttribute("aria-selected", "true");
    cell.setAttribute("tabindex", "0");
    if (focused) cell.focus();
  }
}

const range = ([first, end]) => Array.from({ length: end - first }, (_, i) => first + i);

// A number that fits into a cell: a weight in hundredths, a product with one decimal.
const short = (x, max) => {
  if (x === -Infinity) return "−∞";
  return max === 1 ? String(Math.round(100 * x)) : x.toFixed(1).replace("-", "−");
};

// ---- controls ----

function attentions(part) {
  return part.stacks.flatMap((stack) =>
    (stack.layers[0]?.attentions ?? []).map(({ name }) => [`${stack.name} ${name}`, `${stack.name}, ${page.kindName(name)}`]));
}

const numbered = (length, word) => Array.from({ length }, (_, i) => [i, `${word} ${i}`]);

function controls(part) {
  const which = page.menu("Attention", attentions(part), `${state.stack} ${state.attention}`, (chosen) => {
    const [stack, attention] = chosen.split(" ");
    page.set({ stack, attention });
  });
  const box = el("div", { class: "controls" });
  let made = "";
  const draw = () => {
    const { stack, attention } = record();
    const heads = attention.weights.shape[0];
    which.choose(`${state.stack} ${state.attention}`);
    if (made !== `${stack.layers.length} ${heads}`) {
      box.layer = page.menu("Layer", numbered(stack.layers.length, "layer"), state.layer, (layer) => page.set({ layer }));
      box.head = page.menu("Head", [...numbered(heads, "head"), [null, "mean of all heads"]], state.head, (head) => page.set({ head }));
      box.replaceChildren(which, box.layer, box.head);
      made = `${stack.layers.length} ${heads}`;
    }
    box.layer.choose(state.layer);
    box.head.choose(state.head);
  };
  draw();
  page.listen(["stack", "layer", "attention", "head"], draw);
  return box;
}

// One small picture for each head, as buttons.
function thumbnails() {
  const box = el("div", { class: "thumbnails", role: "group", "aria-label": "Heads of this layer" });
  const draw = () => {
    const { attention } = record();
    const heads = [...Array(attention.weights.shape[0]).keys(), null];
    box.replaceChildren(...heads.map((head) => thumbnail(attention, head)));
    page.rove(box);
  };
  const mark = () => [...box.children].forEach((button) => button.setAttribute("aria-pressed", String(button.head === state.head)));
  draw();
  mark();
  page.listen(["stack", "layer", "attention"], () => (draw(), mark()));
  page.listen("head", mark);
  return box;
}

function thumbnail(attention, head) {
  const { rows, columns, value, max } = matrixOf(attention, head, "weights");
  const name = head === null ? "mean of all heads" : `head ${head}`;
  const button = el("button", { type: "button", "aria-label": `Show ${name}`, onclick: () => page.set({ head }) },
    page.paint(el("canvas", { "aria-hidden": "true" }), rows, columns, value, max), el("span", { class: "small" }, head === null ? "mean" : String(head)));
  button.head = head;
  return button;
}

// ---- the section ----

function overview(grid) {
  const canvas = el("canvas", { role: "img", "aria-label": "All weights; the table shows a window of them" });
  const slide = (name, axis, length) => {
    const input = el("input", { type: "range", min: "0", max: String(length - 1), value: String(state[name]) });
    input.addEventListener("input", () => {
      grid.at[axis] = +input.value;
      grid.draw();
    });
    return el("label", { class: "menu" }, el("span", {}, `Window: ${name}`), input);
  };
  const { rows, columns, value, max } = grid.matrix;
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    const place = (at, size, length) => Math.max(0, Math.min(length - 1, Math.floor((at / size) * length)));
    page.set({ query: place(event.clientY - box.top, box.height, rows), key: place(event.clientX - box.left, box.width, columns) });
  });
  return el("div", { class: "overview" },
    el("p", { class: "small muted" }, `${rows} × ${columns} cells are too many for one table. It shows a window of ${WINDOW} tokens a side; the arrow keys, these sliders and a click on the picture move it.`),
    page.paint(canvas, rows, columns, value, max),
    el("div", { class: "controls" }, rows > LARGEST ? slide("query", 0, rows) : null, columns > LARGEST ? slide("key", 1, columns) : null));
}

function readout(box, matrix, t, s) {
  const { stack, attention } = record();
  const keys = page.stack(attention.keys);
  const of = page.headOf(attention, state.head ?? 0);
  const weight = state.head === null ? matrixOf(attention, null, "weights").value(t, s) : of.weight(t, s);
  box.replaceChildren("Query ", chip(stack.tokens[t]), " (", stack.name, " token ", String(t), ") gives key ", chip(keys.tokens[s]), ` (${keys.name} token ${s}) `,
    el("b", { class: "weight" }, percent(weight)), ` of its weight (${number(weight)}).`,
    state.head === null ? "" : of.visible(t, s) ? ` Product: ${number(of.product(t, s))}.` : ` Product: ${number(of.product(t, s))}, hidden by the mask.`);
}

function recordedOutput(layer, t, head, width) {
  const matrix = page.part.matrices.find((each) => each.name === `${layer.name}.${state.attention}.output`);
  return matrix ? page.array(matrix.input).row(t).slice(head * width, (head + 1) * width) : null;
}

function unfolded(box) {
  const { stack, layer, attention } = record();
  const keys = page.stack(attention.keys);
  const head = headShown(attention);
  const of = page.headOf(attention, head);
  const [t, s] = [state.query, state.key];
  const labels = { query: () => chip(stack.tokens[t]), key: (place) => chip(keys.tokens[place]) };
  const rotary = page.record.settings.positions === "rotary" && attention.name === "self_attention";
  box.replaceChildren(
    el("h3", {}, "This very multiplication: ", labels.query(), " looks at ", labels.key(s)),
    el("p", {}, `${layer.name}, ${page.kindName(attention.name)}, head ${head}. The page computes every number below from the recorded queries, keys and values.`,
      state.head === null ? " The table above shows the mean of all heads; this is the head that looks hardest at the chosen key." : "",
      rotary ? " Positions are rotary here, so query and key are shown as they are after their rotation." : ""),
    page.multiplication(of, t, s, labels, recordedOutput(layer, t, head, of.width)));
}

function build(root, part) {
  let shown = "weights";
  startAtStrongest();
  const line = el("p", { class: "readout", role: "status" });
  const note = el("p", { class: "small muted" });
  const many = el("div", {});
  const grid = new Grid((t, s) => readout(line, grid.matrix, t, s));
  const arithmetic = el("div", { class: "arithmetic" });
  const draw = () => {
    const { stack, attention } = record();
    grid.show(matrixOf(attention, state.head, shown), page.stack(attention.keys), stack);
    note.replaceChildren(noteOn(shown, stack));
    many.replaceChildren(Math.max(grid.matrix.rows, grid.matrix.columns) > LARGEST ? overview(grid) : "");
    readout(line, grid.matrix, state.query, state.key);
  };
  const kind = page.choice("The table shows", SHOWN, shown, (chosen) => ((shown = chosen), draw()));
  root.append(
    el("p", {}, "Every token asks with its query, and every token offers a key. If the two fit, the product is large and the token looks there. Layers, heads and tokens are counted from 0."),
    controls(part), thumbnails(), el("div", { class: "controls" }, kind), note,
    page.scroller("Attention, queries in rows and keys in columns", grid.box), line, many, arithmetic);
  draw();
  unfolded(arithmetic);
  page.listen(["stack", "layer", "attention", "head"], () => (draw(), unfolded(arithmetic)));
  page.listen(["query", "key"], () => (grid.mark(), readout(line, grid.matrix, state.query, state.key), unfolded(arithmetic)));
  page.listen("step", () => state.stack === "decoder" && page.set({ query: state.step }));
}

// The first cell of most attentions says nothing, so the section begins at the key that the first query looks at most.
function startAtStrongest() {
  if (state.query || state.key) return;
  const { attention } = record();
  const { columns, value } = matrixOf(attention, state.head, "weights");
  const weights = Array.from({ length: columns }, (_, s) => value(0, s));
  page.set({ key: weights.indexOf(Math.max(...weights)) });
}

function noteOn(shown, stack) {
  const rows = stack.name === "decoder" ? " A row has the name of the token that is read there; the token after the arrow is written next." : "";
  if (state.head === null) return `The mean of the weights of all heads, in hundredths.${rows} Choose a head to see its products.`;
  const what = {
    weights: "Weights in hundredths: each row sums to 100.",
    masked: "Products q·k / √d_k that the mask leaves. −∞ marks tokens that the query may not look at.",
    products: "Products q·k / √d_k of all queries and keys, before the mask. Blue is above zero, orange below.",
  };
  return `${what[shown]}${rows}`;
}

page.section({
  id: "attention",
  title: "Where it looked",
  lead: "The attention of every head, and the arithmetic of each weight.",
  when: (part) => part.stacks.some((stack) => stack.layers[0]?.attentions.length),
  build,
});
