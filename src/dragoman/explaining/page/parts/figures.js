// Small figures that sections share: bars, pictures of many numbers on a canvas, grids of cells, words.
(() => {
  const { el, svg, number } = page;
  const SHADES = 64; // on each side of zero
  let shades = null; // until the colours change

  // ---- words ----

  page.word = (text, attributes = {}) => el("bdi", { class: "word", ...attributes }, text);
  page.quoted = (text) => ["“", el("bdi", {}, text), "”"];

  // Which way a text runs, by its first letter.
  const RIGHT_TO_LEFT = /^[^\p{L}]*[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;
  page.directionOf = (text) => (RIGHT_TO_LEFT.test(text) ? "rtl" : "ltr");

  // One token of a stack to choose, as buttons that `mark` keeps up to date; `chosen` gives its place.
  page.tokenChoice = (label, tokens, chosen, onchoose) => {
    const chips = tokens.map((token, place) => page.token(token, { onclick: () => onchoose(place) }));
    const box = page.rove(el("div", { class: "tokens", role: "group", "aria-label": label }, chips));
    box.mark = () => chips.forEach((chip, place) => chip.setAttribute("aria-pressed", String(place === chosen())));
    box.mark();
    return box;
  };

  // ---- names of places in a model ----

  const KINDS = { self_attention: "self-attention", cross_attention: "cross-attention", feed_forward: "feed-forward" };
  page.kindName = (kind) => KINDS[kind] ?? kind.replaceAll("_", "-");

  // ---- bars ----

  // A number with a bar next to it. Signed bars start in the middle: to the right above zero, to the left below.
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

  // Whether a person moved the pointer here; browsers also report it when the page moves under a mouse at rest.
  let rest = null;
  addEventListener("pointermove", ({ clientX, clientY }) => (rest = [clientX, clientY]), true);
  page.moved = ({ clientX, clientY }) => !rest || rest[0] !== clientX || rest[1] !== clientY;

  // ---- tables of numbers ----

  page.cell = (x, more = "") => el("td", { class: `right ${more}`.trim() }, x === -Infinity ? "−∞" : number(x));
  page.heading = (...names) => el("thead", {}, el("tr", {}, names.map((name) => el("th", { scope: "col" }, name))));

  // ---- lines ----

  // Curves over equal steps. `lines` are {values, kind}, later ones on top; `ends` name the first and the last step.
  page.plot = ({ label, lines, ends, range = null }) => {
    const all = lines.flatMap(({ values }) => [...values]).filter(Number.isFinite);
    const [low, high] = range ?? [Math.min(0, ...all), Math.max(...all)];
    const place = (y) => (100 * (high - y)) / (high - low || 1);
    const path = ({ values, kind }) => {
      const points = [...values].map((y, i) => `${((100 * i) / Math.max(1, values.length - 1)).toFixed(2)},${place(y).toFixed(2)}`);
      return svg("polyline", { class: kind, points: points.join(" ") });
    };
    return el("figure", { class: "plot", role: "img", "aria-label": label },
      el("span", { class: "scale high" }, number(high)), el("span", { class: "scale low" }, number(low)),
      svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" },
        svg("line", { class: "zero", x1: 0, x2: 100, y1: place(0), y2: place(0) }), lines.map(path)),
      el("span", { class: "ends" }, ends.map((each) => el("span", {}, each))));
  };

  // ---- pictures ----

  // Paints value(row, column) as one pixel each; figures.css makes pixels larger. Masked values (-Infinity) stay empty.
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
