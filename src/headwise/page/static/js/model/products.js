/** The arithmetic of one head at one step: score_j = q · k_j / √d_k + bias_j, head = Σ α_j v_j, part = W^O head. */

import { Tensor } from "../tensor.js";
import { ofHead } from "./attention.js";
import { parse } from "./interventions.js";
import { linear, softmax } from "./ops.js";
import { BOS, Refusal, strip } from "./subwords.js";
import { packed } from "./tracer.js";

/**
 * @typedef {object} Request
 * @property {string} text
 * @property {string | number[]} target
 * @property {import("../types.js").Part} part
 * @property {number} layer  from 0, as head and query
 * @property {number} head
 * @property {number} query
 * @property {string[]} [interventions]
 */

/**
 * One head's computation at one step of forced decoding; the response of `/api/products`.
 * @param {import("./tracer.js").Tracer} tracer
 * @param {Request} request
 */
export function products(tracer, { text, target, part, layer, head, query, interventions = [] }) {
  const { model } = tracer.translator;
  const applied = interventions.filter((one) => strip(one)).map(parse);
  const { source, ids } = tracer.given(text, target);
  const inputs = [BOS, ...ids.slice(0, -1)];
  const attention = model.parts[part]?.[layer];
  if (!attention)
    throw new Refusal(`expected a part and a layer that the model has, found ${part} ${layer + 1}`);
  const { heads } = model.config;
  if (!(head >= 0 && head < heads))
    throw new Refusal(`expected a head from 1 to ${heads}, found ${head + 1}`);
  /** @type {import("./attention.js").Attended | null} */
  let attended = null;
  tracer.pass(source.ids, inputs, applied, (ofPart, ofLayer, call) => {
    if (ofPart === part && ofLayer === layer) attended = call;
  });
  const call = /** @type {import("./attention.js").Attended} */ (/** @type {unknown} */ (attended));
  const queries = call.q.shape[0];
  if (!(query >= 0 && query < queries))
    throw new Refusal(`query: expected a number from 0 to ${queries - 1}, found ${query}`);
  const read = tracer.side(inputs, "target").pieces;
  return {
    part,
    layer,
    head,
    query,
    query_piece: (part === "encoder" ? source.pieces : read)[query],
    key_pieces: part === "decoder" ? read : source.pieces,
    ...numbers(attention, call, head, query),
  };
}

/**
 * @param {import("./attention.js").Attention} attention
 * @param {import("./attention.js").Attended} attended
 * @param {number} head
 * @param {number} query
 */
function numbers(attention, { q, k, v, paths, places, weights, joined }, head, query) {
  const { keySize, valueSize } = attention;
  const keys = k.shape[0];
  const path = Array.from(paths[query]); // the keys that the query sees, from the first on
  const each = (/** @type {(key: number) => ArrayLike<number>} */ values, /** @type {number} */ size) =>
    new Tensor(
      [keys, size],
      Float32Array.from(Array.from({ length: keys }, (_, key) => Array.from(values(key))).flat()),
    );
  const ofQuery = ofHead(q, query, head, keySize);
  const shared = attention.keyHead(head);
  const ofKeys = each((key) => ofHead(k, key, shared, keySize), keySize);
  const ofValues = each((key) => ofHead(v, key, shared, valueSize), valueSize);
  const terms = each((key) => ofKeys.at(key).data.map((value, i) => value * ofQuery[i]), keySize);
  const perKey = (/** @type {(key: number) => number} */ value) =>
    Float32Array.from({ length: keys }, (_, key) => value(key));
  const dots = perKey((key) => terms.at(key).data.reduce((a, b) => a + b, 0));
  const scale = Math.sqrt(keySize);
  const bias = perKey((key) => attention.positions.bias(ofQuery, head, key - places[query]));
  const seen = Array.from({ length: keys }, (_, key) => key < path.length);
  const scores = Float32Array.from(path, (key) => dots[key] / scale + bias[key]);
  softmax(scores);
  const used = weights[query].at(head).data;
  const alphas = perKey((key) => used[key] ?? 0);
  const result = ofHead(joined, query, head, valueSize);
  const only = new Float32Array(joined.shape[1]); // the concatenated heads with the others 0
  only.set(result, head * valueSize);
  const vector = (/** @type {Float32Array} */ data) => packed(new Tensor([data.length], data));
  return {
    q: vector(ofQuery),
    k: packed(ofKeys),
    terms: packed(terms),
    dots: vector(dots),
    scale,
    scaled: vector(dots.map((dot) => dot / scale)),
    bias: vector(bias),
    seen,
    softmax: vector(perKey((key) => scores[key] ?? 0)),
    weights: vector(alphas),
    v: packed(ofValues),
    weighted: packed(each((key) => ofValues.at(key).data.map((value) => value * alphas[key]), valueSize)),
    result: vector(result),
    part_of_output: vector(linear(new Tensor([1, only.length], only), attention.weight("output")).data),
    output: vector(attention.project("output", new Tensor([1, joined.shape[1]], joined.at(query).data)).data),
  };
}
