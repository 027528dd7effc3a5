/** Generation word by word: the prefix, the next-token distribution and the cross-attention, beside teacher forcing. */

import { button, fill, h } from "../dom.js";
import { oneStop, roving } from "../keys.js";
import { panel, player, twin, watch } from "../panel.js";
import { number, percent, piece } from "../text.js";
import { crossHead, meanOfHeads } from "./ribbon.js";

const EVERY = 900; // milliseconds per step while playing

/** @typedef {import("../types.js").Stepwise} Stepwise */

/** @param {import("../types.js").App} app */
export function wordsPanel({ store, data }) {
  const section = panel(
    "words",
    "Word by word",
    0,
    "The decoder writes one token at a time; in training it computes all positions at once.",
  );
  const slider = h("input", { type: "range", min: 0, step: 1, "aria-label": "Step", "data-key": "step" });
  const label = h("output", {});
  const last = () => (data.stepwise.value?.steps.length ?? 1) - 1;
  const current = () => Math.min(store.state.step, last());
  const go = (/** @type {number} */ step) => store.set({ step: Math.max(0, Math.min(step, last())) });
  const begin = () => {
    if (current() === last()) go(0);
  };
  const advance = () => {
    go(current() + 1);
    return current() < last();
  };
  const { play, stop } = player(EVERY, begin, advance, "play-steps");
  const back = button("Back", () => go(current() - 1), { "data-key": "step-back" });
  const next = button("Next", () => go(current() + 1), { "data-key": "step-next" });
  section.tools.append(back, play, next, slider, label);
  slider.addEventListener("input", () => go(Number(slider.value)));

  const prefix = h("p", { class: "prefix", dir: "auto", "aria-live": "polite" });
  const own = h("div", { class: "nexts" });
  const forcedList = h("div", { class: "nexts" });
  const positions = h("div", { class: "positions", role: "group", "aria-label": "Positions" });
  const looked = h("p", { class: "looked", dir: "auto" });
  const where = h("h3", {});
  const about = h("p", { class: "detail" });
  const chart = h(
    "div",
    {},
    h(
      "div",
      { class: "sides" },
      h("div", {}, h("h3", {}, "Step by step: the decoder has read"), prefix, own),
      h("div", {}, h("h3", {}, "Teacher forcing: all positions at once"), positions, forcedList),
    ),
    where,
    looked,
    about,
  );
  section.body.append(chart);
  watch(section.body, [data.stepwise]);
  roving(positions, "button");
  const refresh = twin(section, chart, () => table(data.stepwise.value));

  const show = () => {
    const stepwise = data.stepwise.value;
    section.root.hidden = data.run.value !== null && !data.run.value.can.steps;
    for (const control of [slider, play, back, next]) control.disabled = !stepwise;
    if (!stepwise) {
      label.value = "";
      for (const element of [own, forcedList, positions, looked, about]) fill(element);
      fill(prefix, h("span", { class: "muted" }, "Nothing to write yet."));
      return refresh();
    }
    const at = current();
    const step = stepwise.steps[at];
    back.disabled = at === 0;
    next.disabled = at === last();
    slider.max = String(last());
    slider.value = String(at);
    label.value = `${at + 1} of ${stepwise.steps.length}`;
    const read = ["<s>", ...stepwise.target.pieces.slice(0, at).map(piece)];
    fill(
      prefix,
      read.flatMap((token) => [h("span", { class: "read" }, token), " "]),
      "→ ",
      h("strong", {}, piece(step.chosen.piece)),
    );
    fill(own, ...distribution(step.alternatives, step.chosen));
    fill(
      forcedList,
      ...distribution(step.forced_alternatives, { ...step.chosen, log_probability: step.forced }),
    );
    fill(positions, ...stepwise.steps.map((one, index) => position(one, index, at)));
    oneStop(positions.children);
    const { over } = store.state;
    const { layer, head } = crossHead(store.state, stepwise.attention);
    const heading = {
      all: "mean of all heads",
      layer: `mean of layer ${layer + 1}`,
      head: `head ${layer + 1}.${head + 1}`,
    };
    fill(where, `Where this step looks in the source (cross-attention, ${heading[over]})`);
    fill(looked, ...attended(stepwise, at));
    const largest = stepwise.difference;
    fill(
      about,
      `The largest difference of a probability between the two, over the whole vocabulary: ${small(step.difference)} at this step, ${small(largest)} at any. `,
      largest < 1e-5
        ? "A position that is computed with all the others depends on no more than the step did."
        : "The two differ, because with teacher forcing a position sees what comes after it.",
    );
    refresh();
  };

  /**
   * A position of teacher forcing, with the probability of its token.
   * @param {import("../types.js").Step} step
   * @param {number} index
   * @param {number} at
   */
  const position = (step, index, at) =>
    button(
      [
        h("span", {}, piece(step.chosen.piece)),
        h("span", { class: "figures" }, percent(Math.exp(step.forced))),
      ],
      () => go(index),
      { "data-key": `position-${index}`, "aria-current": index === at ? "step" : null },
    );

  /**
   * The source subwords with their shares of the attention of a step, over the heads that the state selects.
   * @param {Stepwise} stepwise
   * @param {number} at
   */
  const attended = (stepwise, at) => {
    const { attention } = stepwise;
    if (!attention) return [h("span", { class: "muted" }, "This model has no cross-attention.")];
    const shares = meanOfHeads(store.state, attention).at(at).data;
    const names = stepwise.source.pieces.map(piece);
    return names.flatMap((name, index) => [
      h(
        "span",
        { class: "share", style: { "--share": shares[index] }, title: percent(shares[index]) },
        name,
        h("span", { class: "hidden" }, ` (${percent(shares[index])})`),
      ),
      " ",
    ]);
  };

  store.on((_, changed) => {
    if (changed.has("run") || changed.has("text") || changed.has("changes")) stop();
    if (["step", "layer", "head", "over"].some((key) => changed.has(key))) show();
  });
  data.run.on(show);
  data.stepwise.on((slot) => slot.status !== "loading" && show());
  show();
  return section.root;
}

/**
 * The likeliest tokens as bars; the chosen one is marked, and added if it isn't among them.
 * @param {import("../types.js").Alternative[]} alternatives
 * @param {import("../types.js").Alternative} chosen
 */
function distribution(alternatives, chosen) {
  const all = alternatives.some(({ id }) => id === chosen.id) ? alternatives : [...alternatives, chosen];
  return all.map((one) => {
    const probability = Math.exp(one.log_probability);
    return h(
      "div",
      {
        class: `next${one.id === chosen.id ? " chosen" : ""}`,
        style: { "--own": probability, "--drawn": 0 },
      },
      h("span", { class: "piece", dir: "auto" }, piece(one.piece)),
      h("span", { class: "bar" }),
      h("span", { class: "figures" }, `${percent(probability)}${one.id === chosen.id ? ", taken" : ""}`),
    );
  });
}

/** A difference, in powers of ten where it is tiny. @param {number} value */
function small(value) {
  return value === 0 || value >= 0.001 ? number(value, 4) : value.toExponential(1).replace("-", "−");
}

/** @param {Stepwise | null} stepwise */
function table(stepwise) {
  return (
    stepwise && {
      caption: "Log-probability of each token, step by step and with teacher forcing",
      head: ["Step", "Token", "Step by step", "Teacher forcing", "Largest difference"],
      rows: stepwise.steps.map((step, index) => [
        index + 1,
        piece(step.chosen.piece),
        number(step.chosen.log_probability, 4),
        number(step.forced, 4),
        small(step.difference),
      ]),
    }
  );
}
