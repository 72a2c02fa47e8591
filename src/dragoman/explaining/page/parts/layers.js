// Through the layers: how long the vectors grow, which units of the feed-forward networks are strong, and one projection.
const { el, number, count, state } = page;

const SUBLAYERS = { self_residual: "self-attention", cross_residual: "cross-attention", feed_residual: "feed-forward" };

// ---- lengths ----

const length = (vector) => Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0));

// The way through a stack as [{name, short, lengths}]: a length for each token.
function way(stack) {
  const entering = page.array(stack.entering);
  const inside = stack.layers.flatMap((layer, at) =>
    Object.entries(layer.norms).map(([name, norms]) => ({ name: `layer ${at}, after ${SUBLAYERS[name] ?? name}`, layer: at, lengths: page.array(norms).data })));
  return [
    { name: "entering", layer: null, lengths: stack.tokens.map((_, t) => length(entering.row(t))) },
    ...inside,
    { name: `leaving the ${stack.name}`, layer: null, lengths: page.array(stack.norms).data },
  ];
}

function lengths(stack, t) {
  const stops = way(stack);
  const of = (token) => stops.map((stop) => stop.lengths[token]);
  const others = stack.tokens.map((_, token) => ({ values: of(token), kind: "muted" })).filter((_, token) => token !== t);
  const largest = Math.max(...of(t));
  const text = page.tokenText(stack.tokens[t]);
  const line = (stop) =>
    el("tr", { class: stop.layer === state.layer ? "chosen" : null }, el("th", { scope: "row" }, stop.name),
      el("td", {}, page.bar(stop.lengths[t], largest, { signed: false })));
  return el("div", { class: "sides" },
    el("div", { class: "side" }, page.plot({ label: `Length of the vector of “${text}” through the ${stack.name}, and of the other tokens in grey`, lines: [...others, { values: of(t), kind: "first" }], ends: ["entering", "leaving"] }),
      el("p", { class: "small muted" }, "Blue: the chosen token. Grey: the others.", page.record.settings.final_norm ? " A last norm brings all vectors to about one length before they leave." : "")),
    el("div", { class: "side" }, page.scroller("Lengths of the chosen token's vector",
      el("table", { class: "numbers lengths" }, page.heading("place", "length"), el("tbody", {}, stops.map(line))))));
}

function everyLength(stack) {
  const stops = way(stack);
  const largest = Math.max(...stops.flatMap((stop) => [...stop.lengths]));
  const line = (token, t) => el("tr", {}, el("th", { scope: "row" }, page.token(token)),
    stops.map((stop) => el("td", { class: "right", style: { background: page.heat(stop.lengths[t], largest) } }, number(stop.lengths[t]))));
  return page.scroller("Lengths of all tokens", el("table", { class: "numbers all-lengths" }, page.heading("token", ...stops.map((stop) => stop.name)), el("tbody", {}, stack.tokens.map(line))));
}

// ---- units ----

// Other tokens at which a unit is among the strongest of this layer.
function shared(stack, units, unit, t) {
  const [tokens, each] = units.shape;
  const places = Array.from({ length: tokens }, (_, place) => place).filter((place) => place !== t && units.row(place).includes(unit));
  return places.length ? places.map((place) => [page.token(stack.tokens[place]), " "]) : el("span", { class: "muted" }, each ? "at no other token" : "");
}

function strongest(stack, t) {
  const { units } = stack.layers[state.layer];
  const [unit, value] = [page.array(units.unit), page.array(units.value)];
  const largest = Math.max(...value.row(t).map(Math.abs));
  const lines = [...unit.row(t)].map((each, i) =>
    el("tr", {}, el("th", { scope: "row" }, `unit ${count(each)}`), el("td", {}, page.bar(value.at(t, i), largest)), el("td", {}, shared(stack, unit, each, t))));
  return page.scroller("Strongest units of the feed-forward network",
    el("table", { class: "numbers units" }, page.heading("unit", "value", "also among the strongest at"), el("tbody", {}, lines)));
}

// ---- one projection ----

// The tokens whose vectors a projection was given.
function inputs(part, matrix) {
  const [stack, , sublayer, name] = matrix.name.split(".");
  const read = sublayer === "cross_attention" && ["key", "value"].includes(name) ? "encoder" : stack;
  return part.stacks.find((each) => each.name === read);
}

// What the record holds of a projection's output, where it holds it as it left the projection: not what was rotated since.
function recordedOutput(part, matrix, t, feature) {
  const [name, layer, sublayer, kind] = matrix.name.split(".");
  const attention = part.stacks.find((each) => each.name === name).layers[+layer].attentions.find((each) => each.name === sublayer);
  const rotated = kind !== "value" && sublayer === "self_attention" && page.record.settings.positions === "rotary";
  if (!attention || !["query", "key", "value"].includes(kind) || rotated) return null;
  const array = page.array(attention[kind]);
  const width = array.shape[2];
  return array.at(Math.floor(feature / width), t, feature % width);
}

