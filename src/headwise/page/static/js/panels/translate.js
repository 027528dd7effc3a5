/** The source text, its translation shaded by the uncertainty of each token, and the other hypotheses. */

import { baselineOf, settingsOf } from "../data.js";
import { button, field, fill, h, numberInput, select } from "../dom.js";
import { oneStop, roving } from "../keys.js";
import { panel, textBox, twin, watch } from "../panel.js";
import { number, percent, piece, UNKNOWN } from "../text.js";
import { changesBetween } from "./difference.js";

/** @param {import("../types.js").App} app */
export function translatePanel({ store, data }) {
  const section = panel(
    "translate",
    "Translate",
    1,
    "What the model makes of a sentence, and how sure it is of each token.",
  );
  const source = textBox(store, {
    id: "source",
    rows: 3,
    "aria-label": "Text to translate",
    placeholder: "Type a sentence",
  });
  const samples = h("div", { class: "samples" });
  const beam = numberInput({ id: "beam-size", min: 1, max: 16, step: 1, inputmode: "decimal" }, (value) =>
    store.set({ beam: Math.round(value) }),
  );
  const alpha = numberInput({ id: "alpha", min: 0, max: 5, step: 0.1, inputmode: "decimal" }, (value) =>
    store.set({ alpha: value }),
  );
  const pin = button("Pin as baseline", () => {
    const { state } = store;
    store.set({ base: state.base === null ? JSON.stringify(settingsOf(state)) : null });
  });
  const output = h("output", { class: "output", id: "output", dir: "auto", for: "source" });
  const detail = h("p", { class: "detail", "aria-live": "polite" });
  const difference = h("div", { class: "difference" });
  const hypotheses = h("ol", { class: "hypotheses" });
  const notes = h("p", { id: "notes", class: "muted" });
  const words = h("span", { role: "list", "aria-label": "Words of the text without subwords" });
  const reason = h("span", { id: "unknown-reason", class: "muted" }, `(${UNKNOWN})`);
  const unknown = h("div", { id: "unknown", class: "unknowns", dir: "auto", hidden: true }, words, reason);
  const answer = h(
    "div",
    { class: "answer" },
    output,
    detail,
    notes,
    difference,
    h("h3", {}, "Hypotheses"),
    hypotheses,
  );
  const side = h("div", {}, answer); // says what failed also where a table stands in place of the answer
  const options = h("div", { class: "row" }, field("Beam", beam), field("Length penalty α", alpha), pin);
  section.body.append(
    h("div", { class: "sides" }, h("div", { class: "ask" }, source, unknown, samples, options), side),
  );
  watch(side, [data.run, data.trace, data.chosen]);
  const refresh = twin(section, answer, () => tokenTable(data.reading));
  roving(output, ".token");
  roving(words, ".unknown");

  const showState = () => {
    const { state } = store;
    const run = data.run.value;
    if (document.activeElement !== beam) beam.value = String(state.beam ?? run?.beam ?? "");
    if (document.activeElement !== alpha) alpha.value = String(state.alpha ?? run?.alpha ?? "");
    const examples = samples.querySelector("select"); // it says which example the text is, so that each can be chosen
    if (examples) examples.value = run?.samples?.includes(state.text) ? state.text : "";
    pin.textContent = state.base === null ? "Pin as baseline" : "Unpin the baseline";
    pin.setAttribute("aria-pressed", String(state.base !== null));
  };
  const showRun = () => {
    const run = data.run.value;
    section.root.hidden = run !== null && !run.can.translate; // without a run, it says why there is none
    if (!run) return;
    setLanguage(source, run.languages.source);
    for (const element of [output, hypotheses, difference]) setLanguage(element, run.languages.target);
    const sentences = run.samples ?? [];
    source.readOnly = options.hidden = run.recorded === true;
    if (sentences.length === 0 || run.recorded) fill(samples);
    else {
      const examples = /** @type {[string, string][]} */ ([
        ["", "Examples…"],
        ...sentences.map((text) => [text, text]),
      ]);
      const list = select(examples, "", (text) => text && store.set({ text }), { "aria-label": "Examples" });
      fill(samples, list);
    }
  };
  const showOutput = () => {
    const { reading } = data;
    const trace = data.trace.value;
    fill(detail); // before the output, whose focused token fills it again
    if (trace && trace.hypotheses.length === 0) {
      fill(output, h("span", { class: "muted" }, "The translation appears here."));
    } else fill(output, reading ? tokens(reading, (text) => fill(detail, ...text), store) : []);
    oneStop(output.querySelectorAll(".token"));
    const unknownWords = (trace?.source.unknown ?? []).map((index) => trace?.source.words[index] ?? "");
    unknown.hidden = unknownWords.length === 0;
    fill(words, ...unknownWords.map((word) => unknownWord(word)));
    oneStop(words.querySelectorAll(".unknown"));
    if (unknownWords.length) source.setAttribute("aria-describedby", "notes");
    else source.removeAttribute("aria-describedby");
    const sentences = (trace?.notes ?? []).map((note) => `Note: ${note.replace(/\.$/, "")}.`);
    fill(notes, sentences.join(" "));
    notes.hidden = !trace?.notes.length;
    fill(hypotheses, ...(trace?.hypotheses ?? []).map((one, rank) => hypothesis(one, rank, store, reading)));
    refresh();
  };
  const showDifference = () => {
    const compared = data.base.value !== null && data.trace.value !== null;
    const label = store.state.base === null ? "Against no interventions" : "Against the baseline";
    const text =
      baselineOf(store.state).text !== store.state.text ? ` (“${baselineOf(store.state).text}”)` : "";
    fill(
      difference,
      compared && [
        h("h3", {}, label + text),
        changesBetween(
          data.base.value?.hypotheses[0]?.text ?? "",
          data.trace.value?.hypotheses[0]?.text ?? "",
        ),
      ],
    );
  };
  store.on(() => {
    showState();
    showDifference();
  });
  data.run.on(() => {
    showRun();
    showState();
  });
  data.trace.on((slot) => {
    if (slot.status !== "ready") return;
    showOutput();
    showDifference();
  });
  data.base.on(showDifference);
  data.chosen.on((slot) => slot.status !== "loading" && showOutput());
  showState();
  return section.root;
}

