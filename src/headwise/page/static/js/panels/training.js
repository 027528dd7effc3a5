/** The training curves of a run, also while it is still training. */

import { fill, h } from "../dom.js";
import { formatted, lineChart } from "../lines.js";
import { panel, twin, watch } from "../panel.js";
import { counted } from "../text.js";

const POLL_EVERY = 5000; // milliseconds between requests while a training is running

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
      curves.records.length === 0
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
        lineChart("Loss, nats", [
          line("training", "train", "loss", true),
          line("development", "dev", "loss"),
        ]),
        lineChart("Development BLEU", [line("BLEU", "dev", "bleu")]),
        lineChart("Learning rate", [line("learning rate", "train", "learning_rate")]),
      ],
    );
    refresh();
  };
  data.curves.on((slot) => slot.status === "ready" && show());
  window.setInterval(() => {
    const { value, status } = data.curves; // a request that is still on its way would be sent in vain
    if (value?.going_on && status !== "loading" && !document.hidden) data.curves.retry();
  }, POLL_EVERY);
  return section.root;
}
