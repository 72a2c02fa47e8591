// Scaled dot-product attention of several heads (Vaswani et al. 2017, section 3.2), and the rotation of positions.
const headWidth = ({ settings }) => settings.d_model / settings.heads;
const keyWidth = (model) => headWidth(model) * (model.settings.kv_heads ?? model.settings.heads);

// Attend from rows of queries, and project what they get. `visible(row)` is what a row may look at: {keys, values}.
// `watch` receives the weights of every head; a head in `model.off` adds nothing.
function attend(model, name, queries, visible, watch) {
  const { heads, kv_heads: groups = heads, d_model: size } = model.settings, width = headWidth(model);
  const mixed = new Float32Array(queries.length);
  for (let row = 0; row * size < queries.length; row++) {
    const { keys, values } = visible(row);
    for (let head = 0; head < heads; head++) {
      const from = row * size + head * width, at = Math.floor((head * groups) / heads) * width;
      const weights = softmax(keys.map((key) => dot(queries, from, key, at, width) / Math.sqrt(width)));
      watch?.(name, row, head, weights);
      if (model.off.has(`${name}.${head}`)) continue;
      values.forEach((value, s) => {
        for (let i = 0; i < width; i++) mixed[from + i] += weights[s] * value[at + i];
      });
    }
  }
  return project(model, `${name}.output`, mixed);
}

function softmax(scores) {
  const largest = Math.max(...scores), powers = scores.map((score) => Math.exp(score - largest));
  const sum = powers.reduce((before, power) => before + power, 0);
  return powers.map((power) => power / sum);
}

// The rows of a flat array, which share its memory.
const rowsOf = (x, width) => Array.from({ length: x.length / width }, (_, row) => x.subarray(row * width, (row + 1) * width));
// position / base^(2i / width), as Dragoman rounds it.
const angle = (position, i, width, base) => Math.fround(position / base ** ((2 * i) / width));

// Project rows to queries or keys, and rotate each pair of features (i, i + half a head) if positions are rotary.
function projectRotated(model, name, x, positions) {
  const y = project(model, name, x), width = headWidth(model), half = width / 2, stride = y.length / positions.length;
  if (model.settings.positions !== "rotary") return y;
  for (let i = 0; i < half; i++)
    positions.forEach((position, row) => {
      const turn = angle(position, i, width, model.settings.position_base), cosine = Math.cos(turn), sine = Math.sin(turn);
      for (let at = row * stride + i; at < (row + 1) * stride; at += width) {
        const [first, second] = [y[at], y[at + half]];
        y[at] = first * cosine - second * sine;
        y[at + half] = second * cosine + first * sine;
      }
    });
  return y;
}

// The vector that is added to the embedding of a position; null if positions rotate.
function positionVector({ settings, weights }, side, position) {
  const { d_model: width, positions, position_base: base, position_offset: offset = 0 } = settings;
  if (positions === "learned") return weights[`${side}_embedding.positions.weight`].data.subarray(position * width, (position + 1) * width);
  if (positions === "rotary") return null;
  const turn = (i) => angle(position + offset, i >> 1, width, base);
  return Float32Array.from({ length: width }, (_, i) => (i % 2 ? Math.cos(turn(i)) : Math.sin(turn(i))));
}
