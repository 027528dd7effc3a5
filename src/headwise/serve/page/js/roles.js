/** What was measured of a head over many sentences. */

import { counted, percent } from "./text.js";

/**
 * @typedef {{ name: string, short: string, rate: number, baseline: number, against: string, samples: number }} Role
 * @typedef {{ roles: Role[], position: Role, entropy: number, confidence: number }} Measured
 *
 * @typedef {object} Calibration
 * @property {string} name
 * @property {number} error
 * @property {number} tokens
 * @property {{ confidence: number, accuracy: number, count: number }[]} bins
 *
 * @typedef {object} Evidence
 * @property {"not measured" | "measuring" | "measured" | "failed"} status
 * @property {string} about a sentence: from what, or why not
 * @property {number} sentences
 * @property {Partial<Record<import("./types.js").Part, Measured[][]>>} heads
 * @property {{ rule: string, error: number, sentences: number } | null} alignment
 * @property {{ name: string, correlation: number, samples: number }[]} attribution
 * @property {Calibration[]} calibration
 */

/**
 * What was measured of a head, null where nothing was.
 * @param {Evidence | null} evidence
 * @param {import("./types.js").Part} part
 * @param {number} layer
 * @param {number} head
 * @returns {Measured | null}
 */
export function measured(evidence, part, layer, head) {
  return evidence?.heads[part]?.[layer]?.[head] ?? null;
}

/**
 * A role as a sentence, with what it is to be compared with.
 * @param {Role} role
 */
export function sentence({ name, rate, samples, against, baseline }) {
  return `${name}: ${percent(rate)} of ${counted(samples)} (${against}: ${percent(baseline)}).`;
}

/**
 * What is known of a head, in a line.
 * @param {Evidence | null} evidence
 * @param {import("./types.js").Part} part
 * @param {number} layer
 * @param {number} head
 */
export function told(evidence, part, layer, head) {
  const found = measured(evidence, part, layer, head);
  if (!found)
    return evidence?.status === "measuring" ? "Roles are being measured." : "Roles are not measured.";
  if (found.roles.length === 0) return `No role stands out; most often ${sentence(found.position)}`;
  return found.roles.map(sentence).join(" ");
}

/**
 * The heads of each role, by name.
 * @param {Evidence | null} evidence
 * @returns {Map<string, { part: import("./types.js").Part, layer: number, head: number }[]>}
 */
export function byRole(evidence) {
  /** @type {ReturnType<typeof byRole>} */
  const found = new Map();
  for (const [part, layers] of Object.entries(evidence?.heads ?? {})) {
    for (const [layer, heads] of layers.entries()) {
      for (const [head, { roles }] of heads.entries()) {
        const place = { part: /** @type {import("./types.js").Part} */ (part), layer, head };
        for (const { name } of roles) found.set(name, [...(found.get(name) ?? []), place]);
      }
    }
  }
  return found;
}
