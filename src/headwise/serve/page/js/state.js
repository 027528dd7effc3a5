/** The whole state of the page, which is also its address: a link shows what its sender saw. */

/**
 * @typedef {object} State
 * @property {string} run
 * @property {string} text
 * @property {number | null} beam  null: the run's
 * @property {number | null} alpha
 * @property {string[]} changes  interventions, as `headwise.analysis.interventions` writes them
 * @property {string | null} base  the pinned baseline: `settingsOf` as JSON
 * @property {number | null} node  of the beam tree: the hypothesis that is looked into; null: the best
 * @property {import("./types.js").Part} part  the head that is looked into
 * @property {number} layer
 * @property {number} head
 * @property {number | null} query  the pinned cell
 * @property {number | null} key
 * @property {"head" | "layer" | "all"} over  what the ribbon shows
 * @property {0 | 1} shift
 * @property {boolean} words  whether subwords are joined
 * @property {string | null} word  pinned in the ribbon: "s3" or "t2"
 * @property {number} stage  of the microscope
 * @property {number | null} tour
 * @property {number} temperature  of a language model
 * @property {number} topk  0: all tokens
 * @property {number} topp
 * @property {number} seed
 * @property {number} image  of those that were held out, from 0
 * @property {string | null} pixels  one's own picture in its place: a byte each, in base64
 * @property {string} caption  that a model of images and texts reads; empty: the picture's own
 * @property {"auto" | "light" | "dark"} theme
 */

/** @type {State} */
export const START = {
  run: "",
  text: "",
  beam: null,
  alpha: null,
  changes: [],
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
  tour: null,
  temperature: 1,
  topk: 0,
  topp: 1,
  seed: 1,
  image: 0,
  pixels: null,
  caption: "",
  theme: "auto",
};

// What a change of these makes meaningless.
const DEPENDENT = ["node", "query", "key", "word"];
const GROUND = ["run", "text", "beam", "alpha", "changes"];
const OF_RUN = ["beam", "alpha", "changes", "base", "image", "pixels", "caption"];

/** @typedef {(state: State, changed: Set<string>) => void} Listener */

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
   * Change some of the state; whoever listens hears once what changed.
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
    if (GROUND.some(differs)) reset(DEPENDENT);
    const changed = new Set(Object.keys(after).filter(differs));
    if (changed.size === 0) return;
    this.state = /** @type {State} */ (/** @type {unknown} */ (after));
    for (const listener of this.#listeners) listener(this.state, changed);
  }

  /**
   * Change the interventions, so that it can be undone.
   * @param {string[]} changes
   */
  intervene(changes) {
    this.#past.push(this.state.changes);
    this.set({ changes: [...new Set(changes)] });
  }

  get canUndo() {
    return this.#past.length > 0 || this.state.changes.length > 0;
  }

  /** Take back the last change of the interventions; those of a link one by one. */
  undo() {
    const last = this.#past.pop() ?? this.state.changes.slice(0, -1);
    this.set({ changes: last });
  }
}

/**
 * Write what differs from the start as the fragment of the page's address; a fragment never leaves the browser.
 * @param {State} state
 */
export function toFragment(state) {
  const written = new URLSearchParams();
  for (const [key, value] of Object.entries(state)) {
    const usual = /** @type {Record<string, unknown>} */ (START)[key];
    if (JSON.stringify(value) === JSON.stringify(usual)) continue;
    if (Array.isArray(value)) for (const one of value) written.append(key, one);
    else written.set(key, String(value));
  }
  return written.toString();
}

/**
 * Read a fragment; what can't be read is as at the start.
 * @param {string} fragment
 * @returns {State}
 */
export function fromFragment(fragment) {
  const read = new URLSearchParams(fragment.replace(/^#/, ""));
  /** @type {Record<string, unknown>} */
  const state = { ...START };
  /** @type {Record<string, string[]>} */
  const among = {
    part: ["encoder", "decoder", "cross"],
    over: ["head", "layer", "all"],
    theme: ["auto", "light", "dark"],
    shift: ["0", "1"],
    words: ["true", "false"],
  };
  const whole = [
    "beam",
    "node",
    "layer",
    "head",
    "query",
    "key",
    "stage",
    "tour",
    "shift",
    "topk",
    "seed",
    "image",
  ];
  for (const key of Object.keys(START)) {
    const text = read.get(key);
    if (text === null) continue;
    if (key in among && !among[key].includes(text)) continue;
    if (key === "changes") state[key] = read.getAll(key);
    else if (key === "words") state[key] = text === "true";
    else if (whole.includes(key)) {
      if (/^[0-9]{1,5}$/.test(text)) state[key] = Number(text);
    } else if (["alpha", "temperature", "topp"].includes(key)) {
      if (Number.isFinite(Number(text)) && text.trim() !== "") state[key] = Number(text);
    } else state[key] = text;
  }
  return /** @type {State} */ (/** @type {unknown} */ (state));
}
