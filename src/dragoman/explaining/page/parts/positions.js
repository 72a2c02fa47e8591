// Positions: the vector that is added to each token or its rotation, and the formulas to play with.
const { el, svg, number, count } = page;
const SHOWN = 64; // positions of the part that the reader plays with
const DIALS = 8; // pairs whose rotation is drawn
const CURVES = 4; // features that are drawn as curves

const degrees = (angle) => `${number((((angle * 180) / Math.PI) % 360 + 360) % 360)}°`;
const frequency = (i, width, base) => base ** ((-2 * i) / width);

// Vaswani et al. 2017, section 3.5: sin at even features, cos at odd ones.
function sinusoid(position, feature, width, base) {
  const angle = position * frequency(Math.floor(feature / 2), width, base);
  return feature % 2 ? Math.cos(angle) : Math.sin(angle);
}

// PE(p) . PE(q), which is the sum of the cosines of all angles between p and q.
function product(p, q, width, base) {
  let sum = 0;
  for (let i = 0; i < width / 2; i++) sum += Math.cos((p - q) * frequency(i, width, base));
  return sum;
}

// ---- controls ----

// A slider that shows its value; `shown` formats it.
function slider(label, { min, max, step = 1, value, shown = String }, oninput) {
  const output = el("span", { class: "figure", "aria-hidden": "true" }); // the slider says it itself
  const input = el("input", { type: "range", min, max, step, value });
  const box = el("label", { class: "menu slider" }, el("span", {}, label, " ", output), input);
  box.show = (x) => {
    input.value = x;
    output.textContent = shown(x);
    input.setAttribute("aria-valuetext", shown(x));
  };
  input.addEventListener("input", () => (box.show(+input.value), oninput(+input.value)));
  box.show(value);
  return box;
}

// ---- added vectors: a picture of positions and features, and the number of one place ----

function picture(label, rows, columns, value, max) {
  const chosen = { row: 0, column: 0 };
  const line = el("p", { class: "readout", role: "status" });
  const canvas = page.paint(el("canvas", { role: "img", "aria-label": `${label}: positions in rows, features in columns` }), rows, columns, value, max);
  const say = () => line.replaceChildren(`Position ${chosen.row}, feature ${chosen.column}: `, el("b", {}, number(value(chosen.row, chosen.column))));
  const row = slider("Position", { min: 0, max: rows - 1, value: 0 }, (at) => ((chosen.row = at), say()));
  const column = slider("Feature", { min: 0, max: columns - 1, value: 0 }, (at) => ((chosen.column = at), say()));
  const point = (event) => {
    const box = canvas.getBoundingClientRect();
    const place = (at, size, length) => Math.max(0, Math.min(length - 1, Math.floor((at / size) * length)));
    row.show((chosen.row = place(event.clientY - box.top, box.height, rows)));
    column.show((chosen.column = place(event.clientX - box.left, box.width, columns)));
    say();
  };
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("click", point);
  say();
  return el("div", { class: "positions-picture" }, canvas, el("div", { class: "controls" }, row, column), line);
}

function added(part) {
  const stacks = part.stacks.filter((stack) => stack.positions);
  const box = el("div", {});
  const show = (name) => {
    const stack = stacks.find((each) => each.name === name);
    const positions = page.array(stack.positions);
    const [rows, columns] = positions.shape;
    const max = positions.data.reduce((most, each) => Math.max(most, Math.abs(each)), 0);
    box.replaceChildren(picture(`What is added in the ${name}`, rows, columns, (t, i) => positions.at(t, i), max));
  };
  show(stacks[0].name);
  const kind = page.record.settings.positions;
  const how = kind === "learned"
    ? "This model learned one vector for each position in training."
    : "This model uses sinusoids: waves of many lengths, fast ones in the first features, slow ones in the last.";
  return [
    el("p", {}, `Attention by itself does not see the order of tokens. So a vector that depends on the position alone is added to each token before the first layer. ${how} Blue is above zero, orange below.`),
    stacks.length > 1 ? el("div", { class: "controls" }, page.choice("Stack", stacks.map(({ name }) => [name, name]), stacks[0].name, show)) : null,
    box,
  ];
}

