// An overview in words made from the numbers, and the path through the model as a row of links.
(() => {
  const { el, number, count, percent } = page;
  const quoted = (text) => el("bdi", { class: "quoted" }, `“${text}”`);
  const plural = (n, thing) => `${count(n)} ${thing}${n === 1 ? "" : "s"}`;
  const sum = (numbers) => numbers.reduce((total, each) => total + each, 0);

  function sentences(root, part) {
    const side = (label, text, language, more) =>
      el("div", { class: "side" }, el("p", { class: "label" }, label),
        el("p", { class: `sentence ${more}`, dir: "auto", lang: language ?? null }, text));
    const { languages, has_given_target: given } = page.record;
    if (part.source === null) return root.append(side("Text", part.target, null, "target"));
    root.append(side(page.languageName(0) ?? "Source", part.source, languages?.[0], ""),
      side((page.languageName(1) ?? "Translation") + (given ? ", given" : ""), part.target, languages?.[1], "target"));
  }

  // The steps whose tokens are in the text: a language model's last one is only a prediction.
  const written = (part) => (part.source === null ? part.steps.slice(0, -1) : part.steps);

  function reading(part) {
    const encoder = page.stack("encoder");
    const decoder = page.stack("decoder");
    const pieces = (stack) => plural(stack.tokens.length, "token");
    if (!decoder) return `The model read ${pieces(encoder)}. `;
    if (!encoder) return `A language model read ${pieces(decoder)}, and at each it said what may come next. `;
    const steps = plural(part.steps.length, "token");
    if (!page.record.has_given_target) return `The model read ${pieces(encoder)} and wrote ${steps}, one at a time. `;
    return `The model read ${pieces(encoder)}. The translation was given, ${steps} long, and the numbers say how likely the model finds it. `;
  }

  function leastCertain(part) {
    const plain = written(part).filter((step) => !page.isSymbol(step.token));
    if (!plain.length) return null;
    const step = plain.reduce((worst, each) => (each.log_prob < worst.log_prob ? each : worst));
    const word = step.token.word === null ? null : part.written[step.token.word];
    const rivals = step.candidates.filter((each) => each.id !== step.token.id).slice(0, 2);
    const shown = rivals.flatMap((each, i) => [i ? " and " : "", page.token(each), ` (${percent(Math.exp(each.log_prob))})`]);
    const verb = step.rank === 1 ? "it also considered " : `it found ${count(step.rank - 1)} likelier, `;
    return ["Its least certain token was ", page.token(step.token),
      word && word !== step.token.text.replace("▁", "") ? [" of the word ", quoted(word)] : null,
      ` with a probability of ${percent(Math.exp(step.log_prob))}; ${verb}`,
      step.rank === 1 || rivals.length === 1 ? null : "first of all ", shown, ". "];
  }

  function likelihood(part) {
    const steps = written(part);
    if (!steps.length) return null;
    const total = sum(steps.map((step) => step.log_prob));
    const mean = total / steps.length;
    return `The log-probability of the whole is ${number(total)}, or ${number(mean)} a token: as if every token had a probability of ${percent(Math.exp(mean))}. `;
  }

  // The search that found it, and the results of the other widths.
  function searching(part) {
    const chosen = part.searches.find((search) => search.chosen);
    if (!chosen) return null;
    const others = part.searches.filter((search) => search !== chosen);
    const same = others.filter((search) => search.text === chosen.text);
    const widths = (searches) => searches.map((search) => search.width).join(", ").replace(/, (\d+)$/, " and $1");
    const texts = [...new Set(others.filter((search) => search.text !== chosen.text).map((search) => search.text))];
    const found = texts.map((text) => {
      const which = others.filter((search) => search.text === text);
      return [` ${which.length > 1 ? "Widths" : "Width"} ${widths(which)} found `, quoted(text), "."];
    });
    const own = page.record.has_given_target ? ["By itself the model writes ", quoted(chosen.text), ", found by "] : ["It was found by "];
    return [...own, chosen.width === 1 ? "greedy search. " : `a beam search ${chosen.width} wide. `,
      same.length ? `${same.length > 1 ? "Widths" : "Width"} ${widths(same)} found the same.` : null, found];
  }

  function notes() {
    const { flags, unknown_words: unknown } = page.record;
    const items = Object.entries(flags).map(([flag, meaning]) => el("li", {}, el("strong", {}, flag), `: ${meaning}.`));
    if (unknown.length)
      items.push(el("li", {}, "Words that the tokenizer does not know: ", unknown.map((word, i) => [i ? ", " : "", quoted(word)]), "."));
    return items.length ? el("ul", { class: "notes" }, items) : null;
  }

  function typed(part) {
    if (!part.typed) return null;
    return el("p", {}, "It was typed as ", quoted(part.typed), ". The model read ", quoted(part.source), ", as its training text is written, and the translation has what was removed.");
  }

  function path(part) {
    const { settings } = page.record;
    const [encoder, decoder] = [page.stack("encoder"), page.stack("decoder")];
    const first = encoder ?? decoder;
    const chosen = part.searches.find((search) => search.chosen);
    const stops = [
      ["overview", "text", plural([...(part.source ?? part.target)].length, "character")],
      ["pieces", "pieces", plural(first.tokens.length, "token")],
      ["pieces", first.positions ? "embedding + position" : "embedding", `${first.tokens.length} × ${settings.d_model} numbers`],
      encoder && ["attention", "encoder", plural(encoder.layers.length, "layer")],
      decoder && ["attention", "decoder", plural(decoder.layers.length, "layer")],
      decoder && ["generation", "logits", `${count(settings.target_vocabulary)} a step`],
      chosen && ["search", "search", chosen.width === 1 ? "greedy" : `beam of ${chosen.width}`],
      chosen && ["overview", "text", plural([...part.target].length, "character")],
    ];
    const items = stops.filter(Boolean).map(([id, name, size]) =>
      el("li", {}, page.link(id, name), el("span", { class: "size" }, size)));
    return [el("h3", {}, "The path through the model"), el("ol", { class: "way" }, items)];
  }

  page.section({
    id: "overview",
    title: "What happened",
    lead: page.record.parts[0].source === null ? "A text, and what the model expected next." : "The text, its translation, and how sure the model was.",
    open: true,
    build(root, part) {
      sentences(root, part);
      if (part.copied) return root.append(el("p", {}, "This is too long to be a word, so it was copied, not translated."));
      const before = typed(part);
      if (before) root.append(before);
      root.append(el("p", { class: "story" }, reading(part), leastCertain(part), likelihood(part), searching(part)));
      const noted = notes();
      if (noted) root.append(noted);
      root.append(...path(part));
    },
  });
})();
