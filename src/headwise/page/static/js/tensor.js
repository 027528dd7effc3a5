/** Arrays as responses have them, and functions on attention weights. */

/** An array of 32-bit floats with a shape, in row-major order. */
export class Tensor {
  /** @param {number[]} shape @param {Float32Array} data */
  constructor(shape, data) {
    this.shape = shape;
    this.data = data;
  }

  /** The subtensor at these indices of the first axes, without a copy. @param {...number} indices */
  at(...indices) {
    let [offset, size] = [0, this.data.length];
    indices.forEach((index, axis) => {
      size /= this.shape[axis];
      offset += index * size;
    });
    return new Tensor(this.shape.slice(indices.length), this.data.subarray(offset, offset + size));
  }
}

/**
 * Unpack every array in a response, in place: of the server in base64, of the browser's model as it is.
 * @param {any} value
 * @returns {any}
 */
export function unpacked(value) {
  if (typeof value !== "object" || value === null) return value;
  if (value.float32 instanceof Float32Array) return new Tensor(value.shape, value.float32);
  if (typeof value.float32 === "string") {
    const bytes = Uint8Array.from(atob(value.float32), (character) => character.charCodeAt(0));
    return new Tensor(value.shape, new Float32Array(bytes.buffer));
  }
  for (const key of Object.keys(value)) value[key] = unpacked(value[key]);
  return value;
}

/** The mean of several matrices. @param {Tensor[]} matrices */
export function mean(matrices) {
  const sum = new Float32Array(matrices[0].data.length);
  for (const { data } of matrices) for (let index = 0; index < sum.length; index++) sum[index] += data[index];
  return new Tensor(
    matrices[0].shape,
    sum.map((value) => value / matrices.length),
  );
}

/**
 * All heads of a layer, or of all layers where `layer` is null, as matrices.
 * @param {Tensor} attention (layers, heads, rows, columns)
 * @param {number | null} layer
 */
export function heads(attention, layer) {
  const [layers, count] = attention.shape;
  const chosen = layer === null ? [...Array(layers).keys()] : [layer];
  return chosen.flatMap((index) => [...Array(count).keys()].map((head) => attention.at(index, head)));
}

/**
 * Merge subwords into words: sum over columns, mean over rows. Rows that belong to no word (−1) are left out.
 * @param {Tensor} matrix
 * @param {number[]} rowWords the word number of each row
 * @param {number[]} columnWords the word number of each column
 * @param {number} rows
 * @param {number} columns
 */
export function joined(matrix, rowWords, columnWords, rows, columns) {
  const sums = new Float32Array(rows * columns);
  const counts = new Float32Array(rows);
  rowWords.forEach((row, i) => {
    if (row < 0 || i >= matrix.shape[0]) return;
    counts[row] += 1;
    columnWords.forEach((column, j) => {
      sums[row * columns + column] += matrix.data[i * matrix.shape[1] + j];
    });
  });
  return new Tensor(
    [rows, columns],
    sums.map((value, index) => value / Math.max(1, counts[Math.floor(index / columns)])),
  );
}
