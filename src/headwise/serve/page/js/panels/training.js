/** The training curves of a run, also while it is still training. */

import { fill, h, s } from "../dom.js";
import { panel, twin, watch } from "../panel.js";
import { counted, number } from "../text.js";

const POLL_EVERY = 5000; // milliseconds between requests while a training is running
const [WIDTH, HEIGHT, LEFT, BOTTOM] = [420, 190, 46, 22];

/** @typedef {{ name: string, points: [number, number][], dashed: boolean }} Line */

/** @param {import("../types.js").App} app */
export function trainingPanel({ data }) {
  const section = panel("training", "Training", 9, "The curves of this run, from its metrics.jsonl.");
  const charts = h("div", { class: "curves" });
  const status = h("p", { class: "detail", role: "status" });
  section.body.append(status, charts);
  watch(section.body, [data.curves]);
  const refresh = twin(section, charts, () => {
    const records = data.curves.value?.records ?? [];
    return {
      caption: "Reports, the last first",
      head: ["Step", "Kind", "Loss", "Learning rate", "BLEU"],
      rows: records
        .slice(-500)
        .reverse()
        .map((record) => [
          record.step,
          record.kind,
          ...["loss", "learning_rate", "bleu"].map((key) => formatted(record[key])),
        ]),
    };
  });
  data.run.on(({ value }) => {
    section.root.hidden = value !== null && !value.can.metrics;
  });
  const show = () => {
    const curves = data.curves.value;
    if (!curves) return;
    const last = curves.records[curves.records.length - 1];
    fill(
      status,
      curves.count === 0
        ? "This run has no metrics.jsonl."
        : `${curves.going_on ? "In training" : "Not in training now"}: step ${counted(last.step)} of ${counted(curves.max_steps)}.`,
    );
    const pointsOf = (/** @type {string} */ kind, /** @type {string} */ key) =>
      /** @type {[number, number][]} */ (
        curves.records
          .filter((record) => record.kind === kind && typeof record[key] === "number")
          .map((record) => [record.step, record[key]])
      );
    const line = (
      /** @type {string} */ name,
      /** @type {string} */ kind,
      /** @type {string} */ key,
      dashed = false,
    ) => ({ name, points: pointsOf(kind, key), dashed });
    fill(
      charts,
      ...[
        chart("Loss, nats", [line("training", "train", "loss", true), line("development", "dev", "loss")]),
        chart("Development BLEU", [line("BLEU", "dev", "bleu")]),
        chart("Learning rate", [line("learning rate", "train", "learning_rate")]),
      ],
    );
    refresh();
  };
  data.curves.on((slot) => slot.status === "ready" && show());
  window.setInterval(() => {
    if (data.curves.value?.going_on && !document.hidden) data.curves.retry();
  }, POLL_EVERY);
  return section.root;
}

/**
 * A line chart over steps, null without points.
 * @param {string} title
 * @param {Line[]} lines
 */
function chart(title, lines) {
  const points = lines.flatMap((line) => line.points);
  if (points.length === 0) return null;
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const [right, low, high] = [Math.max(...xs), Math.min(0, ...ys), Math.max(...ys) || 1];
  const x = (/** @type {number} */ value) => LEFT + ((WIDTH - LEFT - 8) * value) / right;
  const y = (/** @type {number} */ value) =>
    HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - 8) * (value - low)) / (high - low || 1);
  const ticks = [low, (low + high) / 2, high];
  return h(
    "figure",
    {},
    h(
      "figcaption",
      {},
      h("h3", {}, title),
      lines.length > 1 &&
        h(
          "span",
          { class: "legend" },
          lines.map((line) => h("span", { class: line.dashed ? "dashed" : "solid" }, line.name)),
        ),
    ),
    s(
      "svg",
      {
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        role: "img",
        "aria-label": `${title}: ${lines
          .filter((line) => line.points.length)
          .map((line) => `${line.name} ends at ${formatted(line.points[line.points.length - 1][1])}`)
          .join(", ")}`,
      },
      ticks.flatMap((tick) => [
        s("line", { class: "grid", x1: LEFT, x2: WIDTH - 8, y1: y(tick), y2: y(tick) }),
        s("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, axis(tick)),
      ]),
      [0, right].map((tick) =>
        s("text", { x: x(tick), y: HEIGHT - 4, "text-anchor": tick ? "end" : "start" }, counted(tick)),
      ),
      lines.map((line) =>
        s("polyline", {
          class: line.dashed ? "dashed" : "solid",
          points: line.points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" "),
        }),
      ),
    ),
  );
}

/** A value of a metric as text, empty if there is none. @param {unknown} value */
function formatted(value) {
  return typeof value === "number"
    ? Math.abs(value) < 0.01 && value !== 0
      ? value.toExponential(2).replace("-", "−")
      : number(value, 3)
    : "";
}

/** An axis label. @param {number} value */
function axis(value) {
  return value !== 0 && Math.abs(value) < 0.01
    ? value.toExponential(0).replace("-", "−")
    : number(value, Math.abs(value) < 10 ? 1 : 0);
}
