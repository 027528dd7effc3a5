/** The whole model as a figure: every box with this input's tensors, and its share of parameters and operations. */

import { hasProducts } from "../data.js";
import { fill, h } from "../dom.js";
import { figure } from "../figure.js";
import { oneStop, roving } from "../keys.js";
import { panel, twin, watch } from "../panel.js";
import { counted, namedAs, number } from "../text.js";
import { partOf, showHead, showPanel } from "./inside.js";

/**
 * @typedef {import("../types.js").Boxes} Boxes
 * @typedef {import("../figure.js").Item} Item
 */

/** @param {import("../types.js").App} app */
export function architecturePanel({ store, data }) {
  const section = panel(
    "architecture",
    "Architecture",
    null,
    "This model with this input: each box opens its steps. A cell per token: the deeper, the longer its vector.",
  );
  const options = h("p", { class: "where" });
  const picture = h("div", { class: "figure-frame" });
  const parts = h("ol", { class: "parts", "aria-label": "Shares of parameters and operations" });
  const chart = h("div", {}, picture, parts);
  section.body.append(options, chart);
  watch(section.body, [data.boxes]);
  roving(picture, ".box");
  const refresh = twin(section, chart, () => data.boxes.value && table(data.boxes.value));

  const open = (/** @type {Item} */ { boxes: [box], folded }) => {
    const layer = box.layer ?? store.state.boxLayer;
    store.set({ box: box.name, boxLayer: layer, boxStep: 0 });
    if (folded) {
      // What had the focus is no longer drawn.
      return /** @type {SVGElement | null} */ (picture.querySelector("[aria-current]"))?.focus();
    }
    if (box.kind === "attention" && hasProducts(data.run.value, partOf(box))) showHead(store, box);
    else showPanel("inside");
  };

  /** What goes into the model and comes out, as the figure's captions. */
  const texts = () => {
    const { reading } = data;
    const named = namedAs(data.run.value);
    const view = data.view.value;
    if (view) {
      const { probabilities, image } = view;
      const best = probabilities ? probabilities.indexOf(Math.max(...probabilities)) : -1;
      const source = image === null ? "Own picture" : `Held-out image ${image + 1}`;
      return { named, source, reads: "", output: data.run.value?.classes?.[best] ?? "" };
    }
    const reads = reading?.reads.words.join(" ") ?? "";
    const source = data.run.value?.can.translate ? (data.trace.value?.source.text ?? "") : reads;
    return { named, source, reads, output: reading?.target.words.join(" ") ?? "" };
  };

  /** The drawing that is shown: it changes with the boxes and with the selected layer. */
  let drawn = "";
  /** @param {boolean} flowing whether the tensors are new */
  const show = (flowing) => {
    section.root.hidden = data.run.value !== null && !data.run.value.can.boxes;
    const boxes = data.boxes.value;
    if (!boxes) {
      fill(options, "Nothing to look at yet.");
      fill(picture);
      fill(parts);
      drawn = "";
      return refresh();
    }
    fill(options, boxes.options.join(" · "));
    const key = String(store.state.boxLayer);
    if (flowing || key !== drawn) {
      drawn = key;
      const drawing = figure(boxes, store.state.boxLayer, texts(), open);
      drawing.classList.toggle("flowing", flowing);
      fill(picture, drawing);
      fill(parts, ...shareList(boxes));
    }
    mark();
    refresh();
  };
  const mark = () => {
    const box = data.selected;
    const current = box && `box-${box.name}-${box.layer ?? 0}`;
    const items = /** @type {NodeListOf<SVGElement>} */ (picture.querySelectorAll(".box"));
    for (const item of items) {
      if (item.dataset.key === current) item.setAttribute("aria-current", "true");
      else item.removeAttribute("aria-current");
    }
    oneStop(items);
  };
  store.on((_, changed) => {
    if (changed.has("boxLayer") || changed.has("box")) show(false);
  });
  data.run.on(() => show(false));
  data.boxes.on(({ status }) => status !== "loading" && show(status === "ready"));
  return section.root;
}

/**
 * Shares in percent with one decimal whose sum is exactly 100: the largest remainders are rounded up.
 * @param {number[]} amounts
 */
function shares(amounts) {
  const total = amounts.reduce((sum, amount) => sum + amount, 0);
  if (total === 0) return amounts.map(() => 0);
  const exact = amounts.map((amount) => (1000 * amount) / total);
  const tenths = exact.map(Math.floor);
  const missing = 1000 - tenths.reduce((sum, tenth) => sum + tenth, 0);
  const order = [...exact.keys()].sort((a, b) => exact[b] - tenths[b] - (exact[a] - tenths[a]));
  for (const i of order.slice(0, missing)) tenths[i] += 1;
  return tenths.map((tenth) => tenth / 10);
}

/** Each part's shares, as bars. @param {Boxes} boxes */
function shareList({ parts }) {
  const known = parts.every(({ flops }) => flops !== null);
  const parameters = shares(parts.map((part) => part.parameters));
  const flops = shares(parts.map((part) => part.flops ?? 0));
  const bar = (/** @type {number} */ share) =>
    h(
      "span",
      { class: "share", style: { "--share": `${share}%` } },
      h("span", { class: "bar" }),
      `${number(share, 1)} %`,
    );
  const unknown = () => h("span", { class: "share muted" }, "not known");
  return [
    h("li", { class: "muted" }, "Part", h("span", {}, "Parameters"), h("span", {}, "Operations")),
    ...parts.map(({ name }, i) => h("li", {}, name, bar(parameters[i]), known ? bar(flops[i]) : unknown())),
  ];
}

/** @param {Boxes} boxes */
function table({ boxes, parts }) {
  const parameters = shares(parts.map((part) => part.parameters));
  const rows = boxes.map((box) => [
    box.title,
    box.shape.map(counted).join(" × "),
    box.parameters === 0 && box.shared ? "shared" : counted(box.parameters),
    box.flops === null ? "not known" : counted(box.flops),
  ]);
  const sums = parts.map((part, i) => [
    `All ${part.name}`,
    `${number(parameters[i], 1)} % of the parameters`,
    counted(part.parameters),
    part.flops === null ? "not known" : counted(part.flops),
  ]);
  return {
    caption: "Every box: the shape of what it hands on, its parameters, and its operations for this input",
    head: ["Box", "Shape", "Parameters", "Operations"],
    rows: [...rows, ...sums],
  };
}
