/** Line charts, with linear or logarithmic axes. */

import { h, s } from "./dom.js";
import { counted, number } from "./text.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [420, 190, 46, 22];
const NAMES = 132; // space for the names at the ends of the lines
const APART = 13; // at least between two names
const MOST_TICKS = 6; // powers of ten on a logarithmic axis

/**
 * A line; `dashed` and `faint` set it apart from the others.
 * @typedef {{ name: string, points: [number, number][], dashed?: boolean, faint?: boolean }} Line
 *
 * @typedef {object} Axes
 * @property {boolean} [logX]
 * @property {boolean} [logY]
 * @property {number[]} [xTicks]  0 and the last x unless given
 * @property {boolean} [named]  the lines have their names at their ends, in place of a legend
 */

/**
 * A line chart, null without points; points that a logarithmic axis can't have are left out.
 * @param {string} title
 * @param {Line[]} given
 * @param {Axes} [axes]
 */
export function lineChart(title, given, { logX = false, logY = false, xTicks, named = false } = {}) {
  const lines = given
    .map((line) => ({
      ...line,
      points: line.points.filter(([x, y]) => Number.isFinite(y) && (!logX || x > 0) && (!logY || y > 0)),
    }))
    .filter((line) => line.points.length);
  const points = lines.flatMap((line) => line.points);
  if (points.length === 0) return null;
  const [onX, onY] = [logX, logY].map((log, i) =>
    scale(
      log,
      points.map((point) => point[i]),
    ),
  );
  const right = WIDTH - (named ? NAMES : 8);
  const x = (/** @type {number} */ value) => LEFT + (right - LEFT) * onX.share(value);
  const y = (/** @type {number} */ value) => HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 8) * onY.share(value);
  const last = Math.max(...points.map(([a]) => a));
  const xs = xTicks ?? [0, last];
  return h(
    "figure",
    {},
    h(
      "figcaption",
      {},
      h("h3", {}, title),
      !named &&
        given.length > 1 &&
        h(
          "span",
          { class: "legend" },
          lines.map((line) => h("span", { class: classOf(line) }, line.name)),
        ),
    ),
    s(
      "svg",
      {
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        role: "img",
        "aria-label": `${title}: ${lines
          .map((line) => `${line.name} ends at ${formatted(line.points[line.points.length - 1][1])}`)
          .join(", ")}`,
      },
      onY
        .ticks()
        .flatMap((tick) => [
          s("line", { class: "grid", x1: LEFT, x2: right, y1: y(tick), y2: y(tick) }),
          s("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, logY ? power(tick) : axis(tick)),
        ]),
      xs.map((tick, i) =>
        s(
          "text",
          { x: x(tick), y: HEIGHT - 4, "text-anchor": i === 0 ? "start" : tick === last ? "end" : "middle" },
          counted(tick),
        ),
      ),
      lines.map((line) => {
        if (line.points.length === 1) {
          const [[a, b]] = line.points; // a line with one point would not be seen
          return s("circle", { class: classOf(line), cx: x(a), cy: y(b), r: 2.5 });
        }
        const points = line.points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`);
        return s("polyline", { class: classOf(line), points: points.join(" ") });
      }),
      named ? names(lines, x, y) : [],
    ),
  );
}

/** @param {Line} line */
function classOf({ dashed, faint }) {
  return `${dashed ? "dashed" : "solid"}${faint ? " faint" : ""}`;
}

/**
 * The names at the ends of the lines, moved apart where they would overlap.
 * @param {Line[]} lines
 * @param {(value: number) => number} x
 * @param {(value: number) => number} y
 */
function names(lines, x, y) {
  const ends = lines
    .map((line) => ({ line, at: line.points[line.points.length - 1] }))
    .map(({ line, at }) => ({ line, left: x(at[0]) + 5, height: y(at[1]) }))
    .sort((a, b) => a.height - b.height);
  for (let i = 1; i < ends.length; i++) ends[i].height = Math.max(ends[i].height, ends[i - 1].height + APART);
  let floor = HEIGHT - BOTTOM + 4;
  for (const end of ends.toReversed()) {
    end.height = Math.min(end.height, floor);
    floor = end.height - APART;
  }
  return ends.map(({ line, left, height }) =>
    s("text", { class: line.faint ? "name" : "name chosen", x: left, y: height + 4 }, line.name),
  );
}

/**
 * An axis over some values, and 0 if it is linear: the share of its length at which a value is, and its ticks.
 * @param {boolean} log
 * @param {number[]} values
 */
function scale(log, values) {
  const map = log ? Math.log10 : (/** @type {number} */ value) => value;
  const all = log ? values.map(map) : [0, ...values];
  const [low, high] = [Math.min(...all), Math.max(...all)];
  return {
    share: (/** @type {number} */ value) => (map(value) - low) / (high - low || 1),
    ticks: () => {
      if (!log) return [0, 0.5, 1].map((share) => low + share * (high - low || 1));
      const powers = Math.floor(high) - Math.ceil(low) + 1;
      const every = Math.max(1, Math.ceil(powers / MOST_TICKS));
      const first = Math.ceil(Math.ceil(low) / every) * every;
      return Array.from(
        { length: Math.floor((Math.floor(high) - first) / every) + 1 },
        (_, i) => 10 ** (first + i * every),
      );
    },
  };
}

/** A value as text, empty if there is none. @param {unknown} value */
export function formatted(value) {
  return typeof value === "number"
    ? (Math.abs(value) < 0.01 && value !== 0) || Math.abs(value) >= 1e5
      ? value.toExponential(2).replace("-", "−").replace("+", "")
      : number(value, 3)
    : "";
}

/** A label of a linear axis, with two digits. @param {number} value */
function axis(value) {
  const size = Math.abs(value);
  if (size !== 0 && size < 0.001) return value.toExponential(1).replaceAll("-", "−");
  return number(value, size >= 10 ? 0 : size >= 1 || size === 0 ? 1 : size >= 0.1 ? 2 : size >= 0.01 ? 3 : 4);
}

/** A label of a logarithmic axis. @param {number} value */
function power(value) {
  return value >= 0.01 && value <= 1000
    ? String(Number(value.toPrecision(1)))
    : value.toExponential(0).replace("-", "−").replace("+", "");
}
