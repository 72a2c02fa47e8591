// The encoder (Vaswani et al. 2017, section 3.1): every token sees the whole sentence. Returns a vector for each token.

function encode(model, ids, watch) {
  const { settings } = model, positions = ids.map((_, position) => position);
  let x = embed(model, "source", ids, positions);
  for (let layer = 0; layer < settings.encoder_layers; layer++) {
    const block = `encoder.blocks.${layer}`;
    x = residual(model, `${block}.self_residual`, x, (rows) => {
      const name = `${block}.self_attention`, width = keyWidth(model);
      const keys = rowsOf(projectRotated(model, `${name}.key`, rows, positions), width);
      const values = rowsOf(project(model, `${name}.value`, rows), width);
      return attend(model, name, projectRotated(model, `${name}.query`, rows, positions), () => ({ keys, values }), watch);
    });
    x = residual(model, `${block}.feed_residual`, x, (rows) => feedForward(model, `${block}.feed_forward`, rows));
  }
  return settings.final_norm ? norm(model, "encoder.final_norm", x) : x;
}

// Rows of the table, times sqrt(d_model), and positions unless attention rotates (sections 3.4 and 3.5).
function embed(model, side, ids, positions) {
  const { settings, weights } = model, width = settings.d_model;
  const table = (weights[`${side}_embedding.weight`] ?? weights.output).data;
  const scale = settings.embedding_scale ? Math.sqrt(width) : 1;
  const x = new Float32Array(ids.length * width);
  ids.forEach((id, row) => {
    const vector = positionVector(model, side, positions[row]);
    for (let i = 0; i < width; i++) x[row * width + i] = Math.fround(table[id * width + i] * scale) + (vector ? vector[i] : 0);
  });
  return settings.embedding_norm ? norm(model, `${side}_embedding.norm`, x) : x;
}
