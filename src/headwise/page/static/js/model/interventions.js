/** Interventions on attention weights and on the output, written as in docs/look-inside.md. */

import { order } from "./order.js";
import { Refusal, strip, words } from "./subwords.js";

/** @typedef {import("../types.js").Part} Part */

/**
 * Layers and heads count from 0; null for all of them, or all parts. `amount` is the key of zero, the number of
 * shuffle's order, the distance of shift or the number of the word; `text` the words of prefix or the word of word.
 * @typedef {{ kind: string, part: Part | null, layer: number | null, head: number | null, amount: number | null,
 *   text: string }} Intervention
 */

const HEAD = /^(encoder|decoder|cross|\*)\.([1-9][0-9]*|\*)\.([1-9][0-9]*|\*)(?:@(-?[0-9]+))?$/;
const MOST_DIGITS = 9;
const SHOWN = 60; // characters of an invalid intervention in its error message
/** @type {Record<string, string>} */
const FORMS = {
  silence: "silence:cross.2.3",
  uniform: "uniform:cross.2.3",
  zero: "zero:cross.2.3 or zero:cross.2.3@4",
  shuffle: "shuffle:cross.2.3@7",
  shift: "shift:cross.2.3@-1",
  prefix: "prefix:Ein alter Mann",
  word: "word:3:Hund",
};

/** A text in quotation marks, as messages show it. @param {string} text */
function quoted(text) {
  return text.includes("'") && !text.includes('"') ? `"${text}"` : `'${text}'`;
}

/** Parse an intervention. @param {string} text @returns {Intervention} */
export function parse(text) {
  const [kind, rest] = partition(strip(text));
  const subject = `intervention ${quoted(text.slice(0, SHOWN) + (text.length > SHOWN ? "…" : ""))}`;
  if (!Object.hasOwn(FORMS, kind)) {
    const known = Object.keys(FORMS).join(", ");
    throw new Refusal(`${subject}: expected one of ${known}, found ${quoted(kind.slice(0, SHOWN))}`);
  }
  /** @type {Intervention} */
  const plain = { kind, part: "cross", layer: null, head: null, amount: null, text: "" };
  if (kind === "prefix" && strip(rest)) return { ...plain, text: strip(rest) };
  if (kind === "word") {
    const [number, word] = partition(rest);
    if (/^[0-9]+$/.test(number) && words(word).length === 1)
      return { ...plain, amount: parseNumber(number, subject), text: strip(word) };
  }
  const match = kind === "prefix" || kind === "word" ? null : HEAD.exec(strip(rest));
  if (match) {
    const [, part, layer, head, amount] = match;
    const alone = ["silence", "uniform"].includes(kind);
    if (kind === "zero" ? !amount?.startsWith("-") : (amount === undefined) === alone) {
      const [first, second] = [layer, head].map((one) =>
        one === "*" ? null : parseNumber(one, subject) - 1,
      );
      return {
        ...plain,
        part: part === "*" ? null : /** @type {Part} */ (part),
        layer: first,
        head: second,
        amount: amount === undefined ? null : parseNumber(amount, subject),
      };
    }
  }
  throw new Refusal(`${subject}: expected it written as in ${FORMS[kind]}`);
}

/** What is before and after the first colon. @param {string} text */
function partition(text) {
  const at = text.indexOf(":");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

/** @param {string} text @param {string} subject */
function parseNumber(text, subject) {
  const digits = text.replace("-", "").length;
  if (digits > MOST_DIGITS)
    throw new Refusal(
      `${subject}: expected numbers of at most ${MOST_DIGITS} digits, found one of ${digits.toLocaleString("en")}`,
    );
  return Number(text);
}

/** The string that `parse` reads. @param {Intervention} intervention */
export function format({ kind, part, layer, head, amount, text }) {
  if (kind === "prefix") return `prefix:${text}`;
  if (kind === "word") return `word:${amount}:${text}`;
  const [first, second] = [layer, head].map((number) => (number === null ? "*" : number + 1));
  return `${kind}:${part ?? "*"}.${first}.${second}${amount === null ? "" : `@${amount}`}`;
}

/**
 * The hook that applies interventions to attention weights, in the order given; undefined if there are none.
 * @param {Intervention[]} interventions
 * @param {import("./transformer.js").Transformer} model
 */
export function changes(interventions, model) {
  const ofHeads = interventions.filter(({ kind }) => kind !== "prefix" && kind !== "word");
  for (const one of ofHeads) {
    const parts = one.part === null ? Object.values(model.parts) : [model.parts[one.part]];
    for (const [what, number, count] of /** @type {const} */ ([
      ["layer", one.layer, Math.max(...parts.map((layers) => layers.length))],
      ["head", one.head, model.config.heads],
    ]))
      if (number !== null && number >= count)
        throw new Refusal(
          `intervention ${quoted(format(one))}: expected a ${what} from 1 to ${count}, found ${number + 1}`,
        );
  }
  if (ofHeads.length === 0) return undefined;
  return (
    /** @type {Part} */ part,
    /** @type {number} */ layer,
    /** @type {number} */ head,
    /** @type {Float32Array} */ weights,
  ) => {
    for (const one of ofHeads)
      if ((one.part ?? part) === part && (one.layer ?? layer) === layer && (one.head ?? head) === head)
        CHANGES[one.kind](weights, one.amount);
  };
}

/**
 * Changes of one head's weights for one query, in place. There is a weight for each key that the query may see, and it
 * may be 0.
 * @type {Record<string, (weights: Float32Array, amount: number | null) => void>}
 */
const CHANGES = {
  silence: (weights) => weights.fill(0),
  uniform: (weights) => weights.fill(1 / weights.length),
  zero: (weights, amount) => {
    if (amount === null) weights.fill(0);
    else if (amount >= 0 && amount < weights.length) weights[amount] = 0;
  },
  shift: (weights, amount) =>
    permute(weights, (count) =>
      Array.from({ length: count }, (_, i) => (((i + (amount ?? 0)) % count) + count) % count),
    ),
  shuffle: (weights, amount) => permute(weights, (count) => order(count, amount ?? 0)),
};

/**
 * Move the weight of the i-th key to the key number places(count)[i].
 * @param {Float32Array} weights
 * @param {(count: number) => number[]} places
 */
function permute(weights, places) {
  const before = weights.slice();
  places(weights.length).forEach((place, i) => {
    weights[place] = before[i];
  });
}
