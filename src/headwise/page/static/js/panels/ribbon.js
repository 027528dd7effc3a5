/** Cross-attention as links between the source words and the target words. */

import { button, fill, h, s } from "../dom.js";
import { oneStop, roving } from "../keys.js";
import { choice, panel, twin, watch } from "../panel.js";
import { heads, joined, mean } from "../tensor.js";
import { number, percent, piece, UNKNOWN } from "../text.js";

const FAINT = 0.04; // links with smaller weights aren't drawn

/**
 * @typedef {object} Links
 * @property {string[]} source
 * @property {string[]} target
 * @property {Set<number>} unknown  numbers of the source units that the vocabulary has no subwords for
 * @property {import("../tensor.js").Tensor} weights (target, source)
 */

/**
 * The cross-attention weights over words or subwords, averaged as the state says.
 * @param {import("../state.js").State} state
 * @param {import("../types.js").Side} source
 * @param {import("../types.js").Reading} reading
 * @returns {Links | null}
 */
function links(state, source, reading) {
  const cross = reading.attention.cross;
  if (!cross) return null;
  const weights = meanOfHeads(state, cross);
  // Row i predicts token i and reads token i − 1; with the shift, a token's row is the one that reads it.
  const tokenOf = (/** @type {number} */ row) => row - state.shift;
  const target = state.words ? reading.target.word_of : reading.target.pieces.map((_, index) => index);
  const columns = state.words ? source.word_of : source.pieces.map((_, index) => index);
  const rows = cross.shape[2];
  const units = Array.from({ length: rows }, (_, row) => (tokenOf(row) < 0 ? -1 : target[tokenOf(row)]));
  const names = {
    source: state.words ? source.words : source.pieces.map(piece),
    target: state.words ? reading.target.words : reading.target.pieces.map(piece),
  };
  const unknown = new Set(
    names.source.flatMap((_, i) => (source.unknown.includes(state.words ? i : columns[i]) ? [i] : [])),
  );
  const shares = joined(weights, units, columns, names.target.length, names.source.length);
  return { ...names, unknown, weights: shares };
}

