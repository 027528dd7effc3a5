/** One head in detail: its weights, and its computation from query to output, step by step. */

import { bars } from "../bars.js";
import { hasProducts } from "../data.js";
import { fill, formula, h } from "../dom.js";
import { matrixView } from "../matrix.js";
import { panel, scrolled, tabList, tableOf, twin, watch } from "../panel.js";
import { biased, changed, STAGES, scores } from "../stages.js";
import { namedAs, number } from "../text.js";
import { PART_NAMES } from "../types.js";
import { isSilent } from "./heads.js";

/** @typedef {import("../types.js").Products} Products */

/** @param {import("../types.js").App} app */
export function microscopePanel({ store, data }) {
  const section = panel(
    "microscope",
    "Microscope",
    4,
    "One head’s weights, and every product on the way to them.",
  );
  const title = h("p", { class: "where" });
  const readout = h("p", { class: "detail", "aria-live": "polite" });
  const view = matrixView({
    move: (row, column) => tell(row, column),
    pin: (row, column) => {
      const { query, key } = store.state;
      store.set(query === row && key === column ? { query: null, key: null } : { query: row, key: column });
    },
  });
  const stage = h("div", { role: "tabpanel", id: "stage", tabindex: "0" });
  const steps = tabList("Steps of the arithmetic", stage);
  const chart = h("div", {}, view.root);
  const left = h("div", { class: "look" }, title, chart, readout);
  const right = h("div", {}, steps.root, stage);
  section.body.append(h("div", { class: "sides" }, left, right));
  watch(section.body, [data.cell]);
  const refresh = twin(section, chart, () => {
    const weights = matrix();
    return (
      weights && {
        caption: `Weights of ${name()}: rows look, columns are looked at`,
        head: ["Looks", ...weights.columns],
        rows: view.table(),
      }
    );
  });

  const named = (/** @type {string} */ token) => namedAs(data.run.value)(token);
  const name = () => {
    const { part, layer, head } = store.state;
    return `${PART_NAMES[part].toLowerCase()} layer ${layer + 1}, head ${head + 1}`;
  };
  const matrix = () => {
    const { part, layer, head } = store.state;
    const { reading } = data;
    const source = data.trace.value?.source;
    const weights = reading?.attention[part];
    if (!reading || !source || !weights || layer >= weights.shape[0] || head >= weights.shape[1]) return null;
    const shown = weights.at(layer, head);
    return {
      weights: shown,
      rows: (part === "encoder" ? source.pieces : reading.reads.pieces).map(named),
      columns: (part === "decoder" ? reading.reads.pieces : source.pieces).map(named),
      seen: (/** @type {number} */ row, /** @type {number} */ column) =>
        part !== "decoder" || column <= row || shown.at(row).data[column] !== 0, // without the causal mask
    };
  };
  /** The cell whose computation is shown: the pinned one, or the first row's largest. @returns {[number, number]} */
  const cell = () => {
    const { query, key } = store.state;
    const shown = matrix();
    if (!shown) return [0, 0];
    const row = Math.min(query ?? 0, shown.weights.shape[0] - 1);
    const line = shown.weights.at(row).data;
    return [row, key === null ? line.indexOf(Math.max(...line)) : Math.min(key, line.length - 1)];
  };
  /** @param {number} row @param {number} column */
  const tell = (row, column) => {
    const shown = matrix();
    if (!shown) return fill(readout);
    const weight = shown.weights.at(row).data[column];
    const hidden = !shown.seen(row, column);
    fill(
      readout,
      h("strong", {}, shown.rows[row]),
      " looks at ",
      h("strong", {}, shown.columns[column]),
      ": ",
      h("data", { value: weight, id: "weight" }, hidden ? "masked, exactly 0" : number(weight, 4)),
    );
  };
  const showMatrix = () => {
    section.root.hidden = data.run.value !== null && !data.run.value.can.read;
    steps.root.hidden = stage.hidden = data.run.value?.recorded === true; // the weights alone are recorded
    const shown = matrix();
    const silent = isSilent(store.state.changes, store.state.part, store.state.layer, store.state.head);
    fill(
      title,
      shown ? `${name()}${silent ? ", silenced: all weights are 0" : ""}` : "Nothing to look at yet.",
    );
    view.show(shown, `Weights of ${name()}. Arrow keys move, Enter pins.`);
    const [row, column] = cell();
    if (shown) {
      view.place(row, column, store.state.query === null ? null : [row, column]);
      tell(row, column);
    }
    refresh();
  };
  const showSteps = () => {
    const { state } = store;
    const current = Math.min(state.stage, STAGES.length - 1);
    steps.show(
      STAGES.map((one, i) => [`stage-${i}`, formula(one.name)]),
      current,
      (i) => store.set({ stage: i }),
    );
    const p = data.cell.value;
    if (data.run.value && !hasProducts(data.run.value, state.part)) {
      const why = "This attention isn’t softmax(QKᵀ/√dₖ) over heads, so there are no such products to show.";
      fill(stage, h("p", { class: "muted" }, why));
    } else if (!p) fill(stage, h("p", { class: "muted" }, "Nothing to work out yet."));
    else {
      const key = Math.min(cell()[1], p.key_pieces.length - 1);
      const step = STAGES[current];
      fill(
        stage,
        h("p", { class: "formula" }, formula(step.formula)),
        h("p", { class: "sentence" }, ...step.sentence(p, key, named)),
        ...step
          .strips(p, key)
          .map(({ label, values }) => bars(label, values, keyNames(label, values, p)?.map(named))),
        overview(p, key, current, named),
      );
    }
  };
  store.on((_, changes) => {
    if (["part", "layer", "head", "query", "key", "node"].some((key) => changes.has(key))) showMatrix();
    if (["key", "query", "stage", "part", "layer", "head"].some((key) => changes.has(key))) showSteps();
  });
  data.run.on(() => {
    showMatrix();
    showSteps();
  });
  data.trace.on((slot) => slot.status === "ready" && showMatrix());
  data.chosen.on((slot) => slot.status !== "loading" && showMatrix());
  data.cell.on((slot) => slot.status !== "loading" && showSteps());
  return section.root;
}

