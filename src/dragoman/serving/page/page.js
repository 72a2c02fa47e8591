// The server's page: text is translated while it is typed. `reading.js` shows the words of both texts, `asking.js`
// sends requests, `words.js` contains the texts of the interface. Start reading at `translate`.

import { Problem, ask, askJson, currentKey, keep, kept, useKey } from "./asking.js";
import { enterTranslation, find, listen, make, showSource, showWords, speak } from "./reading.js";
import { WORDS, direction, listed, nameOf } from "./words.js";

const SHORTEST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 300;
const SETTLED_MS = 1_000;
const LONG_TEXT = 400;
const MOST_KEPT = 50;
const MOST_EXPLAINED = 40; // words
const ALTERNATIVES = 3;
const PLACEHOLDER = /\[(word|number) \d\]/;

const [text, source, target, terms] = ["text", "source", "target", "terms"].map(find);

// The server's models and limits, the shown answer, the answers before it was rewritten, and the active request.
const state = { models: [], limits: {}, answer: null, earlier: [], asked: null, pause: SHORTEST_PAUSE_MS };
const timers = {};
const preferred = navigator.languages.map((each) => each.slice(0, 2)).find((each) => WORDS[each]) ?? "en";
let language = kept("interface", preferred);
const words = () => WORDS[language];
const quiet = (label, onclick) => make("button", { type: "button", className: "quiet", onclick }, label);

function after(name, milliseconds, action) {
  clearTimeout(timers[name]);
  timers[name] = setTimeout(action, milliseconds);
}

// ---- translating ----

const detected = () => state.answer?.source ?? state.models.find((model) => model.target === target.value)?.source;
const from = () => (source.value === "auto" ? detected() : source.value);
const excess = () => [...text.value].length - state.limits.characters;

function setBusy(isBusy) {
  for (const name of ["typing", "retry", "settled"]) clearTimeout(timers[name]);
  find("reading").ariaBusy = isBusy;
}

function cancel() {
  state.asked?.abort();
  clearTimeout(timers.latest);
  timers.latest = null;
}

// Sends a request after a short pause, or during typing after the time of one answer. It cancels the previous one.
function textChanged() {
  showSource(text.value);
  showCount();
  tell("");
  if (!state.models.length || (state.isLocked && !currentKey())) return;
  const isSent = text.value.trim() && excess() <= 0;
  setBusy(Boolean(isSent));
  if (excess() > 0) tell(words().tooLong(excess()));
  else if (!isSent) show(null);
  if (!isSent) return cancel();
  after("typing", Math.min(LONGEST_PAUSE_MS, state.pause), translate);
  timers.latest ??= setTimeout(translate, state.pause);
}

// Requests the translation of the typed text. It must begin with `prefix`; `undo` restores `earlier`.
async function translate(prefix = null, earlier = []) {
  cancel();
  setBusy(true);
  const [own, began, asked] = [new AbortController(), performance.now(), text.value];
  const alternatives = asked.length > LONG_TEXT ? 0 : Math.min(ALTERNATIVES, state.limits.alternatives);
  const request = { text: asked, ...chosen(), align: true, alternatives };
  if (prefix) request.prefix = prefix;
  if (Object.keys(typedTerms().terms).length) request.terms = typedTerms().terms; // by default, the server's terms
  state.asked = own;
  try {
    const { translations } = await askJson("/v1/translate", { json: request, signal: own.signal });
    if (asked === text.value) setBusy(false);
    tell("");
    state.earlier = earlier;
    show({ ...translations[0], read: asked });
    state.pause = Math.max(SHORTEST_PAUSE_MS, performance.now() - began);
  } catch (error) {
    state.pause = Math.max(state.pause, performance.now() - began);
    if (error.name === "AbortError" || asked !== text.value) return;
    setBusy(false);
    if (error.kind === "refused" && !prefix) show(null);
    trouble(error, () => translate(prefix, earlier));
  }
}

const rewrite = (prefix) => translate(prefix, [...state.earlier, state.answer]);

function undo() {
  cancel();
  setBusy(false);
  show(state.earlier.pop());
  enterTranslation();
}

async function otherWords(word) {
  const { read, source, target, text: translation } = state.answer;
  try {
    return (await askJson("/v1/words", { json: { text: read, source, target, translation, word } })).words;
  } catch (error) {
    if (error.kind === "refused") return []; // for example a name or a number, which is copied from the source
    trouble(error, () => translate());
    return null;
  }
}

