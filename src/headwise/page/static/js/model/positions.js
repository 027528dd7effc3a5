/** Position encodings: tables added to the embeddings, and terms inside self-attention. */

import { Tensor } from "../tensor.js";

/** @typedef {import("./transformer.js").ModelConfig} ModelConfig */
/** @typedef {Map<string, Tensor>} Weights */

/**
 * The table (max_length, d_model) that is added to the embeddings; null for none.
 * @param {ModelConfig} config
 * @param {Weights} weights
 */
export function positionTable({ positions, max_length: length, d_model: width }, weights) {
  if (positions === "learned") return weights.get("positions.table") ?? null;
  if (positions === "sinusoidal") return sinusoids(length, width, 0, 1, width / 2);
  if (positions === "tensor2tensor") return sinusoids(length, width, 0, width / 2, width / 2 - 1);
  if (positions === "fairseq") return sinusoids(length, width, 2, width / 2, width / 2 - 1);
  return null;
}

/**
 * Sines and cosines of (start + position) · 10000^(−i / period): in turns where `gap` is 1, else all sines first.
 * @param {number} length
 * @param {number} width
 * @param {number} start
 * @param {number} gap  between a sine and its cosine
 * @param {number} period
 */
function sinusoids(length, width, start, gap, period) {
  const data = new Float32Array(length * width);
  for (let position = 0; position < length; position++) {
    for (let i = 0; i < width / 2; i++) {
      const angle = (start + position) * 10000 ** (-i / period);
      const place = position * width + (gap === 1 ? 2 * i : i);
      data[place] = Math.sin(angle);
      data[place + gap] = Math.cos(angle);
    }
  }
  return new Tensor([length, width], data);
}

/** Positions inside self-attention; this class is that of encodings that do nothing there. */
export class AttentionPositions {
  /**
   * Rotate the vectors of all heads of a row at a position, in place.
   * @param {Float32Array} _row
   * @param {number} _position
   */
  rotate(_row, _position) {}

  /**
   * The term added to the score of a query (a head's part of a row) for a key.
   * @param {Float32Array} _q
   * @param {number} _head
   * @param {number} _distance  the key's position minus the query's
   */
  bias(_q, _head, _distance) {
    return 0;
  }

  /**
   * The vector that is added to a value, null for none.
   * @param {number} _head
   * @param {number} _distance
   * @returns {Float32Array | null}
   */
  value(_head, _distance) {
    return null;
  }
}

/** Rotary position embedding (Su et al. 2021): pair i is rotated by position · base^(−2i / d_k). */
class Rotary extends AttentionPositions {
  /** @param {ModelConfig} config */
  constructor(config) {
    super();
    const { base, pairs } = config.position_options.rotary;
    this.size = config.key_size;
    this.halves = pairs === "halves";
    this.frequencies = Array.from({ length: this.size / 2 }, (_, i) => base ** ((-2 * i) / this.size));
  }

  /** @param {Float32Array} row @param {number} position */
  rotate(row, position) {
    for (let start = 0; start < row.length; start += this.size) {
      this.frequencies.forEach((frequency, i) => {
        const [first, second] = this.halves ? [i, i + this.size / 2] : [2 * i, 2 * i + 1];
        const [x, y] = [row[start + first], row[start + second]];
        const [cosine, sine] = [Math.cos(position * frequency), Math.sin(position * frequency)];
        row[start + first] = x * cosine - y * sine;
        row[start + second] = x * sine + y * cosine;
      });
    }
  }
}

/** ALiBi (Press et al. 2022, section 3): −slope · |distance|. */
class Alibi extends AttentionPositions {
  /** @param {ModelConfig} config */
  constructor({ heads }) {
    super();
    const lower = 2 ** Math.floor(Math.log2(heads));
    this.slopes = Array.from({ length: heads }, (_, i) =>
      i < lower ? 2 ** ((-8 * (i + 1)) / lower) : 2 ** ((-4 * (2 * (i - lower) + 1)) / lower),
    );
  }

  /** @param {Float32Array} _q @param {number} head @param {number} distance */
  bias(_q, head, distance) {
    return -this.slopes[head] * Math.abs(distance);
  }
}

/** T5 (Raffel et al. 2020, section 2.1): a learned number for each head and bucket of distances. */
class T5Buckets extends AttentionPositions {
  /** @param {ModelConfig} config @param {Tensor} table  (buckets, heads) @param {boolean} causal */
  constructor(config, table, causal) {
    super();
    this.table = table;
    this.heads = config.heads;
    this.causal = causal;
    const { buckets, reach } = config.position_options.t5;
    this.buckets = causal ? buckets : buckets / 2;
    this.reach = reach;
  }

  /** @param {Float32Array} _q @param {number} head @param {number} distance */
  bias(_q, head, distance) {
    return this.table.data[this.bucket(distance) * this.heads + head];
  }

  /** @param {number} distance */
  bucket(distance) {
    const length = this.causal ? Math.max(0, -distance) : Math.abs(distance);
    const later = !this.causal && distance > 0 ? this.buckets : 0;
    const single = Math.floor(this.buckets / 2);
    if (length < single) return later + length;
    // In float32, as for all published weights: rounding decides where a bucket begins.
    const { fround } = Math;
    const ratio = fround(fround(Math.log(fround(length / single))) / fround(Math.log(this.reach / single)));
    return later + Math.min(single + Math.trunc(fround(ratio * (this.buckets - single))), this.buckets - 1);
  }
}

/** Shaw et al. 2018: a learned vector for each clipped distance, added to the keys and optionally to the values. */
class Relative extends AttentionPositions {
  /** @param {ModelConfig} config @param {Tensor} keys  (heads or 1, distances, d_k) @param {Tensor} [added] */
  constructor(config, keys, added) {
    super();
    this.reach = config.position_options.relative.reach;
    this.keys = keys;
    this.added = added;
  }

  /** @param {Float32Array} q @param {number} head @param {number} distance */
  bias(q, head, distance) {
    const key = this.#find(this.keys, head, distance);
    let sum = 0;
    for (let i = 0; i < q.length; i++) sum += q[i] * key[i];
    return sum / Math.sqrt(q.length);
  }

  /** @param {number} head @param {number} distance */
  value(head, distance) {
    return this.added ? this.#find(this.added, head, distance) : null;
  }

  /** @param {Tensor} table @param {number} head @param {number} distance */
  #find(table, head, distance) {
    const clipped = Math.max(-this.reach, Math.min(distance, this.reach));
    return table.at(table.shape[0] > 1 ? head : 0, clipped + this.reach).data;
  }
}

/**
 * The positions inside the self-attention of one layer.
 * @param {ModelConfig} config
 * @param {Weights} weights
 * @param {"encoder" | "decoder"} stack
 * @param {number} layer
 */
export function attentionPositions(config, weights, stack, layer) {
  const find = (/** @type {number} */ number, /** @type {string} */ name) =>
    weights.get(`${stack}.${number}.self_attention.positions.${name}`);
  if (config.positions === "rotary") return new Rotary(config);
  if (config.positions === "alibi") return new Alibi(config);
  if (config.positions === "t5") {
    const table = /** @type {Tensor} */ (find(0, "table")); // shared by the layers of a stack
    return new T5Buckets(config, table, stack === "decoder");
  }
  if (config.positions === "relative")
    return new Relative(config, /** @type {Tensor} */ (find(layer, "keys")), find(layer, "added"));
  return new AttentionPositions();
}
