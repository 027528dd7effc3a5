/** The Transformer (Vaswani et al. 2017), with the parameters of a run under their names in model.safetensors. */

import { Tensor } from "../tensor.js";
import { Attention } from "./attention.js";
import { ACTIVATIONS, add, linear, logSoftmax, normalize } from "./ops.js";
import { AttentionPositions, attentionPositions, positionTable } from "./positions.js";

/**
 * The keys of the section `model` of a run's configuration (docs/models.md) that the browser's model has.
 *
 * @typedef {object} ModelConfig
 * @property {number} encoder_layers
 * @property {number} decoder_layers
 * @property {number} d_model
 * @property {number} heads
 * @property {number} key_size  d_k
 * @property {number} value_size  d_v
 * @property {number | null} key_value_heads
 * @property {"post" | "pre"} norm
 * @property {"layer" | "rms"} normalization
 * @property {number} norm_epsilon
 * @property {keyof typeof ACTIVATIONS} activation
 * @property {boolean} gated
 * @property {string} positions
 * @property {{ relative: { reach: number }, t5: { buckets: number, reach: number },
 *   rotary: { base: number, pairs: string } }} position_options
 * @property {number} max_length
 * @property {boolean} source_end
 * @property {boolean} scale_embeddings
 */

/** @typedef {import("./attention.js").Hooks} Hooks */
/** @typedef {ReturnType<Attention["newRows"]>} KeysAndValues */

/**
 * An encoded source: keys and values for each decoder layer, and the rows that may be attended to.
 * @typedef {{ layers: KeysAndValues[], path: number[] }} Memory
 */

export class Transformer {
  /** @param {ModelConfig} config @param {Map<string, Tensor>} weights */
  constructor(config, weights) {
    this.config = config;
    this.weights = weights;
    this.table = positionTable(config, weights);
    this.sourceEmbedding = this.#find("source_embedding.weight");
    this.targetEmbedding = weights.get("target_embedding.weight") ?? this.sourceEmbedding;
    this.outputWeight = weights.get("output_projection.weight") ?? this.targetEmbedding;
    const inside = (/** @type {"encoder" | "decoder"} */ stack, /** @type {number} */ layer) => {
      const positions = attentionPositions(config, weights, stack, layer);
      return new Attention(config, weights, `${stack}.${layer}.self_attention`, stack, layer, positions);
    };
    const none = new AttentionPositions();
    this.encoder = Array.from({ length: config.encoder_layers }, (_, i) => inside("encoder", i));
    this.decoder = Array.from({ length: config.decoder_layers }, (_, i) => inside("decoder", i));
    this.cross = Array.from(
      { length: config.decoder_layers },
      (_, i) => new Attention(config, weights, `decoder.${i}.cross_attention`, "cross", i, none),
    );
  }

  /** The layers of each part. @type {Record<import("../types.js").Part, Attention[]>} */
  get parts() {
    return { encoder: this.encoder, decoder: this.decoder, cross: this.cross };
  }

