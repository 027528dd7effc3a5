/** What is read off a model's view of an image: maps of patches, and tables of the same numbers. */

import { heads, mean, Tensor } from "./tensor.js";
import { number } from "./text.js";

/**
 * @typedef {import("./types.js").ImageView} ImageView
 * @typedef {{ over: "head" | "layer" | "all", layer: number, head: number, query: number | null }} Which
 */

/**
 * The layer and head of the state, as far as the model has them.
 * @param {ImageView} view
 * @param {{ layer: number, head: number }} state
 * @returns {[layer: number, head: number]}
 */
export function within({ attention }, { layer, head }) {
  return [Math.min(layer, attention.shape[0] - 1), Math.min(head, attention.shape[1] - 1)];
}

/**
 * Who looks at whom: (tokens, tokens) of a head, of a layer's mean, or through all layers.
 * @param {ImageView} view
 * @param {Which} which
 */
function matrix(view, which) {
  const [layer, head] = within(view, which);
  if (which.over === "all") return view.rollout;
  return which.over === "head" ? view.attention.at(layer, head) : mean(heads(view.attention, layer));
}

/**
 * The token that looks: the pinned patch, or null: the class token, or the mean of all patches where there is none.
 * @param {ImageView} view
 * @param {Which} which
 */
export function asker(view, { query }) {
  return query !== null && query >= Number(view.class_token) && query < view.rollout.shape[0] ? query : null;
}

/**
 * The weights that the token which looks gives to all tokens.
 * @param {ImageView} view
 * @param {Which} which
 */
export function weights(view, which) {
  const all = matrix(view, which);
  const token = asker(view, which) ?? (view.class_token ? 0 : null);
  if (token !== null) return all.at(token).data;
  return mean(Array.from({ length: all.shape[0] }, (_, row) => all.at(row))).data;
}

/**
 * Those of them that patches get, as (rows, columns).
 * @param {ImageView} view
 * @param {Which} which
 */
export function looked(view, which) {
  return new Tensor(view.grid, weights(view, which).subarray(Number(view.class_token)));
}

/**
 * What each patch adds to a word of the caption, (rows, columns).
 * @param {ImageView} view
 * @param {number} word
 */
export function sharesOf({ shares, grid }, word) {
  return shares ? shares.at(word) : new Tensor(grid, new Float32Array(grid[0] * grid[1]));
}

/**
 * A map whose largest value is 1 or −1, for its shades.
 * @param {Tensor} map
 */
export function scaled({ shape, data }) {
  const most = Math.max(1e-12, ...data.map(Math.abs));
  return new Tensor(
    shape,
    data.map((value) => value / most),
  );
}

/** @param {Float32Array} values */
export function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

/**
 * A place of the grid in words.
 * @param {number} row
 * @param {number} column
 */
export function placed(row, column) {
  return `row ${row + 1}, column ${column + 1}`;
}

/**
 * Where a token's patch is, null for the class token.
 * @param {ImageView} view
 * @param {number | null} token
 * @returns {[row: number, column: number] | null}
 */
export function patchOf({ class_token: own, grid }, token) {
  const place = token === null ? -1 : token - Number(own);
  return place < 0 ? null : [Math.floor(place / grid[1]), place % grid[1]];
}

/**
 * @param {ImageView} view
 * @param {number | null} token
 */
export function tokenName(view, token) {
  const patch = patchOf(view, token);
  if (patch) return placed(...patch);
  return view.class_token ? "the class token" : "all patches on average";
}

/**
 * All tokens' weights.
 * @param {ImageView} view
 * @param {Which} which
 * @param {string} name of the head, the layer, or the rollout
 */
export function weightsTable(view, which, name) {
  const all = matrix(view, which);
  const names = Array.from({ length: all.shape[0] }, (_, token) => {
    const patch = patchOf(view, token);
    return patch ? patch.map((place) => place + 1).join(", ") : "class";
  });
  return {
    caption: `Weights of ${name}: rows look, columns are looked at (row, column of a patch)`,
    head: ["Looks", ...names],
    rows: names.map((one, token) => [one, ...[...all.at(token).data].map((value) => number(value, 4))]),
  };
}

/**
 * What each patch adds to each word.
 * @param {ImageView} view
 */
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
