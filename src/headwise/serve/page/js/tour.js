/** The nine steps of the tour: the text, the panel and state each shows, and a sentence with the model's numbers. */

import { links } from "./panels/ribbon.js";
import { number, percent, piece } from "./text.js";

/**
 * @typedef {import("./types.js").App} App
 * @typedef {import("./types.js").Part} Part
 *
 * @typedef {object} Step
 * @property {string} title
 * @property {string} gist subtitle
 * @property {string} panel the panel's id
 * @property {string} text
 * @property {string} attempt a suggestion of something to try
 * @property {(app: App) => Partial<import("./state.js").State>} act the state that the step sets
 * @property {(app: App) => string} live a sentence with the model's current numbers
 */

const WAIT = "The numbers come with the next answer of the model.";

/**
 * A head and a cell to select, within the sizes of the model.
 * @param {App} app
 * @param {Part} preferred
 * @param {number} stage
 */
function look({ data }, preferred, stage) {
  const parts = data.run.value?.parts ?? {};
  const part = parts[preferred] ? preferred : /** @type {Part} */ (Object.keys(parts)[0] ?? "cross");
  const layers = parts[part]?.layers ?? 1;
  const rows = data.reading?.attention[part]?.shape[2] ?? 4;
  return {
    part,
    layer: Math.min(1, layers - 1),
    head: 0,
    query: Math.min(2, Math.max(0, rows - 1)),
    key: null,
    stage,
  };
}

/**
 * The computation that the microscope shows, with the selected key or else the one with the largest weight.
 * @param {App} app
 */
function cell({ data, store }) {
  const p = data.cell.value;
  if (!p || p.part !== store.state.part || p.layer !== store.state.layer) return null;
  const key = store.state.key ?? p.weights.data.indexOf(Math.max(...p.weights.data));
  return key < p.key_pieces.length
    ? { p, key, asks: piece(p.query_piece), name: piece(p.key_pieces[key]) }
    : null;
}