  /** Encode a source. @param {number[]} ids @param {Hooks} [hooks] @returns {Memory} */
  encode(ids, hooks = {}) {
    const places = ids.map((_, place) => place);
    const path = this.config.source_end || ids.length === 1 ? places : places.slice(0, -1);
    const paths = ids.map(() => path);
    let x = this.#embed(this.sourceEmbedding, ids, places);
    this.encoder.forEach((attention, layer) => {
      const name = `encoder.${layer}`;
      x = this.#around(`${name}.around_attention`, x, (y) => {
        const rows = attention.newRows();
        attention.remember(y, rows, places);
        return attention.attend(y, rows, paths, places, hooks);
      });
      x = this.#around(`${name}.around_feed_forward`, x, (y) => this.#feedForward(name, y));
    });
    const states = this.#normalize("encoder_norm", x);
    const layers = this.cross.map((attention) => {
      const rows = attention.newRows();
      attention.remember(states, rows, places);
      return rows;
    });
    return { layers, path };
  }

  /** The keys and values of a decoder that has read nothing, for each layer. */
  start() {
    return this.decoder.map((attention) => attention.newRows());
  }

  /**
   * Read tokens: add their keys and values to the state, and return the last hidden states (tokens, d_model).
   * @param {number[]} tokens
   * @param {ArrayLike<number>[]} paths  for each token, the rows of the tokens before it and its own
   * @param {KeysAndValues[]} state
   * @param {Memory} memory
   * @param {Hooks} [hooks]
   */
  read(tokens, paths, state, memory, hooks = {}) {
    const places = paths.map((path) => path.length - 1);
    const sources = tokens.map(() => memory.path);
    let x = this.#embed(this.targetEmbedding, tokens, places);
    this.decoder.forEach((attention, layer) => {
      const name = `decoder.${layer}`;
      x = this.#around(`${name}.around_self_attention`, x, (y) => {
        attention.remember(y, state[layer], places);
        return attention.attend(y, state[layer], paths, places, hooks);
      });
      x = this.#around(`${name}.around_cross_attention`, x, (y) =>
        this.cross[layer].attend(y, memory.layers[layer], sources, places, hooks),
      );
      x = this.#around(`${name}.around_feed_forward`, x, (y) => this.#feedForward(name, y));
    });
    return this.#normalize("decoder_norm", x);
  }

  /** The log-probabilities (rows, vocabulary) of the next token. @param {Tensor} hidden */
  logProbabilities(hidden) {
    const logits = linear(hidden, this.outputWeight, this.weights.get("logit_bias"));
    logSoftmax(logits);
    return logits;
  }

  /** @param {string} name @returns {Tensor} */
  #find(name) {
    const weight = this.weights.get(name);
    if (!weight) throw new Error(`model.safetensors: expected ${name}, found no tensor of that name`);
    return weight;
  }

  /**
   * √d_model E + PE (sections 3.4 and 3.5).
   * @param {Tensor} embedding
   * @param {number[]} tokens
   * @param {number[]} places
   */
  #embed(embedding, tokens, places) {
    const width = this.config.d_model;
    const scale = this.config.scale_embeddings ? Math.sqrt(width) : 1;
    const data = new Float32Array(tokens.length * width);
    tokens.forEach((token, row) => {
      for (let i = 0; i < width; i++) {
        const position = this.table ? this.table.data[places[row] * width + i] : 0;
        data[row * width + i] = embedding.data[token * width + i] * scale + position;
      }
    });
    return new Tensor([tokens.length, width], data);
  }

  /**
   * A sub-layer inside its residual connection: Norm(x + Sublayer(x)) as in the paper, or x + Sublayer(Norm(x)).
   * @param {string} name
   * @param {Tensor} x
   * @param {(x: Tensor) => Tensor} sublayer
   */
  #around(name, x, sublayer) {
    const norm = `${name}.norm`;
    if (this.config.norm === "pre") return add(x, sublayer(this.#normalize(norm, x)));
    return this.#normalize(norm, add(x, sublayer(x)));
  }

  /** Normalize x if there are parameters for it. @param {string} name @param {Tensor} x */
  #normalize(name, x) {
    const weight = this.weights.get(`${name}.weight`);
    if (!weight) return x;
    const { norm_epsilon: epsilon, normalization } = this.config;
    return normalize(x, { weight, bias: this.weights.get(`${name}.bias`) }, epsilon, normalization === "rms");
  }

  /** f(x W₁ + b₁) W₂ + b₂, with a gate where the model has one. @param {string} layer @param {Tensor} x */
  #feedForward(layer, x) {
    const apply = (/** @type {string} */ map, /** @type {Tensor} */ y) =>
      linear(
        y,
        this.#find(`${layer}.feed_forward.${map}.weight`),
        this.weights.get(`${layer}.feed_forward.${map}.bias`),
      );
    const activation = ACTIVATIONS[this.config.activation];
    const hidden = apply("w1", x);
    const gate = this.config.gated ? apply("gate", x).data : null;
    for (let i = 0; i < hidden.data.length; i++)
      hidden.data[i] = activation(hidden.data[i]) * (gate ? gate[i] : 1);
    return apply("w2", hidden);
  }
}
