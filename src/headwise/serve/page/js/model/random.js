/** The permutations that PyTorch draws on a CPU for a seed, so that shuffled weights are the server's. */

const [SIZE, MIDDLE] = [624, 397];

/**
 * The Mersenne Twister MT19937 (Matsumoto & Nishimura 1998); returns a function that draws 32-bit numbers.
 * @param {number} seed  32 bits
 */
function twister(seed) {
  const state = new Uint32Array(SIZE);
  state[0] = seed;
  for (let i = 1; i < SIZE; i++) state[i] = Math.imul(1812433253, state[i - 1] ^ (state[i - 1] >>> 30)) + i;
  let index = SIZE;
  const renew = () => {
    for (let i = 0; i < SIZE; i++) {
      const bits = (state[i] & 0x80000000) | (state[(i + 1) % SIZE] & 0x7fffffff);
      state[i] = state[(i + MIDDLE) % SIZE] ^ (bits >>> 1) ^ (bits & 1 ? 0x9908b0df : 0);
    }
    index = 0;
  };
  return () => {
    if (index === SIZE) renew();
    let value = state[index++];
    value ^= value >>> 11;
    value ^= (value << 7) & 0x9d2c5680;
    value ^= (value << 15) & 0xefc60000;
    return (value ^ (value >>> 18)) >>> 0;
  };
}

/**
 * What `torch.randperm(count)` returns after `manual_seed(seed)`.
 * @param {number} count
 * @param {bigint} seed
 */
export function permutation(count, seed) {
  const draw = twister(Number(BigInt.asUintN(32, seed)));
  const order = Array.from({ length: count }, (_, i) => i);
  for (let i = 0; i < count - 1; i++) {
    const other = i + (draw() % (count - i));
    [order[i], order[other]] = [order[other], order[i]];
  }
  return order;
}
