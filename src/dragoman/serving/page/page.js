// The server's page: text is translated while it is typed. `reading.js` shows the words of both texts, `asking.js`
// sends requests, `words.js` contains the texts of the interface. Start reading at `translate`.

import { Problem, ask, askJson, currentKey, keep, kept, useKey } from "./asking.js";
import { translateFiles } from "./documents.js";
import { remember, showHistory } from "./history.js";
import { enterTranslation, find, listen, make, quiet, showAlternatives, showNotes, showSource, showWords, speak } from "./reading.js";
import { command, linked, setAddress } from "./sharing.js";
import { readAloud, showVoices, stopReading } from "./voices.js";
import { WORDS, direction, nameOf } from "./words.js";

const SHORTEST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 300;
const SETTLED_MS = 1_000;
const LONG_TEXT = 400;
const MOST_EXPLAINED = 40; // words
const ALTERNATIVES = 3;
const SHORT = 480; // pixels of a window that is low, for example because of an on-screen keyboard

const [text, source, target, terms] = ["text", "source", "target", "terms"].map(find);

// The server's models and limits, the shown answer, the answers before it was rewritten, the active request, whether the
// last one failed, and the text that the address of the page contains.
const state = { models: [], limits: {}, answer: null, earlier: [], asked: null, pause: SHORTEST_PAUSE_MS };
const timers = {};
const preferred = navigator.languages.map((each) => each.slice(0, 2)).find((each) => WORDS[each]) ?? "en";
let language = kept("interface", preferred);
const words = () => WORDS[language];

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
  stopReading();
  showVoices();
  tell("");
  if (state.models.length) showAddress();
  if (!state.models.length || (state.isLocked && !currentKey())) return;
  const isSent = text.value.trim() && excess() <= 0;
  setBusy(Boolean(isSent));
  if (excess() > 0) tell(words().tooLong(excess()));
  else if (!isSent) show(null);
  if (!isSent) return cancel();
  after("typing", Math.min(LONGEST_PAUSE_MS, state.pause), translate);
  timers.latest ??= setTimeout(translate, state.pause);
}

// Returns the fields of a request for the typed text; without terms, the server uses its own.
function typedRequest() {
  const { terms } = typedTerms();
  return { text: text.value, ...chosen(), ...(Object.keys(terms).length ? { terms } : {}) };
}

