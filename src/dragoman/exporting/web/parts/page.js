// The page: what is typed goes to the translator, and what the model computed is drawn. Text is always a text node.
const find = (id) => document.getElementById(id);
const facts = JSON.parse(find("facts").textContent), newTranslator = () => new Translator(facts, find("weights").textContent);
const translator = newTranslator(), opened = performance.now();
const { heads, encoder_layers: encoderLayers, decoder_layers: decoderLayers } = facts.model;
const [alignmentLayer, alignmentHead] = facts.model.alignment_head ?? [0, 0];
const ATTENTIONS = [["encoder", "self_attention", encoderLayers], ["decoder", "self_attention", decoderLayers], ["decoder", "cross_attention", decoderLayers]];
const WINDOW = 40; // tokens in a row or column of a table
const shown = { answer: null, first: null, before: null, prefix: [] };

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (name === "--p") node.style.setProperty(name, value);
    else if (value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity));
  return node;
}

const count = (length) => Array.from({ length }, (_, i) => i);
const number = (x) => x.toFixed(2).replace("-", "−");
const chip = (side, id) => el("bdi", { class: id < SYMBOLS ? "token symbol" : "token" }, side.token(id));
const table = (names, rows) => [el("thead", {}, el("tr", {}, names.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, rows)];
const cells = (...parts) => parts.map((part) => el("td", {}, part));
const slide = (id, max) => +Object.assign(find(id), { max }).value; // which the browser keeps within the range
const conditions = ({ off, forced, beamSize }) => [`beam ${beamSize}`, off && `${off} heads off`, forced && `${forced} pieces given`].filter(Boolean).join(", ");
const kindOf = ([stack, attention]) => `${stack}, ${attention === "self_attention" ? "self-attention" : "cross-attention"}`;
const options = (select, names, chosen) => find(select).replaceChildren(...names.map((name, value) => el("option", { value, selected: value === chosen }, name)));

function translate() {
  const text = find("text").value.trim().replace(/\s*\n\s*/g, " "), same = shown.answer?.typed === text, { off } = translator.model;
  if (!same) shown.prefix = [];
  try {
    const answer = { typed: text, off: off.size, forced: shown.prefix.length, ...translator.translate(text, { beamSize: +find("size").value, prefix: shown.prefix }) };
    answer.tokens = answer.hypotheses[0].tokens;
    answer.inside = translator.inside(answer.source, answer.tokens.slice(0, -1));
    shown.before = same ? shown.first : shown.answer;
    if (!same) shown.first = answer;
    shown.answer = answer;
    [drawAnswer, drawPieces, drawAttention, drawBeam, drawNext].forEach((draw) => draw(answer));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    ["translation", "facts-of-answer", "before"].forEach((id) => find(id).replaceChildren());
    find("notes").replaceChildren(el("li", {}, error.message));
  }
}

// The page knows what the training text looks like, and says where a text differs.
function notes({ typed, text, originals, hypotheses: [best], source }) {
  const lost = [...originals.values()].filter((piece) => !text.includes(piece)), ends = facts.ends.filter(Boolean);
  return [
    facts.capitals && /^\p{Ll}/u.test(typed) && "Sentences of the training text begin with a capital.",
    ends.length && !ends.some((mark) => typed.endsWith(mark)) && `Sentences of the training text end with ${ends.join(" or ")}`,
    /[.!?…]\s+\p{Lu}/u.test(typed) && "The model reads one sentence at a time, and these may be several.",
    source.some((id) => id >= SYMBOLS && id < translator.source.firstPiece) && "The text has characters that the model does not know, or hardly.",
    lost.length && `The translation lacks ${lost.join(", ")}.`,
    !best.finished && "The translation has reached its maximum length.",
  ].filter(Boolean);
}

// The words of a text, those marked that another text has not between the same first and last words.
function marked(text, other) {
  const [words, others] = [text.split(" "), other.split(" ")], changed = words.findIndex((word, i) => word !== others[i]);
  let [first, last] = [changed < 0 ? words.length : changed, 0];
  while (last < words.length - first && last < others.length - first && words.at(-1 - last) === others.at(-1 - last)) last++;
  return words.flatMap((word, i) => [i ? " " : "", i >= first && i < words.length - last ? el("mark", {}, word) : word]);
}

function drawAnswer({ text, seconds, steps, hypotheses: [best] }) {
  const { answer, before } = shown, ms = 1000 * seconds;
  find("translation").replaceChildren(...(before ? marked(text, before.text) : [text]));
  find("facts-of-answer").textContent = `${conditions(answer)} · log-probability ${number(best.total)} · ${ms.toFixed(0)} ms, ${(ms / steps.length).toFixed(1)} ms a step`;
  find("before").replaceChildren(...(before ? [el("span", { class: "muted small" }, `Before (${conditions(before)}, ${number(before.hypotheses[0].total)}): `), before.text === text ? "the same" : before.text] : []));
  find("notes").replaceChildren(...notes(answer).map((note) => el("li", {}, note)));
  find("own").hidden = !answer.forced;
  find("on").hidden = !answer.off;
}

function drawPieces({ source, tokens }) {
  const piece = (side) => (id) => el("span", { class: "piece" }, chip(side, id), el("span", { class: "id" }, String(id)));
  find("read").replaceChildren(...source.map(piece(translator.source)));
  find("written").replaceChildren(...tokens.map(piece(translator.target)));
  const rotary = facts.model.positions === "rotary", width = headWidth(translator.model);
  const vector = (position) => (rotary ? Array.from({ length: width / 2 }, (_, i) => Math.cos(angle(position, i, width, facts.model.position_base))) : positionVector(translator.model, "source", position));
  find("positions-note").textContent = rotary
    ? "Queries and keys are rotated by their position. The picture shows the cosine of each angle: a row for each position, a column for each pair of features. The first pairs turn fast, the last ones hardly."
    : "A vector is added to the embedding of each position. The picture shows it: a row for each position, a column for each feature.";
  paint(find("positions"), source.map((_, position) => vector(position)));
  find("positions").setAttribute("aria-label", `${source.length} positions; blue is above zero, orange below`);
}

function paint(canvas, rows) {
  Object.assign(canvas, { width: rows[0].length, height: rows.length });
  const context = canvas.getContext("2d"), most = Math.max(...rows.flatMap((row) => Array.from(row, Math.abs)));
  rows.forEach((row, y) => row.forEach((value, x) => {
    context.fillStyle = `rgb(${value > 0 ? "60 135 215" : "225 140 50"} / ${Math.abs(value) / most})`;
    context.fillRect(x, y, 1, 1);
  }));
}

function drawAttention({ source, tokens, inside }) {
  const [which, layer, head] = ["which", "layer", "head"].map((id) => +find(id).value), [stack, attention] = ATTENTIONS[which];
  const seen = inside.weights[`${stack}.blocks.${Math.min(layer, ATTENTIONS[which][2] - 1)}.${attention}`];
  const read = { encoder: [source, translator.source], decoder: [inside.read, translator.target] };
  const [[queries, querySide], [keys, keySide]] = [read[stack], read[which === 1 ? "decoder" : "encoder"]];
  const weight = (t, s) => (head < heads ? seen[t][head][s] : seen[t].reduce((sum, weights) => sum + weights[s] / heads, 0));
  const cell = (t, s) => (s < seen[t][0].length ? el("td", { "--p": weight(t, s) }, String(Math.round(100 * weight(t, s)))) : el("td", { class: "masked" }, "−∞"));
  const columns = keys.slice(0, WINDOW), name = (t) => (stack === "decoder" ? [" → ", chip(querySide, tokens[t])] : []);
  find("weights-table").replaceChildren(...table(["query ↓ key →", ...columns.map((id) => chip(keySide, id))], queries.slice(0, WINDOW).map((id, t) =>
    el("tr", {}, el("th", { scope: "row" }, chip(querySide, id), name(t)), columns.map((_, s) => cell(t, s))))));
  find("attention-note").textContent = ["Weights in hundredths: each row sums to 100.",
    stack === "decoder" ? "A row has the piece that is read, and the piece that is written next." : "",
    which === 1 ? "The mask (−∞) hides pieces that come later." : "No mask: every piece of the sentence is visible.",
    Math.max(queries.length, keys.length) > WINDOW ? `The table shows the first ${WINDOW} pieces.` : ""].join(" ");
}

function drawBeam({ steps, finished, tokens }) {
  const at = slide("step", steps.length);
  const written = (ids) => [translator.target.decode(ids.slice(0, -1)), " ", chip(translator.target, ids.at(-1))];
  find("step-name").textContent = `${at} of ${steps.length}`;
  find("candidates").replaceChildren(...table(["hypothesis", "log-probability", "total", "status"], steps[at - 1].map(({ hypothesis, status }) =>
    el("tr", { class: tokens.slice(0, at).join() === hypothesis.tokens.join() ? `${status} chosen` : status },
      cells(written(hypothesis.tokens), number(hypothesis.logProbs.at(-1)), number(hypothesis.total), status === "live" ? "continues" : status)))));
  find("penalty").textContent = `Score: the total divided by ((5 + n) / 6)^${facts.options.length_penalty} for n pieces. The best score is the translation.`;
  find("finished").replaceChildren(...table(["hypothesis", "total", "score"], finished.map((hypothesis) =>
    el("tr", {}, cells(translator.target.decode(hypothesis.tokens), number(hypothesis.total), number(score(hypothesis, facts.options.length_penalty)))))));
}

function drawNext({ tokens, inside }) {
  const at = slide("place", tokens.length - 1), row = inside.following[at], written = tokens.slice(0, at);
  const force = (id) => () => ((shown.prefix = [...written, id]), translate(), find("translation").scrollIntoView({ block: "nearest" }));
  find("place-name").textContent = translator.target.decode(written) || "(nothing yet)";
  find("following").replaceChildren(...table(["next piece", "probability", "choice"], largest(row, 10).map((id) =>
    el("tr", { class: id === tokens[at] ? "chosen" : "" }, cells(chip(translator.target, id), el("span", { class: "share", "--p": Math.exp(row[id]) }, `${(100 * Math.exp(row[id])).toFixed(1)} %`),
      id === tokens[at] ? "written" : id === facts.framing.end || !facts.banned.includes(id) ? el("button", { type: "button", click: force(id), "aria-label": `Write ${translator.target.token(id)}` }, "write it") : "")))));
}

function drawSwitches() {
  const { off } = translator.model;
  const turn = (name) => (event) => (event.target.checked ? off.delete(name) : off.add(name), translate());
  find("switches").replaceChildren(...ATTENTIONS.map((of) => el("fieldset", {}, el("legend", {}, kindOf(of)), el("table", {}, table(["layer", ...count(heads).map((head) => `head ${head}`)], count(of[2]).map((layer) =>
    el("tr", {}, el("th", { scope: "row" }, String(layer)), count(heads).map((head) => {
      const name = `${of[0]}.blocks.${layer}.${of[1]}.${head}`;
      return cells(el("input", { type: "checkbox", checked: !off.has(name), "aria-label": `${kindOf(of)}, layer ${layer}, head ${head}`, change: turn(name) }));
    }))))))));
}

// Translate sentences whose translations Dragoman has written into the page, with all heads on.
async function check() {
  const whole = newTranslator();
  let same = 0, seconds = 0;
  for (const [i, [text, translation]] of facts.checks.entries()) {
    const answer = whole.translate(text);
    same += answer.text === translation;
    seconds += answer.seconds;
    find("checked").textContent = `${same} of ${i + 1} translations are the same as Dragoman's; ${(seconds / (i + 1)).toFixed(2)} s a sentence.`;
    await new Promise((resume) => setTimeout(resume));
  }
}

find("form").addEventListener("submit", (event) => (event.preventDefault(), translate()));
find("text").addEventListener("keydown", (event) => event.key === "Enter" && !event.shiftKey && (event.preventDefault(), translate()));
find("size").addEventListener("change", translate);
find("own").addEventListener("click", () => ((shown.prefix = []), translate(), find("text").focus()));
find("on").addEventListener("click", () => (translator.model.off.clear(), drawSwitches(), translate(), find("text").focus()));
find("check").addEventListener("click", check);
for (const id of ["which", "layer", "head"]) find(id).addEventListener("change", () => drawAttention(shown.answer));
find("step").addEventListener("input", () => drawBeam(shown.answer));
find("place").addEventListener("input", () => drawNext(shown.answer));
for (const width of new Set([1, 2, 4, 8, facts.options.beam_size])) find("size").append(el("option", { value: width, selected: width === facts.options.beam_size }, String(width)));
options("which", ATTENTIONS.map(kindOf), 2);
options("layer", count(Math.max(encoderLayers, decoderLayers)).map(String), alignmentLayer);
options("head", [...count(heads).map(String), "mean of all"], alignmentHead);
drawSwitches();
[find("text").lang, find("translation").lang] = facts.languages;
const view = find(location.search.slice(1)); // as in index.html?attention
if (view?.matches(".view")) find("views").prepend(Object.assign(view, { open: true }));
find("text").value = facts.checks[0]?.[0] ?? "";
if (find("text").value) translate();
const size = [...document.scripts].reduce((sum, script) => sum + script.textContent.length, 0) / 1e6;
find("size-note").textContent = `The page has ${size.toFixed(1)} MB with ${facts.weights.toLocaleString("en")} weights, and loads nothing else. It was ready after ${Math.round(opened)} ms${shown.answer ? `, and the first translation was shown after ${Math.round(performance.now())} ms` : ""}.`;
