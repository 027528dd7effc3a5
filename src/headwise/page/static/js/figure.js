/** The figure of a Transformer: its boxes in two columns, from the inputs at the bottom to the output at the top. */

import { s } from "./dom.js";
import { counted, number, shortened } from "./text.js";

/**
 * @typedef {import("./types.js").BoxSize} BoxSize
 * @typedef {import("./types.js").Boxes} Boxes
 * @typedef {"encoder" | "decoder"} Stack
 *
 * @typedef {object} Item  a box, or a layer whose boxes aren't drawn
 * @property {Stack} stack
 * @property {BoxSize[]} boxes
 * @property {boolean} folded
 * @property {number} row  counted from the top
 */

/** @typedef {{ source: string, reads: string, output: string, named: (token: string) => string }} Texts */

const WIDTH = 462;
const HALF = WIDTH / 2; // a model with one stack has one half of the figure
const [BOX, PITCH, HEIGHT] = [178, 34, 24]; // a box's width, the distance of rows, and a box's height
const LEFT = { encoder: 34, decoder: 250 };
const SIDE = { encoder: 24, decoder: 438 }; // of the residual connections
const MARGIN = { encoder: 11, decoder: 451 }; // of the layers' names
const CHANNEL = 230; // of the encoder's output
const [TOP, BOTTOM] = [26, 30]; // room for the texts
const MOST_DRAWN = 2; // layers of a stack that are drawn in full; of more, only the selected one is
const LONGEST = 30; // characters of a text

/** The name of a box in the figure. @param {BoxSize} box */
function nameOf({ kind, name, stack, row }) {
  const attention = name.endsWith("cross-attention")
    ? "Cross-attention"
    : stack === "decoder"
      ? "Masked self-attention"
      : "Self-attention";
  return {
    embedding: "Embedding",
    patches: "Patch embedding",
    positions: "Positional encoding",
    attention,
    "feed-forward": "Feed-forward",
    "add-norm": "Add & Norm",
    norm: "Norm",
    add: "Add",
    pooling: "Pooling",
    head: "Prediction head",
    projection: row === "pooled" ? "Classifier" : "Output projection",
    softmax: "Softmax",
  }[kind];
}

/** Arrange the boxes of both stacks in rows. @param {Boxes} boxes @param {number} layer  the selected one */
function arranged({ boxes }, layer) {
  /** @type {Item[]} */
  const items = [];
  const drawn = { encoder: 0, decoder: 0 };
  for (const stack of /** @type {Stack[]} */ (["encoder", "decoder"])) {
    const own = boxes.filter((box) => box.stack === stack);
    const layers = new Set(own.map((box) => box.layer).filter((one) => one !== null)).size;
    const open = (/** @type {number} */ one) => layers <= MOST_DRAWN || one === Math.min(layer, layers - 1);
    for (const box of own) {
      const last = items.at(-1);
      if (box.layer === null || open(box.layer)) items.push({ stack, boxes: [box], folded: false, row: 0 });
      else if (last?.folded && last.stack === stack && last.boxes[0].layer === box.layer)
        last.boxes.push(box);
      else items.push({ stack, boxes: [box], folded: true, row: 0 });
    }
    drawn[stack] = items.filter((item) => item.stack === stack).length;
  }
  const rows = Math.max(drawn.encoder, drawn.decoder);
  const next = { encoder: rows, decoder: rows };
  for (const item of items) item.row = --next[item.stack];
  return { items, rows };
}

/**
 * Draw the figure.
 * @param {Boxes} boxes
 * @param {number} layer  the selected one
 * @param {Texts} texts
 * @param {(item: Item) => void} open
 */
export function figure(boxes, layer, texts, open) {
  const { items, rows } = arranged(boxes, layer);
  const height = TOP + rows * PITCH + BOTTOM;
  const top = (/** @type {number} */ row) => TOP + row * PITCH;
  const bottom = top(rows);
  const middle = (/** @type {Stack} */ stack) => LEFT[stack] + BOX / 2;
  const stacks = /** @type {Stack[]} */ (["encoder", "decoder"]).filter((stack) =>
    items.some((item) => item.stack === stack),
  );
  const [left, width] = stacks.length === 2 ? [0, WIDTH] : [stacks[0] === "encoder" ? 0 : HALF, HALF];
  const last = stacks[stacks.length - 1];
  const highest = Math.min(...items.filter(({ stack }) => stack === last).map(({ row }) => row));
  return s(
    "svg",
    {
      class: `figure${stacks.length === 2 ? "" : " half"}`,
      viewBox: `${left} 0 ${width} ${height}`,
      role: "group",
      "aria-label": "Architecture",
    },
    s(
      "defs",
      {},
      s(
        "marker",
        {
          id: "arrow",
          viewBox: "0 0 6 6",
          refX: 5,
          refY: 3,
          markerWidth: 5,
          markerHeight: 5,
          orient: "auto",
        },
        s("path", { d: "M0 0 6 3 0 6z" }),
      ),
    ),
    frames(items, top),
    s(
      "g",
      { class: "flow", "aria-hidden": "true" },
      arrows(items, top),
      residuals(items, top),
      memory(items, top),
    ),
    stacks.map((stack) =>
      caption(stack === "encoder" ? texts.source : texts.reads, middle(stack), bottom + 8),
    ),
    caption(texts.output, middle(last), top(highest) - 10),
    items.map((item, order) => drawnBox(item, top(item.row), order, { boxes, named: texts.named, open })),
  );
}

/**
 * @param {Item} item
 * @param {number} y
 * @param {number} order
 * @param {{ boxes: Boxes, named: (token: string) => string, open: (item: Item) => void }} all
 */