// Shows an error, and retries automatically if that can help.
function trouble(error, again) {
  if (error.name === "AbortError") return;
  const canHelp = error.wait || error.kind === "broken";
  tell(inWords(error), canHelp ? again : null);
  if (error.wait !== null) after("retry", 1_000 * error.wait, again);
}

// Returns the text of an error; asks for the key if it is missing or wrong.
function inWords(error) {
  if (!(error instanceof Problem)) throw error;
  const kind = error.kind === "key" && !state.isLocked ? "refused" : error.kind;
  if (kind === "key") askForKey();
  return words().problems[kind](error.said, error.wait);
}

function tell(message, again = null) {
  const notice = find("notice");
  notice.replaceChildren(make("span", {}, message), again ? quiet(words().again, again) : "");
  notice.hidden = !message;
}

// ---- showing ----

function show(answer) {
  state.answer = answer;
  if (!answer) state.earlier = [];
  showWords(text.value, answer);
  const output = find("translation");
  Object.assign(output, { lang: answer?.target ?? "", dir: direction(answer?.target ?? "") });
  find("actions").hidden = !answer;
  find("empty").hidden = Boolean(answer);
  find("done").textContent = "";
  openSuggestion(false);
  showDetected(answer);
  showNotes(answer);
  showAlternatives(answer);
  find("rewritten").replaceChildren(words().rewritten, quiet(words().undo, undo));
  find("rewritten").hidden = !state.earlier.length;
  loadTerms();
  if (answer) after("settled", SETTLED_MS, settled);
}

// Runs when typing has paused: updates the screen reader's text and the history.
function settled() {
  Object.assign(find("spoken"), { lang: state.answer.target, textContent: state.answer.text });
  remember();
}

function showDetected(answer) {
  const { language: code, confidence } = answer?.detected ?? {};
  find("detected").textContent = confidence ? words().sure(nameOf(code, language), Math.round(confidence)) : "";
  find("swap").disabled = !state.models.some((model) => model.source === target.value && model.target === from());
}

// Removes case, spaces and punctuation, which change in every unfinished sentence.
const bare = (some) => some.toLowerCase().replace(/[\s\p{P}]/gu, "");

function showNotes(answer) {
  const notes = [];
  const doubtful = answer?.doubtful_words ?? [];
  if (doubtful.length) {
    const unsure = listed(...doubtful.map((number) => answer.target_words[number]));
    notes.push(make("li", { id: "doubt" }, words().uncertain(unsure)));
  }
  for (const flag of answer?.flags ?? []) {
    if (flag.name !== "split") notes.push(make("li", {}, words().flags[flag.name]?.(answer) ?? flag.meaning));
  }
  if (answer?.used_terms.length) notes.push(make("li", {}, words().termsUsed(listed(...answer.used_terms))));
  const read = (answer?.rewritten ?? []).filter(([as, read]) => bare(as) !== bare(read) && !PLACEHOLDER.test(read));
  notes.push(...read.map((pair) => make("li", {}, words().readAs(...pair))));
  find("notes").replaceChildren(...notes);
}

function showAlternatives(answer) {
  const box = find("alternatives");
  const { lang, dir } = find("translation");
  const texts = new Set(answer?.alternatives.map((each) => each.text));
  texts.delete(answer?.text);
  const items = [...texts].map((other) =>
    make("li", {}, make("button", { type: "button", lang, dir, onclick: () => rewrite(other) }, other)));
  box.querySelector("ul").replaceChildren(...items);
  box.hidden = !items.length;
}

function showCount() {
  const number = new Intl.NumberFormat(language);
  const [used, limit] = [[...text.value].length, state.limits.characters].map((each) => number.format(each));
  find("count").textContent = state.models.length ? words().count(used, limit) : "";
  find("count").classList.toggle("over", excess() > 0);
  find("clear").hidden = !text.value;
  find("translator").classList.toggle("long", text.value.length > LONG_TEXT);
}

// ---- languages ----

function fill(select, codes, wanted) {
  const name = (code) => (code === "auto" ? words().auto : nameOf(code, language));
  select.replaceChildren(...[...new Set(codes)].map((code) => make("option", { value: code }, name(code))));
  select.value = codes.includes(wanted) ? wanted : codes[0];
}

function fillLanguages(wanted) {
  fill(source, ["auto", ...state.models.map((model) => model.source)], wanted.source);
  const fitting = state.models.filter((model) => ["auto", model.source].includes(source.value));
  fill(target, fitting.map((model) => model.target), wanted.target);
}

const chosen = () => ({ source: source.value, target: target.value });

