/** The steps of one head's computation, each with this model's numbers. */

import { formula, h } from "./dom.js";
import { number, percent } from "./text.js";

/**
 * @typedef {import("./types.js").Products} Products
 * @typedef {{ label: string, values: Float32Array }} Strip
 *
 * @typedef {object} Stage
 * @property {string} name markup for `formula` (dom.js)
 * @property {string} formula likewise
 * @property {(p: Products, key: number, named: (token: string) => string) => (Node | string)[]} sentence
 * @property {(p: Products, key: number) => Strip[]} strips
 */

/** @param {string} text */
const strong = (text) => h("strong", {}, text);

/** @type {Stage[]} */
export const STAGES = [
  {
    name: "q",
    formula: "q = x W^Q",
    sentence: (p, _, named) => [
      strong(named(p.query_piece)),
      ` asks. Its query is a vector of ${p.q.data.length} numbers: what it is looking for.`,
    ],
    strips: (p) => [{ label: "q", values: p.q.data }],
  },
  {
    name: "k",
    formula: "k = x W^K",
    sentence: (p, key, named) => [
      strong(named(p.key_pieces[key])),
      " offers a key of as many numbers: what it can be found by.",
    ],
    strips: (p, key) => [
      { label: "q", values: p.q.data },
      { label: "k", values: p.k.at(key).data },
    ],
  },
  {
    name: "q·k",
    formula: "q · k = Σ q_d k_d",
    sentence: (p, key) => [
      `Each pair of numbers is multiplied, and the products are added up: ${sumOf(p.terms.at(key).data)} = `,
      strong(number(p.dots.data[key], 4)),
      ".",
    ],
    strips: (p, key) => [
      { label: "q", values: p.q.data },
      { label: "k", values: p.k.at(key).data },
      { label: "q_d k_d", values: p.terms.at(key).data },
    ],
  },
  {
    name: "÷ √d",
    formula: "s = q · k / √d_k",
    sentence: (p, key) => [
      `${number(p.dots.data[key], 4)} ÷ √${p.q.data.length} = ${number(p.dots.data[key], 4)} ÷ ${number(p.scale, 4)} = `,
      strong(number(p.scaled.data[key], 4)),
      biased(p)
        ? `. Positions add ${number(p.bias.data[key], 4)}: ${number(scores(p)[key], 4)}.`
        : ", so that long vectors don’t make the softmax all or nothing.",
    ],
    strips: (p) => [{ label: "scores", values: scores(p) }],
  },
  {
    name: "mask",
    formula: "s = −∞ where not allowed",
    sentence: (p, key, named) =>
      p.seen.every(Boolean)
        ? ["Nothing is masked here: this query may see every key."]
        : [
            strong(named(p.key_pieces[key])),
            p.seen[key]
              ? " may be seen; its score stays."
              : `${p.part === "decoder" && key > p.query ? " comes later and" : ""} must not be seen: its score becomes −∞ and its weight exactly 0.`,
            ` ${p.seen.filter((seen) => !seen).length} of ${p.seen.length} keys are masked.`,
          ],
    strips: (p) => [{ label: "scores", values: masked(p) }],
  },
  {
    name: "softmax",
    formula: "α = exp(s) / Σ exp(s)",
    sentence: (p, key) => {
      const total = masked(p).reduce((sum, score) => sum + Math.exp(score), 0);
      return [
        `exp(${p.seen[key] ? number(scores(p)[key], 4) : "−∞"}) ÷ ${number(total, 3)} = `,
        strong(number(p.softmax.data[key], 4)),
        `: ${percent(p.softmax.data[key])} of the attention. All weights sum to ${number(
          p.softmax.data.reduce((a, b) => a + b, 0),
          4,
        )}.`,
        changed(p) ? ` An intervention makes it ${number(p.weights.data[key], 4)}.` : "",
      ];
    },
    strips: (p) => [{ label: changed(p) ? "α used" : "α", values: p.weights.data }],
  },
  {
    name: "Σ α v",
    formula: "head = Σ α v",
    sentence: (p, key) => [
      `Each key’s value is taken as much as its weight says (`,
      strong(`${number(p.weights.data[key], 4)} · v`),
      " for this one), and all are added up.",
    ],
    strips: (p, key) => [
      { label: "v", values: p.v.at(key).data },
      { label: "α v", values: p.weighted.at(key).data },
      { label: "Σ α v", values: p.result.data },
    ],
  },
  {
    name: "W^O",
    formula: "out = W^O head + other heads",
    sentence: (p) => [
      ...formula("W^O"),
      ` turns the ${p.result.data.length} numbers into ${p.output.data.length}. Together with the other heads that is what the sub-layer adds: this head’s part has `,
      strong(percent(norm(p.part_of_output.data) / Math.max(1e-12, norm(p.output.data)))),
      " of the sum’s length.",
    ],
    strips: (p) => [
      { label: "this head", values: p.part_of_output.data },
      { label: "all heads", values: p.output.data },
    ],
  },
];

/** The scores with what positions add to them. @param {Products} p */
export function scores(p) {
  return p.scaled.data.map((value, i) => value + p.bias.data[i]);
}

/** The scores, −∞ for masked keys. @param {Products} p */
function masked(p) {
  return scores(p).map((score, i) => (p.seen[i] ? score : -Infinity));
}

/** Whether positions add a bias to the scores. @param {Products} p */
export function biased(p) {
  return p.bias.data.some((value) => value !== 0);
}

/** Whether an intervention changes the weights. @param {Products} p */
export function changed(p) {
  return p.weights.data.some((value, i) => Math.abs(value - p.softmax.data[i]) > 1e-5);
}

/** @param {Float32Array} values */
function norm(values) {
  return Math.hypot(...values);
}

/** A sum, of more than four terms the first three and the last one. @param {Float32Array} values */
function sumOf(values) {
  const terms = [...values].map((value) => number(value, 3));
  if (terms.length > 4) terms.splice(3, terms.length - 4, "…");
  return terms.join(" + ").replaceAll("+ −", "− ");
}
