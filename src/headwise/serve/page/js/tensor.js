/** Arrays of numbers as the server packs them, and what is read off attention weights. */

/** An array of 32-bit floats with a shape, row by row. */
export class Tensor {
  /**
   * @param {number[]} shape
   * @param {Float32Array} data
   */
  constructor(shape, data) {
    this.shape = shape;
    this.data = data;
  }

  /**
   * The part at the first indices, without a copy.
   * @param {...number} places
   */
  at(...places) {
    let [offset, size] = [0, this.data.length];
    places.forEach((place, axis) => {
      size /= this.shape[axis];
      offset += place * size;
    });
    return new Tensor(this.shape.slice(places.length), this.data.subarray(offset, offset + size));
  }
}

/**
 * Unpack every array in what the server sent, in place.
 * @param {any} value
 * @returns {any}
 */
export function unpacked(value) {
  if (typeof value !== "object" || value === null) return value;
  if (typeof value.float32 === "string") {
    const bytes = Uint8Array.from(atob(value.float32), (character) => character.charCodeAt(0));
    return new Tensor(value.shape, new Float32Array(bytes.buffer));
  }
  for (const key of Object.keys(value)) value[key] = unpacked(value[key]);
  return value;
}

/**
 * The mean of several matrices.
 * @param {Tensor[]} matrices
 */
export function mean(matrices) {
  const sum = new Float32Array(matrices[0].data.length);
  for (const { data } of matrices) for (let place = 0; place < sum.length; place++) sum[place] += data[place];
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
  return chosen.flatMap((one) => [...Array(count).keys()].map((head) => attention.at(one, head)));
}

/**
 * Join subwords to words: sum over columns, mean over rows. Rows that belong to no word (−1) are left out.
 * @param {Tensor} matrix
 * @param {number[]} rowWords number of the word that each row belongs to
 * @param {number[]} columnWords
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
    sums.map((value, place) => value / Math.max(1, counts[Math.floor(place / columns)])),
  );
}
