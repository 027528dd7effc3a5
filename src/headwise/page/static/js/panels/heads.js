/** A small heat map of every head: a tab per kind of attention, a row per layer. */

import { button, fill, h } from "../dom.js";
import { colorBar, paint } from "../heat.js";
import { oneStop, roving } from "../keys.js";
import { panel, tabList, twin, watch } from "../panel.js";
import { measured, onNewHeads, told } from "../roles.js";
import { number } from "../text.js";
import { PART_NAMES, PARTS } from "../types.js";

/** @typedef {import("../types.js").Part} Part */

/** All heads of a run, by part and layer. @param {import("../types.js").Run | null} run */
export function allHeads(run) {
  return PARTS.flatMap((part) => {
    const { layers = 0, heads = 0 } = run?.parts?.[part] ?? {};
    return Array.from({ length: layers * heads }, (_, i) => ({
      part,
      layer: Math.floor(i / heads),
      head: i % heads,
    }));
  });
}

/** @param {import("../types.js").App} app */
export function headsPanel({ store, data }) {
  const section = panel(
    "heads",
    "Heads",
    3,
    "Every head’s weights for this input: rows look, columns are looked at; deeper is more.",
  );
  const grid = h("div", { class: "heads", role: "tabpanel", id: "heads-grid" });
  const tabs = tabList("Attention", grid, "tabs");
  const caption = h("p", { class: "detail", "aria-live": "polite" });
  section.tools.append(tabs.root);
  const bar = colorBar();
  section.body.append(grid, bar.root, caption);
  watch(section.body, [data.trace, data.chosen]);
  roving(grid, ".head");
  const refresh = twin(section, grid, () => table(data.attention, store.state.part, data.evidence.value));

  const show = () => {
    const { state } = store;
    const run = data.run.value;
    section.root.hidden = run !== null && !run.can.read && !run.can.vision;
    const parts = PARTS.filter((part) => run?.parts?.[part]);
    tabs.show(
      parts.map((part) => [`tab-${part}`, PART_NAMES[part]]),
      parts.indexOf(state.part),
      (i) => choose(parts[i]),
    );
    const weights = data.attention?.[state.part];
    if (!weights) {
      const why = data.attention ? "This model has no such attention." : "Nothing to look at yet.";
      fill(grid, h("p", { class: "muted" }, why));
      fill(caption);
      return refresh();
    }
    const [layers, count] = weights.shape;
    grid.style.setProperty("--heads", String(count));
    fill(
      grid,
      ...Array.from({ length: layers }, (_, layer) => [
        h("span", { class: "layer" }, `Layer ${layer + 1}`),
        ...Array.from({ length: count }, (_, head) => cell(layer, head)),
      ]).flat(),
    );
    for (const canvas of grid.querySelectorAll("canvas")) {
      const [layer, head] = [Number(canvas.dataset.layer), Number(canvas.dataset.head)];
      paint(canvas, weights.at(layer, head));
    }
    bar.show(false);
    mark();
    refresh();
  };

  /** @param {Part} part */
  const choose = (part) => {
    const { layers = 1, heads = 1 } = data.run.value?.parts?.[part] ?? {};
    const { layer, head } = store.state;
    store.set({
      part,
      layer: Math.min(layer, layers - 1),
      head: Math.min(head, heads - 1),
      query: null,
      key: null,
    });
  };

  /** @param {number} layer @param {number} head */
  const cell = (layer, head) => {
    const { part } = store.state;
    const role = measured(data.evidence.value, part, layer, head)?.roles[0];
    const silent = isSilent(store.state.changes, part, layer, head);
    const canvas = h("canvas", { "data-layer": layer, "data-head": head, "aria-hidden": "true" });
    const badge = role && h("span", { class: "badge" }, role.short);
    const label = [
      h(
        "span",
        { class: "map" },
        canvas,
        silent && h("span", { class: "cross", "aria-hidden": "true" }, "×"),
      ),
      h("span", { class: "name" }, `${layer + 1}.${head + 1}`, badge),
    ];
    return button(label, () => store.set({ layer, head, query: null, key: null }), {
      class: "head",
      "data-key": `head-${layer}-${head}`,
      "data-row": layer,
      "data-column": head,
      "aria-pressed": "false",
      "aria-label": `Layer ${layer + 1}, head ${head + 1}${role ? `, ${role.name}` : ""}${silent ? ", silenced" : ""}`,
      onfocus: () => tell(layer, head),
      onmouseenter: () => tell(layer, head),
      onmouseleave: () => tell(store.state.layer, store.state.head),
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key !== "x") return;
        event.preventDefault();
        silence(store, part, layer, head);
      },
    });
  };

  /** @param {number} layer @param {number} head */
  const tell = (layer, head) => {
    const { part, changes } = store.state;
    fill(
      caption,
      h("strong", {}, `${PART_NAMES[part]}, layer ${layer + 1}, head ${head + 1}`),
      isSilent(changes, part, layer, head) ? " — silenced. " : ". ",
      told(data.evidence.value, part, layer, head),
    );
  };

  const mark = () => {
    const { layer, head } = store.state;
    for (const one of /** @type {NodeListOf<HTMLElement>} */ (grid.querySelectorAll(".head")))
      one.setAttribute("aria-pressed", String(one.dataset.key === `head-${layer}-${head}`));
    oneStop(grid.querySelectorAll(".head"));
    tell(layer, head);
  };

  store.on((_, changed) => {
    if (changed.has("part") || changed.has("changes")) show();
    else if (changed.has("layer") || changed.has("head")) mark();
  });
  data.run.on(show);
  data.trace.on((slot) => slot.status === "ready" && show());
  data.view.on((slot) => slot.status === "ready" && show());
  data.chosen.on((slot) => slot.status !== "loading" && show());
  onNewHeads(data.evidence, show);
  return section.root;
}

