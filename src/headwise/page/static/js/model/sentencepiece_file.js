/** A serialized SentencePiece model: the fields of sentencepiece_model.proto that splitting a text needs. */

// Types of pieces and of models.
export const [UNKNOWN, CONTROL, BYTE] = [2, 3, 6];
export const UNIGRAM = 1;

/**
 * @typedef {object} PieceModel
 * @property {string[]} pieces  by id
 * @property {Float32Array} scores
 * @property {number[]} types
 * @property {number} kind  `UNIGRAM`, or 2 for byte pairs
 * @property {boolean} byteFallback  characters without a piece are spelled in bytes
 * @property {string} unknownSurface  what an unknown piece is decoded as
 * @property {Uint8Array} map  of the normalization, compiled; empty for none
 * @property {Uint8Array} undone  the map of what is undone after decoding; empty for none
 * @property {boolean} prefix  a space is put before the text
 * @property {boolean} trim  runs of spaces become one, and those at the ends are removed
 */

/**
 * Parse a model; throws an error for a file that is cut off.
 * @param {ArrayBuffer} buffer
 * @returns {PieceModel}
 */
export function parseModel(buffer) {
  const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
  /** @type {{ piece: string, score: number, type: number }[]} */
  const entries = [];
  /** @type {Map<number, number | Uint8Array>} */
  let trainer = new Map();
  /** @type {Map<number, number | Uint8Array>} */
  let normalizer = new Map();
  /** @type {Map<number, number | Uint8Array>} */
  let denormalizer = new Map();
  for (const [field, value] of fields(new Uint8Array(buffer))) {
    if (!(value instanceof Uint8Array)) continue;
    const inner = new Map(fields(value));
    if (field === 1) {
      const score = /** @type {Uint8Array | undefined} */ (inner.get(2));
      entries.push({
        piece: utf8.decode(/** @type {Uint8Array} */ (inner.get(1))),
        score: score ? new DataView(score.slice().buffer).getFloat32(0, true) : 0,
        type: Number(inner.get(3) ?? 1),
      });
    } else if (field === 2) trainer = inner;
    else if (field === 3) normalizer = inner;
    else if (field === 5) denormalizer = inner;
  }
  const surface = /** @type {Uint8Array | undefined} */ (trainer.get(44));
  return {
    pieces: entries.map(({ piece }) => piece),
    scores: Float32Array.from(entries, ({ score }) => score),
    types: entries.map(({ type }) => type),
    kind: Number(trainer.get(3) ?? UNIGRAM),
    byteFallback: Boolean(trainer.get(35) ?? 0),
    unknownSurface: surface ? utf8.decode(surface) : " ⁇ ",
    map: /** @type {Uint8Array} */ (normalizer.get(2) ?? new Uint8Array(0)),
    undone: /** @type {Uint8Array} */ (denormalizer.get(2) ?? new Uint8Array(0)),
    prefix: Boolean(normalizer.get(3) ?? 1),
    trim: Boolean(normalizer.get(4) ?? 1),
  };
}

/**
 * The fields of a protobuf message: numbers, or the bytes of a text, a message or a float.
 * @param {Uint8Array} message
 * @returns {Generator<[number, number | Uint8Array]>}
 */
function* fields(message) {
  let place = 0;
  const advance = (/** @type {number} */ size) => {
    const start = place;
    place += size;
    if (place > message.length) throw new Error("expected a SentencePiece model, found a damaged file");
    return start;
  };
  const varint = () => {
    let [value, factor] = [0, 1];
    for (;;) {
      const byte = message[advance(1)];
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
      factor *= 128;
    }
  };
  while (place < message.length) {
    const key = varint();
    const wire = key & 7;
    if (wire === 0) {
      yield [key >> 3, varint()];
      continue;
    }
    const size = wire === 1 ? 8 : wire === 5 ? 4 : varint();
    yield [key >> 3, message.subarray(advance(size), place)];
  }
}
