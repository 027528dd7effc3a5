/**
 * Multi-head attention: MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O, head = softmax(QKᵀ / √d_k) V.
 *
 * A query attends to the keys on its path: a list of rows of the keys. In an encoder these are all positions, in a
 * decoder the position itself and those before it; hypotheses of a beam that begin alike share rows.
 */

import { Tensor } from "../tensor.js";
import { linear, softmax } from "./ops.js";

/** @typedef {import("../types.js").Part} Part */

/**
 * What an observer gets of one call: q (queries, heads · d_k), k and v (keys, key heads · size), the weights of each
 * query (heads, keys on its path), and the heads' results (queries, heads · d_v), the input of W^O.
 * @typedef {{ q: Tensor, k: Tensor, v: Tensor, paths: ArrayLike<number>[], places: number[], weights: Tensor[],
 *   joined: Tensor }} Attended
 */

/**
 * What may look at or change attention: `change` gets each head's weights for one query and changes them in place.
 * @typedef {{ change?: (part: Part, layer: number, head: number, weights: Float32Array) => void,
 *   observe?: (part: Part, layer: number, attended: Attended) => void }} Hooks
 */

/** Rows of keys or values, to which later positions add theirs. */
export class Rows {
  /** @param {number} width */
  constructor(width) {
    this.width = width;
    this.count = 0;
    this.data = new Float32Array(64 * width);
  }

  /** @param {Tensor} rows */
  append(rows) {
    const end = this.count * this.width + rows.data.length;
    if (end > this.data.length) {
      const larger = new Float32Array(Math.max(end, 2 * this.data.length));
      larger.set(this.data);
      this.data = larger;
    }
    this.data.set(rows.data, this.count * this.width);
    this.count += rows.shape[0];
  }

  get tensor() {
    return new Tensor([this.count, this.width], this.data.subarray(0, this.count * this.width));
  }
}

export class Attention {
  /**
   * @param {import("./transformer.js").ModelConfig} config
   * @param {Map<string, Tensor>} weights
   * @param {string} name
   * @param {Part} part
   * @param {number} layer
   * @param {import("./positions.js").AttentionPositions} positions
   */
  constructor(config, weights, name, part, layer, positions) {
    this.heads = config.heads;
    this.keyHeads = config.key_value_heads ?? config.heads;
    this.keySize = config.key_size;
    this.valueSize = config.value_size;
    this.part = part;
    this.layer = layer;
    this.positions = positions;
    this.weight = (/** @type {string} */ projection) =>
      /** @type {Tensor} */ (weights.get(`${name}.${projection}.weight`));
    this.project = (/** @type {string} */ projection, /** @type {Tensor} */ x) =>
      linear(x, this.weight(projection), weights.get(`${name}.${projection}.bias`));
  }

  /** Empty keys and values. */
  newRows() {
    return {
      keys: new Rows(this.keyHeads * this.keySize),
      values: new Rows(this.keyHeads * this.valueSize),
    };
  }

  /**
   * Add the keys and values of x to those before.
   * @param {Tensor} x
   * @param {{ keys: Rows, values: Rows }} rows
   * @param {number[]} places  the positions of x in the text
   */
  remember(x, { keys, values }, places) {
    keys.append(this.#rotated(this.project("key", x), places));
    values.append(this.project("value", x));
  }

  /**
   * Attend from x to rows of keys and values.
   * @param {Tensor} x
   * @param {{ keys: Rows, values: Rows }} rows
   * @param {ArrayLike<number>[]} paths  the rows that each query attends to
   * @param {number[]} places  the queries' positions in the text
   * @param {Hooks} hooks
   */
  attend(x, { keys, values }, paths, places, hooks) {
    const q = this.#rotated(this.project("query", x), places);
    const [k, v] = [keys.tensor, values.tensor];
    const joined = new Tensor(
      [q.shape[0], this.heads * this.valueSize],
      new Float32Array(q.shape[0] * this.heads * this.valueSize),
    );
    const weights = paths.map((path, row) => {
      const ofRow = new Tensor([this.heads, path.length], new Float32Array(this.heads * path.length));
      for (let head = 0; head < this.heads; head++) {
        const alphas = ofRow.at(head).data;
        this.#score(ofHead(q, row, head, this.keySize), k, head, path, places[row], alphas);
        softmax(alphas);
        hooks.change?.(this.part, this.layer, head, alphas);
        this.#sum(v, ofHead(joined, row, head, this.valueSize), head, path, places[row], alphas);
      }
      return ofRow;
    });
    hooks.observe?.(this.part, this.layer, { q, k, v, paths, places, weights, joined });
    return this.project("output", joined);
  }

  /**
   * Set the scores of a head's query for the keys on its path.
   * @param {Float32Array} query
   * @param {Tensor} k
   * @param {number} head
   * @param {ArrayLike<number>} path
   * @param {number} place
   * @param {Float32Array} scores
   */
  #score(query, k, head, path, place, scores) {
    const size = this.keySize;
    const offset = this.keyHead(head) * size;
    const scale = Math.sqrt(size);
    for (let key = 0; key < path.length; key++) {
      const start = path[key] * k.shape[1] + offset;
      let dot = 0;
      for (let i = 0; i < size; i++) dot += query[i] * k.data[start + i];
      scores[key] = dot / scale + this.positions.bias(query, head, key - place);
    }
  }

  /** The number of the key and value head that a query head uses. @param {number} head */
  keyHead(head) {
    return Math.floor((head * this.keyHeads) / this.heads);
  }

  /**
   * Add up the values on a path by their weights.
   * @param {Tensor} v
   * @param {Float32Array} sums
   * @param {number} head
   * @param {ArrayLike<number>} path
   * @param {number} place
   * @param {Float32Array} alphas
   */
  #sum(v, sums, head, path, place, alphas) {
    const size = this.valueSize;
    const offset = this.keyHead(head) * size;
    for (let key = 0; key < path.length; key++) {
      const alpha = alphas[key];
      if (alpha === 0) continue;
      const start = path[key] * v.shape[1] + offset;
      for (let i = 0; i < size; i++) sums[i] += alpha * v.data[start + i];
      const added = this.positions.value(head, key - place);
      if (added) for (let i = 0; i < size; i++) sums[i] += alpha * added[i];
    }
  }

  /** Rotate each row by its position. @param {Tensor} x @param {number[]} places */
  #rotated(x, places) {
    places.forEach((place, row) => {
      this.positions.rotate(x.at(row).data, place);
    });
    return x;
  }
}

/**
 * A head's part of a row, without a copy.
 * @param {Tensor} x
 * @param {number} row
 * @param {number} head
 * @param {number} size  of the part
 */
export function ofHead(x, row, head, size) {
  return x.at(row).data.subarray(head * size, (head + 1) * size);
}