/** @param {import("../types.js").App} app */
export function ribbonPanel({ store, data, say }) {
  const section = panel(
    "ribbon",
    "Alignment",
    2,
    "Which source words the model looked at while it wrote each target word.",
  );
  const over = choice("Weights of", { head: "Head", layer: "Layer", all: "All" }, (value) =>
    store.set({ over: /** @type {"head" | "layer" | "all"} */ (value) }),
  );
  const shift = choice("A token’s row", { 0: "Predicting", 1: "Reading" }, (value) =>
    store.set({ shift: value === "1" ? 1 : 0 }),
  );
  const words = choice("Units", { true: "Words", false: "Subwords" }, (value) =>
    store.set({ words: value === "true" }),
  );
  const heading = h("div", { class: "where" });
  section.tools.append(over.root, heading, shift.root, words.root);
  const chart = h("div", { class: "ribbon" });
  const caption = h("p", { class: "detail", "aria-live": "polite" });
  section.body.append(chart, caption);
  watch(section.body, [data.trace, data.chosen]);
  /** @type {Links | null} */
  let shown = null;
  /** @type {string | null} */
  let hovered = null;
  const refresh = twin(
    section,
    chart,
    () =>
      shown && {
        caption: `Cross-attention, ${rule(store.state, data.reading?.attention.cross)}: rows are target, columns source`,
        head: ["Target", ...shown.source],
        rows: shown.target.map((name, row) => [
          name,
          ...[...(shown?.weights.at(row).data ?? [])].map((value) => number(value, 3)),
        ]),
      },
  );

  const show = () => {
    const { state } = store;
    const { layer, head } = crossHead(state, data.reading?.attention.cross);
    over.show(state.over);
    shift.show(String(state.shift));
    words.show(String(state.words));
    fill(
      heading,
      state.over === "all"
        ? "all layers and heads"
        : `layer ${layer + 1}${state.over === "head" ? `, head ${head + 1}` : ""}`,
    );
    const { reading } = data;
    const source = data.trace.value?.source;
    shown = reading && source ? links(state, source, reading) : null;
    section.root.hidden = data.run.value !== null && !data.run.value.parts?.cross;
    const why = reading ? "This model has no cross-attention." : "Nothing to align yet.";
    if (shown) draw(shown);
    else fill(chart, h("p", { class: "muted" }, why));
    refresh();
  };

  /** @param {Links} alignment */
  const draw = (alignment) => {
    const line = (/** @type {"source" | "target"} */ side, /** @type {string} */ label) =>
      h(
        "div",
        { class: `line ${side}`, role: "group", "aria-label": label, lang: data.run.value?.languages[side] },
        alignment[side].map((name, i) => {
          const id = side[0] + i;
          const unknown = side === "source" && alignment.unknown.has(i);
          return button(name, () => store.set({ word: store.state.word === id ? null : id }), {
            class: unknown ? "unit unknown" : "unit",
            "aria-describedby": unknown ? "unknown-reason" : null,
            dir: "auto",
            "data-key": `unit-${id}`,
            "data-id": id,
            tabindex: "-1",
            "aria-pressed": String(store.state.word === id),
            onfocus: () => hover(id),
            onblur: () => hover(null),
            onmouseenter: () => hover(id),
            onmouseleave: () => hover(null),
          });
        }),
      );
    const [top, bottom] = [line("source", "Source"), line("target", "Target")];
    const curves = s("svg", { class: "links", "aria-hidden": "true" });
    const stage = h("div", { class: "stage" }, top, curves, bottom);
    hovered = null; // the pointer doesn't leave a word that is taken away
    fill(chart, stage);
    for (const side of [top, bottom]) {
      oneStop(side.querySelectorAll(".unit"));
      roving(side, ".unit");
    }
    stage.classList.toggle(
      "upright",
      top.scrollWidth > chart.clientWidth || bottom.scrollWidth > chart.clientWidth,
    );
    connect(stage, alignment);
    mark();
  };

  const hover = (/** @type {string | null} */ id) => {
    hovered = id;
    mark();
  };

  /** Highlight the hovered or pinned word and its partners. */
  const mark = () => {
    const id = hovered ?? store.state.word;
    const near = id && shown ? partners(shown, id) : [];
    const strength = new Map(near.map(({ id: partner, weight }) => [partner, weight]));
    chart.classList.toggle("focused", near.length > 0);
    for (const unit of /** @type {NodeListOf<HTMLElement>} */ (chart.querySelectorAll(".unit"))) {
      const own = unit.dataset.id === id;
      const weight = strength.get(unit.dataset.id ?? "") ?? 0;
      unit.style.setProperty("--weight", own ? "0" : String(weight));
      unit.classList.toggle("own", own);
      unit.classList.toggle("partner", weight >= FAINT);
      unit.setAttribute("aria-pressed", String(store.state.word === unit.dataset.id));
    }
    for (const path of chart.querySelectorAll("path")) {
      path.classList.toggle("on", id !== null && (path.dataset.source === id || path.dataset.target === id));
    }
    const name = id && shown ? (id[0] === "s" ? shown.source : shown.target)[Number(id.slice(1))] : null;
    fill(
      caption,
      name === null || name === undefined
        ? "Point at a word, or move to it with the arrow keys, to see its partners; Enter pins it."
        : [
            h("strong", {}, name),
            id?.[0] === "s" && shown?.unknown.has(Number(id.slice(1))) && ` (${UNKNOWN})`,
            id?.[0] === "t" ? " looked at " : " was looked at by ",
            near
              .slice(0, 5)
              .map(({ name: partner, weight }) => `${partner} ${percent(weight)}`)
              .join(", ") || "nothing above 4 %",
            ".",
          ],
    );
  };

  store.on((_, changed) => {
    if (["part", "layer", "head", "over", "shift", "words"].some((key) => changed.has(key))) show();
    else if (changed.has("word")) {
      mark();
      say(caption.textContent ?? "");
    }
  });
  data.run.on(show);
  data.trace.on((slot) => slot.status === "ready" && show());
  data.chosen.on((slot) => slot.status !== "loading" && show());
  let width = 0;
  new ResizeObserver(() => {
    if (Math.abs(chart.clientWidth - width) < 2 || !shown) return;
    width = chart.clientWidth;
    draw(shown);
  }).observe(chart);
  return section.root;
}