/** A marked unknown word of the source, which can get the focus. @param {string} word */
function unknownWord(word) {
  const mark = h("mark", { class: "unknown", tabindex: "-1", "aria-describedby": "unknown-reason" }, word);
  return h("span", { role: "listitem" }, mark, " ");
}

/** @param {HTMLElement} element @param {string | null} language */
function setLanguage(element, language) {
  if (language === null) element.removeAttribute("lang");
  else element.lang = language;
}

/**
 * The tokens of the output, grouped by word; pointing at one shows its alternatives.
 * @param {import("../types.js").Reading} reading
 * @param {(text: import("../dom.js").Child[]) => void} tell
 * @param {import("../state.js").Store} store
 */
function tokens(reading, tell, store) {
  const { target, log_probabilities: logProbabilities } = reading;
  return target.words.flatMap((_, word) => {
    const indices = target.word_of.flatMap((owner, index) => (owner === word ? [index] : []));
    return [
      h(
        "span",
        { class: "word" },
        indices.map((index) => {
          const probability = Math.exp(logProbabilities[index]);
          const show = () => tell(alternatives(reading, index, store));
          return h(
            "span",
            {
              class: `token${probability < 0.5 ? " unsure" : ""}${target.pieces[index].startsWith("<") ? " special" : ""}`,
              role: "button",
              tabindex: "-1",
              "data-key": `token-${index}`,
              "aria-label": `${piece(target.pieces[index])}, probability ${percent(probability)}`,
              style: { "--doubt": (1 - probability).toFixed(3) },
              onfocus: show,
              onmouseenter: show,
              onclick: show,
            },
            target.pieces[index].startsWith("<")
              ? target.pieces[index]
              : target.pieces[index].replace("▁", ""),
          );
        }),
      ),
      " ",
    ];
  });
}

/**
 * The alternatives to a token, most probable first; one that is a whole word can be forced.
 * @param {import("../types.js").Reading} reading
 * @param {number} index
 * @param {import("../state.js").Store} store
 * @returns {import("../dom.js").Child[]}
 */
function alternatives(reading, index, store) {
  const word = reading.target.word_of[index];
  const opens = index === 0 || reading.target.word_of[index - 1] !== word;
  const list = reading.alternatives[index].map((other) => {
    const text = `${piece(other.piece)} ${percent(Math.exp(other.log_probability))}`;
    const whole = opens && /^▁./.test(other.piece) && other.id !== reading.target.ids[index];
    if (!whole) return h("span", { class: "alternative" }, text);
    const force = () => {
      const token = document.querySelector(`[data-key="token-${index}"]`);
      if (token instanceof HTMLElement) token.focus(); // it stays, but not the alternatives
      store.intervene([...store.state.changes, `word:${word}:${other.piece.slice(1)}`]);
    };
    return button(text, force, { class: "alternative", title: `Say “${other.piece.slice(1)}” here` });
  });
  return [`Token ${index + 1}: `, ...list.flatMap((one) => [one, " "])];
}

/**
 * An entry of the list of hypotheses.
 * @param {import("../types.js").Hypothesis} entry
 * @param {number} rank
 * @param {import("../state.js").Store} store
 * @param {import("../types.js").Reading | null} reading
 */
function hypothesis(entry, rank, store, reading) {
  const node = rank === 0 ? null : entry.node;
  const shown = store.state.node === node || (rank === 0 && store.state.node === entry.node);
  return h(
    "li",
    { class: shown ? "shown" : "" },
    button(
      [
        h("span", { dir: "auto" }, entry.text),
        h(
          "span",
          { class: "figures" },
          `log P ${number(entry.log_probability)} ÷ ${number(entry.length_penalty)} = ${number(entry.score, 3)}`,
        ),
      ],
      () => store.set({ node }),
      {
        class: "hypothesis",
        "data-key": `hypothesis-${rank}`,
        "aria-pressed": String(shown && reading !== null),
      },
    ),
  );
}

/** The table of the output's tokens. @param {import("../types.js").Reading | null} reading */
function tokenTable(reading) {
  if (!reading) return null;
  return {
    caption: `Tokens of “${reading.target.text}”: log P ${number(reading.log_probability, 4)}, score ${number(reading.score, 4)}`,
    head: ["Token", "Probability", "log P", "Instead"],
    rows: reading.target.pieces.map((text, index) => [
      piece(text),
      number(Math.exp(reading.log_probabilities[index]), 4),
      number(reading.log_probabilities[index], 4),
      reading.alternatives[index]
        .slice(0, 3)
        .map((other) => `${piece(other.piece)} ${percent(Math.exp(other.log_probability))}`)
        .join(", "),
    ]),
  };
}
