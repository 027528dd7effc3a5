/** Normalization of a text before SentencePiece splits it, by the map that the model holds (such as nmt_nfkc). */

import { decodeUtf8, sequenceLength } from "./utf8.js";

const SPACE = 0x20;
const MARK = [0xe2, 0x96, 0x81]; // U+2581, which stands for a space in pieces
const REPLACEMENT = [0xef, 0xbf, 0xbd];

/** The map from byte sequences to byte sequences: a double-array trie (Darts), then the texts that it refers to. */
export class Replacements {
  /** @param {Uint8Array} map */
  constructor(map) {
    const own = map.slice();
    const size = own.length ? new DataView(own.buffer).getUint32(0, true) : 0;
    this.units = new Uint32Array(own.buffer.slice(4, 4 + size));
    this.texts = own.subarray(4 + size);
  }

  /**
   * The longest sequence that begins at a place and is in the map: its length, and the offset of its replacement.
   * @param {Uint8Array} bytes
   * @param {number} start
   */
  longest(bytes, start) {
    const { units } = this;
    let [length, offset] = [0, 0];
    if (units.length === 0) return { length, offset };
    let node = child(units[0]);
    for (let place = start; place < bytes.length; place++) {
      node ^= bytes[place];
      const unit = units[node];
      if ((unit & 0x800000ff) >>> 0 !== bytes[place]) break;
      node ^= child(unit);
      if ((unit >>> 8) & 1) [length, offset] = [place + 1 - start, units[node] & 0x7fffffff];
    }
    return { length, offset };
  }

  /** The replacement at an offset. @param {number} offset */
  text(offset) {
    return this.texts.subarray(offset, this.texts.indexOf(0, offset));
  }

  /**
   * The replacement of what begins at a place, and the number of bytes that it replaces.
   * @param {Uint8Array} bytes
   * @param {number} place
   */
  next(bytes, place) {
    const { length, offset } = this.longest(bytes, place);
    if (length > 0) return { part: this.text(offset), length };
    const size = sequenceLength(bytes, place);
    if (size === 0) return { part: REPLACEMENT, length: 1 };
    return { part: bytes.subarray(place, place + size), length: size };
  }

  /** A text with everything replaced. @param {string} text */
  apply(text) {
    if (this.units.length === 0) return text;
    const bytes = new TextEncoder().encode(text);
    /** @type {number[]} */
    const out = [];
    for (let place = 0; place < bytes.length; ) {
      const { part, length } = this.next(bytes, place);
      out.push(...part);
      place += length;
    }
    return decodeUtf8(out);
  }
}

/** The offset of a node's children. @param {number} unit */
function child(unit) {
  return (unit >>> 10) << ((unit & 512) >>> 6);
}

export class Normalizer {
  /** @param {import("./sentencepiece_file.js").PieceModel} model */
  constructor({ map, prefix, trim }) {
    this.replacements = new Replacements(map);
    this.prefix = prefix;
    this.trim = trim;
  }

  /** The normalized text, with U+2581 for each space. @param {string} text */
  normalize(text) {
    const bytes = new TextEncoder().encode(text);
    /** @type {number[]} */
    const out = [];
    let place = 0;
    while (this.trim && place < bytes.length) {
      const { part, length } = this.replacements.next(bytes, place);
      if (part.length !== 1 || part[0] !== SPACE) break;
      place += length;
    }
    if (place === bytes.length) return "";
    if (this.prefix) out.push(...MARK);
    let afterSpace = this.trim;
    while (place < bytes.length) {
      const { part, length } = this.replacements.next(bytes, place);
      let first = 0;
      while (afterSpace && part[first] === SPACE) first++;
      for (const byte of part.slice(first)) {
        if (byte === SPACE) out.push(...MARK);
        else out.push(byte);
      }
      if (first < part.length) afterSpace = part[part.length - 1] === SPACE;
      if (!this.trim) afterSpace = false;
      place += length;
    }
    while (this.trim && endsWithMark(out)) out.length -= MARK.length;
    return decodeUtf8(out);
  }
}

/** @param {number[]} bytes */
function endsWithMark(bytes) {
  const start = bytes.length - MARK.length;
  return start >= 0 && MARK.every((byte, index) => bytes[start + index] === byte);
}
