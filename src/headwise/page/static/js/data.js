/** The page's data from the server, kept in step with its state. */

import { ask, Slot } from "./api.js";

/**
 * @typedef {import("./types.js").Trace} Trace
 * @typedef {import("./types.js").Reading} Reading
 * @typedef {{ text: string, beam: number | null, alpha: number | null, changes: string[] }} Settings
 */

const TYPING = 120; // milliseconds to wait for further typing before a request
// A change of one of these needs new responses.
const INPUTS = [
  ...["text", "beam", "alpha", "changes", "base"],
  ...["temperature", "topk", "topp"],
  ...["image", "pixels", "caption"],
];

/** The settings of a translation. @param {import("./state.js").State} state @returns {Settings} */
export function settingsOf({ text, beam, alpha, changes }) {
  return { text, beam, alpha, changes };
}

/**
 * The settings of the baseline: the pinned ones, or the current ones without interventions.
 * @param {import("./state.js").State} state
 * @returns {Settings}
 */
export function baselineOf(state) {
  const plain = { ...settingsOf(state), changes: [] };
  try {
    return state.base === null ? plain : { ...plain, ...JSON.parse(state.base) };
  } catch {
    return plain;
  }
}

/** All data from the server, one slot per request. */
export class Data {
  /** @type {Slot<import("./types.js").Run>} */
  run = new Slot();
  /** @type {Slot<Trace>} */
  trace = new Slot();
  /** The baseline's trace, null if it would be the same. @type {Slot<Trace>} */
  base = new Slot();
  /** Forced decoding of the baseline's output with the current interventions. @type {Slot<Reading>} */
  under = new Slot();
  /** Forced decoding of the selected hypothesis if it isn't the best one. @type {Slot<Reading>} */
  chosen = new Slot();
  /** @type {Slot<import("./types.js").Products>} */
  cell = new Slot();
  /** The boxes of the model. @type {Slot<import("./types.js").Boxes>} */
  boxes = new Slot();
  /** The selected box. @type {Slot<import("./types.js").Box>} */
  box = new Slot();
  /** The selected hypothesis, step by step. @type {Slot<import("./types.js").Stepwise>} */
  stepwise = new Slot();
  /** @type {Slot<import("./roles.js").Evidence>} */
  evidence = new Slot();
  /** A language model's next-token distribution. @type {Slot<import("./types.js").NextToken>} */
  next = new Slot();
  /** A language model's continuation. @type {Slot<{ text: string }>} */
  written = new Slot();
  /** Recurrent networks beside attention. @type {Slot<import("./types.js").Recurrence>} */
  recurrence = new Slot();
  /** Time of recurrent steps and of attention. @type {Slot<import("./types.js").Times>} */
  times = new Slot();
  /** A vision model's attention over an image. @type {Slot<import("./types.js").ImageView>} */
  view = new Slot();
  /** The same without interventions, null if there are none. @type {Slot<import("./types.js").ImageView>} */
  unchanged = new Slot();
  /** @type {Slot<import("./types.js").Curves>} */
  curves = new Slot();

  /** Whether the panel about recurrence has been on the screen: its networks are computed from then on. */
  #recurrenceSeen = false;

