/** The effect of interventions on an image model: class probabilities, or the similarity of a caption. */

import { h } from "../dom.js";
import { sum } from "../image_view.js";
import { tableOf } from "../panel.js";
import { number, signed } from "../text.js";

const SHOWN = 5; // classes

/** @param {import("../data.js").Data} data @returns {Node[]} */
export function imageEffect({ run, view, unchanged }) {
  const [now, before] = [view.value, unchanged.value];
  const settled = view.status === "ready" && unchanged.status === "ready";
  if (!settled || !now || !before) return [];
  const classes = run.value?.classes ?? [];
  if (!now.probabilities || !before.probabilities) {
    const [similarity, old] = [now, before].map(({ shares }) => (shares ? sum(shares.data) : 0));
    const caption = "Similarity of image and caption";
    const rows = [["cosine", number(old, 4), number(similarity, 4), signed(similarity - old, 4)]];
    return [tableOf({ caption, head: ["", "before", "now", "Δ"], rows })];
  }
  const [p, q] = [before.probabilities, now.probabilities];
  const best = (/** @type {number[]} */ values) => values.indexOf(Math.max(...values));
  const order = [...p.keys()].sort((a, b) => p[b] - p[a]).slice(0, SHOWN);
  if (!order.includes(best(q))) order.push(best(q));
  const same = best(p) === best(q);
  return [
    h(
      "h3",
      {},
      same ? "The class stays the same" : `The class changes from ${classes[best(p)]} to ${classes[best(q)]}`,
    ),
    tableOf({
      caption: "Class probabilities",
      head: ["Class", "before", "now", "Δ log P"],
      rows: order.map((index) => [
        classes[index],
        number(p[index], 4),
        number(q[index], 4),
        p[index] > 0 && q[index] > 0 ? signed(Math.log(q[index] / p[index]), 4) : "–",
      ]),
    }),
  ];
}
