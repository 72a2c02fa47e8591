// The page: the record, the selection, elements, numbers, colours, and sections. Sections build themselves on this.
const page = (() => {
  // JSON has no numbers that are not finite; they come as {"number": "NaN"}.
  const revived = (key, value) => (value?.number === undefined ? value : Number(value.number));
  const record = JSON.parse(document.getElementById("record").textContent, revived);
  const title = record.family === "encoder_decoder" ? "Inside a translation" : "Inside a model";
  const sections = [];
  const listeners = new Set(); // {names, notify, owner}
  const decoded = new WeakMap();
  let owner = null; // the section that is being built

  // ---- elements: text is always a text node, never markup ----

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (value === null || value === undefined || value === false) continue;
      if (typeof value === "function") node.addEventListener(name.slice(2), value);
      else if (name === "style") Object.entries(value).forEach(([key, each]) => node.style.setProperty(key, each));
      else node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
    return node;
  }

  const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

  // ---- arrays ----

  function decode(packed) {
    if (packed.list) return Float32Array.from(packed.list);
    const bytes = atob(packed.f24);
    const words = new Uint32Array(bytes.length / 3);
    for (let i = 0, at = 0; i < words.length; i++, at += 3)
      words[i] = (bytes.charCodeAt(at) << 8) | (bytes.charCodeAt(at + 1) << 16) | (bytes.charCodeAt(at + 2) << 24);
    return new Float32Array(words.buffer);
  }

  class PackedArray {
    constructor(packed) {
      this.shape = packed.shape;
      this.data = decode(packed);
    }
    at(...index) {
      return this.data[index.reduce((place, each, axis) => place * this.shape[axis] + each, 0)];
    }
    // The numbers below some first indices, as a Float32Array that shares their memory.
    row(...index) {
      const size = this.shape.slice(index.length).reduce((product, each) => product * each, 1);
      const place = index.reduce((before, each, axis) => before * this.shape[axis] + each, 0);
      return this.data.subarray(place * size, (place + 1) * size);
    }
  }

  function array(packed) {
    if (!decoded.has(packed)) decoded.set(packed, new PackedArray(packed));
    return decoded.get(packed);
  }

  // ---- numbers ----

  const proper = (text) => text.replace("-", "−");
  const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

  // Four significant digits, with a real minus sign.
  function number(x) {
    if (x === null || !Number.isFinite(x)) return "not a number";
    if (x === 0) return "0";
    const size = Math.abs(x);
    if (size >= 1e6 || size < 1e-4) {
      const [digits, exponent] = x.toExponential(3).split("e");
      const raised = [...String(Math.abs(+exponent))].map((digit) => SUPERSCRIPTS[digit]).join("");
      return proper(`${digits} × 10${+exponent < 0 ? "⁻" : ""}${raised}`);
    }
    return proper(size >= 1e4 ? x.toFixed(0) : x.toPrecision(4));
  }

  const count = (n) => proper(n.toLocaleString("en"));

  // A probability: one decimal, and more if one would round to nothing or everything.
  function percent(p) {
    if (!Number.isFinite(p)) return "not a number";
    const hundred = 100 * p;
    const far = Math.min(Math.abs(hundred), Math.abs(100 - hundred));
    if (hundred === 0 || hundred === 100) return `${hundred}\u00a0%`;
    if (Math.abs(hundred) < 1e-4) return `${number(hundred)}\u00a0%`;
    const digits = far >= 0.05 && Math.abs(hundred) >= 1 ? 1 : Math.min(6, Math.max(1, 1 - Math.floor(Math.log10(far))));
    return proper(`${hundred.toFixed(digits)}\u00a0%`);
  }

  // ---- languages ----

  // The English name of the language of a side, 0 or 1; its code if it has none; null if it isn't known.
  function languageName(side) {
    const code = record.languages?.[side];
    try {
      return code ? new Intl.DisplayNames(["en"], { type: "language" }).of(code) : null;
    } catch {
      return code;
    }
  }

  // ---- colours: mixed from the variables of style.css, so that --ink stays readable on each of them ----

  function heat(x, max = 1) {
    const share = max > 0 && Number.isFinite(x) ? Math.min(1, Math.abs(x) / max) : 0;
    return `color-mix(in oklab, var(${x < 0 ? "--heat-negative" : "--heat"}) ${(100 * share).toFixed(1)}%, var(--paper))`;
  }

  // ---- tokens ----

  const SYMBOLS = 4; // unknown, padding, start and end come before all pieces
  const isSymbol = (token) => token.id < SYMBOLS;
  const SHOWN = { "<0x0A>": "↵", "<0x09>": "⇥" };

  // As plain text, for SVG and labels.
  const tokenText = (token) => (isSymbol(token) ? token.text : SHOWN[token.text] ?? token.text.replaceAll("▁", "␣"));

  // As a chip; a button if it has an onclick.
  function token(token, attributes = {}) {
    const { class: more, ...others } = attributes;
    const pieces = tokenText(token)
      .split(/(␣)/)
      .filter((piece) => piece !== "")
      .map((piece) => (piece === "␣" ? el("span", { class: "space" }, "␣") : piece));
    const classes = ["token", isSymbol(token) && "symbol", more].filter(Boolean).join(" ");
    const button = others.onclick ? "button" : null;
    return el(button ?? "span", { type: button, class: classes, dir: "auto", ...others }, pieces);
  }

  // ---- the selection ----

  const state = { part: 0, step: 0, stack: "decoder", layer: 0, attention: "self_attention" };
  Object.assign(state, { head: null, query: 0, key: 0, width: 1, temperature: 1 });

  const part = () => record.parts[state.part];
  const stack = (name) => part().stacks.find((each) => each.name === name);

  // The first selection in a part: the last layer but one, where words are usually aligned best.
  function opening() {
    const first = stack("decoder") ?? stack("encoder");
    if (!first) return {};
    const layers = first.layers.length;
    const attention = first.layers[0]?.attentions.at(-1)?.name ?? "self_attention";
    const aligned = attention === "cross_attention" ? part().alignment : null;
    return {
      step: 0, query: 0, key: 0, temperature: 1, stack: first.name, attention,
      layer: aligned?.layer ?? Math.max(0, layers - 2),
      head: aligned ? aligned.head : null,
      width: part().searches.find((search) => search.chosen)?.width ?? 1,
    };
  }

  // Change the selection, and call the listeners. A layer, head, step, query or key beyond the last is the last.
  function set(changes) {
    const before = { ...state };
    Object.assign(state, changes);
    if (state.part !== before.part) Object.assign(state, opening(), changes);
    settle();
    const changed = new Set(Object.keys(state).filter((name) => state[name] !== before[name]));
    if (changed.has("part")) return rebuild();
    for (const listener of [...listeners])
      if (listeners.has(listener) && listener.names.some((name) => changed.has(name))) owned(listener.owner, listener.notify);
  }

  function settle() {
    const within = (x, length) => Math.max(0, Math.min(x, length - 1));
    const read = stack(state.stack) ?? part().stacks[0];
    if (!read) return;
    state.stack = read.name;
    state.step = within(state.step, part().steps.length);
    state.layer = within(state.layer, read.layers.length);
    const attentions = read.layers[state.layer]?.attentions ?? [];
    const attention = attentions.find((each) => each.name === state.attention) ?? attentions[0];
    if (!attention) return;
    state.attention = attention.name;
    const [heads, queries, keys] = attention.weights.shape;
    if (state.head !== null) state.head = within(state.head, heads);
    state.query = within(state.query, queries);
    state.key = within(state.key, keys);
  }

  // A listener is dropped when the section that it belongs to is rebuilt.
  function listen(names, notify) {
    listeners.add({ names: [names].flat(), notify, owner });
  }

  function owned(section, act) {
    const outer = owner;
    owner = section;
    try {
      act();
    } finally {
      owner = outer;
    }
  }

  function announce(text) {
    document.getElementById("announcer").textContent = text;
  }

  // ---- sections ----

  // A section: `build(root, part)` is called when it is first opened, and again for another part of the text.
  const section = (described) => void sections.push({ open: false, when: () => true, ...described });

  function frame(section) {
    const id = `${section.id}-body`;
    section.body = el("div", { class: "body", id, hidden: true });
    const button = el("button", { type: "button", "aria-controls": id, "aria-expanded": "false" }, section.title);
    button.addEventListener("click", () => unfold(section, section.body.hidden));
    section.button = button;
    section.root = el("section", { id: section.id, "aria-label": section.title }, el("h2", {}, button), el("p", { class: "lead" }, section.lead), section.body);
    section.link = el("a", { href: `#${section.id}` }, section.title);
    return section.root;
  }

  function unfold(section, open) {
    section.open = open;
    section.body.hidden = !open;
    section.button.setAttribute("aria-expanded", String(open));
    section.root.classList.toggle("open", open);
    if (open && !section.built) construct(section);
  }

  function construct(section) {
    for (const listener of listeners) if (listener.owner === section) listeners.delete(listener);
    section.body.replaceChildren();
    section.built = true;
    owned(section, () => section.build(section.body, part()));
  }

  function rebuild() {
    for (const section of sections) {
      const shown = Boolean(section.when(part()));
      section.root.hidden = !shown;
      section.link.parentNode.hidden = !shown;
      section.built = false;
      if (shown && section.open) construct(section);
    }
    owned(null, () => listeners.forEach((each) => each.owner === null && each.names.includes("part") && each.notify()));
  }

  // A link to a section; its text alone if this part has no such section.
  function link(id, ...shown) {
    const section = sections.find((each) => each.id === id);
    return section?.when(part()) ? el("a", { href: `#${id}` }, shown) : el("span", {}, shown);
  }

  // Open a section and go there, as a link to it does.
  function go(id) {
    const section = sections.find((each) => each.id === id);
    if (!section) return document.getElementById(id)?.focus();
    if (section.root.hidden) return;
    unfold(section, true);
    section.root.scrollIntoView({ block: "start" });
    section.button.focus({ preventScroll: true });
  }

  // A link inside a frame of a notebook would load the notebook's page, so the page follows its links itself.
  function follow(event) {
    const href = event.target.closest?.("a")?.getAttribute("href");
    if (!href?.startsWith("#") || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (location.hash === href) go(href.slice(1));
    else location.hash = href;
  }

  // In a frame, one section needs no title, and the surrounding page receives the section's height.
  function fit() {
    document.getElementById("top").hidden = sections.length === 1 && record.parts.length === 1;
    const report = () => parent.postMessage({ height: Math.ceil(document.body.getBoundingClientRect().height) }, "*");
    new ResizeObserver(report).observe(document.body);
  }

  const openAll = () => sections.filter((each) => !each.root.hidden).forEach((each) => unfold(each, true));

  function start(unfolded) {
    const main = document.getElementById("sections");
    main.append(...sections.map(frame));
    document.getElementById("contents").append(el("ul", {}, sections.map((each) => el("li", {}, each.link))));
    document.getElementById("contents").hidden = sections.length === 1;
    document.title = `${title}: ${record.source}`;
    state.part = Math.max(0, record.parts.findIndex((each) => !each.copied));
    Object.assign(state, opening());
    settle();
    page.top(document.getElementById("top"));
    rebuild();
    const wanted = location.hash.slice(1);
    sections.forEach((each) => each.root.hidden || ((unfolded || each.open || each.id === wanted) && unfold(each, true)));
    if (wanted) go(wanted);
    if (parent !== window) fit();
    addEventListener("click", follow);
    addEventListener("hashchange", () => go(location.hash.slice(1)));
  }

  return {
    record, title, state, set, listen, announce, section, start, link, openAll, stack,
    el, svg, array, number, count, percent, languageName, heat, isSymbol, token, tokenText,
    get part() {
      return part();
    },
  };
})();
