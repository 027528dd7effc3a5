/** Two texts and what became of the words; added and removed ones are marked by more than color. */

import { h } from "../dom.js";
import { difference } from "../text.js";

/**
 * @param {string} before
 * @param {string} after
 */
export function changesBetween(before, after) {
  const changes = difference(before, after);
  if (changes.every((change) => change.kind === "same"))
    return h("p", { class: "changes" }, "No change: the same words.");
  const marked = {
    same: /** @type {const} */ ("span"),
    added: /** @type {const} */ ("ins"),
    removed: /** @type {const} */ ("del"),
  };
  return h(
    "p",
    { class: "changes", dir: "auto" },
    changes.flatMap(({ kind, word }) => [h(marked[kind], {}, word), " "]),
  );
}