function directionChanged() {
  fillLanguages(chosen());
  keep("direction", chosen());
  const lang = source.value === "auto" ? "" : source.value;
  for (const node of [text, find("mirror")]) Object.assign(node, { lang, dir: lang ? direction(lang) : "auto" });
  show(null);
  textChanged();
}

function swap() {
  if (find("swap").disabled) return;
  const [to, translated] = [from(), state.answer?.text ?? text.value];
  fillLanguages({ source: target.value, target: to });
  text.value = translated;
  directionChanged();
}

function speakIn(code) {
  language = code;
  document.documentElement.lang = code;
  find("interface").value = code;
  speak(words());
  for (const node of document.querySelectorAll("[data-words]")) node.textContent = words()[node.dataset.words];
  for (const node of document.querySelectorAll("[data-label]")) node.ariaLabel = words()[node.dataset.label];
  text.placeholder = words().textHint;
  const keys = words().shortcuts.map(([key, what]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, what)]);
  find("shortcuts").replaceChildren(...keys.flat());
  fillLanguages(chosen());
  showCount();
  showHistory();
  if (state.answer) show(state.answer);
}

// ---- glossary ----

const glossary = () => `terms.${from()}-${target.value}`;

// Returns the typed terms, and the number of the first invalid line.
function typedTerms() {
  const found = { terms: {}, bad: 0 };
  terms.value.split("\n").forEach((line, number) => {
    const [term, forms] = line.split("=").map((part) => part.trim());
    if (!line.trim()) return;
    if (term && forms !== "") found.terms[term] = (forms ?? term).split("|").map((form) => form.trim()).filter(Boolean);
    else found.bad ||= number + 1;
  });
  return found;
}

function loadTerms() {
  if (terms.dataset.glossary === glossary()) return;
  terms.dataset.glossary = glossary();
  terms.value = kept(glossary(), "");
  showTerms();
}

function showTerms() {
  const { terms: found, bad } = typedTerms();
  const count = Object.keys(found).length;
  find("terms-count").textContent = count ? words().termsCount(count) : "";
  find("terms-trouble").textContent = bad ? words().badTerm(bad) : "";
}

function termsChanged() {
  keep(glossary(), terms.value);
  showTerms();
  textChanged();
}

// ---- documents ----

async function translateDocument(file) {
  const [size, name] = [state.limits.document_bytes, file.name];
  const isRead = state.formats.some((ending) => name.toLowerCase().endsWith(ending));
  if (!isRead) return showDocument(words().formats(name, state.formats.join(" ")));
  if (file.size > size) return showDocument(words().documentTooLarge(name, `${Math.floor(size / 2 ** 20)} MiB`));
  const own = new AbortController();
  const form = new FormData();
  for (const [name, value] of Object.entries({ file, ...chosen() })) form.append(name, value);
  showDocument(words().reading(name), make("progress", { ariaLabel: name }), () => own.abort());
  try {
    const { translatedFileUrl } = await askJson("/translate_file", { form, signal: own.signal });
    const back = await ask(new URL(translatedFileUrl, location).pathname, { signal: own.signal });
    const href = URL.createObjectURL(await back.blob());
    const download = name.replace(/(\.[^.]+)$/, `.${form.get("target")}$1`);
    showDocument("", make("a", { href, download }, words().saveDocument(download)));
  } catch (error) {
    if (error.name === "AbortError") return;
    const again = () => translateDocument(file);
    showDocument(inWords(error), quiet(words().again, again), () => clearTimeout(timers.document));
    if (error.wait !== null) after("document", 1_000 * error.wait, again);
  }
}

function showDocument(message, node = "", closing = () => {}) {
  const box = find("document");
  const close = () => (closing(), (box.hidden = true));
  box.replaceChildren(make("span", {}, message), node, quiet(words().close, close));
  box.hidden = false;
}

// ---- history ----

const history = () => kept("history", []);

// Adds the shown texts to the history. They replace the last entry if one source text begins with the other.
function remember() {
  if (!find("keep-history").checked) return;
  const { read, text: translation, source, target } = state.answer;
  const [last, ...rest] = history();
  const goesOn = last && last.target === target && (last.text.startsWith(read) || read.startsWith(last.text));
  const before = !last || goesOn ? rest : [last, ...rest];
  keep("history", [{ source, target, text: read, translation }, ...before].slice(0, MOST_KEPT));
  showHistory();
}

function showHistory() {
  const items = history().map((each) => {
    const restore = () => {
      fillLanguages(each);
      text.value = each.text;
      directionChanged();
      text.focus();
    };
    const [before, now] = [each.text, each.translation].map((part) => make("span", { dir: "auto" }, part));
    return make("li", {}, make("button", { type: "button", onclick: restore }, before, now));
  });
  find("history").replaceChildren(...(items.length ? items : [make("li", { className: "muted" }, words().noHistory)]));
  find("clear-history").disabled = !items.length;
}

