// The decoder, one token of each hypothesis at a time. The causal mask is the cache: it holds no later token.

// The keys and values of every layer's cross-attention, which all steps share.
function crossKeys(model, memory) {
  return Array.from({ length: model.settings.decoder_layers }, (_, layer) => {
    const name = `decoder.blocks.${layer}.cross_attention`;
    const [keys, values] = ["key", "value"].map((part) => rowsOf(project(model, `${name}.${part}`, memory), keyWidth(model)));
    return { keys, values };
  });
}

// Read the next token of several rows: {token, position, cache}. Returns the log-probabilities of the token after it and
// the row's new cache. A cache is never changed, so hypotheses can share one.
function step(model, cross, rows, watch) {
  const { settings, weights } = model, width = keyWidth(model);
  const positions = rows.map((row) => row.position), caches = rows.map(() => []);
  let x = embed(model, "target", rows.map((row) => row.token), positions);
  for (let layer = 0; layer < settings.decoder_layers; layer++) {
    const block = `decoder.blocks.${layer}`, own = `${block}.self_attention`, other = `${block}.cross_attention`;
    x = residual(model, `${block}.self_residual`, x, (input) => {
      const keys = rowsOf(projectRotated(model, `${own}.key`, input, positions), width);
      const values = rowsOf(project(model, `${own}.value`, input), width);
      rows.forEach(({ cache }, row) => {
        const past = cache?.[layer] ?? { keys: [], values: [] };
        caches[row].push({ keys: [...past.keys, keys[row]], values: [...past.values, values[row]] });
      });
      return attend(model, own, projectRotated(model, `${own}.query`, input, positions), (row) => caches[row][layer], watch);
    });
    x = residual(model, `${block}.cross_residual`, x, (input) =>
      attend(model, other, project(model, `${other}.query`, input), () => cross[layer], watch));
    x = residual(model, `${block}.feed_residual`, x, (input) => feedForward(model, `${block}.feed_forward`, input));
  }
  const hidden = settings.final_norm ? norm(model, "decoder.final_norm", x) : x;
  const logits = linear(hidden, weights.output, weights.output_bias);
  return rowsOf(logits, weights.output.shape[0]).map((row, number) => ({ logProbs: logSoftmax(row), cache: caches[number] }));
}

function logSoftmax(logits) {
  let largest = -Infinity, sum = 0;
  for (const logit of logits) largest = Math.max(largest, logit);
  for (const logit of logits) sum += Math.exp(logit - largest);
  return logits.map((logit) => logit - largest - Math.log(sum));
}