// ---- rotations ----

// A circle with a hand at an angle.
function dial(angle, name) {
  const [x, y] = [50 + 42 * Math.cos(angle), 50 - 42 * Math.sin(angle)];
  return el("div", { class: "dial" },
    svg("svg", { viewBox: "0 0 100 100", role: "img", "aria-label": `${name}: ${degrees(angle)}` },
      svg("circle", { cx: 50, cy: 50, r: 46 }), svg("line", { class: "from", x1: 50, y1: 50, x2: 92, y2: 50 }), svg("line", { class: "hand", x1: 50, y1: 50, x2: x, y2: y })),
    el("span", { class: "small" }, name), el("span", { class: "small figure angle" }, degrees(angle)));
}

// A few pairs of all, evenly spread from the fastest to the slowest.
function somePairs(width) {
  const pairs = width / 2;
  const chosen = Array.from({ length: Math.min(DIALS, pairs) }, (_, i) => Math.round((i * (pairs - 1)) / Math.max(1, Math.min(DIALS, pairs) - 1)));
  return [...new Set(chosen)];
}

const dials = (position, width, base) =>
  el("div", { class: "dials" }, somePairs(width).map((i) => dial(position * frequency(i, width, base), `pair ${i}`)));

function turned(part) {
  const { d_model: model, heads, position_base: base } = page.record.settings;
  const width = model / heads;
  const stack = part.stacks[0];
  const box = el("div", {});
  const line = el("p", { class: "readout", role: "status" });
  const show = (position) => {
    box.replaceChildren(dials(position, width, base));
    line.replaceChildren(page.token(stack.tokens[position]), ` is at position ${position} of the ${stack.name}. Pair 0 turns by ${degrees(position)}, pair ${width / 2 - 1} by ${degrees(position * frequency(width / 2 - 1, width, base))}.`);
  };
  show(Math.min(1, stack.tokens.length - 1));
  return [
    el("p", {}, `Attention by itself does not see the order of tokens. This model adds nothing to its tokens. In every self-attention it turns the queries and keys of each head instead (rotary positions). The ${width} features form ${width / 2} pairs, feature i with feature i + ${width / 2}, and pair i turns by position × ${count(base)}`,
      el("sup", {}, `−2i/${width}`), ". So the product of a query and a key depends on their distance, not on their positions."),
    el("div", { class: "controls" }, slider("Position", { min: 0, max: stack.tokens.length - 1, value: Math.min(1, stack.tokens.length - 1) }, show)),
    box, line,
  ];
}

// ---- to play with ----

function formula() {
  return el("p", { class: "equation" }, el("i", {}, "PE"), "(pos, 2i) = sin(pos / base", el("sup", {}, "2i/d"), "), ", el("i", {}, "PE"), "(pos, 2i+1) = cos(pos / base", el("sup", {}, "2i/d"), ")");
}

function curves({ base, width }) {
  const features = [...new Set(Array.from({ length: CURVES }, (_, k) => 2 * Math.round((k * (width / 2 - 1)) / (CURVES - 1))))];
  const values = (feature) => Array.from({ length: SHOWN }, (_, position) => sinusoid(position, feature, width, base));
  return [
    el("div", { class: "curves" }, features.map((feature) => el("div", {},
      el("p", { class: "small" }, `feature ${feature}: one wave is ${number((2 * Math.PI) / frequency(feature / 2, width, base))} positions long`),
      page.plot({ label: `Feature ${feature} over positions 0 to ${SHOWN - 1}`, lines: [{ values: values(feature), kind: "first" }], ends: ["0", String(SHOWN - 1)], range: [-1, 1] })))),
  ];
}

