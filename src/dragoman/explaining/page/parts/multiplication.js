// One cell of an attention, computed on the page from the recorded queries, keys and values:
// softmax(Q K^T / sqrt(d_k)) V for one query (Vaswani et al. 2017, eq. 1), number by number.
(() => {
  const { el, number, cell, heading } = page;
  const FEATURES = 6; // shown of a head's output before the reader asks for all
  const KEYS = 24; // shown of a softmax over more than MOST keys
  const MOST = 60;
  const STRONGEST = 12; // products of a projection that are shown before the reader asks for all

  // The numbers of an attention, for head `head`. Each key head serves H / G query heads.
  page.headOf = (attention, head) => {
    const [query, key, value] = [attention.query, attention.key, attention.value].map(page.array);
    const [products, weights] = [attention.products, attention.weights].map(page.array);
    const [heads, queries, width] = query.shape;
    const [groups, keys] = key.shape;
    const served = Math.floor((head * groups) / heads);
    return {
      queries, keys, width, heads, groups, served, attention, head,
      visible: (t, s) => !attention.causal || s <= t,
      query: (t) => query.row(head, t),
      key: (s) => key.row(served, s),
      value: (s) => value.row(served, s),
      product: (t, s) => products.at(head, t, s),
      weight: (t, s) => weights.at(head, t, s),
    };
  };

  const sum = (numbers) => numbers.reduce((total, each) => total + each, 0);
  const dot = (a, b) => a.reduce((total, each, i) => total + each * b[i], 0);

  // The softmax of one query's row, with every number on the way.
  page.softmaxRow = (of, t) => {
    const score = Array.from({ length: of.keys }, (_, s) =>
      of.visible(t, s) ? dot(of.query(t), of.key(s)) / Math.sqrt(of.width) : -Infinity);
    const max = Math.max(...score);
    const exponential = score.map((each) => Math.exp(each - max));
    const total = sum(exponential);
    return { score, max, exponential, total, weight: exponential.map((each) => each / total) };
  };

  // The arithmetic of one cell, as steps of a list. `labels` are {query, keys}: functions that return new elements.
  page.multiplication = (of, t, s, labels, recordedOutput) => {
    const row = page.softmaxRow(of, t);
    return el("ol", { class: "steps" },
      el("li", {}, products(of, t, s, labels)),
      el("li", {}, scaled(of, t, s)),
      el("li", {}, masked(of, t, s)),
      el("li", {}, softmax(of, t, s, row, labels)),
      el("li", {}, mix(of, t, s, row, labels, recordedOutput)));
  };

  // ---- 1: the products of features ----

  function products(of, t, s, labels) {
    const [query, key] = [of.query(t), of.key(s)];
    const terms = [...query].map((each, i) => each * key[i]);
    const largest = Math.max(...terms.map(Math.abs));
    const rows = terms.map((term, i) =>
      el("tr", {}, el("th", { scope: "row" }, String(i)), cell(query[i]), cell(key[i]), el("td", {}, page.bar(term, largest))));
    return [
      el("h4", {}, "Multiply query and key, feature by feature"),
      el("p", {}, `The query and the key have ${of.width} features each. Where both are large and of one sign, the product is large.`, shared(of)),
      page.scroller("Products of the features",
        el("table", { class: "numbers products" },
          heading("feature", ["query ", labels.query()], ["key ", labels.key(s)], "query × key"),
          el("tbody", {}, rows),
          el("tfoot", {}, el("tr", {}, el("th", { scope: "row", colspan: "3" }, "sum of the products, q·k"), el("td", { class: "result sum" }, number(sum(terms))))))),
    ];
  }

  const shared = (of) =>
    of.groups === of.heads ? "" : ` This model has fewer keys than queries: head ${of.head} reads the keys and values of key head ${of.served}, which ${of.heads / of.groups} heads share.`;

  // ---- 2 and 3: scale and mask ----

  function scaled(of, t, s) {
    const product = dot(of.query(t), of.key(s));
    const root = Math.sqrt(of.width);
    return [
      el("h4", {}, "Divide by the root of the number of features"),
      el("p", {}, "Sums over many features are large, and a softmax of large numbers sees only the largest. So the sum is divided by √", el("i", {}, "d"), el("sub", {}, "k"), ` = √${of.width}.`),
      el("p", { class: "equation" }, `${number(product)} ÷ ${number(root)} = `, el("b", { class: "result product" }, number(product / root)),
        el("span", { class: "muted" }, " recorded: ", el("span", { class: "recorded product" }, number(of.product(t, s))))),
    ];
  }

  function masked(of, t, s) {
    const says = !of.attention.causal
      ? "Nothing is hidden in this attention: every query sees every key."
      : of.visible(t, s)
        ? `A decoder may not look ahead: token ${t} sees tokens 0 to ${t}. Token ${s} is one of them, so the product stays.`
        : `A decoder may not look ahead: token ${t} sees tokens 0 to ${t}. Token ${s} comes later, so the mask puts −∞ in place of the product, and the weight becomes 0.`;
    return [el("h4", {}, "Apply the mask"), el("p", { class: of.visible(t, s) ? "mask" : "mask hidden-key" }, says)];
  }

  // ---- 4: softmax ----

  function softmax(of, t, s, row, labels) {
    const chosen = shownKeys(row.weight, s);
    const rest = row.weight.map((_, key) => key).filter((key) => !chosen.includes(key));
    const line = (key) =>
      el("tr", { class: key === s ? "chosen" : null, "aria-current": key === s ? "true" : null },
        el("th", { scope: "row" }, labels.key(key)),
        cell(row.score[key]), cell(row.score[key] - row.max), cell(row.exponential[key]),
        el("td", {}, page.bar(row.weight[key], 1, { signed: false })), cell(of.weight(t, key), "recorded"));
    return [
      el("h4", {}, "Turn the row into weights: softmax"),
      el("p", {}, "The products of this query with all keys become weights that sum to one. The largest product is subtracted first, which changes no weight and keeps the exponentials small. Each exponential is then divided by their sum."),
      page.scroller("Softmax of the row",
        el("table", { class: "numbers softmax" },
          heading("key", "product", "minus the largest", "exponential", "weight", "recorded"),
          el("tbody", {}, chosen.map(line), rest.length ? others(row, rest) : null),
          el("tfoot", {}, el("tr", {}, el("th", { scope: "row", colspan: "3" }, "sum"), cell(row.total), cell(sum(row.weight)), el("td", {}))))),
      el("p", { class: "equation" }, `${number(row.exponential[s])} ÷ ${number(row.total)} = `, el("b", { class: "result weight" }, number(row.weight[s])),
        el("span", { class: "muted" }, " recorded: ", el("span", { class: "recorded weight" }, number(of.weight(t, s))))),
    ];
  }

  // All keys, or the strongest of very many and the chosen one.
  function shownKeys(weights, chosen) {
    const keys = weights.map((_, key) => key);
    if (keys.length <= MOST) return keys;
    const strongest = [...keys].sort((a, b) => weights[b] - weights[a]).slice(0, KEYS);
    return keys.filter((key) => key === chosen || strongest.includes(key));
  }

  const others = (row, rest) =>
    el("tr", { class: "others" }, el("th", { scope: "row" }, `${rest.length} weaker keys together`), el("td", {}), el("td", {}),
      cell(sum(rest.map((key) => row.exponential[key]))),
      el("td", {}, page.bar(sum(rest.map((key) => row.weight[key])), 1, { signed: false })), el("td", {}));

  // ---- 5: the mixture of values ----

  function mix(of, t, s, row, labels, recorded) {
    const box = el("div", {});
    const show = (features) => box.replaceChildren(mixture(of, t, s, row, labels, recorded, features));
    const all = page.check(`Show all ${of.width} features`, false, (checked) => show(checked ? of.width : FEATURES));
    show(FEATURES);
    return [
      el("h4", {}, "Mix the values"),
      el("p", {}, "Each key has a value vector. Every value is multiplied by its weight, and their sum is what this head gives for the query. The outputs of all heads are then laid side by side and projected."),
      of.width > FEATURES ? all : null,
      box,
    ];
  }

  function mixture(of, t, s, row, labels, recorded, count) {
    const features = Array.from({ length: Math.min(count, of.width) }, (_, i) => i);
    const keys = shownKeys(row.weight, s);
    const line = (key) =>
      el("tr", { class: key === s ? "chosen" : null }, el("th", { scope: "row" }, labels.key(key)), cell(row.weight[key]),
        features.map((i) => el("td", { class: "right" },
          el("span", { class: "muted small" }, `× ${number(of.value(key)[i])}`), el("br"), number(row.weight[key] * of.value(key)[i]))));
    const total = (i) => sum(row.weight.map((weight, key) => weight * of.value(key)[i]));
    return page.scroller("Weighted values and their sum",
      el("table", { class: "numbers mixture" },
        heading("key", "weight", ...features.map((i) => `feature ${i}`)),
        el("tbody", {}, keys.map(line),
          keys.length < of.keys ? el("tr", {}, el("td", { colspan: String(count + 2), class: "muted" }, `${of.keys - keys.length} weaker keys are in the sum, but not shown.`)) : null),
        el("tfoot", {},
          el("tr", {}, el("th", { scope: "row", colspan: "2" }, "sum: the head's output"), features.map((i) => cell(total(i), "result"))),
          recorded ? el("tr", {}, el("th", { scope: "row", colspan: "2" }, "recorded"), features.map((i) => cell(recorded[i], "recorded"))) : null)));
  }

  // ---- a projection: one output feature of x W^T + b ----

  // `label` makes the token's element; `recorded` is the same feature where the record has it, else null.
  page.projection = (matrix, token, feature, label, recorded) => {
    const input = page.array(matrix.input).row(token);
    const weight = page.array(matrix.weight).row(feature);
    const bias = matrix.bias ? page.array(matrix.bias).data[feature] : null;
    const terms = [...input].map((each, i) => each * weight[i]);
    const box = el("div", {});
    const show = (all) => box.replaceChildren(dotProduct(input, weight, terms, bias, all, label, recorded));
    show(false);
    const check = terms.length > STRONGEST ? page.check(`Show all ${terms.length} products`, false, show) : null;
    return el("div", {}, check, box);
  };

  function dotProduct(input, weight, terms, bias, all, label, recorded) {
    const largest = Math.max(...terms.map(Math.abs));
    const order = terms.map((_, i) => i).sort((a, b) => Math.abs(terms[b]) - Math.abs(terms[a]));
    const shown = all ? terms.map((_, i) => i) : order.slice(0, STRONGEST);
    const rest = order.slice(shown.length);
    const line = (i) => el("tr", {}, el("th", { scope: "row" }, String(i)), cell(input[i]), cell(weight[i]), el("td", {}, page.bar(terms[i], largest)));
    const total = (name, x, more) => el("tr", {}, el("th", { scope: "row", colspan: "3" }, name), cell(x, more));
    const product = sum(terms);
    return page.scroller("Products of the projection",
      el("table", { class: "numbers projection" },
        heading("feature", ["vector of ", label()], "row of the weights", "product"),
        el("tbody", {}, shown.map(line), rest.length ? total(`${rest.length} smaller products together`, sum(rest.map((i) => terms[i])), "rest") : null),
        el("tfoot", {}, total("sum of the products", product, "sum"), bias === null ? null : total("bias", bias, "bias"),
          total("output feature", product + (bias ?? 0), "result"), recorded === null ? null : total("recorded", recorded, "recorded"))));
  }
})();
