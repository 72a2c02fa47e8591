// The search: every hypothesis that a beam kept or dropped, step by step, and the reasons.
(() => {
  const { el, svg, number, count, percent, state } = page;
  const COLUMN = 7, ROW = 2.25, NODE = 5.5, TOP = 1.75; // rem: from step to step, from row to row, a node's width, the line of numbers

  const search = () => page.part.searches.find((each) => each.width === state.width) ?? page.part.searches[0];
  const STATUSES = { live: "kept", ended: "ended", dropped: "dropped" };

  // ---- hypotheses ----

  // The numbers of the nodes from the first step to this one.
  function pathTo(nodes, at) {
    const path = [];
    for (let i = at; i !== null; i = nodes[i].parent) path.unshift(i);
    return path;
  }

  const byteOf = (token) => /^<0x([0-9A-F]{2})>$/.exec(token.text)?.[1];

  // The text of tokens. Bytes become characters; a vocabulary of whole words has no mark for spaces.
  function spelled(tokens) {
    const shown = tokens.filter((token) => token.id === 0 || !page.isSymbol(token));
    const marked = page.part.stacks.some((stack) => stack.tokens.some((token) => token.text.includes("▁")));
    if (!marked && shown.every((token) => !byteOf(token))) return shown.map((token) => token.text).join(" ");
    const bytes = shown.flatMap((token) =>
      byteOf(token) ? [parseInt(byteOf(token), 16)] : [...new TextEncoder().encode(token.text.replaceAll("▁", " "))]);
    return new TextDecoder().decode(Uint8Array.from(bytes)).trim();
  }

  function textOf(at) {
    const { nodes, winner, text } = search();
    return at === winner ? text : spelled(pathTo(nodes, at).map((i) => nodes[i]));
  }

  // The outcome of a hypothesis, as a sentence that begins with a capital and ends with a full stop.
  function outcome(at) {
    const { nodes, winner, score } = search();
    const { reason } = nodes[at];
    if (at === winner) return `Won with the score ${number(score)}.`;
    if (!reason) return "Kept; the winner grew from it.";
    return `${reason[0].toUpperCase()}${reason.slice(1)}.`.replace(/-(?=\d)/g, "−");
  }

  // ---- the tree: a column a step, likeliest candidates above ----

  function places(nodes) {
    const rows = [];
    return nodes.map(({ step }) => {
      rows[step] = (rows[step] ?? -1) + 1;
      return { x: (step - 1) * COLUMN, y: TOP + rows[step] * ROW };
    });
  }

  function edges(nodes, at, size) {
    const paths = nodes.map((node, i) => {
      if (node.parent === null) return null;
      const [from, to] = [at[node.parent], at[i]];
      const [x, y, end, height] = [from.x + NODE, from.y + ROW / 2, to.x, to.y + ROW / 2];
      const middle = (x + end) / 2;
      return svg("path", { class: `edge ${STATUSES[node.status]}`, d: `M${x},${y}C${middle},${y} ${middle},${height} ${end},${height}` });
    });
    return [svg("svg", { viewBox: `0 0 ${size.width} ${size.height}`, "aria-hidden": "true" }, paths), paths];
  }

  class Tree {
    constructor(search, choose) {
      Object.assign(this, { nodes: search.nodes, winner: search.winner, choose });
      const at = places(this.nodes);
      const size = { width: Math.max(...at.map(({ x }) => x)) + NODE + 0.5, height: Math.max(...at.map(({ y }) => y)) + ROW };
      const [drawn, paths] = edges(this.nodes, at, size);
      this.paths = paths;
      this.chips = this.nodes.map((node, i) => this.chip(node, i, at[i]));
      this.box = el("div", { class: "tree", dir: "ltr", role: "group", style: { width: `${size.width}rem`, height: `${size.height}rem` },
        "aria-label": "Hypotheses: left and right go to parent and continuation, up and down within a step" },
        drawn, this.numbers(), this.chips);
      this.box.addEventListener("keydown", (event) => this.key(event));
      this.mark(new Set(pathTo(this.nodes, this.winner)), "winner");
    }

    numbers() {
      const steps = this.nodes.at(-1).step;
      return Array.from({ length: steps }, (_, i) => el("span", { class: "number", "aria-hidden": "true", style: { left: `${i * COLUMN}rem` } }, `step ${i + 1}`));
    }

    chip(node, i, { x, y }) {
      return page.token(node, {
        class: `node ${STATUSES[node.status]}`, style: { left: `${x}rem`, top: `${y}rem` }, tabindex: "-1", title: page.tokenText(node),
        "aria-label": `${page.tokenText(node)}, step ${node.step}, ${i === this.winner ? "the winner" : STATUSES[node.status]}`,
        onclick: () => this.take(i), onfocus: () => this.take(i),
      });
    }

    mark(numbers, name) {
      this.chips.forEach((chip, i) => chip.classList.toggle(name, numbers.has(i)));
      this.paths.forEach((path, i) => path?.classList.toggle(name, numbers.has(i)));
    }

    take(i) {
      this.chips[this.taken ?? i].tabIndex = -1;
      this.taken = i;
      this.chips[i].tabIndex = 0;
      this.mark(new Set(pathTo(this.nodes, i)), "taken");
      this.chips.forEach((chip, at) => (at === i ? chip.setAttribute("aria-current", "true") : chip.removeAttribute("aria-current")));
      this.choose(i);
    }

    key(event) {
      const at = this.chips.indexOf(event.target.closest(".node"));
      const go = { ArrowLeft: () => this.nodes[at].parent, ArrowRight: () => this.child(at), ArrowUp: () => this.neighbour(at, -1),
        ArrowDown: () => this.neighbour(at, 1), Home: () => pathTo(this.nodes, at)[0], End: () => this.winner }[event.key];
      if (at < 0 || !go || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      this.chips[go() ?? at].focus();
    }

    // The likeliest continuation; on the winner's path, the one that won.
    child(at) {
      const children = this.nodes.map((node, i) => (node.parent === at ? i : -1)).filter((i) => i >= 0);
      return children.find((i) => this.chips[i].classList.contains("winner")) ?? children[0];
    }

    neighbour(at, by) {
      return this.nodes[at + by]?.step === this.nodes[at].step ? at + by : at;
    }
  }

  // ---- one hypothesis in figures ----

  function figures(at) {
    const { nodes } = search();
    const node = nodes[at];
    const score = node.score ?? (at === search().winner ? search().score : null);
    return [el("p", {}, `Hypothesis of ${node.step} ${node.step === 1 ? "token" : "tokens"}: `, el("bdi", { class: "quoted" }, `“${textOf(at)}”`)),
      el("p", { class: "figure" }, "Its last token ", page.token(node), ` has the log-probability ${number(node.log_prob)}, a probability of ${percent(Math.exp(node.log_prob))}. `,
        `The total is ${number(node.total)}${score === null ? "" : `, the score ${number(score)}`}.`),
      el("p", { class: "outcome" }, outcome(at))];
  }

  // ---- the same in tables ----

  const right = (x) => el("td", { class: "right" }, x);
  const table = (heads, rows, caption) =>
    el("table", {}, el("caption", { class: "hidden" }, caption),
      el("thead", {}, el("tr", {}, heads.map(([name, more]) => el("th", { scope: "col", class: more }, name)))), el("tbody", {}, rows));
  const HEADS = [["tokens", "right"], ["total", "right"], ["score", "right"]];

  function ended() {
    const { nodes, winner, score } = search();
    const scoreOf = (i) => nodes[i].score ?? (i === winner ? score : null);
    const which = nodes.map((_, i) => i).filter((i) => scoreOf(i) !== null).sort((a, b) => scoreOf(b) - scoreOf(a));
    const rows = which.map((i) =>
      el("tr", { class: i === winner ? "chosen" : null }, el("td", { class: "text", dir: "auto" }, textOf(i)),
        right(count(nodes[i].step)), right(number(nodes[i].total)), right(number(scoreOf(i))), el("td", { class: "text" }, outcome(i))));
    return page.scroller("Hypotheses that ended",
      table([["text"], ...HEADS, ["outcome"]], rows, "Hypotheses that ended, best first"));
  }

  function everything() {
    const { nodes } = search();
    const rows = nodes.map((node, i) =>
      el("tr", {}, right(count(i)), right(node.parent === null ? "" : count(node.parent)), right(count(node.step)), el("td", {}, page.token(node)),
        right(number(node.log_prob)), right(number(node.total)), el("td", { class: "text" }, outcome(i))));
    return page.scroller("Every hypothesis", table([["number", "right"], ["continues", "right"], ["step", "right"], ["token"],
      ["log-probability", "right"], ["total", "right"], ["outcome"]], rows, "Every hypothesis"));
  }

  function found(part) {
    const body = el("tbody", {});
    const show = () =>
      body.replaceChildren(...part.searches.map((each) => {
        const dropped = each.nodes.filter((node) => node.status === "dropped").length;
        return el("tr", { class: each === search() ? "chosen" : null },
          el("th", { scope: "row" }, `${each.width}${each.chosen ? ", the model's own" : ""}`), el("td", { class: "text", dir: "auto" }, each.text),
          right(number(each.total)), right(number(each.score)), right(count(each.nodes.length - dropped)), right(count(dropped)));
      }));
    page.listen("width", show);
    show();
    const heads = [["width"], ["text"], ["total", "right"], ["score", "right"], ["kept", "right"], ["dropped", "right"]];
    const drawn = table(heads, [], "What each width found");
    drawn.tBodies[0].replaceWith(body);
    return page.scroller("What each width found", drawn);
  }

  // ---- words ----

  function rule({ width, length_penalty: exponent }) {
    const step = width === 1
      ? "Greedy search keeps one hypothesis: at each step it takes the likeliest token. "
      : `This search keeps ${width} hypotheses. At each step it continues all of them by every token and looks at the best ${2 * width} continuations: of the first ${width}, those that end are set aside, and the likeliest ${width} that do not end live on. The others are dropped. `;
    const length = exponent === 0
      ? "The score of an ended hypothesis is its total."
      : `The score of an ended hypothesis is its total divided by ((5 + tokens) / 6)^${exponent}, so that long texts have no disadvantage (Wu et al. 2016).`;
    return `${step}A hypothesis's total is the sum of the log-probabilities of its tokens. ${length}`;
  }

  const legend = () =>
    el("p", { class: "legend small muted" }, ["winner", "kept", "ended", "dropped"].map((name) =>
      el("span", {}, el("span", { class: `token node ${name === "winner" ? "kept winner" : name}`, "aria-hidden": "true" }, "abc"),
        { winner: " the winner's path", kept: " kept", ended: " ended", dropped: " dropped" }[name])));

  page.section({
    id: "search",
    title: "The search",
    lead: "Every text that the search began, the ones that it dropped, and why they lost.",
    when: (part) => part.searches.length > 0,
    build(root, part) {
      const [explained, tree, lists] = [el("p", {}), el("div", {}), el("div", {})];
      const panel = el("div", { class: "panel", role: "status" });
      function show() {
        explained.textContent = rule(search());
        const drawn = new Tree(search(), (i) => panel.replaceChildren(...figures(i)));
        tree.replaceChildren(page.scroller("The tree of hypotheses", drawn.box));
        drawn.take(search().winner);
        lists.replaceChildren(el("h3", {}, "What ended"), ended(),
          page.more(`All ${count(search().nodes.length)} hypotheses as a table`, (box) => box.append(everything())));
      }
      const widths = page.choice("Width of the beam", part.searches.map(({ width }) => [width, String(width)]), search().width, (width) => page.set({ width }));
      root.append(el("div", { class: "controls" }, widths), explained, legend(), el("p", { class: "small muted" }, "Choose a box, with a click or the arrow keys, to see its outcome. The tree scrolls sideways."), tree, panel, lists, el("h3", {}, "What each width found"), found(part));
      show();
      page.listen("width", () => {
        widths.choose(search().width);
        show();
        page.announce(`Width ${search().width} found: ${search().text}`);
      });
    },
  });
})();
