/** The recording in a page that is one file (`headwise explain -o X.html`): responses to the requests for one text. */

/**
 * @typedef {object} Recording
 * @property {string} state  the fragment of the page's state
 * @property {{ path: string, question: Record<string, unknown>, answer: any }[]} answers
 */

const text = document.querySelector("#recording")?.textContent;
/** The file's recording, null for a page with a server or a model. @type {Recording | null} */
export const recording = text ? JSON.parse(text) : null;

/**
 * The recorded response to a request, null if there is none; what its question doesn't name may be anything.
 * @param {Recording} recording
 * @param {string} path
 * @param {object | null} question
 */
export function recordedAnswer(recording, path, question) {
  const asked = /** @type {Record<string, unknown>} */ (question ?? {});
  const same = (/** @type {string} */ key, /** @type {unknown} */ value) =>
    JSON.stringify(asked[key]) === JSON.stringify(value);
  const found = recording.answers.find(
    (one) =>
      one.path === path.split("?")[0] &&
      Object.entries(one.question).every(([key, value]) => same(key, value)),
  );
  return found ? structuredClone(found.answer) : null;
}
