/** The order that a number stands for, by the formula of `headwise.analysis.interventions.weights.order`. */

const PRIME = 65537;

/**
 * Where each of `count` positions goes: the order in which 1·m, 2·m, … (mod 65537) are sorted, m = 40503·(number + 1).
 * @param {number} count
 * @param {number} number
 */
export function order(count, number) {
  const factor = (((40503 * (number + 1)) % PRIME) + PRIME) % PRIME;
  const rank = (/** @type {number} */ position) => ((position + 1) * factor) % PRIME;
  return Array.from({ length: count }, (_, i) => i).sort((a, b) => rank(a) - rank(b));
}
