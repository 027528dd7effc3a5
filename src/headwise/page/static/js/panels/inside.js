/** One box of the model in detail: its steps with this model's numbers, for a chosen layer and token. */

import { bars } from "../bars.js";
import { hasProducts } from "../data.js";
import { button, field, fill, formula, h, select } from "../dom.js";
import { matrixView } from "../matrix.js";
import { panel, tabList, twin, watch } from "../panel.js";
import { Tensor } from "../tensor.js";
import { namedAs, number } from "../text.js";

/**
 * @typedef {import("../types.js").Box} Box
 * @typedef {import("../types.js").BoxStep} BoxStep
 * @typedef {import("../types.js").Grid} Grid
 */

const NAMED_ROWS = 8; // of a grid of dimensions, every eighth row has its name

/** Scroll to a panel and move the focus to its heading. @param {string} id */
export function showPanel(id) {
  const heading = document.querySelector(`#${id} h2`);
  heading?.scrollIntoView({ block: "nearest" });
  if (heading instanceof HTMLElement) heading.focus({ preventScroll: true });
}

/** The part whose heads an attention box has. @param {import("../types.js").BoxSize} box */
export function partOf({ name, stack }) {
  return name.endsWith("cross-attention") ? /** @type {const} */ ("cross") : stack;
}

/**
 * Show an attention box's heads: the selected one if it is of this layer, otherwise the first.
 * @param {import("../state.js").Store} store
 * @param {import("../types.js").BoxSize} box
 */
export function showHead(store, box) {
  const [part, layer] = [partOf(box), box.layer ?? 0];
  if (store.state.part !== part || store.state.layer !== layer)
    store.set({ part, layer, head: 0, query: null, key: null });
  showPanel("microscope");
}

/** @param {import("../types.js").App} app */
export function insidePanel({ store, data }) {
  const section = panel(
    "inside",
    "Inside a box",
    null,
    "What a box of the model computes for one token, step by step.",
  );
  const choices = h("div", { class: "row" });
  const view = h("div", { role: "tabpanel", id: "box-step", tabindex: "0" });
  const steps = tabList("Steps of the box", view);
  const title = h("p", { class: "where", "aria-live": "polite" });
  const chart = h("div", {}, steps.root, view);
  section.body.append(choices, title, chart);
  watch(section.body, [data.box]);
  const refresh = twin(section, chart, () => {
    const { value } = data.box;
    return value && table(value, value.steps[current(value)], named());
  });
  const named = () => namedAs(data.run.value);
  const current = (/** @type {Box} */ { steps }) => Math.min(store.state.boxStep, steps.length - 1);

  const showChoices = () => {
    section.root.hidden = data.run.value !== null && !data.run.value.can.boxes;
    const boxes = data.boxes.value;
    const box = data.selected;
    if (!boxes || !box) return fill(choices);
    const names = [...new Map(boxes.boxes.map((one) => [one.name, one.title.replace(/ layer \d+/, "")]))];
    const layers = boxes.boxes.filter(({ name }) => name === box.name);
    const pieces = boxes.pieces[box.row];
    const { position, temperature } = store.state;
    fill(
      choices,
      field(
        "Box",
        select(names, box.name, (name) => store.set({ box: name, boxStep: 0 }), { "data-key": "box-name" }),
      ),
      layers.length > 1 &&
        field(
          "Layer",
          select(
            layers.map((_, i) => [String(i), String(i + 1)]),
            String(box.layer),
            (layer) => store.set({ boxLayer: Number(layer) }),
            { "data-key": "box-layer" },
          ),
        ),
      pieces.length > 1 &&
        field(
          data.run.value?.can.vision ? "Patch" : "Token",
          select(
            pieces.map((text, i) => [String(i), `${i + 1} ${named()(text)}`]),
            String(Math.min(position, pieces.length - 1)),
            (chosen) => store.set({ position: Number(chosen) }),
            { "data-key": "box-token" },
          ),
        ),
      box.kind === "softmax" && field("Temperature", temperatureInput(temperature)),
      box.kind === "attention" &&
        hasProducts(data.run.value, partOf(box)) &&
        button("One head", () => showHead(store, box), { "data-key": "box-head" }),
    );
  };
  /** @param {number} value */
  const temperatureInput = (value) => {
    const input = h("input", {
      type: "number",
      min: 0.1,
      max: 10,
      step: 0.1,
      value,
      "data-key": "box-temperature",
      onchange: () => input.valueAsNumber > 0 && store.set({ temperature: input.valueAsNumber }),
    });
    return input;
  };

  const showSteps = () => {
    const { value } = data.box;
    if (!value) {
      fill(steps.root);
      fill(title);
      fill(view, h("p", { class: "muted" }, "Nothing to work out yet."));
      return refresh();
    }
    const shown = current(value);
    fill(title, `${value.title}, ${named()(value.pieces[value.position])}`);
    steps.show(
      value.steps.map((step, i) => [`box-step-${i}`, formula(step.name)]),
      shown,
      (i) => store.set({ boxStep: i }),
    );
    fill(view, ...stepView(value.steps[shown], named()));
    for (const grid of view.querySelectorAll(".matrix")) grid.dispatchEvent(new Event("placed"));
    refresh();
  };
  store.on((_, changed) => {
    if (["box", "boxLayer", "position", "temperature"].some((key) => changed.has(key))) showChoices();
    if (changed.has("boxStep")) showSteps();
  });
  data.run.on(showChoices);
  data.boxes.on(({ status }) => status !== "loading" && showChoices());
  data.box.on(({ status }) => status !== "loading" && showSteps());
  return section.root;
}

/** @typedef {(token: string) => string} Named  how tokens are displayed */

