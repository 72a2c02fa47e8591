// Small figures that sections share: bars, pictures of many numbers on a canvas, grids of cells, words.
(() => {
  const { el, number } = page;
  const SHADES = 64; // on each side of zero
  let shades = null; // until the colours change

  // ---- words ----

  // The words of a side as [{text, tokens}], where tokens are places in the stack.
  page.wordsOf = (stack) =>
    stack.words.map((text, word) => ({
      text,
      tokens: stack.tokens.map((token, place) => (token.word === word ? place : -1)).filter((place) => place >= 0),
    }));

  // The words that were written. The decoder has not read the last token, so its last word can lack an end.
  page.writtenWords = (part) => {
    const words = [];
    for (const { token } of part.steps)
      if (token.word !== null) words[token.word] = (words[token.word] ?? "") + token.text;
    const read = page.stack("decoder")?.words ?? [];
    const whole = part.steps.at(-1)?.token.word === null ? read.length : read.length - 1;
    return words.map((text, word) => (word < whole ? read[word] : text.replaceAll("▁", " ").trim()));
  };

  page.word = (text, attributes = {}) => el("bdi", { class: "word", ...attributes }, text);

  // ---- names of places in a model ----

  const KINDS = { self_attention: "self-attention", cross_attention: "cross-attention", feed_forward: "feed-forward" };
  page.kindName = (kind) => KINDS[kind] ?? kind.replaceAll("_", "-");

  // ---- bars ----

  // A number with a bar beside it. Signed bars start in the middle: to the right above zero, to the left below.
  page.bar = (x, max, { signed = true, text = number(x) } = {}) => {
    const share = max > 0 ? Math.min(1, Math.abs(x) / max) : 0;
    const start = !signed ? 0 : x < 0 ? 50 * (1 - share) : 50;
    const fill = el("span", {
      class: x < 0 ? "fill negative" : "fill",
      style: { "inset-inline-start": `${start}%`, width: `${share * (signed ? 50 : 100)}%` },
    });
    return el("span", { class: "bar-line" },
      el("span", { class: signed ? "bar signed" : "bar", "aria-hidden": "true" }, fill), el("span", { class: "figure" }, text));
  };

  // ---- pictures ----

  // Paints value(row, column) as one pixel each; style-two.css makes pixels larger. Masked values (-Infinity) stay empty.
  // Cells of one shade are painted together, because setting a colour costs far more than a pixel.
  page.paint = (canvas, rows, columns, value, max) => {
    canvas.width = columns;
    canvas.height = rows;
    canvas.classList.add("picture");
    canvas.repaint = () => paint(canvas, rows, columns, value, max);
    canvas.repaint();
    return canvas;
  };

  function paint(canvas, rows, columns, value, max) {
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, columns, rows);
    const colours = palette();
    const cells = colours.map(() => []);
    for (let i = 0; i < rows * columns; i++) {
      const x = value(Math.floor(i / columns), i % columns);
      if (Number.isFinite(x)) cells[SHADES + Math.round(SHADES * (max > 0 ? Math.max(-1, Math.min(1, x / max)) : 0))].push(i);
    }
    cells.forEach((each, shade) => {
      context.fillStyle = colours[shade];
      each.forEach((i) => context.fillRect(i % columns, Math.floor(i / columns), 1, 1));
    });
  }

  // The colours of -1 to 1 as the browser mixes them; a canvas knows no variables of a style sheet.
  function palette() {
    if (shades) return shades;
    const probe = el("span", { hidden: true });
    document.body.append(probe);
    const styled = getComputedStyle(probe);
    shades = Array.from({ length: 2 * SHADES + 1 }, (_, i) => {
      probe.style.setProperty("color", page.heat((i - SHADES) / SHADES));
      return styled.color;
    });
    probe.remove();
    return shades;
  }

  for (const query of ["print", "(prefers-color-scheme: dark)"])
    matchMedia(query).addEventListener("change", () => {
      shades = null;
      document.querySelectorAll("canvas.picture").forEach((each) => each.repaint());
    });
})();
