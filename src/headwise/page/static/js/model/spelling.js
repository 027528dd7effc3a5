/** What a vocabulary can't spell is read as something that it can, by the rule of `headwise.engine.readings.spelling`. */

import { UNK } from "./subwords.js";

/** @typedef {import("./subwords.js").Side} Side */

const NAMES = ["Zanuko", "Tarupi", "Xuvo", "Qadir", "Jelka"]; // that stand in for a word
const SYMBOLS = ["←", "★", "•", "→", "✓"]; // for a symbol
const RUN = /[\p{L}\p{Nl}\p{No}]+|[^\p{L}\p{N}_\s]+/gu; // of letters, or of other characters
// A character with what changes it: emoji have variants, colors of skin, and others joined to them.
const WITH_MODIFIERS = /(?:.[\ufe0e\ufe0f\u{1f3fb}-\u{1f3ff}]*\u200d)*.[\ufe0e\ufe0f\u{1f3fb}-\u{1f3ff}]*/gsu;
const RANGE = /(?<![0-9.,:])([0-9][0-9.,:]*(?:[ap]m)?)[‒–](?=[0-9])/gu; // of numbers, read with a hyphen
const PLAIN = new Map(
  'ĐD đd ÐD ðd ĦH ħh ıi ŁL łl ŊN ŋn ØO øo ÞTh þth ÆAe æae ŒOe œoe ẞSS ßss ’\' ‘\' ‚\' ´\' “" ”" „" «" »" –- —- ‑-'
    .split(" ")
    .map((each) => /** @type {[string, string]} */ ([each[0], each.slice(1)])),
);

/**
 * A line in characters that the vocabulary has, as far as possible.
 * @param {Side} side
 * @param {string} given
 */
export function respelled(side, given) {
  const text = given.replace(RANGE, "$1-");
  const knows = (/** @type {string} */ part) => !side.encode(part).includes(UNK);
  if (knows(text)) return text;
  const unused = (/** @type {string[]} */ standIns) =>
    standIns.filter((one) => !text.includes(one) && knows(one));
  const [names, symbols] = [unused(NAMES), unused(SYMBOLS)];
  /** @type {Map<string, string>} */
  const chosen = new Map();
  const spelled = (/** @type {string} */ one) => [one, ...forms(one)].find(knows) ?? one;
  const read = (/** @type {string} */ one, /** @type {string[]} */ standIns) => {
    if (!chosen.has(one)) {
      const plain = [...one].map(spelled).join("");
      const known = [...plain].map(knows);
      // A word of which some letters are known is better read than replaced: it may be a whole sentence.
      const stays = known.some(Boolean) && /^\p{L}/u.test(one);
      chosen.set(one, known.every(Boolean) ? plain : stays ? one : (standIns.shift() ?? one));
    }
    return chosen.get(one);
  };
  return text.replace(RUN, (run) => {
    if (/^\p{L}/u.test(run)) return read(run, names) ?? run;
    const lacks = (/** @type {string} */ one) => !/^\p{P}/u.test(one) && ![...one].every(knows);
    return groups(run.match(WITH_MODIFIERS) ?? [], lacks)
      .map(([lacks, part]) =>
        lacks && !/^[\p{Cf}\p{Mn}\p{Sk}]+$/u.test(part)
          ? read(part, symbols)
          : [...part].map(spelled).join(""),
      )
      .join("");
  });
}

/** A character without its last mark, without that before it, and so on, then what it is compatible with. @param {string} one */
function forms(one) {
  const marked = [...one.normalize("NFD")];
  const without = marked.map((_, marks) =>
    marked
      .slice(0, marked.length - marks)
      .join("")
      .normalize("NFC"),
  );
  return [...without, PLAIN.get(marked[0]) ?? one, one.normalize("NFKC")];
}

/**
 * The parts of a run in whose characters a test turns out the same, each with its outcome.
 * @param {string[]} run
 * @param {(one: string) => boolean} test
 */
function groups(run, test) {
  /** @type {[boolean, string][]} */
  const parts = [];
  for (const one of run) {
    const outcome = test(one);
    if (parts.at(-1)?.[0] === outcome) parts[parts.length - 1][1] += one;
    else parts.push([outcome, one]);
  }
  return parts;
}
