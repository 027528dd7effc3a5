// Answers requests with the page's model in node: `node ask_page.mjs FOLDER < REQUESTS`, both in JSON.
// FOLDER is the folder `run` of an exported page; requests are pairs of a path and a body.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { openRun } from "../../src/headwise/page/static/js/model/answers.js";
import { Refusal } from "../../src/headwise/page/static/js/model/subwords.js";

const answer = await openRun(async (name) => new Uint8Array(readFileSync(join(process.argv[2], name))).buffer);
const answers = JSON.parse(readFileSync(0, "utf8")).map(([path, request]) => {
  try {
    return answer(path, request);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { error: error.message };
  }
});
process.stdout.write(
  JSON.stringify(answers, (_, value) => (value instanceof Float32Array ? Array.from(value) : value)),
);
