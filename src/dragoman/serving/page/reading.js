// The words of both texts: their alignment, and the menu of alternatives to a word.

import { listed } from "./words.js";

export const find = (id) => document.getElementById(id);

// Creates an element with properties and children, which are text or elements.
export function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  Object.assign(node, properties);
  node.append(...children);
  return node;
}

export const quiet = (label, onclick) => make("button", { type: "button", className: "quiet", onclick }, label);

const PLACEHOLDER = /\[(word|number) \d\]/;
const [mirror, box, typed, menu] = ["mirror", "translation", "text", "menu"].map(find);

// The words of both sides as elements, their alignment as pairs of indices, the index of the word that had the focus
// last, and the texts of the interface.
const shown = { sides: [[], []], pairs: [], place: 0, words: null };

export const speak = (words) => (shown.words = words);

// ---- the words ----

// Splits a text into parts, in which its words are elements. If a word isn't found, the text is the only part.
function withWords(text, words, element) {
  const parts = [];
  const made = [];
  let from = 0;
  for (const word of words) {
    const at = text.indexOf(word, from);
    if (at < 0) return { parts: [text], made: [] };
    made.push(element(word, made.length, at));
    parts.push(text.slice(from, at), made.at(-1));
    from = at + word.length;
  }
  return { parts: [...parts, text.slice(from)], made };
}

const sourceWord = (word, number, at) => make("span", { number, at }, word);

function targetWord(word, number, isDoubtful) {
  const properties = { number, tabIndex: number ? -1 : 0, role: "button", ariaHasPopup: "menu" };
  const node = make("span", { ...properties, className: isDoubtful ? "word doubtful" : "word" }, word);
  if (isDoubtful) node.setAttribute("aria-describedby", "doubt");
  return node;
}

// Shows a text during typing, before its words have translations.
export function showSource(text) {
  mirror.replaceChildren(text, "\n");
  Object.assign(shown, { sides: [[], shown.sides[1]], pairs: [] });
}

// Shows an answer to a text, or none.
export function showWords(text, answer) {
  const hadKeyboard = box.contains(document.activeElement);
  const element = (word, number) => targetWord(word, number, answer.doubtful_words.includes(number));
  const source = withWords(text, answer?.source_words ?? [], sourceWord);
  const target = withWords(answer?.text ?? "", answer?.target_words ?? [], element);
  mirror.replaceChildren(...source.parts, "\n");
  box.replaceChildren(...target.parts);
  Object.assign(shown, { sides: [source.made, target.made], pairs: answer?.alignment ?? [] });
  if (hadKeyboard) goTo(shown.place);
  else shown.place = 0;
}

// Removes case, spaces and punctuation, which change in every unfinished sentence.
const bare = (some) => some.toLowerCase().replace(/[\s\p{P}]/gu, "");

// Shows remarks on an answer, or none.
export function showNotes(answer) {
  const notes = [];
  const doubtful = answer?.doubtful_words ?? [];
  if (doubtful.length) {
    const unsure = listed(...doubtful.map((number) => answer.target_words[number]));
    notes.push(make("li", { id: "doubt" }, shown.words.uncertain(unsure)));
  }
  for (const flag of answer?.flags ?? []) {
    if (flag.name !== "split") notes.push(make("li", {}, shown.words.flags[flag.name]?.(answer) ?? flag.name));
  }
  if (answer?.used_terms.length) notes.push(make("li", {}, shown.words.termsUsed(listed(...answer.used_terms))));
  const read = (answer?.rewritten ?? []).filter(([as, read]) => bare(as) !== bare(read) && !PLACEHOLDER.test(read));
  notes.push(...read.map((pair) => make("li", {}, shown.words.readAs(...pair))));
  find("notes").replaceChildren(...notes);
}

// Shows the other translations of an answer; a click calls `take` with one of them.
export function showAlternatives(answer, take) {
  const { lang, dir } = box;
  const texts = new Set(answer?.alternatives.map((each) => each.text));
  texts.delete(answer?.text);
  const items = [...texts].map((other) =>
    make("li", {}, make("button", { type: "button", lang, dir, onclick: () => take(other) }, other)));
  find("alternatives").querySelector("ul").replaceChildren(...items);
  find("alternatives").hidden = !items.length;
}

// Highlights a word of one side (0 is the source) and the words aligned with it; without a number, none.
function light(side, number) {
  const lit = [new Set(), new Set()];
  if (number !== undefined) {
    lit[side].add(number);
    for (const pair of shown.pairs) if (pair[side] === number) lit[1 - side].add(pair[1 - side]);
  }
  shown.sides.forEach((words, at) => words.forEach((word, i) => word.classList.toggle("lit", lit[at].has(i))));
}