/**
 * Whether interventions, which act in their order, leave a head no weights but 0.
 * @param {string[]} changes
 * @param {Part} part
 * @param {number} layer
 * @param {number} head
 */
export function isSilent(changes, part, layer, head) {
  const fits = (/** @type {string} */ text, /** @type {string | number} */ own) =>
    text === "*" || text === String(own);
  let silent = false;
  for (const change of changes) {
    const match = /^(silence|zero|only|uniform):(\w+|\*)\.(\d+|\*)\.(\d+|\*)$/.exec(change);
    if (!match || !fits(match[2], part) || !fits(match[3], layer + 1)) continue;
    const [, kind] = match;
    if (fits(match[4], head + 1) !== (kind === "only")) silent = kind !== "uniform";
  }
  return silent;
}

/**
 * Toggle the intervention that silences a head.
 * @param {import("../state.js").Store} store
 * @param {Part} part
 * @param {number} layer
 * @param {number} head
 */
export function silence(store, part, layer, head) {
  const change = `silence:${part}.${layer + 1}.${head + 1}`;
  const { changes } = store.state;
  store.intervene(changes.includes(change) ? changes.filter((one) => one !== change) : [...changes, change]);
}

/**
 * The table of all heads of a part.
 * @param {import("../types.js").Reading["attention"] | null} attention
 * @param {Part} part
 * @param {any} evidence
 */
function table(attention, part, evidence) {
  const weights = attention?.[part];
  if (!weights) return null;
  const [layers, count, rows, columns] = weights.shape;
  const lines = [];
  for (let layer = 0; layer < layers; layer++) {
    for (let head = 0; head < count; head++) {
      const { data } = weights.at(layer, head);
      let [entropy, top] = [0, 0];
      for (let row = 0; row < rows; row++) {
        const line = data.subarray(row * columns, (row + 1) * columns);
        top += Math.max(...line) / rows;
        for (const value of line) entropy -= value > 0 ? (value * Math.log2(value)) / rows : 0;
      }
      lines.push([
        `${layer + 1}.${head + 1}`,
        number(top, 3),
        number(entropy, 2),
        told(evidence, part, layer, head),
      ]);
    }
  }
  return {
    caption: `${PART_NAMES[part]} heads for this input (mean over ${rows} rows)`,
    head: ["Head", "Largest weight", "Entropy, bits", "Over many sentences"],
    rows: lines,
  };
}
