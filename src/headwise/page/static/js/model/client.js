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

  /** @param {URL} folder  of the run's files */
  constructor(folder) {
    this.folder = folder;
    this.worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    this.worker.postMessage({ folder: folder.href });
    this.worker.addEventListener("message", ({ data }) => this.#done(data.answer));
    this.worker.addEventListener("error", () => this.#done({ error: "The model in the browser failed." }));
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
      const response = await fetch(new URL(written, this.folder), { signal });
      return response.ok
        ? response.json()
        : { error: `${written}: the web server answered ${response.status}.` };
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
        this.worker.postMessage({ path: request.path, question: request.question });
      }
    }
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