  /** @param {import("./state.js").Store} store */
  constructor(store) {
    this.store = store;
    store.on((_, changed) => this.#follow(changed));
    this.run.on(() => this.#askModel(0));
    this.trace.on(() => this.#askReading());
    this.base.on(() => this.#askReading());
    this.chosen.on(() => {
      this.#askCell();
      this.#askBoxes();
    });
    this.view.on(() => this.#askBoxes());
    this.boxes.on(() => this.#askBox());
    this.recurrence.on(({ status, value }) => {
      const run = this.run.value?.name;
      if (status === "ready" && value) this.times.ask("times", { run, width: value.width });
    });
    // A run in training has a model as soon as there is a checkpoint.
    this.curves.on(({ status }) => {
      if (status === "ready" && this.run.status === "ready" && !this.run.value?.parameters) this.run.retry();
    });
  }

  /** All slots; a failed one can be retried. */
  get slots() {
    return Object.values(this).filter((one) => one instanceof Slot);
  }

  /** The forced decoding that is shown: of the selected hypothesis, or the best. @returns {Reading | null} */
  get reading() {
    if (this.store.state.node === null) return this.trace.value?.forced ?? null;
    return this.chosen.value;
  }

  /** The weights that the overview of heads shows, of a text or of an image. @returns {Reading["attention"] | null} */
  get attention() {
    const { view } = this;
    return view.value ? { encoder: view.value.attention } : (this.reading?.attention ?? null);
  }

  /** The token ids on the path from the root of the beam tree to a node. @param {number} node */
  path(node) {
    const tree = this.trace.value?.tree ?? [];
    /** @type {number[]} */
    const ids = [];
    for (
      let index = /** @type {number | null} */ (node);
      index !== null && tree[index];
      index = tree[index].parent
    ) {
      ids.unshift(tree[index].token);
    }
    return ids;
  }

  /** Request the run that the state names, its evidence and its training curves. */
  begin() {
    const { run } = this.store.state;
    this.run.ask(`run?run=${encodeURIComponent(run)}`, null);
    this.evidence.ask(`evidence?run=${encodeURIComponent(run)}`, null);
    this.curves.ask(`metrics?run=${encodeURIComponent(run)}`, null);
  }

  /** Send the requests that a change of the state needs. @param {Set<string>} changed */
  #follow(changed) {
    if (changed.has("run")) {
      for (const slot of this.slots) slot.clear();
      this.begin();
      return;
    }
    if (changed.has("text")) this.written.clear(); // it continues another text
    if (INPUTS.some((key) => changed.has(key))) {
      const typed = ["text", "beam", "caption"].some((key) => changed.has(key));
      this.#askModel(typed ? TYPING : 0);
    }
    if (changed.has("radius")) this.#askRecurrence(TYPING);
    if (["node", "part", "layer", "head", "query"].some((key) => changed.has(key))) this.#askReading();
    if (["box", "boxLayer", "position", "temperature"].some((key) => changed.has(key))) this.#askBox();
  }

  /**
   * Request what depends on the inputs only: the trace and the baseline's, or another task's view.
   * @param {number} delay
   */
  #askModel(delay) {
    const run = this.run.value;
    const { state } = this.store;
    if (this.run.status === "ready" && run?.can.language_model) this.next.ask("next", this.drawing(), delay);
    if (this.run.status === "ready" && run?.can.vision) {
      const picture = { run: run.name, ...this.#picture(), caption: state.caption };
      this.view.ask("patches", { ...picture, interventions: state.changes }, delay);
      if (state.changes.length) this.unchanged.ask("patches", picture, delay);
      else this.unchanged.clear();
    }
    if (this.run.status === "ready" && (run?.can.translate || run?.can.read)) {
      const now = { run: run.name, ...question(settingsOf(state)) };
      const before = { run: run.name, ...question(baselineOf(state)) };
      this.trace.ask("trace", now, delay);
      if (JSON.stringify(now) === JSON.stringify(before)) this.base.clear();
      else this.base.ask("trace", before, delay);
    }
    this.#askRecurrence(delay); // the last, because it takes the longest
  }

  /** Request the forced decodings that depend on the traces, then the cell. */
  #askReading() {
    const { state } = this.store;
    if (this.trace.status !== "ready") return;
    if (state.node === null) this.chosen.clear();
    else if (this.path(state.node).length > 0) this.chosen.ask("force", this.#forcing(this.path(state.node)));
    else this.store.set({ node: null });
    const base = this.base.value;
    const sameText = baselineOf(state).text === state.text;
    if (base?.forced && this.base.status === "ready" && sameText)
      this.under.ask("force", this.#forcing(base.forced.target.ids));
    else this.under.clear();
    this.#askCell();
    this.#askBoxes();
  }

  /** Whether the shown reading is of the current trace. */
  get #settled() {
    const { trace, chosen, store } = this;
    return trace.status === "ready" && (store.state.node === null || chosen.status === "ready");
  }

  /** Request the shown hypothesis step by step, and the computation of the cell that the microscope shows. */
  #askCell() {
    const { part, layer, head, query } = this.store.state;
    const { reading } = this;
    const run = this.run.value;
    if (!reading || !run?.can.steps) this.stepwise.clear();
    else if (this.#settled) this.stepwise.ask("steps", { ...this.#common(), target: reading.target.ids }, 30);
    const { layers = 0, heads = 0 } = run?.parts?.[part] ?? {};
    if (!reading || layer >= layers || head >= heads || !hasProducts(run, part)) return this.cell.clear();
    if (!this.#settled) return;
    const rows = reading.attention[part]?.shape[2] ?? 0;
    const row = Math.min(query ?? 0, rows - 1);
    this.cell.ask(
      "products",
      { ...this.#common(), target: reading.target.ids, part, layer, head, query: row },
      30,
    );
  }

  /** Request the boxes of the model with the shown text or image. */
  #askBoxes() {
    const shown = this.#shown();
    if (!shown || !this.run.value?.can.boxes) {
      this.boxes.clear();
      this.box.clear();
      return;
    }
    if (this.view.value ? this.view.status !== "ready" : !this.#settled) return;
    this.boxes.ask("boxes", shown, 30);
  }

  /** What the boxes compute on, as in a request's body: the shown reading of a text, or the image; null if none. */
  #shown() {
    const { run, changes } = this.store.state;
    if (this.view.value) return { run, interventions: changes, ...this.#picture() };
    return this.reading && { ...this.#common(), target: this.reading.target.ids };
  }

  /** The image that is looked at, as in a request's body. */
  #picture() {
    const { image, pixels } = this.store.state;
    return pixels === null ? { image } : { pixels };
  }

  /** The box that is looked into: the selected one, or the first. */
  get selected() {
    const { box, boxLayer } = this.store.state;
    const boxes = this.boxes.value?.boxes ?? [];
    const named = boxes.filter(({ name }) => name === box);
    return named.find(({ layer }) => layer === null || layer === boxLayer) ?? named[0] ?? boxes[0] ?? null;
  }

  /** Request the computation of the selected box. */
  #askBox() {
    const { selected } = this;
    const pieces = this.boxes.value?.pieces;
    const shown = this.#shown();
    if (this.boxes.status !== "ready" || !shown || !selected || !pieces) return;
    const { position, temperature } = this.store.state;
    const question = {
      ...shown,
      box: selected.name,
      layer: selected.layer,
      position: Math.min(position, pieces[selected.row].length - 1),
      ...(selected.kind === "softmax" ? { temperature } : {}),
    };
    this.box.ask("box", question, 30);
  }

  /** Begin to request the comparison of recurrence and attention: its panel is on the screen. */
  seeRecurrence() {
    this.#recurrenceSeen = true;
    this.#askRecurrence(0);
  }

  /** @param {number} delay */
  #askRecurrence(delay) {
    if (!this.#recurrenceSeen || this.run.status !== "ready" || !this.run.value?.can.recurrence) return;
    if (this.store.state.text.trim() === "") this.recurrence.clear();
    else this.recurrence.ask("recurrence", { ...this.#common(), radius: this.store.state.radius }, delay);
  }

  /** The body of a request to a language model. */
  drawing() {
    const { run, text, temperature, topk, topp } = this.store.state;
    return { run, text, temperature, top_k: topk, top_p: topp };
  }

  /** The body of a request for the forced decoding of a target. @param {number[]} target */
  #forcing(target) {
    return { ...this.#common(), target, alpha: this.trace.value?.alpha };
  }

  /** The part of a request's body that is common to those of the current translation. */
  #common() {
    const { run, text, changes } = this.store.state;
    return { run, text, interventions: changes };
  }
}

/**
 * Whether the computation of a part's heads can be shown: it is softmax(QKᵀ/√dₖ)V.
 * @param {import("./types.js").Run | null} run
 * @param {import("./types.js").Part} part
 */
export function hasProducts(run, part) {
  return run?.can.products === true && run.parts?.[part]?.products === true;
}

/** Settings as the body of a request. @param {Settings} settings */
function question({ text, beam, alpha, changes }) {
  return { text, beam, alpha, interventions: changes };
}

/** The names of the runs that are served. @returns {Promise<{ name: string, task: string, ready: boolean }[]>} */
export async function allRuns() {
  return (await ask("runs", null)).runs;
}
