/** Formatting of numbers and words. */

/** The description of a word marked as unknown. */
export const UNKNOWN = "the model spells this word by single letters, or not at all";

/**
 * A number with a fixed number of decimals and a true minus sign.
 * @param {number} value
 * @param {number} [digits]
 */
export function number(value, digits = 2) {
  const text = value.toFixed(digits);
  return (/^-0\.?0*$/.test(text) ? text.slice(1) : text).replace("-", "−");
}

/** A number with its sign; zero has none. @param {number} value @param {number} [digits] */
export function signed(value, digits = 2) {
  const text = number(value, digits);
  return value > 0 && !/^0\.?0*$/.test(text) ? `+${text}` : text;
}

/** @param {number} share */
export function percent(share) {
  return `${number(100 * share, share > 0 && share < 0.1 ? 1 : 0)} %`;
}

/** @param {number} count */
export function counted(count) {
  return count.toLocaleString("en-US");
}

/**
 * A subword for display: a leading `▁` (the space before it) is removed, and the continuation of a word gets a dot.
 * @param {string} piece
 */
export function piece(piece) {
  if (piece.startsWith("▁")) return piece.slice(1) || "␣";
  return /^<.*>$/.test(piece) ? piece : `·${piece}`;
}

/** A text of at most so many characters, which ends in … where it was longer. @param {string} text @param {number} most */
export function shortened(text, most) {
  const characters = [...text]; // an emoji is two units of a string
  return characters.length > most ? `${characters.slice(0, most - 1).join("")}…` : text;
}

/** A token of a language model, whose spaces and line ends are parts of the text. @param {string} piece */
export function visible(piece) {
  return piece.replaceAll("▁", "␣").replaceAll(" ", "␣").replaceAll("\n", "↵");
}

/**
 * How a run's tokens are displayed: a translator's subwords as in `piece`, a text's tokens as in `visible`, an image's
 * patches and classes by their names.
 * @param {import("./types.js").Run | null} run
 * @returns {(token: string) => string}
 */
export function namedAs(run) {
  if (run?.can.vision) return (token) => token;
  return !run || run.can.translate ? piece : visible;
}

/** @typedef {{ kind: "same" | "added" | "removed", word: string }} Change */

/**
 * The shortest word-level diff of two texts (longest common subsequence).
 * @param {string} before
 * @param {string} after
 * @returns {Change[]}
 */
export function difference(before, after) {
  const old = before.split(/\s+/).filter(Boolean);
  const now = after.split(/\s+/).filter(Boolean);
  const common = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1));
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      common[i][j] =
        old[i] === now[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  /** @type {Change[]} */
  const changes = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      changes.push({ kind: "same", word: old[i++] });
      j++;
    } else if (i < old.length && (j === now.length || common[i + 1][j] >= common[i][j + 1])) {
      changes.push({ kind: "removed", word: old[i++] });
    } else {
      changes.push({ kind: "added", word: now[j++] });
    }
  }
  return changes;
}

/** The length penalty ((5 + |Y|) / 6)^α, Wu et al. 2016. @param {number} length @param {number} alpha */
export function lengthPenalty(length, alpha) {
  return ((5 + length) / 6) ** alpha;
}
