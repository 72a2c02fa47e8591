// Links that contain a text, and the request of the page as a command.

// Returns the text (`q`) and the languages in the page's address. They are in its fragment, which a browser keeps for
// itself; a query, as in links of LibreTranslate, is read too, although servers and proxies can log it.
export function linked() {
  const [fragment, query] = [location.hash.slice(1), location.search].map((part) => new URLSearchParams(part));
  return Object.fromEntries([...query, ...fragment].filter(([name]) => ["q", "source", "target"].includes(name)));
}

// Makes the address of the page a link with these fields, without an entry in the browser's history.
export function setAddress(fields) {
  const address = `${location.pathname}#${new URLSearchParams(fields)}`;
  if (address !== location.pathname + location.search + location.hash) window.history.replaceState(null, "", address);
}

const quoted = (part) => `'${part.replaceAll("'", "'\\''")}'`;

// Returns a command that sends a request to the server. A key is only a placeholder in it.
export function command(request, needsKey) {
  const headers = ["Content-Type: application/json", ...(needsKey ? ["Authorization: Bearer KEY"] : [])];
  const options = [...headers.map((header) => `-H ${quoted(header)}`), `-d ${quoted(JSON.stringify(request))}`];
  return [`curl ${new URL("v1/translate", document.baseURI)}`, ...options].join(" \\\n  ");
}
