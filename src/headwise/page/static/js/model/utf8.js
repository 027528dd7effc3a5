/** UTF-8, with one U+FFFD for each invalid byte, as SentencePiece decodes it. */

/**
 * The number of bytes of the character at a place; 0 where none begins.
 * @param {ArrayLike<number>} bytes
 * @param {number} place
 */
export function sequenceLength(bytes, place) {
  const first = bytes[place];
  if (first < 0x80) return 1;
  const size = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (size === 0 || place + size > bytes.length) return 0;
  for (let index = 1; index < size; index++) if ((bytes[place + index] & 0xc0) !== 0x80) return 0;
  const second = bytes[place + 1];
  if (first === 0xe0 && second < 0xa0) return 0; // longer than needed
  if (first === 0xed && second > 0x9f) return 0; // half of a surrogate pair
  if (first === 0xf0 && second < 0x90) return 0;
  if (first === 0xf4 && second > 0x8f) return 0; // beyond U+10FFFF
  return size;
}

/** Decode bytes. @param {number[]} bytes */
export function decodeUtf8(bytes) {
  const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
  let text = "";
  for (let place = 0; place < bytes.length; ) {
    const size = sequenceLength(bytes, place);
    text += size === 0 ? "\ufffd" : utf8.decode(Uint8Array.from(bytes.slice(place, place + size)));
    place += Math.max(1, size);
  }
  return text;
}
