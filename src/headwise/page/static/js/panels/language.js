/** A language model: its next-token distribution, the effect of sampling options, and a continuation. */

import { button, field, fill, h, numberInput } from "../dom.js";
import { oneStop, roving } from "../keys.js";
import { panel, textBox, twin, watch } from "../panel.js";
import { counted, number, percent, visible } from "../text.js";

const MORE = 40; // tokens of a continuation

/** @param {import("../types.js").App} app */
export function languagePanel({ store, data }) {
  const section = panel(
    "language",
    "Language model",
    1,
    "What the model would write next, and what it draws from.",
  );
  const text = textBox(store, {
    id: "prompt",
    rows: 5,
    "aria-label": "Text to go on with",
    placeholder: "Type the beginning of a text",
  });
  /** @param {"temperature" | "topk" | "topp" | "seed"} key @param {Record<string, number>} bounds */
  const control = (key, bounds) => ({
    key,
    input: numberInput(bounds, (value) => store.set({ [key]: value })),
  });
  const controls = [
    control("temperature", { min: 0.1, max: 10, step: 0.1 }),
    control("topk", { min: 0, max: 1000, step: 1 }),
    control("topp", { min: 0.05, max: 1, step: 0.05 }),
    control("seed", { min: 0, max: 999999, step: 1 }),
  ];
  const [temperature, topk, topp, seed] = controls.map(({ input }) => input);
  const more = button(
    "Write on",
    () => {
      data.written.clear();
      data.written.ask("continue", { ...data.drawing(), tokens: MORE, seed: store.state.seed });
    },
    { class: "primary" },
  );
  const list = h("div", { class: "nexts", role: "group", "aria-label": "Next tokens" });
  const about = h("p", { class: "detail", "aria-live": "polite" });
  const chart = h("div", {}, list);
  const form = h(
    "div",
    { class: "ask" },
    text,
    h(
      "div",
      { class: "row" },
      field("Temperature", temperature),
      field("Top-k (0: all)", topk),
      field("Top-p", topp),
    ),
    h("div", { class: "row" }, field("Seed", seed), more),
  );
  section.body.append(h("div", { class: "sides" }, form, h("div", {}, about, chart)));
  watch(section.body, [data.next, data.written]);
  roving(list, ".next");
  const refresh = twin(
    section,
    chart,
    () =>
      data.next.value && {
        caption: "The likeliest next tokens",
        head: ["Token", "The model’s probability", "Drawn with"],
        rows: data.next.value.tokens.map((token) => [
          visible(token.piece),
          number(token.probability, 4),
          number(token.drawn, 4),
        ]),
      },
  );

  const showState = () => {
    for (const { key, input } of controls)
      if (document.activeElement !== input) input.value = String(store.state[key]);
  };
  const show = () => {
    const distribution = data.next.value;
    if (!distribution) return;
    fill(
      about,
      `${counted(distribution.kept)} ${distribution.kept === 1 ? "token" : "tokens"} can be drawn; the model’s own entropy is ${number(distribution.entropy)} bits. `,
      distribution.left_out > 0
        ? `The first ${counted(distribution.left_out)} tokens are beyond what it reads. `
        : "",
      "Bar: the model’s probability; line: what it is drawn with. Enter takes a token.",
    );
    fill(
      list,
      ...distribution.tokens.map((token) =>
        button(
          [
            h("span", { class: "piece", dir: "auto" }, visible(token.piece)),
            h("span", { class: "bar" }),
            h(
              "span",
              { class: "figures" },
              token.drawn > 0
                ? `${percent(token.probability)} → ${percent(token.drawn)}`
                : `${percent(token.probability)}, out`,
            ),
          ],
          () => store.set({ text: store.state.text + token.text }),
          {
            class: `next${token.drawn > 0 ? "" : " out"}`,
            "data-key": `next-${token.id}`,
            style: { "--own": token.probability, "--drawn": token.drawn },
            "aria-label": `${visible(token.piece)}: ${percent(token.probability)}, ${token.drawn > 0 ? `drawn with ${percent(token.drawn)}` : "not drawn"}`,
          },
        ),
      ),
    );
    oneStop(list.children);
    refresh();
  };
  store.on(showState);
  data.run.on(({ value }) => {
    section.root.hidden = !value?.can.language_model;
    showState();
  });
  data.next.on((slot) => slot.status === "ready" && show());
  data.written.on(({ status, value }) => {
    if (status === "ready" && value) store.set({ text: store.state.text + value.text });
  });
  section.root.hidden = true;
  return section.root;
}