/** @type {Step[]} */
export const STEPS = [
  {
    title: "A look-up that is soft",
    gist: "A dictionary that answers with a mixture",
    panel: "microscope",
    text: "In a dictionary you look a word up and find one entry. Attention looks up with a question, compares it with every entry, and takes a little of each: much of what fits, hardly any of what doesn’t.",
    attempt: "Move the cursor over a row: its weights are shares, and they sum to 1.",
    act: (app) => look(app, "cross", 5),
    live: (app) => {
      const selected = cell(app);
      if (!selected) return WAIT;
      const order = [...selected.p.weights.data.keys()]
        .sort((a, b) => selected.p.weights.data[b] - selected.p.weights.data[a])
        .slice(0, 3);
      return `Here “${selected.asks}” takes ${order.map((i) => `${percent(selected.p.weights.data[i])} of “${piece(selected.p.key_pieces[i])}”`).join(", ")}, and the rest of the others.`;
    },
  },
  {
    title: "Queries and keys",
    gist: "What is looked for, and what it is found by",
    panel: "microscope",
    text: "Every token is turned into a query (what am I looking for?) and a key (what can I be found by?): two short lists of numbers. How well they fit is their product, number by number, added up.",
    attempt: "Choose another column: the query stays, the key changes.",
    act: (app) => look(app, "cross", 2),
    live: (app) => {
      const selected = cell(app);
      return selected
        ? `The query of “${selected.asks}” and the key of “${selected.name}” give q · k = ${number(selected.p.dots.data[selected.key], 3)}, the sum of ${selected.p.q.data.length} products.`
        : WAIT;
    },
  },
  {
    title: "Not too sharp",
    gist: "Why the product is divided by √d",
    panel: "microscope",
    text: "The longer the lists, the larger their products become, by chance alone. Dividing by the square root of their length keeps the scores moderate; otherwise one key would take everything and the model couldn’t learn from the others.",
    attempt: "Compare the columns q·k and ÷ √dₖ in the table.",
    act: (app) => look(app, "cross", 3),
    live: (app) => {
      const selected = cell(app);
      return selected
        ? `${number(selected.p.dots.data[selected.key], 3)} ÷ √${selected.p.q.data.length} = ${number(selected.p.scaled.data[selected.key], 3)}.`
        : WAIT;
    },
  },
  {
    title: "From scores to shares",
    gist: "The softmax",
    panel: "microscope",
    text: "The softmax makes each score positive (e to its power) and divides by the sum of all. Now they are shares of one whole, and a score that is higher by 0.7 gets twice the share.",
    attempt: "Look for two keys whose scores differ by about 0.7, and compare their α.",
    act: (app) => look(app, "cross", 5),
    live: (app) => {
      const selected = cell(app);
      return selected
        ? `“${selected.name}” gets ${percent(selected.p.softmax.data[selected.key])}; all ${selected.p.key_pieces.length} shares sum to ${number(
            selected.p.softmax.data.reduce((a, b) => a + b, 0),
            4,
          )}.`
        : WAIT;
    },
  },
  {
    title: "A mixture of values",
    gist: "What is found is added up by its share",
    panel: "microscope",
    text: "Besides its key every token has a value: what it has to give. The answer is the sum of all values, each times its share. Finding and giving are separate, so a word can be found for one reason and give something else.",
    attempt: "Step back and forth between softmax and Σ α v.",
    act: (app) => look(app, "cross", 6),
    live: (app) => {
      const selected = cell(app);
      return selected
        ? `“${selected.name}” gives ${number(selected.p.weights.data[selected.key], 3)} times its value; the first number of the sum is ${number(selected.p.result.data[0], 3)}.`
        : WAIT;
    },
  },
  {
    title: "Many heads",
    gist: "Several questions at once",
    panel: "heads",
    text: "One look-up asks one question. So a layer has several heads, each with its own queries, keys and values, and W^O adds up what they found. Some follow the order of words, some grammar, and some do little.",
    attempt: "Press x on a head to silence it, and u to undo. Does the translation change?",
    act: (app) => look(app, "encoder", 7),
    live: ({ data, store }) => {
      const size = data.run.value?.parts?.[store.state.part];
      return size
        ? `This model has ${size.layers} layers of ${size.heads} heads here, ${size.layers * size.heads} questions about every token.`
        : WAIT;
    },
  },
  {
    title: "Words that know each other",
    gist: "Self-attention in the encoder",
    panel: "heads",
    text: "In the encoder every source word looks at all source words, itself included. After a few layers each word’s numbers tell what it means in this sentence: which noun an adjective belongs to, whom “it” stands for.",
    attempt: "Look for diagonals: heads that look at the word before or after.",
    act: (app) => ({ ...look(app, "encoder", 0), layer: 0 }),
    live: (app) => {
      const weights = app.data.reading?.attention.encoder;
      if (!weights) return WAIT;
      const before = along(weights, app.store.state.layer, -1);
      return `In layer ${app.store.state.layer + 1}, head by head, the largest weight stands on the word before for ${before.map(percent).join(", ")} of the words.`;
    },
  },
  {
    title: "Two sentences meet",
    gist: "Cross-attention",
    panel: "ribbon",
    text: "While the decoder writes, its queries look at the encoder’s keys: each target word asks the source what to say next. Often that looks like a word alignment, as a translator would draw it, though nobody taught it.",
    attempt: "Point at a target word. Then choose “Reading” and see how the links move by one.",
    act: (app) => {
      const layers = app.data.run.value?.parts?.cross?.layers ?? 1;
      return {
        ...look(app, "cross", 5),
        layer: Math.max(0, layers - 2),
        over: /** @type {const} */ ("layer"),
        word: "t1",
      };
    },
    live: ({ data, store }) => {
      const source = data.trace.value?.source;
      const alignment = source && data.reading ? links(store.state, source, data.reading) : null;
      if (!alignment || alignment.target.length < 2) return WAIT;
      const row = alignment.weights.at(1).data;
      const best = row.indexOf(Math.max(...row));
      return `While it wrote “${alignment.target[1]}” it looked most at “${alignment.source[best]}” (${percent(row[best])}).`;
    },
  },
  {
    title: "No looking ahead",
    gist: "The decoder’s mask",
    panel: "microscope",
    text: "The decoder also looks at what it has written. In training it sees the whole translation, and must not peek at the word that it is to guess. So scores of later tokens are set to −∞, and their shares become exactly 0: the empty triangle.",
    attempt: "Choose a cell in the empty triangle and go to the step “mask”.",
    act: (app) => ({ ...look(app, "decoder", 4), layer: 0 }),
    live: (app) => {
      const selected = cell(app);
      if (!selected) return WAIT;
      const hidden = selected.p.seen.filter((seen) => !seen).length;
      return `At “${selected.asks}” ${hidden} of ${selected.p.seen.length} tokens come later and are masked.`;
    },
  },
];

/**
 * For each head of a layer, the share of rows whose largest weight is at an offset from the diagonal.
 * @param {import("./tensor.js").Tensor} weights
 * @param {number} layer
 * @param {number} offset
 */
function along(weights, layer, offset) {
  const [, heads, rows] = weights.shape;
  return Array.from({ length: heads }, (_, head) => {
    let matches = 0;
    for (let row = 0; row < rows; row++) {
      const line = weights.at(layer, head, row).data;
      if (line.indexOf(Math.max(...line)) === row + offset) matches++;
    }
    return matches / rows;
  });
}
