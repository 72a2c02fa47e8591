// Word by word: at each step, the candidates, and where the model looked.
(() => {
  const { el, svg, number, count, percent, state } = page;
  const predicts = (part) => part.source === null; // a language model: nothing was written, it read
  const sum = (numbers) => numbers.reduce((total, each) => total + each, 0);
  const normaliserOf = (step) => step.normalisers[page.record.temperatures.indexOf(state.temperature)];
  const logProb = (logit, step) => logit / state.temperature - normaliserOf(step);
  const atOne = () => page.record.temperatures.indexOf(1);
  // Any token's logit, also of one that is not among the candidates: its log-probability at temperature 1 and the normaliser.
  const logitOf = (step) => step.candidates.find((each) => each.id === step.token.id)?.logit ?? step.log_prob + step.normalisers[atOne()];

  // ---- stepping ----

  function stepper(part) {
    const last = part.steps.length - 1;
    const go = (step) => page.set({ step });
    // Drawn, because a font may lack the letters.
    const arrow = (points) => svg("svg", { viewBox: "0 0 16 16", class: "arrow", "aria-hidden": "true" }, svg("path", { d: points }));
    const button = (label, shown, to) => el("button", { type: "button", "aria-label": label, onclick: () => go(to()) }, shown);
    const buttons = [
      button("First step", arrow("M4 3V13M12 3L7 8L12 13"), () => 0),
      button("Step before", arrow("M10 3L5 8L10 13"), () => state.step - 1),
      button("Next step", arrow("M6 3L11 8L6 13"), () => state.step + 1),
      button("Last step", arrow("M12 3V13M4 3L9 8L4 13"), () => last),
    ];
    const slider = el("input", { type: "range", min: 0, max: last, step: 1, "aria-label": "Step", oninput: () => go(+slider.value) });
    const place = el("span", { class: "place" });
    function show() {
      slider.value = state.step;
      slider.setAttribute("aria-valuetext", `step ${state.step + 1} of ${last + 1}`);
      place.textContent = `step ${state.step + 1} of ${last + 1}`;
      buttons.forEach((each, i) => each.setAttribute("aria-disabled", String(i < 2 ? state.step === 0 : state.step === last)));
    }
    page.listen("step", show);
    show();
    return el("div", { class: "controls stepper" }, el("div", { class: "buttons" }, buttons.slice(0, 2), slider, buttons.slice(2)), place);
  }

  // The tokens, each with a bar as long as its probability; arrow keys or a click choose the step.
  function writing(part) {
    const steps = part.steps;
    const chips = steps.map((step, i) =>
      page.token(step.token, {
        onclick: () => page.set({ step: i }), onfocus: () => page.set({ step: i }),
        style: { "--p": Math.exp(step.log_prob).toFixed(4) }, class: "written",
        "aria-label": `step ${i + 1}: ${page.tokenText(step.token)}, ${percent(Math.exp(step.log_prob))}`,
      }));
    const label = predicts(part) ? "Tokens that came next" : "Tokens written";
    const box = page.rove(el("div", { class: "tokens", dir: page.directionOf(part.written.join("")), role: "group", "aria-label": label }, chips));
    function show() {
      chips.forEach((chip, i) => {
        chip.classList.toggle("later", i > state.step);
        if (i === state.step) chip.setAttribute("aria-current", "step");
        else chip.removeAttribute("aria-current");
      });
      box.stop(chips[state.step]);
    }
    page.listen("step", show);
    show();
    return box;
  }

  function total(part) {
    const line = el("p", { class: "figure" });
    function show() {
      const steps = part.steps.slice(0, state.step + 1).map((step) => step.log_prob);
      const step = part.steps[state.step];
      const last = predicts(part) && state.step === part.steps.length - 1;
      const rank = step.rank === 1 ? "the likeliest" : `the ${ordinal(step.rank)} likeliest`;
      line.replaceChildren(
        last ? "The text ends here; the likeliest next token is " : "", page.token(step.token),
        ` ${last ? "with" : `was ${rank}:`} log-probability ${number(step.log_prob)}, probability ${percent(Math.exp(step.log_prob))}. `,
        last ? "" : `Total so far ${number(sum(steps))}, or ${number(sum(steps) / steps.length)} a token.`);
    }
    page.listen("step", show);
    show();
    return line;
  }

  function ordinal(n) {
    const ending = { one: "st", two: "nd", few: "rd", other: "th" }[new Intl.PluralRules("en", { type: "ordinal" }).select(n)];
    return `${count(n)}${ending}`;
  }

  // ---- candidates ----

  function rowsOf(step) {
    const rows = step.candidates.map((each, i) => ({ rank: i + 1, token: each, logit: each.logit, written: each.id === step.token.id }));
    if (!rows.some((row) => row.written)) rows.push({ rank: step.rank, token: step.token, logit: logitOf(step), written: true });
    return rows.map((row) => ({ ...row, p: Math.exp(logProb(row.logit, step)) }));
  }

  function markOf(part) {
    if (!predicts(part)) return "written";
    return state.step === part.steps.length - 1 ? "likeliest" : "came next";
  }

  function candidate(row) {
    return el("tr", { class: row.written ? "chosen" : null },
      el("td", { class: "right muted" }, count(row.rank)),
      el("td", {}, page.token(row.token), row.written ? el("span", { class: "mark" }, ` ${markOf(page.part)}`) : null),
      el("td", { class: "share" }, el("span", { style: { width: `${(100 * row.p).toFixed(2)}%` } })),
      el("td", { class: "right", "data-p": row.token.id }, percent(row.p)));
  }

  function arithmetic(step, rows) {
    const heads = ["token", "logit", "logit / T", "− normaliser", "= log-probability", "probability"];
    const body = rows.map((row) =>
      el("tr", {}, el("td", {}, page.token(row.token)), [row.logit, row.logit / state.temperature, -normaliserOf(step), logProb(row.logit, step)].map((x) =>
        el("td", { class: "right" }, number(x))), el("td", { class: "right" }, percent(row.p))));
    return page.scroller("Arithmetic of the candidates",
      el("table", {}, el("thead", {}, el("tr", {}, heads.map((each, i) => el("th", { scope: "col", class: i ? "right" : null }, each)))), el("tbody", {}, body)));
  }

  function candidates(part) {
    const body = el("tbody", {});
    const worked = el("div", {});
    const details = el("details", {}, el("summary", {}, "The arithmetic"),
      el("p", { class: "small" }, "Probability = exp(logit / T − normaliser). The normaliser is the logarithm of the sum of exp(logit / T) over the whole vocabulary, so that all probabilities add up to one."), worked);
    function show() {
      const step = part.steps[state.step];
      const rows = rowsOf(step);
      const rest = Math.max(0, 1 - sum(rows.map((row) => row.p)));
      const others = page.record.settings.target_vocabulary - rows.length;
      body.replaceChildren(...rows.map(candidate), others > 0 ? el("tr", { class: "rest" }, el("td", {}), el("td", { class: "muted" }, `${count(others)} others`),
        el("td", { class: "share" }, el("span", { style: { width: `${(100 * rest).toFixed(2)}%` } })), el("td", { class: "right" }, percent(rest))) : "");
      worked.replaceChildren(arithmetic(step, rows));
    }
    page.listen(["step", "temperature"], show);
    show();
    const table = el("table", { class: "candidates" }, el("caption", { class: "hidden" }, "Likeliest tokens at this step"),
      el("thead", { class: "hidden" }, el("tr", {}, ["rank", "token", "share", "probability"].map((each) => el("th", { scope: "col" }, each)))), body);
    const choice = page.choice("Temperature T", page.record.temperatures.map((each) => [each, String(each)]), state.temperature, (temperature) => page.set({ temperature }));
    page.listen("temperature", () => choice.choose(state.temperature));
    return el("div", { class: "half" }, el("h3", {}, "What could come next"), el("div", { class: "controls" }, choice), table, details);
  }

  // ---- where it looked ----

  const decoder = () => page.stack("decoder");
  const looking = () => (page.stack("encoder") ? "cross_attention" : "self_attention");
  const layerNow = () => Math.min(state.layer, decoder().layers.length - 1);
  const attention = () => decoder().layers[layerNow()].attentions.find((each) => each.name === looking());

  // The weights of one query: of one head, or the mean over the heads.
  function weights(query) {
    const all = page.array(attention().weights);
    const heads = all.shape[0];
    if (state.head !== null) return all.row(Math.min(state.head, heads - 1), query);
    const rows = Array.from({ length: heads }, (_, head) => all.row(head, query));
    return Float32Array.from(rows[0], (_, i) => sum(rows.map((row) => row[i])) / heads);
  }

  function menus() {
    const choose = (changes) => page.set({ stack: "decoder", attention: looking(), layer: layerNow(), ...changes });
    const layers = page.menu("Layer", decoder().layers.map((_, i) => [i, `layer ${i}`]), layerNow(), (layer) => choose({ layer }));
    const heads = attention().weights.shape[0];
    const options = [[null, "mean of the heads"], ...Array.from({ length: heads }, (_, head) => [head, `head ${head}`])];
    const head = page.menu("Head", options, state.head, (head) => choose({ head }));
    page.listen(["layer", "head"], () => {
      layers.choose(layerNow());
      head.choose(state.head === null ? null : Math.min(state.head, heads - 1));
    });
    return el("div", { class: "controls" }, layers, head);
  }

  function looks(part) {
    const read = page.stack(attention().keys);
    const box = el("div", { class: "tokens looked", dir: page.directionOf(read.words.join("")) });
    const most = el("p", { class: "small figure" });
    function show() {
      const row = weights(state.step);
      const seen = read.tokens.slice(0, attention().causal ? state.step + 1 : undefined);
      const chips = seen.map((token, i) => page.token(token, { style: { background: page.heat(row[i]) }, title: percent(row[i]) }));
      box.replaceChildren(...chips);
      const order = seen.map((_, i) => i).sort((a, b) => row[b] - row[a]).slice(0, 3);
      most.replaceChildren("Most weight: ", ...order.flatMap((i, at) => [at ? ", " : "", page.token(read.tokens[i]), ` ${percent(row[i])}`]), ".");
    }
    page.listen(["step", "layer", "head"], show);
    show();
    const title = looking() === "cross_attention" ? "Where it looked in the source" : "Where it looked in the text so far";
    return el("div", { class: "half" }, el("h3", {}, title), menus(), box, most,
      el("p", { class: "muted small" }, "The deeper the blue, the more of that token's value was mixed in. ", page.link("about", "What this does not say")));
  }

  page.section({
    id: "generation",
    title: "Word by word",
    lead: predicts(page.record.parts[0])
      ? "After each token the model gives every token of its vocabulary a probability of coming next."
      : "At each step the model gives every token of its vocabulary a probability, and one is written.",
    open: true,
    when: (part) => part.steps.length > 0,
    build(root, part) {
      if (predicts(part))
        root.append(el("p", {}, "Nothing was written here: the model read the text, and each step shows the token that came next among those that it expected."));
      root.append(stepper(part), writing(part), total(part), el("div", { class: "halves" }, candidates(part), looks(part)));
      root.addEventListener("keydown", (event) => {
        const typing = event.target.closest("input, select, textarea, .tokens, .scroller");
        const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (by && !typing) page.set({ step: state.step + by });
      });
      page.listen("step", () => {
        const step = part.steps[state.step];
        page.announce(`Step ${state.step + 1} of ${part.steps.length}: ${page.tokenText(step.token)}, ${percent(Math.exp(step.log_prob))}`);
      });
    },
  });
})();
