/** Measurements of the heads over many sentences. */

import { counted, number, percent } from "./text.js";

/**
 * A role; `rate` is a share of the samples, the mean weight of so many rows, or a correlation over so many pairs.
 * @typedef {{ name: string, short: string, rate: number, unit: "share" | "weight" | "correlation", baseline: number,
 *   against: string, samples: number }} Role
 *
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
 * @property {string} about a sentence: the data measured on, or why nothing was measured
 * @property {number} sentences
 * @property {Partial<Record<import("./types.js").Part, Measured[][]>>} heads
 * @property {{ rule: string, error: number, sentences: number } | null} alignment
 * @property {{ name: string, correlation: number, samples: number }[]} attribution
 * @property {Calibration[]} calibration
 */

/**
 * The measurements of a head, null if there are none.
 * @param {Evidence | null} evidence
 * @param {import("./types.js").Part} part
 * @param {number} layer
 * @param {number} head
 * @returns {Measured | null}
 */
export function measured(evidence, part, layer, head) {
  return evidence?.heads[part]?.[layer]?.[head] ?? null;
}

/** A role as a sentence, with its rate and its baseline. @param {Role} role */
export function sentence({ name, rate, unit, samples, against, baseline }) {
  if (unit === "correlation")
    return `${name}: correlation ${number(rate)} over ${counted(samples)} pairs (${against}: ${number(baseline)}).`;
  if (unit === "weight")
    return `${name}: ${percent(rate)} of the weight of ${counted(samples)} rows (${against}: ${percent(baseline)}).`;
  return `${name}: ${percent(rate)} of ${counted(samples)} (${against}: ${percent(baseline)}).`;
}

/**
 * A line about a head's roles, or why there are none.
 * @param {Evidence | null} evidence
 * @param {import("./types.js").Part} part
 * @param {number} layer
 * @param {number} head
 */
export function told(evidence, part, layer, head) {
  const values = measured(evidence, part, layer, head);
  if (!values)
    return evidence?.status === "measuring" ? "Roles are being measured." : "Roles are not measured.";
  if (values.roles.length === 0) return `No role stands out; most often ${sentence(values.position)}`;
  return values.roles.map(sentence).join(" ");
}

/**
 * The heads that have each role, by the role's name.
 * @param {Evidence | null} evidence
 * @returns {Map<string, { part: import("./types.js").Part, layer: number, head: number }[]>}
 */
export function byRole(evidence) {
  /** @type {ReturnType<typeof byRole>} */
  const headsByRole = new Map();
  for (const [part, layers] of Object.entries(evidence?.heads ?? {})) {
    for (const [layer, heads] of layers.entries()) {
      for (const [head, { roles }] of heads.entries()) {
        const address = { part: /** @type {import("./types.js").Part} */ (part), layer, head };
        for (const { name } of roles) headsByRole.set(name, [...(headsByRole.get(name) ?? []), address]);
      }
    }
  }
  return headsByRole;
}

/**
 * Call a function when the evidence has other heads than before: while it is measured, the server is asked time and again.
 * @param {import("./types.js").App["data"]["evidence"]} evidence
 * @param {() => void} act
 */
export function onNewHeads(evidence, act) {
  let known = "";
  evidence.on(({ value }) => {
    const heads = JSON.stringify(value?.heads ?? null);
    if (heads !== known) {
      known = heads;
      act();
    }
  });
}
