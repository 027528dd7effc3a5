/**
 * Beam search (section 6.1 of the paper), with the tree of all hypotheses; greedy search is a beam of 1.
 *
 * At every step each live hypothesis is continued by every token; the k likeliest continuations that don't end stay
 * live, and those that end and are among the k likeliest of all are finished. Finished hypotheses are ranked by
 * log P / ((5 + |Y|) / 6)^α (Wu et al. 2016, equation 14). The search ends when k are finished and no live one is
 * likelier than all of them. With `lettered`, no hypothesis ends before it has a token with a letter or a digit.
 */

import { lengthPenalty } from "../text.js";
import { largest } from "./ops.js";
import { BOS, EOS, PAD, Refusal, UNK } from "./subwords.js";

/** @typedef {{ beam: number, alpha: number, limit: number, prefix: number[], lettered: boolean[] | null }} Options */
/** @typedef {{ parent: number | null, token: number, token_log_probability: number, log_probability: number,
 *   length: number, length_penalty: number, score: number, finished: boolean }} Node */
/** @typedef {{ node: number | null, path: number[], total: number, gains: number[], tokens: number[] }} Live */
/** @typedef {{ node: number, tokens: number[], gains: number[], log_probability: number, score: number }} Finished */

/**
 * Search for the best translations of an encoded source.
 * @param {import("./transformer.js").Transformer} model
 * @param {import("./transformer.js").Memory} memory
 * @param {Options} options
 * @param {import("./attention.js").Hooks} hooks
 */
export function search(model, memory, options, hooks) {
  const { beam, alpha, prefix, lettered } = options;
  const limit = Math.max(options.limit, prefix.length + 1 + (lettered ? 1 : 0));
  const state = model.start();
  /** @type {Live[]} */
  let live = [{ node: null, path: [], total: 0, gains: [], tokens: [] }];
  /** @type {Finished[]} */
  let finished = [];
  /** @type {Node[]} */
  const tree = [];
  let [undecided, likeliest] = [true, Number.NEGATIVE_INFINITY];
  for (let length = 1; undecided; length++) {
    const base = state[0].keys.count;
    const paths = live.map(({ path }, row) => [...path, base + row]);
    const hidden = model.read(
      live.map(({ tokens }) => tokens.at(-1) ?? BOS),
      paths,
      state,
      memory,
      hooks,
    );
    const logProbabilities = model.logProbabilities(hidden);
    live.forEach((hypothesis, row) => {
      hypothesis.path = paths[row];
      const lacks = lettered !== null && !hypothesis.tokens.some((token) => lettered[token]);
      constrain(logProbabilities.at(row).data, length, limit, prefix, lacks ? lettered : null);
    });
    const candidates = best(live, logProbabilities, 2 * beam);
    const penalty = lengthPenalty(length, alpha);
    /** @type {Live[]} */
    const next = [];
    candidates.forEach(({ parent, token, gain, total }, rank) => {
      const ends = token === EOS;
      if (ends ? rank >= beam : next.length >= beam) return;
      const node = tree.length;
      tree.push({
        parent: parent.node,
        token,
        token_log_probability: gain,
        log_probability: total,
        length,
        length_penalty: penalty,
        score: total / penalty,
        finished: ends,
      });
      const gains = [...parent.gains, gain];
      if (ends) {
        likeliest = Math.max(likeliest, total);
        const sum = gains.reduce((a, b) => a + b, 0);
        finished.push({
          node,
          tokens: parent.tokens,
          gains,
          log_probability: sum,
          score: sum / penalty,
        });
      } else next.push({ node, path: parent.path, total, gains, tokens: [...parent.tokens, token] });
    });
    live = next;
    undecided = live.some(({ total }) => finished.length < beam || total > likeliest);
  }
  if (finished.length === 0)
    throw new Refusal("expected probabilities from the model, found values that aren't finite numbers");
  finished = finished.sort((a, b) => b.score - a.score).slice(0, beam);
  return { hypotheses: finished, tree };
}

/**
 * Set the log-probabilities of disallowed tokens to −∞: of the special symbols, and of all but the end symbol at the
 * limit, or all but the next token of the prefix. A hypothesis that lacks one of the `lettered` tokens may not end, and
 * is continued by one of them at the last token before the limit.
 * @param {Float32Array} logProbabilities
 * @param {number} length  |Y| with this token
 * @param {number} limit
 * @param {number[]} prefix
 * @param {boolean[] | null} lettered
 */
function constrain(logProbabilities, length, limit, prefix, lettered) {
  const only = length <= prefix.length ? prefix[length - 1] : length >= limit ? EOS : null;
  if (only === null) {
    for (const banned of [PAD, UNK, BOS]) logProbabilities[banned] = Number.NEGATIVE_INFINITY;
    if (lettered === null) return;
    logProbabilities[EOS] = Number.NEGATIVE_INFINITY;
    if (length + 1 < limit) return;
    for (let token = 0; token < logProbabilities.length; token++)
      if (!lettered[token]) logProbabilities[token] = Number.NEGATIVE_INFINITY;
    return;
  }
  const kept = logProbabilities[only];
  logProbabilities.fill(Number.NEGATIVE_INFINITY);
  logProbabilities[only] = kept;
}

/**
 * The likeliest continuations, best first; of equal ones, that of the earlier hypothesis, then of the lower token.
 * Sums are in float32, as the server's.
 * @param {Live[]} live
 * @param {import("../tensor.js").Tensor} logProbabilities
 * @param {number} count
 */
function best(live, { shape: [, size], data: gains }, count) {
  const totals = gains.map((gain, place) => live[Math.floor(place / size)].total + gain);
  return largest(totals, count).map((place) => ({
    parent: live[Math.floor(place / size)],
    token: place % size,
    gain: gains[place],
    total: totals[place],
  }));
}
