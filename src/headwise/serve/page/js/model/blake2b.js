/** BLAKE2b (RFC 7693) with a result of 8 bytes and no key. */

const SIZE = 8n; // bytes of the result
const BLOCK = 128; // bytes
const IV = [
  0x6a09e667f3bcc908n,
  0xbb67ae8584caa73bn,
  0x3c6ef372fe94f82bn,
  0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n,
  0x9b05688c2b3e6c1fn,
  0x1f83d9abfb41bd6bn,
  0x5be0cd19137e2179n,
];
// The order of the message's words in each round (section 2.7); rounds 11 and 12 are as the first two.
const ORDERS = [
  "0123456789abcdef",
  "ea489fd61c02b753",
  "b8c052fdae367194",
  "7931dcbe265a40f8",
  "905724afe1bc683d",
  "2c6a0b834d75fe19",
  "c51fed4a0763928b",
  "db7ec13950f4862a",
  "6fe9b308c2d714a5",
  "a2847615fb9e3cd0",
].map((order) => [...order].map((digit) => Number.parseInt(digit, 16)));

/** @param {bigint} value @param {bigint} by */
const rotated = (value, by) => BigInt.asUintN(64, (value >> by) | (value << (64n - by)));

/**
 * The hash of a text's bytes as a number, its first byte the lowest.
 * @param {string} text
 */
export function hash(text) {
  const bytes = new TextEncoder().encode(text);
  const state = [...IV];
  state[0] ^= 0x01010000n ^ SIZE;
  const blocks = Math.max(1, Math.ceil(bytes.length / BLOCK));
  for (let block = 0; block < blocks; block++) {
    const padded = new Uint8Array(BLOCK);
    padded.set(bytes.subarray(block * BLOCK, (block + 1) * BLOCK));
    const read = BigInt(Math.min(bytes.length, (block + 1) * BLOCK));
    compress(state, new BigUint64Array(padded.buffer), read, block === blocks - 1);
  }
  return state[0];
}

/**
 * The function F of section 3.2.
 * @param {bigint[]} state
 * @param {BigUint64Array} message
 * @param {bigint} read  bytes so far
 * @param {boolean} last
 */
function compress(state, message, read, last) {
  const v = [...state, ...IV];
  v[12] ^= read;
  if (last) v[14] = BigInt.asUintN(64, ~v[14]);
  /** @param {number} a @param {number} b @param {number} c @param {number} d @param {bigint} x @param {bigint} y */
  const mix = (a, b, c, d, x, y) => {
    v[a] = BigInt.asUintN(64, v[a] + v[b] + x);
    v[d] = rotated(v[d] ^ v[a], 32n);
    v[c] = BigInt.asUintN(64, v[c] + v[d]);
    v[b] = rotated(v[b] ^ v[c], 24n);
    v[a] = BigInt.asUintN(64, v[a] + v[b] + y);
    v[d] = rotated(v[d] ^ v[a], 16n);
    v[c] = BigInt.asUintN(64, v[c] + v[d]);
    v[b] = rotated(v[b] ^ v[c], 63n);
  };
  for (let round = 0; round < 12; round++) {
    const word = (/** @type {number} */ place) => message[ORDERS[round % 10][place]];
    for (let column = 0; column < 4; column++)
      mix(column, 4 + column, 8 + column, 12 + column, word(2 * column), word(2 * column + 1));
    for (let diagonal = 0; diagonal < 4; diagonal++) {
      const [b, c, d] = [1, 2, 3].map((row) => 4 * row + ((diagonal + row) % 4));
      mix(diagonal, b, c, d, word(8 + 2 * diagonal), word(9 + 2 * diagonal));
    }
  }
  for (let index = 0; index < 8; index++) state[index] ^= v[index] ^ v[index + 8];
}
