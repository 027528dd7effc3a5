/** A large heat map of one head's weights with its tokens, and a cursor moved by arrow keys, pointer and touch. */

import { fill, h } from "./dom.js";
import { colorBar, paint } from "./heat.js";
import { number } from "./text.js";

/**
 * @typedef {object} Matrix
 * @property {import("./tensor.js").Tensor} weights
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {(row: number, column: number) => boolean} seen
 * @property {((row: number, column: number) => string)} [text]  written in the cell; otherwise the weight, where it fits
 * @property {number} [most]  the value with the deepest shade, 1 unless given
 */

const FITS = 20; // CSS pixels of a cell's side into which a number fits
const MOST_NUMBERS = 900; // cells with numbers

/**
 * Put a mark on a cell, or hide it.
 * @param {HTMLElement} mark
 * @param {[row: number, column: number] | null} cell
 */
export function put(mark, cell) {
  mark.hidden = cell === null;
  mark.style.setProperty("--row", String(cell?.[0] ?? 0));
  mark.style.setProperty("--column", String(cell?.[1] ?? 0));
}

/**
 * The cell that the pointer is on, or the nearest one.
 * @param {MouseEvent} event
 * @param {HTMLElement} cells
 * @param {number[]} shape  rows and columns
 * @returns {[row: number, column: number]}
 */
export function cellAt(event, cells, [rows, columns]) {
  const box = cells.getBoundingClientRect();
  const index = (/** @type {number} */ share, /** @type {number} */ count) =>
    Math.max(0, Math.min(count - 1, Math.floor(share * count)));
  return [
    index((event.clientY - box.top) / box.height, rows),
    index((event.clientX - box.left) / box.width, columns),
  ];
}

/**
 * The element of the heat map, and the functions that update it.
 * @param {object} tell
 * @param {(row: number, column: number) => void} tell.move  the cursor moved
 * @param {(row: number, column: number) => void} tell.pin
 */
export function matrixView({ move, pin }) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const cursor = h("span", { class: "cell cursor", hidden: true });
  const pinned = h("span", { class: "cell pinned", hidden: true });
  const texts = h("div", { class: "texts", "aria-hidden": "true" });
  const cells = h(
    "div",
    {
      class: "cells",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "heat map",
      "data-key": "matrix",
    },
    canvas,
    texts,
    pinned,
    cursor,
  );
  const rows = h("ol", { class: "rows", "aria-hidden": "true" });
  const columns = h("ol", { class: "columns", "aria-hidden": "true" });
  const bar = colorBar();
  const root = h("div", { class: "matrix" }, columns, rows, cells, bar.root);
  /** @type {Matrix | null} */
  let shown = null;
  let [row, column] = [0, 0];

  /** @param {number} r @param {number} c */
  const go = (r, c) => {
    if (!shown) return;
    const [height, width] = shown.weights.shape;
    [row, column] = [Math.max(0, Math.min(height - 1, r)), Math.max(0, Math.min(width - 1, c))];
    put(cursor, [row, column]);
    for (const [i, item] of [...rows.children].entries()) item.classList.toggle("on", i === row);
    for (const [i, item] of [...columns.children].entries()) item.classList.toggle("on", i === column);
    move(row, column);
  };
  cells.addEventListener("keydown", (event) => {
    /** @type {Record<string, [number, number]>} */
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const step = moves[event.key];
    if (step) go(row + step[0], column + step[1]);
    else if (event.key === "Home") go(row, 0);
    else if (event.key === "End") go(row, Infinity);
    else if (event.key === "Enter" || event.key === " ") pin(row, column);
    else return;
    event.preventDefault();
  });
  const follow = (/** @type {MouseEvent} */ event) => {
    go(...cellAt(event, cells, shown?.weights.shape ?? [1, 1]));
  };
  cells.addEventListener("pointermove", follow);
  cells.addEventListener("click", (event) => {
    follow(event);
    pin(row, column);
  });

  /** Write the numbers into the cells, if they fit. */
  const write = () => {
    if (!shown) return;
    const { text = weightText, weights } = shown;
    const [height, width] = weights.shape;
    const fits = shown.text || (height * width <= MOST_NUMBERS && cells.clientWidth / width >= FITS);
    const indices = fits ? [...Array(height * width).keys()] : [];
    fill(texts, ...indices.map((i) => h("span", {}, text(Math.floor(i / width), i % width))));
  };
  /**
   * The weight with two decimals and without its leading zero, or one decimal where weights exceed 1.
   * @param {number} r
   * @param {number} c
   */
  const weightText = (r, c) => {
    if (!shown?.seen(r, c)) return "";
    const value = shown.weights.at(r).data[c];
    if (shown.most !== undefined && shown.most > 1) return number(value, 1);
    return number(value, 2)
      .replace(/^(−?)0\./, "$1.")
      .replace(/^1\.00$/, "1");
  };
  new ResizeObserver(write).observe(cells);

  return {
    root,
    /** @param {Matrix | null} matrix @param {string} label */
    show(matrix, label) {
      shown = matrix;
      root.hidden = matrix === null;
      cells.setAttribute("aria-label", label);
      if (!matrix) return;
      const [height, width] = matrix.weights.shape;
      root.style.setProperty("--rows", String(height));
      root.style.setProperty("--columns", String(width));
      fill(rows, ...matrix.rows.map((name) => h("li", {}, h("span", { dir: "auto" }, name))));
      fill(columns, ...matrix.columns.map((name) => h("li", {}, h("span", { dir: "auto" }, name))));
      write();
      paint(canvas, matrix.weights, matrix.seen, matrix.most);
      bar.show(
        matrix.weights.data.some((value) => value < 0),
        matrix.most,
      );
    },
    move: go,
    /**
     * Move the cursor to a cell, and the pin to the pinned cell if there is one.
     * @param {number} r
     * @param {number} c
     * @param {[row: number, column: number] | null} at the pinned cell
     */
    place(r, c, at) {
      [row, column] = [r, c];
      put(cursor, [r, c]);
      put(pinned, at);
    },
    /** @returns {[string | number, ...(string | number)[]][]} */
    table() {
      if (!shown) return [];
      const { weights, rows: names } = shown;
      return names.map((name, i) => [name, ...[...weights.at(i).data].map((value) => number(value, 4))]);
    },
  };
}
