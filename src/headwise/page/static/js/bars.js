/** A vector as bars around zero. */

import { formula, h, s } from "./dom.js";
import { number } from "./text.js";

const READ = 256; // numbers in the text for screen readers

/**
 * A figure with a bar for each number; the numbers are titles of the bars, and text for screen readers.
 * @param {string} label  markup for `formula` (dom.js)
 * @param {Float32Array} values
 * @param {string[] | null} [names]  of the bars; otherwise they are numbered
 */
export function bars(label, values, names = null) {
  const finite = [...values].filter(Number.isFinite);
  const most = Math.max(1e-9, ...finite.map(Math.abs));
  const shown = finite
    .slice(0, READ)
    .map((value) => number(value, 3))
    .join(" ");
  const svg = s(
    "svg",
    {
      class: "bars",
      viewBox: `0 0 ${values.length} 2`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `${label}: ${shown}`,
    },
    s("line", { x1: 0, x2: values.length, y1: 1, y2: 1 }),
    [...values].map((value, i) => {
      if (!Number.isFinite(value))
        return s("rect", { class: "masked", x: i + 0.1, y: 0.9, width: 0.8, height: 0.2 });
      const height = Math.abs(value) / most;
      return s(
        "rect",
        {
          class: value < 0 ? "below" : "above",
          x: i + 0.1,
          y: value < 0 ? 1 : 1 - height,
          width: 0.8,
          height,
        },
        s("title", {}, `${names ? names[i] : i + 1}: ${number(value, 4)}`),
      );
    }),
  );
  return h(
    "figure",
    { class: "strip" },
    h("figcaption", {}, formula(label), h("span", {}, `±${number(most, 2)}`)),
    svg,
  );
}