/** @param {BoxStep} step @param {Named} named */
function stepView({ formula: written, sentence, vectors, grids, facts }, named) {
  return [
    h("p", { class: "formula" }, formula(written)),
    h("p", { class: "sentence" }, sentence.replace(/(?<![\w.])-(?=\d)/g, "−")),
    ...vectors.map((vector) =>
      vector.names
        ? ranking(vector.label, vector.values, shownNames(vector, named))
        : bars(vector.label, vector.values.data),
    ),
    ...grids.map((grid) => gridView(grid, named)),
    Object.keys(facts).length > 0 &&
      h(
        "dl",
        { class: "box-facts" },
        Object.entries(facts).map(([name, value]) =>
          h("div", {}, h("dt", {}, formula(name)), h("dd", {}, h("data", { value }, factual(value)))),
        ),
      ),
  ];
}

/** A fact's number: whole, or with four decimals, or more if it is small. @param {number} value */
function factual(value) {
  if (Number.isInteger(value)) return number(value, 0);
  return Math.abs(value) < 1e-3
    ? String(Number(value.toPrecision(3))).replaceAll("-", "−")
    : number(value, 4);
}

/**
 * A vector whose entries have names, as a list of bars.
 * @param {string} label
 * @param {Tensor} values
 * @param {string[]} names
 */
function ranking(label, values, names) {
  const most = Math.max(1e-12, ...values.data.map(Math.abs));
  return h(
    "figure",
    { class: "ranking-of" },
    h("figcaption", {}, formula(label)),
    h(
      "ol",
      {},
      [...values.data].map((value, i) =>
        h(
          "li",
          {},
          h("span", { class: "of", dir: "auto" }, names[i]),
          h("span", { class: "bar", style: { "--share": `${(100 * Math.abs(value)) / most}%` } }),
          h("data", { value }, Number.isInteger(value) ? number(value, 0) : number(value, 4)),
        ),
      ),
    ),
  );
}

/**
 * The names of a vector's entries for display.
 * @param {import("../types.js").Vector} vector
 * @param {Named} named
 */
function shownNames({ names, tokens }, named) {
  return (names ?? []).map((name) => (tokens ? named(name) : name));
}

/** A matrix as a heat map. @param {Grid} grid @param {Named} named */
function gridView({ label, values, rows, columns, tokens, marked }, named) {
  const readout = h("p", { class: "detail" });
  const [, width] = values.shape;
  // Of a wide model, these are more numbers than a call takes arguments.
  const most = values.data.reduce((a, b) => (Number.isFinite(b) ? Math.max(a, Math.abs(b)) : a), 1e-9);
  const shown = (/** @type {number} */ row, /** @type {number} */ column) =>
    Number.isFinite(values.data[row * width + column]);
  const names = tokens ? rows.map(named) : rows;
  const columnNames = columns?.map(named) ?? Array.from({ length: width }, (_, i) => String(i + 1));
  const view = matrixView({
    move: (row, column) =>
      fill(
        readout,
        h("strong", {}, names[row]),
        columns ? ", " : ", dimension ",
        h("strong", {}, columnNames[column]),
        `: ${shown(row, column) ? number(values.data[row * width + column], 4) : "masked, −∞"}`,
      ),
    pin: () => {},
  });
  const weights = new Tensor(
    values.shape,
    values.data.map((value) => (Number.isFinite(value) ? value : 0)),
  );
  view.root.classList.toggle("wide", columns === null);
  const hidden = (/** @type {string} */ name, /** @type {number} */ i) =>
    columns === null && rows.length > 2 * NAMED_ROWS && i % NAMED_ROWS !== 0 && i !== marked ? "" : name;
  view.root.addEventListener("placed", () => {
    view.show(
      {
        weights,
        most: columns !== null && most <= 1 ? 1 : most,
        rows: names.map(hidden),
        columns: columns === null ? columnNames.map(() => "") : columnNames,
        seen: shown,
      },
      `${label}: ${rows.length} by ${width}. Arrow keys move.`,
    );
    view.place(marked ?? 0, 0, marked === null ? null : [marked, 0]);
    view.move(marked ?? 0, 0);
  });
  return h("figure", { class: "grid-of look" }, h("figcaption", {}, formula(label)), view.root, readout);
}

/**
 * The numbers of a step: a column for each vector, or a row for each row of its matrices.
 * @param {Box} box
 * @param {BoxStep} step
 * @param {Named} named
 */
function table({ title }, { name, vectors, grids }, named) {
  const plain = (/** @type {string} */ markup) => markup.replace(/([_^])\{([^}]*)\}/g, "$1$2");
  const caption = `${title}, step ${plain(name)}`;
  if (vectors.length > 0) {
    const length = Math.max(...vectors.map(({ values }) => values.data.length));
    const ranked = vectors.find((vector) => vector.names);
    const names = ranked && shownNames(ranked, named);
    return {
      caption,
      head: [names ? "Entry" : "Dimension", ...vectors.map(({ label }) => plain(label))],
      rows: Array.from({ length }, (_, i) => [
        names?.[i] ?? String(i + 1),
        ...vectors.map(({ values }) => (i < values.data.length ? number(values.data[i], 4) : "")),
      ]),
    };
  }
  const [first] = grids;
  const columns = first.columns?.map(named) ?? [...first.values.data.keys()].slice(0, first.values.shape[1]);
  return {
    caption,
    head: ["Row", ...columns.map((column) => (typeof column === "number" ? String(column + 1) : column))],
    rows: grids.flatMap(({ label, values, rows, tokens }) =>
      rows.map((row, i) => [
        `${plain(label)}, ${tokens ? named(row) : row}`,
        ...[...values.at(i).data].map((value) => (Number.isFinite(value) ? number(value, 4) : "−∞")),
      ]),
    ),
  };
}