function drawnBox(item, y, order, { boxes: all, named, open }) {
  const [box] = item.boxes;
  const last = item.boxes[item.boxes.length - 1];
  const x = LEFT[item.stack];
  const name = item.folded ? `Layer ${(box.layer ?? 0) + 1}` : nameOf(box);
  const values = last.sizes.data;
  const most = Math.max(1e-12, ...values);
  const pieces = all.pieces[last.row];
  const cell = (BOX - 8) / values.length;
  const key = item.folded ? `layer-${item.stack}-${box.layer}` : `box-${box.name}-${box.layer ?? 0}`;
  return s(
    "g",
    {
      class: `box ${item.folded ? "folded" : box.kind}`,
      role: "button",
      tabindex: "-1",
      "data-key": key,
      "data-row": item.row,
      "data-column": item.stack === "encoder" ? 0 : 1,
      "aria-label": told(item),
      style: { "--order": order },
      onclick: () => open(item),
    },
    s("rect", { class: "outline", x, y, width: BOX, height: HEIGHT, rx: 3 }),
    s("text", { x: x + 6, y: y + 13 }, name),
    s("text", { class: "shape", x: x + BOX - 6, y: y + 13 }, last.shape.map(counted).join(" × ")),
    [...values].map((value, i) =>
      s(
        "rect",
        {
          class: "token-size",
          x: x + 4 + i * cell,
          y: y + HEIGHT - 6,
          width: Math.max(0.5, cell - 0.6),
          height: 4,
          "fill-opacity": Math.sqrt(value / most).toFixed(3),
        },
        s("title", {}, `${named(pieces[i] ?? "")}: ${number(value, 4)}`),
      ),
    ),
  );
}

/** What a box is, in words. @param {Item} item */
function told({ boxes, folded, stack }) {
  const shape = boxes[boxes.length - 1].shape.map(counted).join(" by ");
  const parameters = boxes.reduce((sum, box) => sum + box.parameters, 0);
  const shared = parameters === 0 && boxes.some((box) => box.shared);
  const what = folded
    ? `${stack === "encoder" ? "Encoder" : "Decoder"} layer ${(boxes[0].layer ?? 0) + 1}, folded`
    : boxes[0].title;
  return `${what}: ${shape}, ${shared ? "shared parameters" : `${counted(parameters)} parameters`}`;
}

/** @param {string} text @param {number} x @param {number} y */
function caption(text, x, y) {
  return s("text", { class: "caption", x, y: y + 4 }, shortened(text, LONGEST), s("title", {}, text));
}

/**
 * A frame with its number around each layer that is drawn in full.
 * @param {Item[]} items
 * @param {(row: number) => number} top
 */
function frames(items, top) {
  /** @type {Map<string, Item[]>} */
  const layers = new Map();
  for (const item of items) {
    const { layer } = item.boxes[0];
    if (layer === null || item.folded) continue;
    const key = `${item.stack}-${layer}`;
    layers.set(key, [...(layers.get(key) ?? []), item]);
  }
  return s(
    "g",
    { class: "frames", "aria-hidden": "true" },
    [...layers.values()].flatMap((inside) => {
      const { stack, boxes } = inside[0];
      const y = top(inside[inside.length - 1].row) - 4;
      const height = top(inside[0].row) + HEIGHT + 4 - y;
      const outside = stack === "encoder" ? SIDE.encoder - 5 : LEFT.decoder - 6;
      const center = y + height / 2;
      return [
        s("rect", { x: outside, y, width: BOX + 21, height, rx: 5 }),
        s(
          "text",
          { x: MARGIN[stack], y: center, transform: `rotate(-90 ${MARGIN[stack]} ${center})` },
          `Layer ${(boxes[0].layer ?? 0) + 1}`,
        ),
      ];
    }),
  );
}

/** The arrows from each box to the next one. @param {Item[]} items @param {(row: number) => number} top */
function arrows(items, top) {
  return items
    .filter((item, i) => items[i + 1]?.stack === item.stack)
    .map(({ stack, row }) => {
      const x = LEFT[stack] + BOX / 2;
      return s("path", { d: `M${x} ${top(row)}V${top(row - 1) + HEIGHT + 1}`, "marker-end": "url(#arrow)" });
    });
}

/**
 * The residual connections: around each sub-layer, with pre-norm also around its normalization.
 * @param {Item[]} items
 * @param {(row: number) => number} top
 */
function residuals(items, top) {
  return items
    .filter(({ boxes: [box], folded }) => !folded && ["add", "add-norm"].includes(box.kind))
    .map(({ boxes: [box], stack, row }) => {
      const from = top(row + (box.kind === "add" ? 2 : 1)) + HEIGHT + (PITCH - HEIGHT) / 2;
      const x = LEFT[stack] + BOX / 2;
      const edge = stack === "encoder" ? LEFT.encoder - 1 : LEFT.decoder + BOX + 1;
      const d = `M${x} ${from}H${SIDE[stack]}V${top(row) + HEIGHT / 2}H${edge}`;
      return s("path", { d, "marker-end": "url(#arrow)" });
    });
}

/**
 * The encoder's output, which every cross-attention reads.
 * @param {Item[]} items
 * @param {(row: number) => number} top
 */
function memory(items, top) {
  const last = items.filter(({ stack }) => stack === "encoder").at(-1);
  const readers = items.filter(({ boxes }) => boxes.some(({ name }) => name === "decoder.cross-attention"));
  if (!last) return [];
  const x = LEFT.encoder + BOX / 2;
  const start = `M${x} ${top(last.row)}V${top(last.row) - 5}H${CHANNEL}`;
  return readers.map(({ row }) =>
    s("path", {
      class: "memory",
      d: `${start}V${top(row) + HEIGHT / 2}H${LEFT.decoder - 1}`,
      "marker-end": "url(#arrow)",
    }),
  );
}