// The mirror is below the text field, so its words are found by position.
function lightUnderPointer(event) {
  const under = document.elementsFromPoint(event.clientX, event.clientY);
  light(0, under.find((node) => node.parentElement === mirror)?.number);
}

function lightAtCaret() {
  if (document.activeElement !== typed) return;
  const at = typed.selectionStart;
  light(0, shown.sides[0].find((word) => word.at <= at && at <= word.at + word.textContent.length)?.number);
}

function goTo(number) {
  const words = shown.sides[1];
  words[Math.max(0, Math.min(words.length - 1, number))]?.focus();
}

// Moves the focus to the translation, to the word that had it last.
export const enterTranslation = () => goTo(shown.place);

function focused(word) {
  for (const each of shown.sides[1]) each.tabIndex = each === word ? 0 : -1;
  shown.place = word.number;
  light(1, word.number);
}

function stepFrom(number, key) {
  const onward = getComputedStyle(box).direction === "rtl" ? -1 : 1;
  return { Home: 0, End: Infinity, ArrowRight: number + onward, ArrowLeft: number - onward }[key];
}

// ---- the menu ----

function openMenu(word) {
  const source = shown.pairs.find(([, target]) => target === word.number)?.[0];
  const from = shown.sides[0][source]?.textContent;
  find("menu-name").textContent = from ? shown.words.cameFrom(from) : shown.words.fromNowhere;
  find("menu-items").replaceChildren(make("p", { className: "muted", role: "menuitem" }, shown.words.looking));
  menu.word = word;
  menu.togglePopover(true);
  placeMenu(word);
}

function placeMenu(word) {
  const at = word.getBoundingClientRect();
  const furthest = document.documentElement.clientWidth - menu.offsetWidth - 8;
  menu.style.left = `${Math.max(8, Math.min(at.left, furthest)) + scrollX}px`;
  menu.style.top = `${at.bottom + 6 + scrollY}px`;
}

function menuItem({ word, probability }, present, take) {
  const share = `${(100 * probability).toFixed(probability < 0.01 ? 1 : 0)} %`;
  const properties = { type: "button", role: "menuitem", tabIndex: -1, onclick: take, ariaCurrent: word === present };
  return make("button", properties, make("span", {}, word), make("span", { className: "muted figure" }, share));
}

function fillMenu(found, present, take) {
  const nothing = make("p", { role: "menuitem", tabIndex: -1 }, shown.words.nothingElse);
  const choose = (each) => (menu.hidePopover(), each.word !== present && take(each));
  const likely = found.filter((each) => each.probability >= 0.0005); // 0.1 %, as it is shown
  const items = likely.map((each) => menuItem(each, present, () => choose(each)));
  find("menu-items").replaceChildren(...(items.length > 1 ? items : [nothing]));
  find("menu-items").firstElementChild.focus();
}

function moveInMenu(event) {
  const items = [...find("menu-items").children];
  const at = items.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1 + items.length, Home: 0, End: items.length - 1 }[event.key];
  if (event.key === "Tab") menu.hidePopover();
  if (to === undefined) return;
  event.preventDefault();
  items[to % items.length].focus();
}

// ---- listening ----

// `others(number)` returns the alternatives to a word, or null; `take(word)` is called with the chosen one, and
// `leave()` after Escape.
export function listen({ others, take, leave }) {
  const wordOf = (event) => event.target.closest(".word");
  const choose = async (word) => {
    openMenu(word);
    const found = await others(word.number);
    if (menu.word !== word || !menu.matches(":popover-open")) return;
    if (!found || !word.isConnected) return menu.hidePopover();
    fillMenu(found, word.textContent, take);
    placeMenu(word);
  };
  box.addEventListener("click", (event) => wordOf(event) && getSelection().isCollapsed && choose(wordOf(event)));
  box.addEventListener("keydown", (event) => {
    const next = stepFrom(wordOf(event).number, event.key);
    if (event.key === "Enter" || event.key === " ") choose(wordOf(event));
    else if (event.key === "Escape") leave();
    else if (next !== undefined) goTo(next);
    else return;
    event.preventDefault();
  });
  box.addEventListener("focusin", (event) => focused(wordOf(event)));
  box.addEventListener("pointerover", (event) => light(1, wordOf(event)?.number));
  typed.addEventListener("pointermove", lightUnderPointer);
  document.addEventListener("selectionchange", lightAtCaret);
  for (const [node, kind] of [[box, "pointerleave"], [box, "focusout"], [typed, "pointerleave"], [typed, "blur"]]) {
    node.addEventListener(kind, () => menu.matches(":popover-open") || light(0));
  }
  menu.addEventListener("keydown", moveInMenu);
}