/**
 * The layer and head of the cross-attention that the state selects: the last one where it has fewer.
 * @param {import("../state.js").State} state
 * @param {import("../tensor.js").Tensor | null | undefined} cross  (layers, heads, …)
 */
export function crossHead(state, cross) {
  const [layers, heads] = cross?.shape ?? [Infinity, Infinity];
  return { layer: Math.min(state.layer, layers - 1), head: Math.min(state.head, heads - 1) };
}

/**
 * The weights of the heads that the state selects: of one, or the mean of its layer's or of all.
 * @param {import("../state.js").State} state
 * @param {import("../tensor.js").Tensor} cross
 */
export function meanOfHeads(state, cross) {
  const { layer, head } = crossHead(state, cross);
  if (state.over === "head") return cross.at(layer, head);
  return mean(heads(cross, state.over === "all" ? null : layer));
}

/**
 * The weights shown, in words.
 * @param {import("../state.js").State} state
 * @param {import("../tensor.js").Tensor | null | undefined} cross
 */
function rule(state, cross) {
  const { layer, head } = crossHead(state, cross);
  const which = {
    head: `layer ${layer + 1}, head ${head + 1}`,
    layer: `layer ${layer + 1}, mean of heads`,
    all: "mean of all layers and heads",
  };
  return `${which[state.over]}, at the step that ${state.shift ? "reads" : "predicts"} the token`;
}

/**
 * The words on the other side that a word is linked to, by decreasing weight.
 * @param {Links} alignment
 * @param {string} id
 */
function partners(alignment, id) {
  const [fromSource, index] = [id[0] === "s", Number(id.slice(1))];
  const names = fromSource ? alignment.target : alignment.source;
  const columns = alignment.source.length;
  return names
    .map((name, i) => ({
      id: (fromSource ? "t" : "s") + i,
      name,
      weight: alignment.weights.data[fromSource ? i * columns + index : index * columns + i] ?? 0,
    }))
    .filter(({ weight }) => weight >= FAINT)
    .sort((a, b) => b.weight - a.weight);
}

/**
 * Draw the links between the words' positions on the page.
 * @param {HTMLElement} stage
 * @param {Links} alignment
 */
function connect(stage, alignment) {
  const svg = /** @type {SVGSVGElement} */ (stage.querySelector("svg"));
  const frame = svg.getBoundingClientRect();
  svg.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
  const upright = stage.classList.contains("upright");
  const centers = (/** @type {string} */ side) =>
    [...stage.querySelectorAll(`.${side} .unit`)].map((unit) => {
      const box = unit.getBoundingClientRect();
      return upright ? box.top + box.height / 2 - frame.top : box.left + box.width / 2 - frame.left;
    });
  const [from, to] = [centers("source"), centers("target")];
  const end = upright ? frame.width : frame.height;
  const columns = alignment.source.length;
  fill(
    svg,
    to.flatMap((y, row) =>
      from.map((x, column) => {
        const weight = alignment.weights.data[row * columns + column];
        if (weight < FAINT) return null;
        const path = upright
          ? `M0 ${x} C${end / 2} ${x} ${end / 2} ${y} ${end} ${y}`
          : `M${x} 0 C${x} ${end / 2} ${y} ${end / 2} ${y} ${end}`;
        return s("path", {
          d: path,
          "stroke-width": (1 + 5 * weight).toFixed(2),
          "stroke-opacity": Math.min(1, 0.08 + weight).toFixed(3),
          "data-source": `s${column}`,
          "data-target": `t${row}`,
        });
      }),
    ),
  );
}
