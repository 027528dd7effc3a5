/** Words that a vocabulary has no subwords for, by the rule of `headwise.text.tokens.unknown`. */

import { EOS, UNK } from "./subwords.js";

const WORD = /[^ \n\u2581]+/g; // SentencePiece splits at these only: other white space is an ordinary character

/** Finder of the words of one side that the subwords spell by single letters, or that have an unknown one. */
export class UnknownWords {
  /** @param {import("./subwords.js").Side} side */
  constructor(side) {
    this.side = side;
    /** For each id `u` if it is unknown or a byte, `s` for a single letter, `w` for more of a word, or `o`. */
    this.kinds = side.pieces.map((_, id) => kind(side, id));
    /** Whether the vocabulary has more than single characters. */
    this.hasWords = this.kinds.includes("w", EOS + 1);
  }

  /** Whether the subwords of a word make it an unknown one. @param {number[]} ids */
  has(ids) {
    const kinds = ids.map((id) => this.kinds[id]).join("");
    return kinds.includes("u") || (kinds.includes("sss") && !kinds.includes("w") && this.hasWords);
  }

  /** The unknown words of a text, in its order. @param {string} text */
  of(text) {
    const words = splitWords(text);
    const groups = this.side.byWord(this.side.encode(text));
    // A text may have the symbol for a space, or white space that isn't a space.
    const each = groups.length === words.length ? groups : words.map((word) => this.side.encode(word));
    return words.filter((_, index) => this.has(each[index]));
  }
}

/** @param {import("./subwords.js").Side} side @param {number} id */
function kind(side, id) {
  if (id === UNK || side.isByte(id)) return "u";
  const characters = [...side.pieces[id].replace(/^\u2581/, "")];
  if (characters.every((one) => one.toLowerCase() === one.toUpperCase())) return "o";
  return characters.length === 1 ? "s" : "w";
}

/** The words of a text, split where SentencePiece does before segmentation. @param {string} text */
export function splitWords(text) {
  return text.match(WORD) ?? [];
}
