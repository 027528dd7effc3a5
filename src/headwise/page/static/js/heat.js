/** Heat maps on a canvas: one square per weight, in a deeper shade of the accent color for a larger weight. */

import { fill, h } from "./dom.js";
import { Tensor } from "./tensor.js";
import { number } from "./text.js";

/** The functions that redraw the heat maps, by canvas. @type {WeakMap<HTMLCanvasElement, () => void>} */
const heatMaps = new WeakMap();

/**
 * Paint weights from 0 to `most`, and from 0 to −`most` in the caret's color; masked cells stay empty. The shade is the
 * square root of the weight's share of `most`, so that small weights can be told from zero.
 * @param {HTMLCanvasElement} canvas
 * @param {Tensor} matrix (rows, columns)
 * @param {(row: number, column: number) => boolean} [seen]
 * @param {number} [most]
 */
export function paint(canvas, matrix, seen = () => true, most = 1) {
  const [rows, columns] = matrix.shape;
  const draw = () => {
    canvas.width = columns;
    canvas.height = rows;
    const context = canvas.getContext("2d");
    if (!context || rows * columns === 0) return;
    const image = context.createImageData(columns, rows);
    const [above, below] = [colorOf(canvas, "color"), colorOf(canvas, "caret-color")];
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const index = row * columns + column;
        const value = matrix.data[index];
        const shade = seen(row, column) ? Math.sqrt(Math.min(1, Math.abs(value) / most)) : 0;
        image.data.set([...(value < 0 ? below : above), Math.round(255 * shade)], 4 * index);
      }
    }
    context.putImageData(image, 0, 0);
  };
  heatMaps.set(canvas, draw);
  draw();
}

const BAR = 64; // colors of a color bar

/** A color bar: the shades of a heat map with the values that they stand for. */
export function colorBar() {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const labels = h("div", { class: "labels" });
  const root = h("div", { class: "color-bar", role: "img" }, canvas, labels);
  return {
    root,
    /**
     * @param {boolean} signed  whether there are values below 0
     * @param {number} [most]  the value with the deepest shade
     */
    show(signed, most = 1) {
      const low = signed ? -most : 0;
      const values = Float32Array.from({ length: BAR }, (_, i) => low + ((most - low) * i) / (BAR - 1));
      paint(canvas, new Tensor([1, BAR], values), () => true, most);
      const digits = most < 0.1 ? 3 : most === 1 ? 1 : 2;
      const ticks = [low, (low + most) / 2, most].map((value) => number(value, value === 0 ? 0 : digits));
      fill(labels, ...ticks.map((text) => h("span", {}, text)));
      root.setAttribute("aria-label", `Colors from ${ticks[0]} to ${ticks[2]}, deeper for larger magnitudes`);
    },
  };
}

/** Repaint all heat maps after a change of colors. */
export function repaint() {
  for (const canvas of document.querySelectorAll("canvas")) heatMaps.get(canvas)?.();
}

/** A pixel that shows the components of a color, however that is written. */
const probe = h("canvas", { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });

/**
 * The RGB components of a color property.
 * @param {Element} element
 * @param {string} property
 * @returns {[number, number, number]}
 */
function colorOf(element, property) {
  if (!probe) return [0, 0, 0];
  probe.fillStyle = getComputedStyle(element).getPropertyValue(property);
  probe.fillRect(0, 0, 1, 1);
  const [red, green, blue] = probe.getImageData(0, 0, 1, 1).data;
  return [red, green, blue];
}
