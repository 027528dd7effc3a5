/** Requests to the model in the browser (`headwise export --to page`), in place of those to a server. */

/** Requests whose responses the export has written. @type {Record<string, string>} */
const WRITTEN = { runs: "runs.json", run: "run.json", evidence: "evidence.json", metrics: "metrics.json" };

/** @typedef {{ path: string, question: object | null, signal: AbortSignal | undefined,
 *   resolve: (answer: any) => void, reject: (error: unknown) => void }} Request */

export class BrowserModel {
  /** @type {Request[]} */
  #waiting = [];
  /** @type {Request | null} */
  #current = null;
  /** @type {Worker | null} */
  #worker;

  /** @param {URL} folder  of the run's files */
  constructor(folder) {
    this.folder = folder;
    this.#worker = this.#started();
  }

  /**
   * The response to a request, or `{ error }` with one sentence; rejects with an AbortError if it was superseded.
   * @param {string} path
   * @param {object | null} question
   * @param {AbortSignal} [signal]
   * @returns {Promise<any>}
   */
  async ask(path, question, signal) {
    const written = WRITTEN[path.split("?")[0]];
    if (written) {
      const response = await fetch(new URL(written, this.folder), { signal }).catch(() => null);
      const answer = await response?.json().catch(() => null);
      signal?.throwIfAborted();
      if (response?.ok && answer) return answer;
      const status = response?.ok ? "another file" : `the status ${response?.status}`;
      return {
        error: `${written}: expected one of the page’s files, found ${response ? status : "no connection"}`,
      };
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ path, question, signal, resolve, reject });
      this.#next();
    });
  }

  /** Send the oldest request that still has a use, if the worker is idle. */
  #next() {
    while (this.#current === null && this.#waiting.length > 0) {
      const request = /** @type {Request} */ (this.#waiting.shift());
      if (request.signal?.aborted) request.reject(new DOMException("superseded", "AbortError"));
      else {
        this.#current = request;
        this.#worker ??= this.#started();
        this.#worker.postMessage({ path: request.path, question: request.question });
      }
    }
  }

  /** A new worker. One that has failed, as where its script wasn't loaded, answers nothing more. */
  #started() {
    const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    worker.postMessage({ folder: this.folder.href });
    worker.addEventListener("message", ({ data }) => this.#done(data.answer));
    worker.addEventListener("error", () => {
      worker.terminate();
      this.#worker = null;
      this.#done({ error: "The model in the browser failed." });
    });
    return worker;
  }

  /** @param {any} answer */
  #done(answer) {
    const request = this.#current;
    this.#current = null;
    if (request?.signal?.aborted) request.reject(new DOMException("superseded", "AbortError"));
    else request?.resolve(answer);
    this.#next();
  }
}
