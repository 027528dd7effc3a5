// Requests of the page to a browser of which some loads fail: `node ask_client.mjs FOLDER < REQUESTS`, both in JSON.
// Requests are pairs of a path and what the browser loads for it: a text, or null where it can't.

class Worker extends EventTarget {
  postMessage({ path }) {
    if (path === undefined || this.failed) return;
    this.failed = loaded === null;
    const event = this.failed ? new Event("error") : new MessageEvent("message", { data: { answer: { loaded } } });
    setTimeout(() => this.dispatchEvent(event));
  }
  terminate() {}
}

let loaded = null;
globalThis.Worker = Worker;
globalThis.fetch = async () => {
  if (loaded === null) throw new TypeError("Failed to fetch");
  return new Response(loaded);
};

import { readFileSync } from "node:fs";
import { BrowserModel } from "../../src/headwise/page/static/js/model/client.js";

const model = new BrowserModel(new URL("http://page/run/"));
const answers = [];
for (const [path, text] of JSON.parse(readFileSync(0, "utf8"))) {
  loaded = text;
  const late = new Promise((resolve) => setTimeout(resolve, 1000, "no answer").unref());
  answers.push(await Promise.race([model.ask(path, {}), late]));
}
process.stdout.write(JSON.stringify(answers));