function products({ base, width, position }) {
  const values = Array.from({ length: SHOWN }, (_, q) => product(position, q, width, base));
  const next = Math.min(SHOWN - 1, position + 1);
  return [
    el("h4", {}, `Position ${position} times every position`),
    page.plot({ label: `Dot product of position ${position} with positions 0 to ${SHOWN - 1}`, lines: [{ values, kind: "first" }], ends: ["0", String(SHOWN - 1)] }),
    el("p", { class: "readout", role: "status" }, `With itself: ${number(values[position])}, which is d / 2. With position ${next}: `, el("b", { class: "product" }, number(values[next])), ". The product depends on the distance alone. Where it falls off slowly, near positions look similar."),
  ];
}

function turning({ base, width, position, pair }) {
  const angle = position * frequency(pair, width, base);
  return [
    el("h4", {}, "The same angles as a rotation"),
    el("p", {}, "Rotary positions turn pair i by pos × base", el("sup", {}, "−2i/d"), ". The vector (1, 0) becomes (cos, sin)."),
    dials(position, width, base),
    el("p", { class: "readout rotation", role: "status" }, `Pair ${pair}: ${position} × ${number(frequency(pair, width, base))} = ${number(angle)} radians, ${degrees(angle)}: (1, 0) becomes (`, el("b", {}, number(Math.cos(angle))), ", ", el("b", {}, number(Math.sin(angle))), ")."),
  ];
}

function play() {
  const { position_base: own = 10000, d_model: model, heads, positions } = page.record.settings;
  const natural = positions === "rotary" ? model / heads : model;
  const chosen = { base: own, width: Math.max(8, Math.min(128, 2 * Math.floor(natural / 2))), position: 8, pair: 1 };
  const [map, waves, dots, turns] = [el("div", {}), el("div", {}), el("div", {}), el("div", {})];
  const draw = () => {
    const { base, width } = chosen;
    const canvas = el("canvas", { role: "img", "aria-label": `Sinusoids of width ${width} and base ${number(base)}, positions in rows` });
    map.replaceChildren(page.paint(canvas, SHOWN, width, (p, i) => sinusoid(p, i, width, base), 1));
    waves.replaceChildren(...curves(chosen));
    redraw();
  };
  const redraw = () => {
    dots.replaceChildren(...products(chosen));
    turns.replaceChildren(...turning(chosen));
  };
  const pairs = slider("Pair", { min: 0, max: chosen.width / 2 - 1, value: chosen.pair }, (pair) => ((chosen.pair = pair), redraw()));
  const width = slider("Width d", { min: 8, max: 128, step: 2, value: chosen.width }, (x) => {
    chosen.width = x;
    pairs.querySelector("input").max = x / 2 - 1;
    pairs.show((chosen.pair = Math.min(chosen.pair, x / 2 - 1)));
    draw();
  });
  const base = slider("Base", { min: 1, max: 6, step: 0.05, value: Math.log10(own), shown: (x) => count(Math.round(10 ** x)) }, (x) => ((chosen.base = 10 ** x), draw()));
  const position = slider("Position", { min: 0, max: SHOWN - 1, value: chosen.position }, (x) => ((chosen.position = x), redraw()));
  draw();
  return [
    el("h3", {}, "Turn the dials yourself"),
    el("p", {}, "The page computes what follows; the model plays no part in it. A larger base makes the slow waves slower. A larger width adds waves between the fastest and the slowest."),
    formula(),
    el("div", { class: "controls" }, base, width, position, pairs),
    el("h4", {}, `Positions 0 to ${SHOWN - 1} in rows, features in columns`), el("div", { class: "positions-picture" }, map), waves, dots, turns,
  ];
}

page.section({
  id: "positions",
  title: "How it knows the order",
  lead: "The position of each token as the model reads it, and the waves that encode it.",
  when: (part) => part.stacks.length > 0,
  build(root, part) {
    const rotary = page.record.settings.positions === "rotary";
    const own = rotary ? turned(part) : part.stacks.some((stack) => stack.positions) ? added(part) : [];
    root.append(...own.filter(Boolean), ...play());
  },
});
