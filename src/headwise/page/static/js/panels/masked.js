/** A masked language model: a text with its masks filled, or each token as the model reads it. */

import { fill, h } from "../dom.js";
import { panel, scrolled, tableOf, textBox, watch } from "../panel.js";
import { number, visible } from "../text.js";

/** @param {import("../types.js").App} app */
export function maskedPanel({ store, data }) {
  const section = panel(
    "masked",
    "Masked words",
    1,
    "Write <mask> for a word, and the model fills it from both sides; without one, it says how it reads each token.",
  );
  const text = textBox(store, {
    id: "masked-text",
    rows: 3,
    "aria-label": "Text",
    placeholder: "the <mask> sat on the mat",
  });
  const filled = h("p", { class: "changes", dir: "auto", "aria-live": "polite" });
  const likely = scrolled("Likely tokens");
  section.body.append(h("div", { class: "sides" }, text, h("div", {}, filled, likely)));
  watch(section.body, [data.trace]);

  const show = () => {
    const run = data.run.value;
    section.root.hidden = run?.task !== "masked_language_model";
    const trace = data.trace.value;
    const reading = trace?.forced;
    if (section.root.hidden || !trace || !reading) return fill(filled);
    fill(filled, reading.target.text);
    const places = trace.source.pieces.flatMap((piece, index) => (piece === "<mask>" ? [index] : []));
    const shown = places.length ? places : reading.target.pieces.map((_, index) => index).slice(1, -1);
    const table = tableOf({
      caption: places.length ? "Likely tokens of each mask" : "Likely tokens of each position",
      head: ["Position", "Token", "Probability of the likeliest"],
      rows: shown.map((index) => [
        index + 1,
        visible(trace.source.pieces[index]),
        reading.alternatives[index]
          .map((one) => `${visible(one.piece)} ${number(Math.exp(one.log_probability), 3)}`)
          .join("   "),
      ]),
    });
    fill(likely, shown.length > 0 && table);
  };
  data.run.on(show);
  data.trace.on((slot) => slot.status === "ready" && show());
  section.root.hidden = true;
  return section.root;
}
