/** Requests to the server or to the browser's model: the newest supersedes those before, an error is one sentence. */

import { BrowserModel } from "./model/client.js";
import { recordedAnswer, recording } from "./recording.js";
import { unpacked } from "./tensor.js";

/** The folder of the run's files where `headwise export --to page` wrote the page; undefined where a server did. */
const folder = document.querySelector("meta[name=headwise-run]")?.getAttribute("content");
const browserModel = folder ? new BrowserModel(new URL(folder, document.baseURI)) : null;

/** An error response of the server, or no response at all (`lost`). */
export class Failure extends Error {
  /** @param {string} sentence @param {boolean} lost */
  constructor(sentence, lost) {
    super(sentence);
    this.lost = lost;
  }
}

const CACHED = 24; // most responses kept, so that undoing and comparing send no request twice
/** The cached responses, least recently used first. @type {Map<string, any>} */
const answers = new Map();

/**
 * Send a request to the API; null is a GET, an object is the body of a POST, whose response is cached.
 * @param {string} path
 * @param {object | null} question
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function ask(path, question, signal) {
  const key = question === null ? null : path + JSON.stringify(question);
  if (key !== null && answers.has(key)) {
    const cached = answers.get(key);
    answers.delete(key);
    answers.set(key, cached);
    return cached;
  }
  const answer = unpacked(await fetched(path, question, signal));
  if (key !== null) {
    answers.set(key, answer);
    if (answers.size > CACHED) answers.delete(/** @type {string} */ (answers.keys().next().value));
  }
  return answer;
}

/**
 * Fetch a response's JSON; throws `Failure` for an error, and an AbortError if the request was superseded.
 * @param {string} path
 * @param {object | null} question
 * @param {AbortSignal} [signal]
 */
async function fetched(path, question, signal) {
  if (recording !== null) {
    const answer = recordedAnswer(recording, path, question);
    if (answer === null)
      throw new Failure("This file holds the recording of one text; headwise serve answers others.", false);
    return answer;
  }
  if (browserModel !== null) {
    const answer = await browserModel.ask(path, question, signal);
    if (answer.error) throw new Failure(answer.error, false);
    return answer;
  }
  /** @type {Response} */
  let response;
  try {
    const post = {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ ...question, arrays: "packed" }),
    };
    response = await fetch(`api/${path}`, { ...(question === null ? {} : post), signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failure("The server can’t be reached.", true);
  }
  const body = await response.json().catch(() => null);
  if (signal?.aborted) throw new DOMException("superseded", "AbortError");
  if (response.ok && body !== null) return body;
  throw new Failure(body?.error ?? `The server answered ${response.status}.`, false);
}

/**
 * A value that the page gets from the server, with its loading state. It keeps the last value until a newer one
 * arrives; the response to a superseded request is dropped.
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
  #request = null;
  /** @type {AbortController | null} */
  #running = null;
  /** @type {Set<(slot: Slot<T>) => void>} */
  #listeners = new Set();
  /** @type {() => void} */
  #repeat = () => {};

  /** @param {(slot: Slot<T>) => void} listener */
  on(listener) {
    this.#listeners.add(listener);
  }

  #notify() {
    for (const listener of this.#listeners) listener(this);
  }

  /**
   * Send a request, unless it equals the last one.
   * @param {string} path
   * @param {object | null} question
   * @param {number} [delay] milliseconds to wait for a newer request before sending this one (debouncing)
   */
  ask(path, question, delay = 0) {
    const request = path + JSON.stringify(question);
    if (request === this.#request) return;
    this.#repeat = () => {
      this.#request = null;
      this.ask(path, question);
    };
    this.#request = request;
    this.#running?.abort();
    const running = new AbortController();
    this.#running = running;
    this.status = "loading";
    this.#notify();
    const wait = delay > 0 ? new Promise((done) => setTimeout(done, delay)) : Promise.resolve();
    wait
      .then(() => (running.signal.aborted ? null : ask(path, question, running.signal)))
      .then((value) => {
        if (running.signal.aborted) return;
        [this.status, this.value, this.failure] = ["ready", value, null];
        this.#notify();
      })
      .catch((error) => {
        if (running.signal.aborted) return;
        if (!(error instanceof Failure)) throw error;
        [this.status, this.failure] = ["failed", error];
        this.#notify();
      });
  }

  /** Drop the value and abort the current request. */
  clear() {
    if (this.#request === null && this.value === null) return;
    this.#running?.abort();
    [this.#request, this.value, this.status, this.failure] = [null, null, "idle", null];
    this.#notify();
  }

  /** Repeat the last request, because it failed or because its result changes with time. */
  retry() {
    this.#repeat();
  }
}