// Requests the translation of the typed text. It must begin with `prefix`; `undo` restores `earlier`.
async function translate(prefix = null, earlier = []) {
  cancel();
  setBusy(true);
  const [own, began, asked] = [new AbortController(), performance.now(), text.value];
  const alternatives = asked.length > LONG_TEXT ? 0 : Math.min(ALTERNATIVES, state.limits.alternatives);
  const request = { ...typedRequest(), align: true, alternatives };
  if (prefix) request.prefix = prefix;
  state.asked = own;
  try {
    const { translations } = await askJson("v1/translate", { json: request, signal: own.signal });
    if (asked === text.value) setBusy(false);
    tell("");
    state.hasFailed = false;
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
    return (await askJson("v1/words", { json: { text: read, source, target, translation, word } })).words;
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

// Returns the text of an error; asks for the key if it is missing or wrong. `refused` is the kind of a refused request.
function inWords(error, refused = "refused") {
  if (!(error instanceof Problem)) throw error;
  const isPublic = error.kind === "key" && !state.isLocked; // for example, the file of suggestions is full
  const kind = isPublic ? "broken" : error.detected ? "language" : error.kind === "refused" ? refused : error.kind;
  if (kind === "key") askForKey();
  return words().problems[kind]({ ...error, name: nameOf(error.detected, language) });
}

// Shows a message, and an action that may help. The translation shown then is marked if it is of an earlier text.
function tell(message, action = null, label = words().again) {
  const notice = find("notice");
  notice.replaceChildren(make("span", {}, message), action ? quiet(label, action) : "");
  notice.hidden = !message;
  state.hasFailed ||= Boolean(message);
  showAge();
}

function showAge() {
  state.isOld = Boolean(state.hasFailed && state.answer && state.answer.read !== text.value);
  find("reading").classList.toggle("old", state.isOld);
  find("age").hidden = !state.isOld;
}

// ---- showing ----

function show(answer) {
  state.answer = answer;
  if (!answer) state.earlier = [];
  stopReading();
  showWords(text.value, answer);
  const output = find("translation");
  Object.assign(output, { lang: answer?.target ?? "", dir: direction(answer?.target ?? "") });
  find("actions").hidden = !answer;
  find("empty").hidden = Boolean(answer);
  find("done").textContent = "";
  openSuggestion(false);
  showDetected(answer);
  showNotes(answer);
  showAlternatives(answer, rewrite);
  find("rewritten").replaceChildren(words().rewritten, quiet(words().undo, undo));
  find("rewritten").hidden = !state.earlier.length;
  showAge();
  showVoices();
  loadTerms();
  if (answer && text.selectionEnd === text.value.length) output.scrollTop = output.scrollHeight; // the end is being typed
  if (answer) after("settled", SETTLED_MS, settled);
}

// Runs when typing has paused: updates the screen reader's text and the history.
function settled() {
  Object.assign(find("spoken"), { lang: state.answer.target, textContent: state.answer.text });
  if (find("keep-history").checked) remember(state.answer);
  showPast();
}

function showDetected(answer) {
  const { language: code, confidence } = answer?.detected ?? {};
  find("detected").textContent = confidence ? words().sure(nameOf(code, language), Math.round(confidence)) : "";
  find("swap").disabled = !state.models.some((model) => model.source === target.value && model.target === from());
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
  const order = (a, b) => (b === "auto") - (a === "auto") || name(a).localeCompare(name(b), language);
  const shown = [...new Set(codes)].sort(order);
  select.replaceChildren(...shown.map((code) => make("option", { value: code }, name(code))));
  select.value = codes.find((code) => code.toLowerCase() === wanted?.toLowerCase()) ?? codes[0];
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
  showPast();
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

// ---- documents, history and links ----

const translateDocuments = (files) =>
  state.formats && translateFiles(files, { ...state, words: words(), chosen, inWords });
const showPast = () => showHistory(words(), open);

// Shows a text of the history again, with its languages.
function open(entry) {
  fillLanguages(entry);
  text.value = entry.text;
  directionChanged();
  text.focus();
}

// Opens the link in the page's address. If it names languages that the server lacks, its text waits for a click.
function openLink() {
  const link = linked();
  const asked = [link.source ?? source.value, link.target ?? target.value];
  fillLanguages({ source: asked[0], target: asked[1] });
  state.linked = link.q ?? "";
  text.value = link.q ?? text.value;
  directionChanged();
  if ([source, target].every(({ value }, side) => value.toLowerCase() === asked[side].toLowerCase())) return;
  cancel();
  setBusy(false);
  const names = asked.map((code) => (code === "auto" ? words().auto : nameOf(code, language)).slice(0, 30));
  tell(words().linkLanguages(...names), text.value.trim() ? () => translate() : null, words().translateAnyway);
}

// Keeps the languages in the page's address, and its text only after the user asked for a link.
function showAddress() {
  const q = state.linked && state.linked === text.value ? { q: state.linked } : {};
  setAddress({ ...q, ...chosen() });
  find("request").textContent = command(typedRequest(), state.isLocked);
}

// ---- using a translation ----

// Copies a text and reports it. The clipboard needs HTTPS; without it, the element `shown` is selected for Ctrl C.
async function toClipboard(value, status, message, shown = "") {
  try {
    await navigator.clipboard.writeText(value);
    find(status).textContent = message;
  } catch {
    if (shown) getSelection().selectAllChildren(find(shown));
  }
}

const copy = () => state.answer && toClipboard(state.answer.text, "done", words().copied, "translation");

function copyLink() {
  state.linked = text.value;
  showAddress();
  find("done").textContent = words().linkShown;
  toClipboard(location.href, "done", `${words().copied} ${words().linkShown}`);
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
    await ask("suggest", { json: suggestion });
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
    const { ready, models, limits, document_formats: formats, key_required: isLocked } = await askJson("v1/models");
    if (!ready) throw new Problem("loading", { wait: 1 });
    Object.assign(state, { models, limits, formats, isLocked });
    if (isLocked && !currentKey()) askForKey();
    find("file").accept = formats.join(",");
    find("suggest").hidden = !(await askJson("frontend/settings")).suggestions;
    fillLanguages(kept("direction", { source: "auto", target: language }));
    openLink();
  } catch (error) {
    trouble(error, start);
  }
}

function dragging(event) {
  if (!event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault();
  find("drop").hidden = event.type !== "dragover";
  if (event.type === "drop") translateDocuments(event.dataTransfer.files);
}

// Leaves room for the translation above an on-screen keyboard.
function fit() {
  const isShort = visualViewport.height * visualViewport.scale < SHORT;
  document.documentElement.classList.toggle("short", isShort);
  if (isShort && document.activeElement === text) find("translator").scrollIntoView();
}

function shortcut(event) {
  const wanted = event.altKey && event.shiftKey && { KeyS: swap, KeyC: copy }[event.code];
  const enters = event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target === text && enterTranslation;
  if (!wanted && !enters) return;
  event.preventDefault();
  (wanted || enters)();
}

const on = (id, kind, action) => find(id).addEventListener(kind, action);
listen({ others: (word) => (state.isOld ? null : otherWords(word)), take: (word) => rewrite(word.prefix), leave: () => text.focus() });
text.addEventListener("input", textChanged);
terms.addEventListener("input", termsChanged);
for (const select of [source, target]) select.addEventListener("change", directionChanged);
on("interface", "change", (event) => (keep("interface", event.target.value), speakIn(event.target.value)));
on("swap", "click", swap);
on("clear", "click", () => ((text.value = ""), textChanged(), text.focus()));
on("choose", "click", () => find("file").click());
on("file", "change", ({ target: chosenFile }) => (translateDocuments(chosenFile.files), (chosenFile.value = "")));
on("copy", "click", copy);
on("copy-link", "click", copyLink);
on("copy-request", "click", () => toClipboard(find("request").textContent, "request-done", words().copied, "request"));
on("why-form", "submit", explain);
on("suggest", "click", () => openSuggestion(find("suggest-form").hidden));
on("suggest-form", "submit", sendSuggestion);
on("key-form", "submit", keyGiven);
on("keep-history", "change", (event) => (keep("keepHistory", event.target.checked), state.answer ? settled() : showPast()));
on("clear-history", "click", () => (keep("history", []), showPast()));
readAloud(find("listen-text"), () => [text.value, source.value === "auto" ? (state.answer?.source ?? "") : source.value], words);
readAloud(find("listen"), () => [state.answer?.text ?? "", target.value], words);
for (const kind of ["dragover", "dragleave", "drop"]) document.addEventListener(kind, dragging);
document.addEventListener("keydown", shortcut);
visualViewport.addEventListener("resize", fit);
addEventListener("hashchange", () => state.models.length && Object.keys(linked()).length && openLink());
addEventListener("online", () => find("notice").querySelector("button")?.click());

find("keep-history").checked = kept("keepHistory", false);
fit();
speakIn(language);
start();
