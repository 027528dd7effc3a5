/** SentencePiece: a text to pieces by byte pairs or by a unigram model, and pieces to a text. */

import { Normalizer, Replacements } from "./normalization.js";
import { BYTE, CONTROL, parseModel, UNIGRAM, UNKNOWN } from "./sentencepiece_file.js";
import { decodeUtf8 } from "./utf8.js";

const MARK = "\u2581"; // a space
const UNKNOWN_PENALTY = 10; // of a character without a piece, below the lowest score

export class SentencePiece {
  /** @param {ArrayBuffer} buffer  the serialized model */
  constructor(buffer) {
    this.model = parseModel(buffer);
    this.normalizer = new Normalizer(this.model);
    this.undone = new Replacements(this.model.undone);
    const { pieces, scores, types } = this.model;
    /** Ids of the pieces that a text can contain. @type {Map<string, number>} */
    this.ordinary = new Map();
    /** Ids of all pieces. @type {Map<string, number>} */
    this.ids = new Map();
    this.longest = 0; // characters of a piece
    this.lowest = Number.POSITIVE_INFINITY; // score
    pieces.forEach((piece, id) => {
      this.ids.set(piece, id);
      if ([UNKNOWN, CONTROL, BYTE].includes(types[id])) return;
      this.ordinary.set(piece, id);
      this.longest = Math.max(this.longest, [...piece].length);
      this.lowest = Math.min(this.lowest, scores[id]);
    });
  }

  /** Whether a piece is one byte. @param {string} piece */
  isByte(piece) {
    const id = this.ids.get(piece);
    return id !== undefined && this.model.types[id] === BYTE;
  }

  /**
   * Split a text; neighboring characters without a piece are one piece, which has no id.
   * @param {string} text
   * @returns {string[]}
   */
  split(text) {
    const characters = [...this.normalizer.normalize(text)];
    const parts = this.model.kind === UNIGRAM ? this.#likeliest(characters) : this.#merged(characters);
    /** @type {string[]} */
    const pieces = [];
    let afterUnknown = false;
    for (const part of parts) {
      const unknown = !this.ordinary.has(part);
      if (unknown && this.model.byteFallback) pieces.push(...spelled(part));
      else if (unknown && afterUnknown) pieces[pieces.length - 1] += part;
      else pieces.push(part);
      afterUnknown = unknown;
    }
    return pieces;
  }

  /**
   * Byte pairs: join the neighbors whose piece has the highest score, the leftmost first, until none has a piece.
   * @param {string[]} parts
   */
  #merged(parts) {
    const score = (/** @type {number} */ index) => {
      const id = index + 1 < parts.length ? this.ordinary.get(parts[index] + parts[index + 1]) : undefined;
      return id === undefined ? Number.NEGATIVE_INFINITY : this.model.scores[id];
    };
    const scores = parts.map((_, index) => score(index));
    for (;;) {
      let best = 0;
      for (let index = 1; index < scores.length; index++) if (scores[index] > scores[best]) best = index;
      if (!(scores[best] > Number.NEGATIVE_INFINITY)) return parts;
      parts.splice(best, 2, parts[best] + parts[best + 1]);
      scores.splice(best + 1, 1);
      scores[best] = score(best);
      if (best > 0) scores[best - 1] = score(best - 1);
    }
  }

  /**
   * Unigram: the pieces with the highest sum of scores (Viterbi), in float32 as SentencePiece sums them.
   * @param {string[]} characters
   */
  #likeliest(characters) {
    const { scores } = this.model;
    const unknown = Math.fround(this.lowest - UNKNOWN_PENALTY);
    const totals = new Float32Array(characters.length + 1);
    const starts = new Int32Array(characters.length + 1).fill(-1);
    const offer = (/** @type {number} */ start, /** @type {number} */ end, /** @type {number} */ score) => {
      const total = Math.fround(score + totals[start]);
      if (starts[end] >= 0 && total <= totals[end]) return;
      [totals[end], starts[end]] = [total, start];
    };
    for (let start = 0; start < characters.length; start++) {
      let piece = "";
      const last = Math.min(characters.length, start + this.longest);
      for (let end = start + 1; end <= last; end++) {
        piece += characters[end - 1];
        const id = this.ordinary.get(piece);
        if (id !== undefined) offer(start, end, scores[id]);
      }
      if (!this.ordinary.has(characters[start])) offer(start, start + 1, unknown);
    }
    /** @type {string[]} */
    const parts = [];
    for (let end = characters.length; end > 0; end = starts[end])
      parts.unshift(characters.slice(starts[end], end).join(""));
    return parts;
  }

  /** The text of pieces. @param {string[]} pieces */
  join(pieces) {
    const { types, unknownSurface, prefix, trim } = this.model;
    let text = "";
    /** @type {number[]} */
    let bytes = [];
    let [atStart, dropped] = [true, false];
    const flush = () => {
      text += decodeUtf8(bytes);
      bytes = [];
    };
    for (const piece of pieces) {
      const id = this.ids.get(piece);
      const type = id === undefined ? 0 : types[id];
      if (type === BYTE) {
        bytes.push(Number.parseInt(piece.slice(3, 5), 16));
        continue;
      }
      flush();
      if (dropped || text !== "") atStart = false;
      dropped = false;
      if (type === UNKNOWN) text += unknownSurface;
      else if (type !== CONTROL) {
        let shown = piece;
        if (atStart && (prefix || trim) && piece.startsWith(MARK)) {
          shown = piece.slice(MARK.length);
          dropped = !trim; // of several spaces in a row, all are dropped where spaces are trimmed
        }
        text += shown.replaceAll(MARK, " ");
      }
    }
    flush();
    return this.undone.apply(text);
  }
}

/** The pieces of a text's bytes. @param {string} text */
function spelled(text) {
  return Array.from(
    new TextEncoder().encode(text),
    (byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`,
  );
}
