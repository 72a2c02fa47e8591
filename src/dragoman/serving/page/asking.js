// Requests to the server, their errors, and values stored in the browser. Independent of the page's elements.

// An error. `kind` selects its text; after `wait` seconds the same request may succeed, null if unknown. `id` names it
// in the server's log; `detected` is the language of a text that no model reads.
export class Problem extends Error {
  constructor(kind, facts = {}) {
    super(kind);
    Object.assign(this, { wait: null, id: "", detected: "", ...facts, kind });
  }
}

const KINDS = { 401: "key", 403: "key", 404: "gone", 408: "offline", 413: "long", 429: "often", 503: "busy" };
const FINAL = { 429: "spent", 503: "slow" }; // without Retry-After
const OFFLINE_SECONDS = 5;

// Returns a value stored in the browser, or `fallback`, also if the browser stores nothing.
export function kept(name, fallback, store = "localStorage") {
  try {
    return JSON.parse(window[store].getItem(`dragoman.${name}`)) ?? fallback;
  } catch {
    return fallback;
  }
}

export function keep(name, value, store = "localStorage") {
  try {
    window[store].setItem(`dragoman.${name}`, JSON.stringify(value));
  } catch {} // storage is full or not allowed
}

let key = kept("key", "", "sessionStorage") || kept("key", "");

export const currentKey = () => key;

export function useKey(value, remember) {
  key = value;
  for (const store of ["sessionStorage", ...(remember ? ["localStorage"] : [])]) keep("key", value, store);
}

// Sends a GET, or a POST of JSON or of a form. Throws a Problem without the server's message, which is in English, or
// AbortError if it was cancelled.
export async function ask(path, { json, form, signal } = {}) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  if (json) headers["Content-Type"] = "application/json";
  const body = json ? JSON.stringify(json) : form;
  let response;
  try {
    response = await fetch(path, { method: body ? "POST" : "GET", headers, body, signal });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Problem("offline", { wait: OFFLINE_SECONDS });
  }
  if (response.ok) return response;
  const wait = Number.parseInt(response.headers.get("Retry-After"), 10) || null;
  const known = (!wait && FINAL[response.status]) || KINDS[response.status];
  const kind = known ?? (response.status < 500 ? "refused" : "broken");
  const { id, detected } = await response.json().catch(() => ({}));
  throw new Problem(kind, { wait, id, detected });
}

export const askJson = async (path, options) => (await ask(path, options)).json();
