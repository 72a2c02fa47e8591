// From text to numbers: words, pieces and ids, and the vector of one of them that enters the first layer.
(() => {
  const { el, svg, number, count } = page;
  const TITLES = { encoder: "The source", decoder: "The target, as the decoder reads it" };
  const length = (vector) => Math.sqrt(vector.reduce((sum, each) => sum + each * each, 0));

  // Tokens grouped by word: [[word or null, [indices]], ...].
  function grouped(stack) {
    const groups = [];
    stack.tokens.forEach((token, i) => {
      const last = groups.at(-1);
      if (last && token.word !== null && last[0] === token.word) last[1].push(i);
      else groups.push([token.word, [i]]);
    });
    return groups;
  }

  function listing(stack, choose) {
    const chip = (i) => el("span", { class: "piece" },
      page.token(stack.tokens[i], { onclick: () => choose(stack, i), "data-at": `${stack.name} ${i}` }),
      el("span", { class: "id" }, String(stack.tokens[i].id)));
    const groups = grouped(stack).map(([word, indices]) =>
      el("span", { class: "group" }, el("bdi", { class: "text" }, word === null ? "symbol" : stack.words[word]),
        el("span", { class: "of-word" }, indices.map(chip))));
    const title = page.record.family === "language_model" ? "The text" : TITLES[stack.name];
    const box = el("div", { class: "groups", dir: page.directionOf(stack.words.join("")), role: "group", "aria-label": `Pieces: ${title}` }, groups);
    return [el("h3", {}, title),
      el("p", { class: "muted small" }, `${stack.words.length} words, ${stack.tokens.length} tokens. Below each token is its number in the vocabulary.`),
      page.rove(box)];
  }

  // A vector as one row of coloured cells; a click picks a feature.
  function strip(vector, max, pick) {
    const cells = Array.from(vector, (x, i) => svg("rect", { x: i, width: 1.02, height: 1, style: { fill: page.heat(x, max) } }));
    const drawn = svg("svg", { class: "strip", viewBox: `0 0 ${vector.length} 1`, preserveAspectRatio: "none", "aria-hidden": "true" }, cells);
    drawn.addEventListener("click", (event) => {
      const box = drawn.getBoundingClientRect();
      pick(Math.max(0, Math.min(vector.length - 1, Math.floor((vector.length * (event.clientX - box.left)) / box.width))));
    });
    return drawn;
  }

  // The vectors that make up the one that enters the first layer, as [name, vector] pairs.
  function vectorsOf(stack, i) {
    const row = (packed) => page.array(packed).row(i);
    const normed = page.record.settings.embedding_norm;
    const last = [normed ? "Normalised, which enters layer 0" : "Their sum, which enters layer 0", row(stack.entering)];
    if (stack.positions) return [["Embedding", row(stack.embedding)], [`Position ${i}`, row(stack.positions)], last];
    if (normed) return [["Embedding", row(stack.embedding)], last];
    return [["Embedding, which enters layer 0 as it is", row(stack.entering)]];
  }

  function sentenceOn(stack) {
    const { settings } = page.record;
    const scaled = settings.embedding_scale ? ` The row is multiplied by √d_model = √${settings.d_model} = ${number(Math.sqrt(settings.d_model))}.` : "";
    const place = stack.positions
      ? "A vector for the position is added to it, because attention by itself knows no order."
      : "Positions are rotary: nothing is added here. Attention turns queries and keys by angles that grow with the position.";
    const normed = settings.embedding_norm ? " Then a norm brings the sum to an ordinary length." : "";
    return `The embedding is the token's row of a table of ${settings.d_model} numbers a row, learned in training; the same token has the same row everywhere.${scaled} ${place}${normed}`;
  }

  // One feature of the vectors as a sum, for a reader to check.
  function checking(named) {
    const size = named[0][1].length;
    const input = el("input", { type: "number", min: 0, max: size - 1, value: 0 });
    const shown = el("output", { class: "sum" });
    const normed = page.record.settings.embedding_norm;
    function show() {
      const feature = Math.max(0, Math.min(size - 1, Math.trunc(+input.value) || 0));
      const values = named.map(([, vector]) => number(vector[feature]));
      const last = values.pop();
      const sum = values.map((value) => value.replace(/^−.*/, "($&)")).join(" + ");
      shown.textContent = values.length ? `${sum} ${normed ? "→ normalised:" : "="} ${last}` : last;
    }
    input.addEventListener("input", show);
    show();
    const pick = (feature) => {
      input.value = feature;
      show();
    };
    return [el("p", { class: "checking" }, el("label", {}, "Feature ", input), " ", shown), pick];
  }

  function everything(named) {
    const head = el("tr", {}, el("th", { scope: "col" }, "feature"), named.map(([name]) => el("th", { scope: "col", class: "right" }, name)));
    const rows = Array.from(named[0][1], (_, i) =>
      el("tr", {}, el("th", { scope: "row" }, String(i)), named.map(([, vector]) => el("td", { class: "right" }, number(vector[i])))));
    return page.scroller("All numbers of the token", el("table", {}, el("thead", {}, head), el("tbody", {}, rows)));
  }

  function unfolded(stack, i) {
    const named = vectorsOf(stack, i);
    const max = Math.max(...named.map(([, vector]) => vector.reduce((most, x) => Math.max(most, Math.abs(x)), 0)));
    const [check, pick] = checking(named);
    const strips = named.map(([name, vector]) =>
      el("div", { class: "vector" },
        el("p", { class: "small" }, el("strong", {}, name), el("span", { class: "muted" }, ` length ${number(length(vector))}; begins `),
          el("span", { class: "figure" }, Array.from(vector.slice(0, 5), number).join(", "), " …")),
        strip(vector, max, pick)));
    const more = page.more(`All ${count(named[0][1].length)} numbers`, (box) => box.append(everything(named)));
    return [el("h4", {}, page.token(stack.tokens[i]), ` token ${count(stack.tokens[i].id)}, at position ${i}`),
      el("p", {}, sentenceOn(stack)), strips,
      el("p", { class: "muted small" }, `Blue is positive, orange negative; the strongest colour is ${number(max)}. Click a strip or type a number to check one feature.`),
      check, more];
  }

  page.section({
    id: "pieces",
    title: "From text to numbers",
    lead: "A model reads no letters: each piece of a word has a number, and each number a vector.",
    when: (part) => part.stacks.length > 0,
    build(root, part) {
      const panel = el("div", { class: "panel", role: "region", "aria-label": "The numbers of a token" });
      function choose(stack, i) {
        panel.replaceChildren(...unfolded(stack, i).flat());
        root.querySelectorAll("[data-at]").forEach((chip) =>
          chip.setAttribute("aria-pressed", String(chip.dataset.at === `${stack.name} ${i}`)));
        page.announce(`Token ${page.tokenText(stack.tokens[i])}, number ${stack.tokens[i].id}`);
      }
      root.append(...part.stacks.flatMap((stack) => listing(stack, choose)), el("h3", {}, "One token in numbers"), panel);
      const plain = part.stacks[0].tokens.findIndex((token) => !page.isSymbol(token));
      choose(part.stacks[0], Math.max(0, plain));
    },
  });
})();
