/** Maps over patches computed from a vision model's attention, and tables of the same numbers. */

import { heads, mean, Tensor } from "./tensor.js";
import { number } from "./text.js";

/**
 * @typedef {import("./types.js").ImageView} ImageView
 * @typedef {{ over: "head" | "layer" | "all", layer: number, head: number, query: number | null }} Which
 */

/**
 * The layer and head of the state, clamped to those of the model.
 * @param {ImageView} view
 * @param {{ layer: number, head: number }} state
 * @returns {[layer: number, head: number]}
 */
export function within({ attention }, { layer, head }) {
  return [Math.min(layer, attention.shape[0] - 1), Math.min(head, attention.shape[1] - 1)];
}

/**
 * The attention weights, (tokens, tokens): of a head, the mean of a layer's heads, or the rollout over all layers.
 * @param {ImageView} view
 * @param {Which} which
 */
function matrix(view, which) {
  const [layer, head] = within(view, which);
  if (which.over === "all") return view.rollout;
  return which.over === "head" ? view.attention.at(layer, head) : mean(heads(view.attention, layer));
}

/**
 * The query token: the pinned patch, or null for the class token, or for the mean of all patches if there is none.
 * @param {ImageView} view
 * @param {Which} which
 */
export function asker(view, { query }) {
  return query !== null && query >= Number(view.class_token) && query < view.rollout.shape[0] ? query : null;
}

/** The query token's weights on all tokens. @param {ImageView} view @param {Which} which */
export function weights(view, which) {
  const all = matrix(view, which);
  const token = asker(view, which) ?? (view.class_token ? 0 : null);
  if (token !== null) return all.at(token).data;
  return mean(Array.from({ length: all.shape[0] }, (_, row) => all.at(row))).data;
}

/** The query token's weights on the patches, (rows, columns). @param {ImageView} view @param {Which} which */
export function looked(view, which) {
  return new Tensor(view.grid, weights(view, which).subarray(Number(view.class_token)));
}

/**
 * Each patch's contribution to a word of the caption, (rows, columns).
 * @param {ImageView} view
 * @param {number} word
 */
export function sharesOf({ shares, grid }, word) {
  return shares ? shares.at(word) : new Tensor(grid, new Float32Array(grid[0] * grid[1]));
}

/** The largest absolute value of a map, which gets the deepest shade. @param {Tensor} map */
export function largest({ data }) {
  return Math.max(1e-12, ...data.map(Math.abs));
}

/** @param {Float32Array} values */
export function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

/** A patch's position in the grid, in words. @param {number} row @param {number} column */
export function placed(row, column) {
  return `row ${row + 1}, column ${column + 1}`;
}

/**
 * The grid position of a token's patch, null for the class token.
 * @param {ImageView} view
 * @param {number | null} token
 * @returns {[row: number, column: number] | null}
 */
export function patchOf({ class_token: hasClassToken, grid }, token) {
  const patch = token === null ? -1 : token - Number(hasClassToken);
  return patch < 0 ? null : [Math.floor(patch / grid[1]), patch % grid[1]];
}

/** The name of a query token; null as in `asker`. @param {ImageView} view @param {number | null} token */
export function tokenName(view, token) {
  const patch = patchOf(view, token);
  if (patch) return placed(...patch);
  return view.class_token ? "the class token" : "all patches on average";
}

/**
 * A table of all tokens' weights.
 * @param {ImageView} view
 * @param {Which} which
 * @param {string} name of the head, the layer, or the rollout
 */
export function weightsTable(view, which, name) {
  const all = matrix(view, which);
  const names = Array.from({ length: all.shape[0] }, (_, token) => {
    const patch = patchOf(view, token);
    return patch ? patch.map((index) => index + 1).join(", ") : "class";
  });
  return {
    caption: `Weights of ${name}: rows look, columns are looked at (row, column of a patch)`,
    head: ["Looks", ...names],
    rows: names.map((query, token) => [query, ...[...all.at(token).data].map((value) => number(value, 4))]),
  };
}

/** A table of each patch's contribution to each word. @param {ImageView} view */
export function sharesTable(view) {
  const [rows, columns] = view.grid;
  return {
    caption: "What each patch (row, column) adds to each word; all together are the similarity",
    head: [
      "Word",
      ...Array.from(
        { length: rows * columns },
        (_, i) => `${Math.floor(i / columns) + 1}, ${(i % columns) + 1}`,
      ),
    ],
    rows: view.words.map((word, i) => [
      word,
      ...[...sharesOf(view, i).data].map((value) => number(value, 4)),
    ]),
  };
}