// ---- using a translation ----

async function copy() {
  if (!state.answer) return;
  try {
    await navigator.clipboard.writeText(state.answer.text);
    find("done").textContent = words().copied;
  } catch {
    getSelection().selectAllChildren(find("translation")); // the clipboard needs HTTPS; otherwise use Ctrl C
  }
}

// Explains the selected text, or all of it.
function explain(event) {
  const asked = text.value.slice(text.selectionStart, text.selectionEnd).trim() || state.answer.read;
  if (asked.split(/\s+/).length > MOST_EXPLAINED) {
    event.preventDefault();
    return tell(words().selectToExplain);
  }
  const fields = { text: asked, source: from(), target: target.value, api_key: currentKey() };
  const inputs = Object.entries(fields).map(([name, value]) => make("input", { type: "hidden", name, value }));
  find("why-fields").replaceChildren(...inputs);
}

function openSuggestion(isOpen) {
  find("suggest-form").hidden = !isOpen;
  find("suggest").ariaExpanded = isOpen;
  const { text: value, target: lang } = state.answer ?? { text: "", target: "" };
  Object.assign(find("better"), { value, lang, dir: direction(lang) });
  if (isOpen) find("better").focus();
}

async function sendSuggestion(event) {
  event.preventDefault();
  const suggestion = { q: state.answer.read, s: find("better").value, source: from(), target: target.value };
  try {
    await ask("/suggest", { json: suggestion });
    openSuggestion(false);
    find("suggest").focus();
    find("done").textContent = words().thanks;
  } catch (error) {
    trouble(error, () => translate());
  }
}

// ---- the key and the start ----

function askForKey() {
  find("key-form").hidden = false;
  find("key").focus();
}

function keyGiven(event) {
  event.preventDefault();
  useKey(find("key").value.trim(), find("remember").checked);
  find("key-form").hidden = true;
  tell("");
  start();
  text.focus();
}

async function start() {
  try {
    const { ready, models, limits, document_formats: formats, key_required: isLocked } = await askJson("/v1/models");
    if (!ready) throw new Problem("loading", "", 1);
    Object.assign(state, { models, limits, formats, isLocked });
    if (isLocked && !currentKey()) askForKey();
    find("file").accept = formats.join(",");
    find("suggest").hidden = !(await askJson("/frontend/settings")).suggestions;
    fillLanguages(kept("direction", { source: "auto", target: language }));
    directionChanged();
  } catch (error) {
    trouble(error, start);
  }
}

function dragging(event) {
  if (!event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault();
  find("drop").hidden = event.type !== "dragover";
  if (event.type === "drop") translateDocument(event.dataTransfer.files[0]);
}

function shortcut(event) {
  const wanted = event.altKey && event.shiftKey && { KeyS: swap, KeyC: copy }[event.code];
  const enters = event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target === text && enterTranslation;
  if (!wanted && !enters) return;
  event.preventDefault();
  (wanted || enters)();
}

const on = (id, kind, action) => find(id).addEventListener(kind, action);
listen({ others: otherWords, take: (word) => rewrite(word.prefix), leave: () => text.focus() });
text.addEventListener("input", textChanged);
terms.addEventListener("input", termsChanged);
for (const select of [source, target]) select.addEventListener("change", directionChanged);
on("interface", "change", (event) => (keep("interface", event.target.value), speakIn(event.target.value)));
on("swap", "click", swap);
on("clear", "click", () => ((text.value = ""), textChanged(), text.focus()));
on("choose", "click", () => find("file").click());
on("file", "change", ({ target: chosenFile }) => (translateDocument(chosenFile.files[0]), (chosenFile.value = "")));
on("copy", "click", copy);
on("why-form", "submit", explain);
on("suggest", "click", () => openSuggestion(find("suggest-form").hidden));
on("suggest-form", "submit", sendSuggestion);
on("key-form", "submit", keyGiven);
on("keep-history", "change", (event) => keep("keepHistory", event.target.checked));
on("clear-history", "click", () => (keep("history", []), showHistory()));
for (const kind of ["dragover", "dragleave", "drop"]) document.addEventListener(kind, dragging);
document.addEventListener("keydown", shortcut);
addEventListener("online", () => find("notice").querySelector("button")?.click());

find("keep-history").checked = kept("keepHistory", true);
speakIn(language);
start();
