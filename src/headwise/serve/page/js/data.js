/** What the page knows from the server, kept in step with its state. */

import { ask, Slot } from "./api.js";

/**
 * @typedef {import("./types.js").Trace} Trace
 * @typedef {import("./types.js").Reading} Reading
 * @typedef {{ text: string, beam: number | null, alpha: number | null, changes: string[] }} Settings
 */

const TYPING = 120; // milliseconds
// What another answer is needed for when it changes.
const GROUND = [
  ...["text", "beam", "alpha", "changes", "base"],
  ...["temperature", "topk", "topp"],
  ...["image", "pixels", "caption"],
];

/**
 * @param {import("./state.js").State} state
 * @returns {Settings}
 */
export function settingsOf({ text, beam, alpha, changes }) {
  return { text, beam, alpha, changes };
}

/**
 * What is compared with: the pinned settings, or these without interventions.
 * @param {import("./state.js").State} state
 * @returns {Settings}
 */
export function baselineOf(state) {
  const usual = { ...settingsOf(state), changes: [] };
  try {
    return state.base === null ? usual : { ...usual, ...JSON.parse(state.base) };
  } catch {
    return usual;
  }
}

export class Data {
  /** @type {Slot<import("./types.js").Run>} */
  run = new Slot();
  /** @type {Slot<Trace>} */
  trace = new Slot();
  /** The baseline's trace, null where it would be the same. @type {Slot<Trace>} */
  base = new Slot();
  /** The baseline's output, as the model as it is now reads it. @type {Slot<Reading>} */
  under = new Slot();
  /** The chosen hypothesis where it isn't the best. @type {Slot<Reading>} */
  chosen = new Slot();
  /** @type {Slot<import("./types.js").Products>} */
  cell = new Slot();
  /** @type {Slot<import("./roles.js").Evidence>} */
  evidence = new Slot();
  /** A language model's next token. @type {Slot<import("./types.js").NextToken>} */
  next = new Slot();
  /** The continuation that it wrote. @type {Slot<{ text: string }>} */
  written = new Slot();
  /** What a model of images makes of one. @type {Slot<import("./types.js").ImageView>} */
  view = new Slot();
  /** @type {Slot<import("./types.js").Curves>} */
  curves = new Slot();

  /** @param {import("./state.js").Store} store */
  constructor(store) {
    this.store = store;
    store.on((_, changed) => this.#follow(changed));
    this.run.on(() => this.#ground(0));
    this.trace.on(() => this.#above());
    this.base.on(() => this.#above());
    this.chosen.on(() => this.#cell());
  }

  /** All slots whose failure a retry can mend. */
  get slots() {
    return [
      this.run,
      this.trace,
      this.base,
      this.under,
      this.chosen,
      this.cell,
      this.evidence,
      this.curves,
      this.next,
      this.written,
      this.view,
    ];
  }

  /** What is looked into: the chosen hypothesis, or the best. @returns {Reading | null} */
  get reading() {
    if (this.store.state.node === null) return this.trace.value?.forced ?? null;
    return this.chosen.value;
  }

  /**
   * The ids on the way to a node of the beam tree.
   * @param {number} node
   */
  path(node) {
    const tree = this.trace.value?.tree ?? [];
    /** @type {number[]} */
    const ids = [];
    for (
      let place = /** @type {number | null} */ (node);
      place !== null && tree[place];
      place = tree[place].parent
    ) {
      ids.unshift(tree[place].token);
    }
    return ids;
  }

  /** Load the run that the state names. */
  begin() {
    const { run } = this.store.state;
    this.run.ask(`run?run=${encodeURIComponent(run)}`, null);
    this.evidence.ask(`evidence?run=${encodeURIComponent(run)}`, null);
    this.curves.ask(`metrics?run=${encodeURIComponent(run)}`, null);
  }

  /** @param {Set<string>} changed */
  #follow(changed) {
    if (changed.has("run")) {
      for (const slot of this.slots) slot.clear();
      this.begin();
      return;
    }
    if (changed.has("text")) this.written.clear(); // the continuation of another text
    if (GROUND.some((key) => changed.has(key))) {
      const typed = ["text", "beam", "caption"].some((key) => changed.has(key));
      this.#ground(typed ? TYPING : 0);
    }
    if (["node", "part", "layer", "head", "query"].some((key) => changed.has(key))) this.#above();
  }

  /** @param {number} delay */
  #ground(delay) {
    const run = this.run.value;
    const { state } = this.store;
    if (this.run.status === "ready" && run?.can.language_model) this.next.ask("next", this.drawing(), delay);
    if (this.run.status === "ready" && run?.can.vision) {
      const { image, pixels, caption } = state;
      const which = pixels === null ? { image } : { pixels };
      this.view.ask("patches", { run: run.name, ...which, caption }, delay);
    }
    if (this.run.status !== "ready" || !run?.can.translate) return;
    const now = { run: run.name, ...question(settingsOf(state)) };
    const before = { run: run.name, ...question(baselineOf(state)) };
    this.trace.ask("trace", now, delay);
    if (JSON.stringify(now) === JSON.stringify(before)) this.base.clear();
    else this.base.ask("trace", before, delay);
  }

  #above() {
    const { state } = this.store;
    const settled = this.trace.status === "ready";
    if (!settled) return;
    if (state.node === null) this.chosen.clear();
    else if (this.path(state.node).length > 0) {
      this.chosen.ask("force", {
        ...this.#asked(),
        target: this.path(state.node),
        alpha: this.trace.value?.alpha,
      });
    } else this.store.set({ node: null });
    const base = this.base.value;
    const sameText = baselineOf(state).text === state.text;
    if (base?.forced && this.base.status === "ready" && sameText) {
      this.under.ask("force", {
        ...this.#asked(),
        target: base.forced.target.ids,
        alpha: this.trace.value?.alpha,
      });
    } else this.under.clear();
    this.#cell();
  }

  #cell() {
    const { part, layer, head, query } = this.store.state;
    const { reading } = this;
    const places = this.run.value?.parts?.[part];
    if (
      !reading ||
      !places ||
      layer >= places.layers ||
      head >= places.heads ||
      !this.run.value?.can.products
    ) {
      this.cell.clear();
      return;
    }
    if (this.trace.status !== "ready" || (this.store.state.node !== null && this.chosen.status !== "ready"))
      return;
    const rows = reading.attention[part]?.shape[2] ?? 0;
    const row = Math.min(query ?? 0, rows - 1);
    this.cell.ask(
      "products",
      { ...this.#asked(), target: reading.target.ids, part, layer, head, query: row },
      30,
    );
  }

  /** What a language model is asked. */
  drawing() {
    const { run, text, temperature, topk, topp } = this.store.state;
    return { run, text, temperature, top_k: topk, top_p: topp };
  }

  #asked() {
    const { run, text, changes } = this.store.state;
    return { run, text, interventions: changes };
  }
}

/** @param {Settings} settings */
function question({ text, beam, alpha, changes }) {
  return { text, beam, alpha, interventions: changes };
}

/** The names of the runs that are served. @returns {Promise<{ name: string, task: string, ready: boolean }[]>} */
export async function allRuns() {
  return (await ask("runs", null)).runs;
}
