// Documents: rows of a list, translated one after another.

import { ask, askJson } from "./asking.js";
import { find, make, quiet } from "./reading.js";

let last = Promise.resolve();

// Adds a row for each file; those that the server would refuse are not sent. `page` contains the `words` of the
// interface, `formats` and `limits`; `chosen()` returns the languages, and `inWords` the text of an error.
export function translateFiles(files, page) {
  for (const file of files) {
    const [row, obstacle] = [newRow(file, page), obstacleOf(file, page)];
    if (obstacle) row.show(obstacle, "bad");
    else enqueue(row, page);
  }
  find("documents").lastElementChild.scrollIntoView({ block: "nearest" });
}

function newRow(file, { words }) {
  const row = { file, own: new AbortController(), status: make("span", { role: "status" }) };
  row.show = (message, kind, ...actions) => {
    row.status.className = `small ${kind}`;
    row.status.replaceChildren(message, ...actions);
  };
  const close = quiet(words.close, () => {
    clearTimeout(row.timer);
    row.own.abort();
    if (row.href) URL.revokeObjectURL(row.href);
    row.node.remove();
    find("choose").focus();
  });
  close.ariaLabel = `${words.close}: ${file.name}`;
  row.node = make("li", {}, make("span", { className: "name", dir: "auto" }, file.name), row.status, close);
  find("documents").append(row.node);
  return row;
}

function obstacleOf({ name, size }, { words, formats, limits }) {
  if (!formats.some((ending) => name.toLowerCase().endsWith(ending))) return words.formats(formats.join(" "));
  return size > limits.document_bytes ? words.documentTooLarge(`${Number((limits.document_bytes / 2 ** 20).toPrecision(2))} MiB`) : "";
}

function enqueue(row, page) {
  clearTimeout(row.timer);
  row.languages = page.chosen();
  row.show(page.words.waiting, "muted");
  last = last.then(() => translate(row, page)).catch(reportError); // an error of one row does not stop the next
}

async function translate(row, page) {
  const { own: { signal }, file, languages } = row;
  if (signal.aborted) return;
  row.show(page.words.translating, "muted", make("progress", { ariaLabel: file.name }));
  try {
    const form = new FormData();
    for (const [name, value] of Object.entries({ file, ...languages })) form.append(name, value);
    const { translatedFileUrl } = await askJson("translate_file", { form, signal });
    const translated = await ask(new URL(translatedFileUrl, location).pathname, { signal });
    row.href = URL.createObjectURL(await translated.blob());
    const download = file.name.replace(/(\.[^.]+)$/, `.${languages.target}$1`);
    row.show("", "", make("a", { href: row.href, download }, page.words.saveDocument(download)));
  } catch (error) {
    if (error.name === "AbortError") return;
    row.show(page.inWords(error, "unreadable"), "bad", quiet(page.words.again, () => enqueue(row, page)));
    if (error.wait !== null) row.timer = setTimeout(enqueue, 1_000 * error.wait, row, page);
  }
}
