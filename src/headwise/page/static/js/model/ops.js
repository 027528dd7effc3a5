/** Operations on matrices of 32-bit floats; a matrix has one row for each position or hypothesis. */

import { Tensor } from "../tensor.js";

/**
 * X Wᵀ + b: x (rows, n), weight (m, n), bias (m,); returns (rows, m). Sums are in 64 bits.
 * @param {Tensor} x
 * @param {Tensor} weight
 * @param {Tensor} [bias]
 */
export function linear(x, weight, bias) {
  const [rows, n] = x.shape;
  const m = weight.shape[0];
  const result = new Float32Array(rows * m);
  let row = 0;
  for (; row + 4 <= rows; row += 4) fourRows(x.data, weight.data, result, row, n, m);
  for (; row < rows; row++) oneRow(x.data, weight.data, result, row, n, m);
  if (bias) for (let i = 0; i < result.length; i++) result[i] += bias.data[i % m];
  return new Tensor([rows, m], result);
}

/**
 * Four rows of a product and two columns at once, so that each number that is read serves several multiplications.
 * @param {Float32Array} x
 * @param {Float32Array} weight
 * @param {Float32Array} result
 * @param {number} row
 * @param {number} n
 * @param {number} m
 */
function fourRows(x, weight, result, row, n, m) {
  const a = row * n;
  const b = a + n;
  const c = b + n;
  const d = c + n;
  for (let column = 0; column < m; column += 2) {
    const first = column * n;
    const second = column + 1 < m ? first + n : first; // the last column of an odd number is computed twice
    let a1 = 0;
    let b1 = 0;
    let c1 = 0;
    let d1 = 0;
    let a2 = 0;
    let b2 = 0;
    let c2 = 0;
    let d2 = 0;
    for (let i = 0; i < n; i++) {
      const w1 = weight[first + i];
      const w2 = weight[second + i];
      const xa = x[a + i];
      const xb = x[b + i];
      const xc = x[c + i];
      const xd = x[d + i];
      a1 += w1 * xa;
      b1 += w1 * xb;
      c1 += w1 * xc;
      d1 += w1 * xd;
      a2 += w2 * xa;
      b2 += w2 * xb;
      c2 += w2 * xc;
      d2 += w2 * xd;
    }
    const place = row * m + column;
    result[place] = a1;
    result[place + m] = b1;
    result[place + 2 * m] = c1;
    result[place + 3 * m] = d1;
    if (second === first) continue;
    result[place + 1] = a2;
    result[place + m + 1] = b2;
    result[place + 2 * m + 1] = c2;
    result[place + 3 * m + 1] = d2;
  }
}

/**
 * One row of a product, four columns at once.
 * @param {Float32Array} x
 * @param {Float32Array} weight
 * @param {Float32Array} result
 * @param {number} row
 * @param {number} n
 * @param {number} m
 */
function oneRow(x, weight, result, row, n, m) {
  const first = row * n;
  for (let column = 0; column < m; column++) {
    const start = column * n;
    let [even, odd] = [0, 0];
    let i = 0;
    for (; i + 1 < n; i += 2) {
      even += weight[start + i] * x[first + i];
      odd += weight[start + i + 1] * x[first + i + 1];
    }
    if (i < n) even += weight[start + i] * x[first + i];
    result[row * m + column] = even + odd;
  }
}

/** x + y. @param {Tensor} x @param {Tensor} y */
export function add(x, y) {
  return new Tensor(
    x.shape,
    x.data.map((value, index) => value + y.data[index]),
  );
}

/**
 * Layer normalization, γ (x − mean) / √(σ² + ε) + β, or x / √(mean x² + ε) · γ where `rms`.
 * @param {Tensor} x
 * @param {{ weight: Tensor, bias?: Tensor }} parameters
 * @param {number} epsilon
 * @param {boolean} rms
 */
export function normalize(x, { weight, bias }, epsilon, rms) {
  const [rows, n] = x.shape;
  const result = new Float32Array(rows * n);
  for (let row = 0; row < rows; row++) {
    const values = x.data.subarray(row * n, (row + 1) * n);
    let [mean, variance] = [0, 0];
    if (!rms) for (const value of values) mean += value / n;
    for (const value of values) variance += (value - mean) ** 2 / n;
    const scale = 1 / Math.sqrt(variance + epsilon);
    for (let i = 0; i < n; i++)
      result[row * n + i] = (values[i] - mean) * scale * weight.data[i] + (bias?.data[i] ?? 0);
  }
  return new Tensor(x.shape, result);
}

/** Replace scores by softmax(scores). @param {Float32Array} scores */
export function softmax(scores) {
  let [highest, sum] = [Number.NEGATIVE_INFINITY, 0];
  for (const score of scores) highest = Math.max(highest, score);
  for (let i = 0; i < scores.length; i++) {
    scores[i] = Math.exp(scores[i] - highest);
    sum += scores[i];
  }
  for (let i = 0; i < scores.length; i++) scores[i] /= sum;
}

/** Replace each row by log softmax(row). @param {Tensor} logits */
export function logSoftmax({ shape: [rows, n], data }) {
  for (let row = 0; row < rows; row++) {
    const values = data.subarray(row * n, (row + 1) * n);
    let [highest, sum] = [Number.NEGATIVE_INFINITY, 0];
    for (const value of values) highest = Math.max(highest, value);
    for (const value of values) sum += Math.exp(value - highest);
    const shift = highest + Math.log(sum);
    for (let i = 0; i < n; i++) values[i] -= shift;
  }
}

/**
 * The places of the largest numbers, largest first; of equal ones, the first. −∞ isn't among them.
 * @param {Float32Array} values
 * @param {number} count
 */
export function largest(values, count) {
  /** @type {number[]} */
  const places = [];
  let threshold = Number.NEGATIVE_INFINITY;
  for (let place = 0; place < values.length; place++) {
    if (!(values[place] > threshold)) continue;
    let rank = places.length;
    while (rank > 0 && values[places[rank - 1]] < values[place]) rank--;
    places.splice(rank, 0, place);
    if (places.length > count) places.pop();
    if (places.length === count) threshold = values[places[count - 1]];
  }
  return places;
}

/** The activations of feed-forward networks, by their names in the configuration. */
export const ACTIVATIONS = {
  relu: (/** @type {number} */ x) => Math.max(0, x),
  gelu: (/** @type {number} */ x) => (x * (1 + erf(x / Math.SQRT2))) / 2,
  gelu_tanh: (/** @type {number} */ x) =>
    (x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)))) / 2,
  silu: (/** @type {number} */ x) => x / (1 + Math.exp(-x)),
};

/**
 * The error function: its Taylor series near 0, else 1 − erfc by a continued fraction (Abramowitz & Stegun 7.1.5,
 * 7.1.14).
 * @param {number} x
 */
function erf(x) {
  const size = Math.abs(x);
  if (size > 6) return Math.sign(x);
  if (size < 2.5) {
    let [term, sum] = [x, x];
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
      term *= (-x * x) / n;
      sum += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * sum;
  }
  let fraction = size;
  for (let n = 40; n > 0; n--) fraction = size + n / 2 / fraction;
  return Math.sign(x) * (1 - Math.exp(-size * size) / (Math.sqrt(Math.PI) * fraction));
}
