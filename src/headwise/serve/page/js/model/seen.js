/** Words that the model never saw in training, by the record of its training text (`seen.safetensors`). */

import { hash } from "./blake2b.js";
import { parse } from "./safetensors.js";
import { BOS, EOS, PAD, UNK } from "./subwords.js";
import { decodeUtf8 } from "./utf8.js";

const WORD = /[^ \n\u2581]+/g; // SentencePiece splits at these only: other white space is an ordinary character

/**
 * Letters of the vocabulary that have two cases, and the small form of those that change it (Unicode's full case
 * folding), as the export found them.
 * @typedef {{ cased: string, folded: Record<string, string> }} Letters
 */

/** What one side of the training text has; without a record, everything but the unknown piece. */
export class Seen {
  /**
   * @param {import("./subwords.js").Side} side
   * @param {ArrayBuffer | null} file
   * @param {Letters} letters
   */
  constructor(side, file, letters) {
    this.side = side;
    this.folded = letters.folded;
    this.recorded = file !== null;
    const { tensors, metadata } = file ? parse(file) : { tensors: new Map(), metadata: null };
    /** @type {Uint8Array | undefined} */
    const bits = tensors.get(side.name)?.bytes;
    this.isNew = side.pieces.map((_, id) => id === UNK || (bits !== undefined && !bit(bits, id)));
    for (const id of [PAD, BOS, EOS]) this.isNew[id] = false;
    const spelled = metadata ? JSON.parse(metadata.headwise).spelled[side.name] : "";
    /** The characters that the text spells in bytes. */
    this.spelled = new Set(spelled);
    const words = tensors.get(`${side.name}_words`);
    /** The sorted hashes of the text's words. */
    this.words = words ? new BigUint64Array(words.bytes.slice().buffer) : null;
    const cased = new Set(letters.cased);
    this.letters = side.pieces.map((piece) => piece.replaceAll("\u2581", ""));
    this.cased = this.letters.map(
      (text, id) => id > EOS && !side.isByte(id) && text !== "" && [...text].every((one) => cased.has(one)),
    );
  }

  /**
   * For each id, whether its subword, or the word or character that it belongs to, was never seen.
   * @param {number[]} ids
   */
  newPieces(ids) {
    const isNew = ids.map((id) => this.isNew[id]);
    if (!this.recorded) return isNew;
    for (const [character, start, stop] of this.#characters(ids))
      if (!this.spelled.has(character)) isNew.fill(true, start, stop);
    if (this.words !== null)
      for (const [word, start, stop] of this.#words(ids))
        if (!contains(this.words, hash(this.#fold(word)))) isNew.fill(true, start, stop);
    return isNew;
  }

  /**
   * The words of a text that the model never saw, or that hold a subword or character it never saw.
   * @param {string} text
   */
  newWords(text) {
    const anyNew = (/** @type {string} */ part) => this.newPieces(this.side.encode(part)).includes(true);
    return anyNew(text) ? splitWords(text).filter(anyNew) : [];
  }

  /** A word in small letters. @param {string} word */
  #fold(word) {
    return [...word].map((letter) => this.folded[letter] ?? letter).join("");
  }

  /**
   * The characters that ids spell in bytes, each with its start and end.
   * @param {number[]} ids
   * @returns {Generator<[string, number, number]>}
   */
  *#characters(ids) {
    const value = (/** @type {number} */ id) =>
      this.side.isByte(id) ? Number.parseInt(this.side.pieces[id].slice(3, 5), 16) : null;
    for (let index = 0; index < ids.length; ) {
      const first = value(ids[index]);
      const length = first === null ? 1 : 1 + +(first >= 0xc0) + +(first >= 0xe0) + +(first >= 0xf0);
      const stop = Math.min(index + length, ids.length);
      if (first !== null) yield [decodeUtf8(ids.slice(index, stop).map((id) => value(id) ?? 0)), index, stop];
      index += length;
    }
  }

  /**
   * The words of cased letters among ids, each with its start and end.
   * @param {number[]} ids
   * @returns {Generator<[string, number, number]>}
   */
  *#words(ids) {
    let start = 0;
    for (let stop = 1; stop <= ids.length; stop++) {
      const ends =
        stop === ids.length || this.side.pieces[ids[stop]].startsWith("\u2581") || !this.cased[ids[stop]];
      const cased = this.cased[ids[stop - 1]];
      if (cased && !ends) continue;
      if (cased)
        yield [
          ids
            .slice(start, stop)
            .map((id) => this.letters[id])
            .join(""),
          start,
          stop,
        ];
      start = stop;
    }
  }
}

/** The words of a text, split where SentencePiece does before segmentation. @param {string} text */
export function splitWords(text) {
  return text.match(WORD) ?? [];
}

/** Whether bit `index` is set, the highest of a byte first. @param {Uint8Array} bytes @param {number} index */
function bit(bytes, index) {
  return ((bytes[index >> 3] >> (7 - (index & 7))) & 1) === 1;
}

/** Whether sorted numbers contain one. @param {BigUint64Array} sorted @param {bigint} value */
function contains(sorted, value) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return sorted[low] === value;
}
