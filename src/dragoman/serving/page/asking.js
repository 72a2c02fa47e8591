// What the page asks of the server, what it makes of a refusal, and what it keeps in the browser. Knows no element.

// A refusal. `kind` names the words for it; `wait` is in how many seconds the same request may succeed, or null.
export class Problem extends Error {
  constructor(kind, said = "", wait = null) {
    super(said);
    Object.assign(this, { kind, said, wait });
  }
}

const KINDS = { 401: "key", 403: "key", 413: "long", 429: "often", 503: "busy" };
const SOON = { often: 10, busy: 2, offline: 5 }; // seconds

// A value that the browser keeps, or `otherwise`. A browser that keeps nothing is no trouble.
export function kept(name, otherwise, store = "localStorage") {
  try {
    return JSON.parse(window[store].getItem(`dragoman.${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function keep(name, value, store = "localStorage") {
  try {
    window[store].setItem(`dragoman.${name}`, JSON.stringify(value));
  } catch {} // it has no room, or allows none
}

let key = kept("key", "", "sessionStorage") || kept("key", "");

export const currentKey = () => key;

export function useKey(value, remember) {
  key = value;
  for (const store of ["sessionStorage", ...(remember ? ["localStorage"] : [])]) keep("key", value, store);
}

// The answer to a request: a GET, or a POST of JSON or of a form. Throws a Problem, or AbortError if it was cancelled.
export async function ask(path, { json, form, signal } = {}) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  if (json) headers["Content-Type"] = "application/json";
  const body = json ? JSON.stringify(json) : form;
  let response;
  try {
    response = await fetch(path, { method: body ? "POST" : "GET", headers, body, signal });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Problem("offline", "", SOON.offline);
  }
  if (response.ok) return response;
  const kind = KINDS[response.status] ?? (response.status < 500 ? "refused" : "broken");
  const told = await response.json().catch(() => ({}));
  const wait = Number.parseInt(response.headers.get("Retry-After"), 10) || (SOON[kind] ?? null);
  throw new Problem(kind, told.error ?? response.statusText, wait);
}

export const askJson = async (path, options) => (await ask(path, options)).json();
