/** The page's requests, answered by a model in the browser instead of the server (docs/look-inside.md). */

import { products } from "./products.js";
import { readWeights } from "./safetensors.js";
import { Refusal, readSubwords } from "./subwords.js";
import { Tracer } from "./tracer.js";
import { Transformer } from "./transformer.js";
import { UnknownWords } from "./unknown.js";

const [MOST_CHARACTERS, MOST_BEAM, MOST_ALPHA, MOST_WORDS] = [5000, 16, 5, 8];

/**
 * What the export writes about a run's model (`model.json`).
 * @typedef {object} Description
 * @property {import("./transformer.js").ModelConfig} model
 * @property {{ beam: number, alpha: number, extra_length: number }} decoding
 * @property {number} longest
 * @property {string | null} language  of the source
 * @property {{ weights: string, source: string, target: string, numbering: string | null }} files
 */

/**
 * Load a run; returns the function that answers requests.
 * @param {(name: string) => Promise<ArrayBuffer>} read  reads a file of the run
 * @returns {Promise<(path: string, request: any) => any>}
 */
export async function openRun(read) {
  /** @type {Description} */
  const { model, decoding, longest, language, files } = JSON.parse(
    new TextDecoder().decode(await read("model.json")),
  );
  const subwords = await readSubwords(read, files);
  const tracer = new Tracer({
    model: new Transformer(model, readWeights(await read(files.weights))),
    subwords,
    unknown: { source: new UnknownWords(subwords.source), target: new UnknownWords(subwords.target) },
    decoding,
    longest,
    language,
  });
  /** @type {Record<string, (request: any) => object>} */
  const answers = {
    trace: (request) => tracer.trace(request),
    force: (request) => tracer.force(request),
    products: (request) => products(tracer, request),
  };
  return (path, request) => {
    if (!Object.hasOwn(answers, path))
      throw new Refusal(`/api/${path}: expected a request that the page without a server answers`);
    check(request);
    return answers[path](request);
  };
}

/** Check what a link can hold: lengths, and the options of the search. @param {any} request */
function check({ text, target, beam, alpha, interventions }) {
  for (const [name, value] of Object.entries({ text, target })) {
    const length = typeof value === "string" ? [...value].length : 0;
    if (length > MOST_CHARACTERS)
      throw new Refusal(`${name}: expected at most ${MOST_CHARACTERS} characters, found ${length}`);
  }
  if (beam != null && !(Number.isInteger(beam) && beam >= 1 && beam <= MOST_BEAM))
    throw new Refusal(`beam: expected a whole number from 1 to ${MOST_BEAM}, found ${beam}`);
  if (alpha != null && !(alpha >= 0 && alpha <= MOST_ALPHA))
    throw new Refusal(`alpha: expected a number from 0 to ${MOST_ALPHA}, found ${alpha}`);
  const forced = (interventions ?? []).filter((/** @type {string} */ one) => one.trim().startsWith("word:"));
  if (forced.length > MOST_WORDS)
    throw new Refusal(`interventions: expected at most ${MOST_WORDS} forced words, found ${forced.length}`);
}
