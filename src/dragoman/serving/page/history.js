// The history: translations that the browser stores while the user wants it.

import { keep, kept } from "./asking.js";
import { find, make } from "./reading.js";

const MOST_KEPT = 50;

const history = () => kept("history", []);

// Adds the shown texts. They replace the last entry if one source text begins with the other.
export function remember({ read, text: translation, source, target }) {
  const [last, ...rest] = history();
  const goesOn = last && last.target === target && (last.text.startsWith(read) || read.startsWith(last.text));
  keep("history", [{ source, target, text: read, translation }, ...(goesOn ? rest : history())].slice(0, MOST_KEPT));
}

// Shows the stored translations, and where they are stored. A click calls `restore` with one of them.
export function showHistory(words, restore) {
  const items = history().map((entry) => {
    const [before, now] = [entry.text, entry.translation].map((part) => make("span", { dir: "auto" }, part));
    return make("li", {}, make("button", { type: "button", onclick: () => restore(entry) }, before, now));
  });
  find("history").replaceChildren(...items);
  find("history-state").textContent = find("keep-history").checked ? words.historyOn(MOST_KEPT) : words.historyOff;
  find("clear-history").disabled = !items.length;
}
