/** The whole state of the page, which is also its URL fragment: a link reproduces what its sender saw. */

/**
 * @typedef {object} State
 * @property {string} run
 * @property {string} text
 * @property {number | null} beam  null: the run's default
 * @property {number | null} alpha
 * @property {string[]} changes  interventions, in the syntax of `headwise.analysis.interventions`
 * @property {string} scope  where parts are switched off: part and layer as interventions write them, such as "encoder.2"
 * @property {string | null} base  the pinned baseline: `settingsOf` as JSON
 * @property {number | null} node  the selected hypothesis: a node of the beam tree; null: the best one
 * @property {import("./types.js").Part} part  of the selected head, like `layer` and `head`
 * @property {number} layer
 * @property {number} head
 * @property {number | null} query  the pinned cell: its row, and `key`, its column
 * @property {number | null} key
 * @property {"head" | "layer" | "all"} over  the heads whose weights are averaged: the selected one, its layer's, all
 * @property {0 | 1} shift  0: a token's row is the one that predicts it; 1: the one that reads it
 * @property {boolean} words  whether subwords are merged into words
 * @property {string | null} word  pinned in the ribbon: "s3" or "t2"; of a caption: "w1"
 * @property {number} stage  the microscope's step
 * @property {string} box  the box that is looked into, such as "encoder.feed-forward"; empty: the first one
 * @property {number} boxLayer
 * @property {number} boxStep
 * @property {number} position  the box's token
 * @property {number} step  of the generation word by word, from 0
 * @property {string} network  whose states are shown; empty: the first one with sequential steps
 * @property {number} radius  of the recurrent network without gates, its spectral radius
 * @property {string | null} panel  the panel that a link leads to
 * @property {number} temperature  of a language model, like the next three, and of the box "softmax"
 * @property {number} topk  0: all tokens
 * @property {number} topp
 * @property {number} seed
 * @property {number} image  number of the held-out image, from 0
 * @property {string | null} pixels  an own image instead: one byte per pixel and channel, in base64
 * @property {string} caption  for a model of images and texts; empty: the held-out image's own
 * @property {"auto" | "light" | "dark"} theme
 */

/** @type {State} */
const START = {
  run: "",
  text: "",
  beam: null,
  alpha: null,
  changes: [],
  scope: "*.*",
  base: null,
  node: null,
  part: "cross",
  layer: 0,
  head: 0,
  query: null,
  key: null,
  over: "layer",
  shift: 0,
  words: true,
  word: null,
  stage: 0,
  box: "",
  boxLayer: 0,
  boxStep: 0,
  position: 0,
  step: 0,
  network: "",
  radius: 2,
  panel: null,
  temperature: 1,
  topk: 0,
  topp: 1,
  seed: 1,
  image: 0,
  pixels: null,
  caption: "",
  theme: "auto",
};

// A change of one of INPUTS resets DEPENDENT, another run resets OF_RUN, too.
const DEPENDENT = ["node", "query", "key", "word", "step"];
const INPUTS = ["run", "text", "beam", "alpha", "changes"];
const OF_RUN = ["beam", "alpha", "changes", "scope", "base", "image", "pixels", "caption"];

const FRACTIONS = ["alpha", "temperature", "topp", "radius"];
const OPTIONAL_INTEGERS = ["beam", "node", "query", "key"]; // null unless chosen

/** @typedef {(state: State, changed: Set<string>) => void} Listener */

/** The state with its listeners and the history of its interventions. */
export class Store {
  /** @type {Set<Listener>} */
  #listeners = new Set();
  /** @type {string[][]} */
  #past = [];

  /** @param {State} state */
  constructor(state) {
    this.state = state;
  }

  /** @param {Listener} listener */
  on(listener) {
    this.#listeners.add(listener);
  }

  /**
   * Update the state and notify the listeners once of the keys that changed.
   * @param {Partial<State>} patch
   */
  set(patch) {
    const before = this.state;
    /** @type {Record<string, unknown>} */
    const after = { ...before, ...patch };
    const differs = (/** @type {string} */ key) =>
      JSON.stringify(after[key]) !== JSON.stringify(/** @type {Record<string, unknown>} */ (before)[key]);
    const reset = (/** @type {string[]} */ keys) => {
      for (const key of keys) {
        if (!(key in patch)) after[key] = /** @type {Record<string, unknown>} */ (START)[key];
      }
    };
    if (differs("run")) {
      reset(OF_RUN);
      this.#past = [];
    }
    if (INPUTS.some(differs)) reset(DEPENDENT);
    const changed = new Set(Object.keys(after).filter(differs));
    if (changed.size === 0) return;
    this.state = /** @type {State} */ (/** @type {unknown} */ (after));
    for (const listener of this.#listeners) listener(this.state, changed);
  }

  /** Change the interventions; `undo` restores the earlier ones. @param {string[]} changes */
  intervene(changes) {
    const next = [...new Set(changes)];
    if (JSON.stringify(next) === JSON.stringify(this.state.changes)) return; // there would be nothing to undo
    this.#past.push(this.state.changes);
    this.set({ changes: next });
  }

  get canUndo() {
    return this.#past.length > 0 || this.state.changes.length > 0;
  }

  /** Undo the last change of the interventions; those that came with a link are removed one by one. */
  undo() {
    const last = this.#past.pop() ?? this.state.changes.slice(0, -1);
    this.set({ changes: last });
  }
}

/**
 * The state as a URL fragment, without values that equal their defaults; a fragment never leaves the browser.
 * @param {State} state
 */
export function toFragment(state) {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(state)) {
    const initial = /** @type {Record<string, unknown>} */ (START)[key];
    if (JSON.stringify(value) === JSON.stringify(initial)) continue;
    if (Array.isArray(value)) for (const item of value) parameters.append(key, item);
    else parameters.set(key, String(value));
  }
  return parameters.toString();
}

/**
 * Parse a URL fragment; missing and invalid values get their defaults.
 * @param {string} fragment
 * @returns {State}
 */
export function fromFragment(fragment) {
  const parameters = new URLSearchParams(fragment.replace(/^#/, ""));
  /** @type {Record<string, unknown>} */
  const state = { ...START };
  /** @type {Record<string, string[]>} */
  const choices = {
    part: ["encoder", "decoder", "cross"],
    over: ["head", "layer", "all"],
    theme: ["auto", "light", "dark"],
    shift: ["0", "1"],
    words: ["true", "false"],
  };
  for (const [key, initial] of Object.entries(START)) {
    const text = parameters.get(key);
    if (text === null) continue;
    if (key in choices && !choices[key].includes(text)) continue;
    if (key === "changes") state[key] = parameters.getAll(key);
    else if (key === "words") state[key] = text === "true";
    else if (FRACTIONS.includes(key)) {
      if (Number.isFinite(Number(text)) && text.trim() !== "") state[key] = Number(text);
    } else if (typeof initial === "number" || OPTIONAL_INTEGERS.includes(key)) {
      if (/^[0-9]{1,9}$/.test(text)) state[key] = Number(text);
    } else state[key] = text;
  }
  return /** @type {State} */ (/** @type {unknown} */ (state));
}
