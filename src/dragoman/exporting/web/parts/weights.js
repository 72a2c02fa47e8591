// The weights of a model from safetensors, and what every layer computes with them. Rows of numbers are Float32Arrays.

// A matrix of integers becomes float32 as in Dragoman: each number times the scale of its row, rounded.
function readWeights(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const size = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + size)));
  const numbers = ({ dtype, data_offsets: [first, last] }) => {
    const part = bytes.slice(8 + size + first, 8 + size + last).buffer;
    return dtype === "I8" ? new Int8Array(part) : new Float32Array(part);
  };
  const weights = {};
  for (const [name, facts] of Object.entries(header)) {
    if (name === "__metadata__" || name.endsWith(".scale")) continue;
    const data = Float32Array.from(numbers(facts)), scale = header[`${name}.scale`], width = facts.shape[1];
    if (scale)
      numbers(scale).forEach((factor, row) => {
        for (let i = row * width; i < (row + 1) * width; i++) data[i] *= factor;
      });
    weights[name] = { data, shape: facts.shape };
  }
  return weights;
}

// x W^T + b for rows of x. Four rows by two outputs at a time: a number that is loaded once is used in several sums.
function linear(x, { data: w, shape: [outputs, inputs] }, bias) {
  const rows = x.length / inputs, fours = rows - (rows % 4), twos = outputs - (outputs % 2);
  const y = new Float32Array(rows * outputs);
  for (let row = 0; row < fours; row += 4)
    for (let output = 0; output < twos; output += 2) four(x, row, w, output, inputs, y, outputs);
  for (let row = 0; row < rows; row++)
    for (let output = row < fours ? twos : 0; output < outputs; output++)
      y[row * outputs + output] = dot(x, row * inputs, w, output * inputs, inputs);
  if (bias) for (let i = 0; i < y.length; i++) y[i] += bias.data[i % outputs];
  return y;
}

function four(x, row, w, output, inputs, y, outputs) {
  const p = row * inputs, q = p + inputs, r = q + inputs, s = r + inputs, u = output * inputs, v = u + inputs;
  let a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
  for (let i = 0; i < inputs; i++) {
    const left = w[u + i], right = w[v + i];
    a += x[p + i] * left; b += x[q + i] * left; c += x[r + i] * left; d += x[s + i] * left;
    e += x[p + i] * right; f += x[q + i] * right; g += x[r + i] * right; h += x[s + i] * right;
  }
  const at = row * outputs + output;
  y[at] = a; y[at + outputs] = b; y[at + 2 * outputs] = c; y[at + 3 * outputs] = d;
  y[at + 1] = e; y[at + outputs + 1] = f; y[at + 2 * outputs + 1] = g; y[at + 3 * outputs + 1] = h;
}

function dot(x, from, y, at, width) {
  let a = 0, b = 0, i = 0;
  for (; i + 1 < width; i += 2) {
    a += x[from + i] * y[at + i];
    b += x[from + i + 1] * y[at + i + 1];
  }
  return i < width ? a + b + x[from + i] * y[at + i] : a + b;
}

const project = ({ weights }, name, x) => linear(x, weights[`${name}.weight`], weights[`${name}.bias`]);
const add = (x, y) => x.map((number, i) => number + y[i]);

// LayerNorm, or RMSNorm, which subtracts no mean.
function norm({ weights, settings }, name, x) {
  const weight = weights[`${name}.weight`].data, bias = weights[`${name}.bias`]?.data, width = weight.length;
  const y = new Float32Array(x.length);
  for (let from = 0; from < x.length; from += width) {
    let mean = 0, square = 0;
    if (settings.norm === "layer") for (let i = 0; i < width; i++) mean += x[from + i] / width;
    for (let i = 0; i < width; i++) square += (x[from + i] - mean) ** 2 / width;
    const factor = 1 / Math.sqrt(square + settings.norm_epsilon);
    for (let i = 0; i < width; i++) y[from + i] = (x[from + i] - mean) * factor * weight[i] + (bias ? bias[i] : 0);
  }
  return y;
}

// norm(x + sublayer(x)) in the paper; x + sublayer(norm(x)) in a pre-norm model.
function residual(model, name, x, sublayer) {
  if (model.settings.norm_position === "pre") return add(x, sublayer(norm(model, `${name}.norm`, x)));
  return norm(model, `${name}.norm`, add(x, sublayer(x)));
}

// The error function as a series of positive terms, so that it is exact to float32 and beyond.
function erf(x) {
  if (Math.abs(x) > 5) return Math.sign(x);
  let sum = 0;
  for (let n = 0, term = x; Math.abs(term) > 1e-17; n++, term *= (2 * x * x) / (2 * n + 1)) sum += term;
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

const silu = (x) => x / (1 + Math.exp(-x)), gelu = (x) => (x * (1 + erf(x / Math.SQRT2))) / 2;
const ACTIVATIONS = { relu: (x) => Math.max(0, x), gelu, silu, swiglu: silu, geglu: gelu };

function feedForward(model, name, x) {
  const f = ACTIVATIONS[model.settings.activation], inner = project(model, `${name}.inner`, x);
  if (!model.weights[`${name}.gate.weight`]) return project(model, `${name}.outer`, inner.map(f));
  return project(model, `${name}.outer`, project(model, `${name}.gate`, x).map((gate, i) => f(gate) * inner[i]));
}
