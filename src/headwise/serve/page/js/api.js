/** Asking the server: newest question wins, and what went wrong is one sentence. */

import { unpacked } from "./tensor.js";

/** An answer that says what is wrong, or none at all (`lost`). */
export class Failure extends Error {
  /**
   * @param {string} sentence
   * @param {boolean} lost
   */
  constructor(sentence, lost) {
    super(sentence);
    this.lost = lost;
  }
}

const KEPT = 24; // answers, so that undoing and comparing ask nothing twice
/** @type {Map<string, any>} */
const answers = new Map();

/**
 * Ask the interface; a question that is an object is posted, and its answer kept.
 * @param {string} path
 * @param {object | null} question
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function ask(path, question, signal) {
  const key = question === null ? null : path + JSON.stringify(question);
  if (key !== null && answers.has(key)) {
    const found = answers.get(key);
    answers.delete(key);
    answers.set(key, found);
    return found;
  }
  const answer = unpacked(await fetched(path, question, signal));
  if (key !== null) {
    answers.set(key, answer);
    if (answers.size > KEPT) answers.delete(/** @type {string} */ (answers.keys().next().value));
  }
  return answer;
}

/**
 * @param {string} path
 * @param {object | null} question
 * @param {AbortSignal} [signal]
 */
async function fetched(path, question, signal) {
  /** @type {Response} */
  let response;
  try {
    const posted = {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ ...question, arrays: "packed" }),
    };
    response = await fetch(`api/${path}`, { ...(question === null ? {} : posted), signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failure("The server can’t be reached.", true);
  }
  const told = await response.json().catch(() => null);
  if (signal?.aborted) throw new DOMException("superseded", "AbortError");
  if (response.ok && told !== null) return told;
  throw new Failure(told?.error ?? `The server answered ${response.status}.`, false);
}

/**
 * One thing that the page knows from the server. It shows its last value until a newer one is there; an answer to a
 * question that is no longer asked is thrown away.
 * @template T
 */
export class Slot {
  /** @type {T | null} */
  value = null;
  /** @type {"idle" | "loading" | "ready" | "failed"} */
  status = "idle";
  /** @type {Failure | null} */
  failure = null;
  /** @type {string | null} */
  #asked = null;
  /** @type {AbortController | null} */
  #running = null;
  /** @type {Set<(slot: Slot<T>) => void>} */
  #listeners = new Set();
  /** @type {() => void} */
  #again = () => {};

  /** @param {(slot: Slot<T>) => void} listener */
  on(listener) {
    this.#listeners.add(listener);
  }

  #tell() {
    for (const listener of this.#listeners) listener(this);
  }

  /**
   * Ask, unless the same is asked already.
   * @param {string} path
   * @param {object | null} question
   * @param {number} [delay] milliseconds in which a newer question may come
   */
  ask(path, question, delay = 0) {
    const asked = path + JSON.stringify(question);
    if (asked === this.#asked) return;
    this.#again = () => {
      this.#asked = null;
      this.ask(path, question);
    };
    this.#asked = asked;
    this.#running?.abort();
    const running = new AbortController();
    this.#running = running;
    this.status = "loading";
    this.#tell();
    const wait = delay > 0 ? new Promise((done) => setTimeout(done, delay)) : Promise.resolve();
    wait
      .then(() => (running.signal.aborted ? null : ask(path, question, running.signal)))
      .then((value) => {
        if (running.signal.aborted) return;
        [this.status, this.value, this.failure] = ["ready", value, null];
        this.#tell();
      })
      .catch((error) => {
        if (running.signal.aborted) return;
        if (!(error instanceof Failure)) throw error;
        [this.status, this.failure] = ["failed", error];
        this.#tell();
      });
  }

  /** Forget the value and whatever is being asked. */
  clear() {
    if (this.#asked === null && this.value === null) return;
    this.#running?.abort();
    [this.#asked, this.value, this.status, this.failure] = [null, null, "idle", null];
    this.#tell();
  }

  /** Ask the last question again: what failed, or what changes with time. */
  retry() {
    this.#again();
  }
}
