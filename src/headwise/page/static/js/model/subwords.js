/** The subwords of source and target: texts to ids and back, with the ids of a run's vocabulary. */

import { SentencePiece } from "./sentencepiece.js";

export const [PAD, UNK, BOS, EOS] = [0, 1, 2, 3];
const JOINER = "\uffed";
const SPECIAL_PIECES = ["<pad>", "<unk>", "<s>", "</s>"];
const SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

/** Whether a text has a letter or a digit. @param {string} text */
export function hasLetters(text) {
  return /[\p{L}\p{N}]/u.test(text);
}

/** An error that the page shows: one sentence. */
export class Refusal extends Error {}

/** One side: SentencePiece's own ids, or those of a list of pieces (`vocabulary.json`). */
export class Side {
  /**
   * @param {SentencePiece} splitter
   * @param {"source" | "target"} name
   * @param {{ pieces: string[], codes: boolean, lowercase: boolean } | null} numbering
   */
  constructor(splitter, name, numbering) {
    this.splitter = splitter;
    this.name = name;
    this.numbering = numbering;
    this.pieces = numbering?.pieces ?? splitter.model.pieces;
    this.ids = new Map(this.pieces.map((piece, id) => [piece, id]));
    for (const piece of SPECIAL_PIECES) this.ids.delete(piece); // the text `</s>` isn't the end of a sentence
    this.joiners = splitter.join([JOINER]) === "";
  }

  get size() {
    return this.pieces.length;
  }

  /** The pieces of a text, with U+2581 for a space that it has, and without joiners. @param {number[]} ids */
  written(ids) {
    const pieces = ids.map((id) => this.pieces[id]);
    if (!this.joiners) return pieces;
    return pieces.map((piece, index) => {
      const shown = pieces[index - 1]?.endsWith(JOINER) ? piece.replace(/^\u2581/, "") : piece;
      return shown.replaceAll(JOINER, "");
    });
  }

  /**
   * The ids of each word: a word begins with U+2581, and special symbols are words of their own.
   * @param {number[]} ids
   */
  byWord(ids) {
    const special = (/** @type {number} */ id) => [PAD, BOS, EOS].includes(id);
    /** @type {number[][]} */
    const groups = [];
    this.written(ids).forEach((piece, index) => {
      const starts = piece.startsWith("\u2581") || special(ids[index]) || special(ids[index - 1]);
      if (index === 0 || starts) groups.push([]);
      groups[groups.length - 1].push(ids[index]);
    });
    return groups;
  }

  /** Whether the piece of an id is one byte. @param {number} id */
  isByte(id) {
    return this.splitter.isByte(this.pieces[id]);
  }

  /** For each id whether its piece has a letter or a digit; special symbols and bytes other than ASCII have none. */
  get lettered() {
    return this.pieces.map((piece, id) => {
      if (id <= EOS) return false;
      const byte = this.isByte(id) ? Number(piece.slice(1, -1)) : null;
      if (byte !== null) return byte < 128 && hasLetters(String.fromCharCode(byte));
      return hasLetters(piece);
    });
  }

  /** Encode a text, without special ids but unknown. @param {string} text */
  encode(text) {
    const surrogate = SURROGATE.exec(text);
    if (surrogate) {
      const code = `\\u${surrogate[0].charCodeAt(0).toString(16)}`;
      throw new Refusal(`${this.name}: expected whole characters, found half of one (${code})`);
    }
    const [code, rest] = this.#withoutCode(text);
    const pieces = this.splitter.split(this.numbering?.lowercase ? rest.toLowerCase() : rest);
    return [...code, ...pieces].map((piece) => this.ids.get(piece) ?? UNK);
  }

  /** Split off a language code at the beginning. @param {string} text @returns {[string[], string]} */
  #withoutCode(text) {
    const end = this.numbering?.codes && text.startsWith(">>") ? text.indexOf("<<") : -1;
    return end < 0 ? [[], text] : [[text.slice(0, end + 2)], text.slice(end + 2)];
  }

  /** Decode ids; padding, begin and end are dropped. @param {number[]} ids */
  decode(ids) {
    const pieces = ids.filter((id) => ![PAD, BOS, EOS].includes(id)).map((id) => this.pieces[id]);
    const text = this.splitter.join(pieces);
    return this.numbering ? strip(text.replaceAll("\u2581", " ")) : text;
  }
}

/**
 * Read the subwords of a run.
 * @param {(name: string) => Promise<ArrayBuffer>} read
 * @param {{ source: string, target: string, numbering: string | null }} files
 */
export async function readSubwords(read, files) {
  const source = new SentencePiece(await read(files.source));
  const target = files.target === files.source ? source : new SentencePiece(await read(files.target));
  if (files.numbering === null)
    return { source: new Side(source, "source", null), target: new Side(target, "target", null) };
  const {
    source: first,
    target: second,
    ...flags
  } = JSON.parse(new TextDecoder().decode(await read(files.numbering)));
  const numbering = (/** @type {string[]} */ pieces) => ({
    codes: false,
    lowercase: false,
    ...flags,
    pieces,
  });
  return {
    source: new Side(source, "source", numbering(first)),
    target: new Side(target, "target", numbering(second ?? first)),
  };
}

// White space as Python defines it; JavaScript's `trim` has U+FEFF in addition, and lacks some control characters.
const SPACES = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]+";
const AROUND = new RegExp(`^${SPACES}|${SPACES}$`, "g");
const BETWEEN = new RegExp(SPACES);
const EACH = new RegExp(SPACES.slice(0, -1), "g");
// What nobody sees, and ligatures, as in `headwise.characters`.
const UNSEEN = /[\p{Cc}\xad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/gu;
const LIGATURE = /[\ufb00-\ufb06]/g;
const LINE_ENDS = ["\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"];

/** A text without white space at its ends. @param {string} text */
export function strip(text) {
  return text.replace(AROUND, "");
}

/** A text as one line without white space at its ends. @param {string} text */
export function line(text) {
  return strip(oneLine(text));
}

/** A text with a space for each character that ends a line. @param {string} text */
export function oneLine(text) {
  return [...text].map((one) => (LINE_ENDS.includes(one) ? " " : one)).join("");
}

/**
 * A text in one line, in its most usual characters unless the vocabulary needs more subwords for these.
 * @param {Side} side
 * @param {string} text
 */
export function readable(side, text) {
  const given = line(text);
  const seen = strip(given.replace(EACH, " ").replace(UNSEEN, ""))
    .replace(LIGATURE, (one) => one.normalize("NFKC"))
    .normalize("NFC");
  return seen === given || side.encode(seen).length > side.encode(given).length ? given : seen;
}

/** The words of a text, separated by white space. @param {string} text */
export function words(text) {
  return strip(text) === "" ? [] : strip(text).split(BETWEEN);
}