/**
 * The tokens of a strip's entries, if these are keys.
 * @param {string} label
 * @param {Float32Array} values
 * @param {Products} p
 */
function keyNames(label, values, p) {
  const overKeys = values.length === p.key_pieces.length && !["q", "k", "v"].includes(label);
  return overKeys ? p.key_pieces : null;
}

/**
 * The table of all keys of this query, with a column per step up to the current one.
 * @param {Products} p
 * @param {number} key
 * @param {number} stage
 * @param {(token: string) => string} named
 */
function overview(p, key, stage, named) {
  const never = Infinity;
  /** @type {{ from: number, name: string, value: (i: number) => string }[]} */
  const all = [
    { from: 2, name: "q·k", value: (i) => number(p.dots.data[i], 3) },
    { from: 3, name: "÷ √dₖ", value: (i) => number(p.scaled.data[i], 3) },
    {
      from: biased(p) ? 3 : never,
      name: "+ position",
      value: (i) => number(scores(p)[i], 3),
    },
    { from: 4, name: "mask", value: (i) => (p.seen[i] ? "seen" : "−∞") },
    { from: 5, name: "α", value: (i) => number(p.softmax.data[i], 4) },
    { from: changed(p) ? 5 : never, name: "α used", value: (i) => number(p.weights.data[i], 4) },
  ];
  const columns = all.filter(({ from }) => from <= stage);
  if (columns.length === 0) return null;
  const table = tableOf({
    caption: `Every key of ${named(p.query_piece)}`,
    head: ["Key", ...columns.map((column) => column.name)],
    rows: p.key_pieces.map((text, i) => [named(text), ...columns.map((column) => column.value(i))]),
  });
  table.querySelectorAll("tbody tr")[key]?.setAttribute("aria-current", "true");
  return scrolled("Every key", table, "overview");
}
