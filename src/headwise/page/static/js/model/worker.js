/** The worker that computes the model: it answers the page's requests one after the other. */

import { openRun } from "./answers.js";
import { Refusal } from "./subwords.js";

/** @typedef {{ folder: string } | { path: string, question: any }} Message */

/** @type {ReturnType<typeof openRun> | null} */
let run = null;

let folder = "";

function open() {
  return openRun(async (name) => {
    const response = await fetch(new URL(name, folder)).catch(() => null);
    if (!response?.ok) {
      const found = response ? `the status ${response.status}` : "no connection";
      throw new Refusal(`${name}: expected one of the page’s files, found ${found}`);
    }
    return response.arrayBuffer();
  });
}

/** Answer a request. @param {string} path @param {any} question */
async function answer(path, question) {
  try {
    run ??= open();
    const answers = await run.catch((error) => {
      run = null; // "Try again" opens it anew
      throw error;
    });
    return answers(path, question);
  } catch (error) {
    if (error instanceof Refusal) return { error: error.message };
    console.error(error);
    return { error: "The model in the browser failed; the browser’s console says why." };
  }
}

self.addEventListener("message", async (/** @type {MessageEvent<Message>} */ { data }) => {
  if ("folder" in data) {
    folder = data.folder;
    return;
  }
  self.postMessage({ answer: await answer(data.path, data.question) });
});
