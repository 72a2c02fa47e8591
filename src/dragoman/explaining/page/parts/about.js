// About the page: its origin, and the limits of its numbers.
(() => {
  const { el, count } = page;
  const { record } = page;
  const { settings } = record;

  const FAMILIES = { encoder_decoder: "a Transformer with an encoder and a decoder", language_model: "a language model, a decoder alone" };
  const KEYS = [
    ["Tab", "goes to the next control. Rows of tokens and the tree are one stop each."],
    ["← →", "in a row of tokens go to the next one; elsewhere in “Word by word”, to the next step."],
    ["← → ↑ ↓", "move in the tree of the search, and in the cells of tables of weights."],
    ["Home, End", "go to the first and to the last."],
    ["Enter, Space", "fold and unfold a section, and choose what has the focus."],
  ];

  function made() {
    const languages = record.languages ? `, from ${page.languageName(0)} to ${page.languageName(1)}` : "";
    const family = FAMILIES[record.family] ?? record.family.replaceAll("_", " ");
    return [el("p", {}, `Dragoman ${record.version} recorded one pass of the model through the text in float32 on a processor, and made this page of it. Everything on it is in this one file: it loads nothing and sends nothing.`),
      el("p", {}, `The model is ${family}${languages}, with ${count(record.weight_count)} weights. It is in `, el("bdi", { class: "mono" }, record.model), ".")];
  }

  function architecture() {
    const rows = Object.entries(settings).map(([name, value]) =>
      el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, Number.isInteger(value) ? count(value) : String(value))));
    return page.more("All settings of the model", (box) =>
      box.append(page.scroller("Settings of the model", el("table", {}, el("caption", { class: "hidden" }, "Settings of the model"), el("tbody", {}, rows)))));
  }

  function says(part) {
    const contributions = part.contributions
      ? el("li", {}, page.link("why", "What supports a word"), " is an approximation: a text without a word is unlike those that the model was trained on, and two words that say the same hide each other.")
      : null;
    return el("ul", {},
      el("li", {}, page.link("attention", "Attention"), " is the way in which tokens get at what other tokens hold. Each weight says how much of a token's value was mixed in, in one head of one layer."),
      el("li", {}, "A weight does not say why a word was chosen. By that layer each vector holds much of its neighbours, values differ in length, and later layers can undo what a head mixed in. Very different weights can give the same output (Jain and Wallace 2019)."),
      contributions,
      el("li", {}, page.link("generation", "Probabilities"), " are the model's own. They say how sure it is, not whether it is right."),
      part.searches.length ? el("li", {}, page.link("search", "The search"), " looks at few of all possible texts: a likelier one can exist that no width found.") : null);
  }

  const WORDS = [
    ["token", "a word, a piece of a word or a mark: what the model reads and writes one at a time"],
    ["logit", "the model's number for a token, before all of them are turned into probabilities"],
    ["log-probability", "the natural logarithm of a probability: 0 is certain, and less is less likely. Its unit is the nat: one nat less divides the probability by 2.7"],
    ["temperature", "what logits are divided by: below 1 the likeliest tokens gain, above 1 the others do"],
    ["hypothesis", "a beginning of a translation that a search considers", "search"],
    ["beam", "the hypotheses that a search keeps at each step; its width says how many", "search"],
    ["alignment error rate", "how far links between words are from those of a person: 0 is perfect, 1 has none right", "alignment"],
  ];

  // A glossary; the terms of searches and alignments only if there are any.
  function words(part) {
    const there = { search: part.searches.length > 0, alignment: part.alignment !== null };
    const shown = WORDS.filter(([, , of]) => !of || there[of]);
    return el("dl", { class: "words-said" }, shown.map(([word, meaning]) => [el("dt", {}, word), el("dd", {}, `${meaning}.`)]));
  }

  const keys = () =>
    el("table", { class: "keys" }, el("caption", { class: "hidden" }, "Keys"),
      el("tbody", {}, KEYS.map(([key, does]) => el("tr", {}, el("th", { scope: "row" }, key), el("td", {}, does)))));

  page.section({
    id: "about",
    title: "About this page",
    lead: "How it was made, what its numbers say, and what they do not say.",
    build(root, part) {
      root.append(...made(), architecture(),
        el("h3", {}, "What attention says, and what it does not"), says(part),
        el("h3", {}, "Numbers"),
        el("p", {}, "Numbers are rounded to four digits and shares to one decimal, or more where one would say nothing. The page carries each recorded number with a relative error of at most 2⁻¹⁶, about 0.0015 %, and computes with those. Log-probabilities are natural logarithms."),
        el("p", {}, "Every number in full, as JSON, is written by ", el("code", {}, "dragoman explain MODEL TEXT --format json"), "."),
        el("p", {}, "Steps count from 1. Layers, heads and tokens count from 0, as in the program. What you choose in one section, such as a step or a layer, is chosen on the whole page."),
        el("h3", {}, "Words"), words(part),
        el("h3", {}, "Keys"), keys(),
        el("p", {}, "Printing shows the sections that are unfolded. ", el("button", { type: "button", onclick: page.openAll }, "Unfold all sections")));
    },
  });
})();
