/** The word-level diff of two texts; added and removed words are marked by more than color. */

import { h } from "../dom.js";
import { difference } from "../text.js";

/** @param {string} before @param {string} after */
export function changesBetween(before, after) {
  const changes = difference(before, after);
  if (changes.every((change) => change.kind === "same"))
    return h("p", { class: "changes" }, "No change: the same words.");
  const tags = {
    same: /** @type {const} */ ("span"),
    added: /** @type {const} */ ("ins"),
    removed: /** @type {const} */ ("del"),
  };
  return h(
    "p",
    { class: "changes", dir: "auto" },
    changes.flatMap(({ kind, word }) => [h(tags[kind], {}, word), " "]),
  );
}