function projection(part) {
  const chosen = { matrix: part.matrices[0], token: 0, feature: 0 };
  const box = el("div", {});
  const tokens = el("div", {});
  const features = el("input", { type: "number", min: "0", step: "1" });
  const range = el("span", { class: "small muted" });
  const shortened = (name) => name.split(".").slice(2).map(page.kindName).join(", ");
  const menu = page.menu("Projection", part.matrices.map((matrix) => [matrix, shortened(matrix.name)]), chosen.matrix, (matrix) => (Object.assign(chosen, { matrix, token: 0, feature: 0 }), renew()));
  const draw = () => {
    const { matrix, token, feature } = chosen;
    const shown = inputs(part, matrix).tokens[token];
    box.replaceChildren(page.projection(matrix, token, feature, () => page.token(shown), recordedOutput(part, matrix, token, feature)));
  };
  const renew = () => {
    const [outputs] = chosen.matrix.weight.shape;
    features.max = outputs - 1;
    features.value = chosen.feature;
    range.textContent = `0 to ${count(outputs - 1)}`;
    const choice = page.tokenChoice("Token that is projected", inputs(part, chosen.matrix).tokens, () => chosen.token, (token) => ((chosen.token = token), choice.mark(), draw()));
    tokens.replaceChildren(choice);
    draw();
  };
  features.addEventListener("change", () => {
    chosen.feature = Math.max(0, Math.min(+features.max, Math.trunc(+features.value) || 0));
    features.value = chosen.feature;
    draw();
  });
  renew();
  return [el("div", { class: "controls" }, menu, el("label", { class: "menu" }, el("span", {}, "Output feature"), features, range)), tokens, box];
}

function missing() {
  const layer = page.stack(state.stack).layers[state.layer].name;
  return el("p", {}, "This page holds no weights. To see a layer's projections multiplied out, name the layer: ", el("code", { dir: "ltr" }, `dragoman explain MODEL "TEXT" --weights ${layer}`));
}

// ---- the section ----

function controls(part) {
  const stacks = part.stacks.map(({ name }) => [name, name]);
  const stack = page.choice("Stack", stacks, state.stack, (chosen) => page.set({ stack: chosen }));
  const layers = el("div", {});
  const draw = () => {
    stack.choose(state.stack);
    layers.menu = page.menu("Layer", page.stack(state.stack).layers.map((_, at) => [at, `layer ${at}`]), state.layer, (layer) => page.set({ layer }));
    layers.replaceChildren(layers.menu);
  };
  draw();
  page.listen("stack", draw);
  page.listen("layer", () => layers.menu.choose(state.layer));
  return el("div", { class: "controls" }, stacks.length > 1 ? stack : null, layers);
}

function build(root, part) {
  const places = el("div", {});
  const [stream, units, every] = [el("div", {}), el("div", {}), el("div", {})];
  const said = el("p", { class: "readout", role: "status" });
  const weights = el("div", {});
  const token = () => Math.min(state.query, page.stack(state.stack).tokens.length - 1);
  const draw = () => {
    const stack = page.stack(state.stack);
    stream.replaceChildren(lengths(stack, token()));
    units.replaceChildren(strongest(stack, token()));
    const norms = Object.entries(stack.layers[state.layer].norms).at(-1);
    said.replaceChildren(page.token(stack.tokens[token()]), ` has a length of ${number(page.array(norms[1]).at(token()))} after layer ${state.layer} of the ${stack.name}.`);
    if (!part.matrices.length) weights.replaceChildren(missing());
  };
  const renew = () => {
    const stack = page.stack(state.stack);
    places.choice = page.tokenChoice("Token", stack.tokens, token, (query) => page.set({ query }));
    places.replaceChildren(places.choice);
    every.replaceChildren(page.more("The lengths of all tokens", (box) => box.append(everyLength(stack))));
  };
  root.append(
    el("p", {}, "Every token travels through the layers as one vector, the residual stream. Attention and feed-forward networks read it and add to it. Its length shows where much is added."),
    controls(part), places, said,
    el("h3", {}, "Length of the vector"), stream, every,
    el("h3", {}, "Strongest units of the feed-forward network"),
    el("p", {}, "The feed-forward network of a layer has many units, and each answers to some patterns and not to others. These answered most strongly to the chosen token in the chosen layer."), units,
    el("h3", {}, "One projection, multiplied out"), weights);
  if (part.matrices.length) weights.append(el("p", {}, `Of ${part.matrices[0].name.split(".").slice(0, 2).join(".")} this page holds every weight. A projection multiplies a token's vector with each row of its matrix; every row gives one output feature.`), ...projection(part));
  renew();
  draw();
  page.listen("stack", () => (renew(), draw()));
  page.listen(["layer", "query"], () => (places.choice.mark(), draw()));
}

page.section({
  id: "layers",
  title: "Through the layers",
  lead: "What the layers add to each token, and which units answer to it.",
  when: (part) => part.stacks.some((stack) => stack.layers.length),
  build,
});
