/** Traces: a search with its beam tree, then forced decoding that records attention and log-probabilities. */

import { Tensor } from "../tensor.js";
import { lengthPenalty } from "../text.js";
import { changes, format, parse } from "./interventions.js";
import { withoutMarkers } from "./list_markers.js";
import { largest } from "./ops.js";
import { search } from "./search.js";
import { respelled } from "./spelling.js";
import { BOS, EOS, hasLetters, line, oneLine, Refusal, readable, strip, words } from "./subwords.js";
import { splitWords } from "./unknown.js";

/** @typedef {import("./interventions.js").Intervention} Intervention */
/** @typedef {import("./unknown.js").UnknownWords} UnknownWords */
/** @typedef {import("../types.js").Side} SideOfTrace */

const SCHEMA = 1; // of the trace (docs/look-inside.md)
const ALTERNATIVES = 5;
const NAMED = 8; // words in a note

/**
 * A run's model with its subwords.
 * @typedef {object} Translator
 * @property {import("./transformer.js").Transformer} model
 * @property {{ source: import("./subwords.js").Side, target: import("./subwords.js").Side }} subwords
 * @property {{ source: UnknownWords, target: UnknownWords }} unknown
 * @property {{ beam: number, alpha: number, extra_length: number }} decoding
 * @property {number} longest  subwords of a text
 * @property {string | null} language  of the source
 */

export class Tracer {
  /** @type {boolean[]} */
  #lettered;

  /** @param {Translator} translator */
  constructor(translator) {
    this.translator = translator;
    this.#lettered = translator.subwords.target.lettered;
  }

  /**
   * Translate a text; the response of `/api/trace`.
   * @param {{ text: string, beam?: number | null, alpha?: number | null, interventions?: string[] }} request
   */
  trace({ text, beam, alpha, interventions = [] }) {
    const { model, decoding, longest } = this.translator;
    const options = { beam: beam ?? decoding.beam, alpha: alpha ?? decoding.alpha };
    const applied = interventions.filter((one) => strip(one)).map(parse);
    const { source, notes } = this.read(text);
    const common = {
      schema: SCHEMA,
      architecture: "transformer",
      ...options,
      interventions: applied.map(format),
      notes,
      source,
    };
    if (source.ids.length === 1) return { ...common, forced: null, hypotheses: [], tree: [] };
    const hooks = { change: changes(applied, model) };
    const memory = model.encode(source.ids, hooks);
    const limit = Math.min(source.ids.length + decoding.extra_length, longest + 1);
    const lettered = hasLetters(source.words.slice(0, -1).join(" ")) ? this.#lettered : null;
    const found = this.#search(applied, (prefix) => {
      const satisfied = prefix.length >= longest || prefix.some((token) => lettered?.[token]);
      return search(
        model,
        memory,
        { ...options, limit, prefix, lettered: satisfied ? null : lettered },
        hooks,
      );
    });
    const forced = this.#force(source, [...found.hypotheses[0].tokens, EOS], options.alpha, applied);
    return { ...common, forced, ...this.#shown(found, options.alpha) };
  }

  /**
   * Decode a given target, a text or ids; the response of `/api/force`.
   * @param {{ text: string, target: string | number[], alpha?: number | null, interventions?: string[] }} request
   */
  force({ text, target, alpha, interventions = [] }) {
    const applied = interventions.filter((one) => strip(one)).map(parse);
    const { source, ids } = this.given(text, target);
    return this.#force(source, ids, alpha ?? this.translator.decoding.alpha, applied);
  }

  /**
   * A source text with a given target: the ids of a target text with the end symbol, or checked ids.
   * @param {string} text
   * @param {string | number[]} target
   */
  given(text, target) {
    const { source } = this.read(text);
    if (source.ids.length === 1) throw new Refusal("expected a text to look into, found an empty one");
    return { source, ids: this.#targetIds(target) };
  }

  /** @param {string | number[]} target */
  #targetIds(target) {
    const { longest, subwords } = this.translator;
    const ids = typeof target === "string" ? [...subwords.target.encode(line(target)), EOS] : target;
    if (ids.length === 0 || ids.length > longest + 1)
      throw new Refusal(`target: expected from 1 to ${longest + 1} subwords, found ${ids.length}`);
    const wrong = ids.find((id) => !(id >= 0 && id < subwords.target.size));
    if (wrong !== undefined)
      throw new Refusal(`target: expected ids below ${subwords.target.size}, found ${wrong}`);
    return ids;
  }

  /**
   * Encode a source text; the notes report what was cut off, and unknown words.
   * @param {string} text
   * @returns {{ source: SideOfTrace, notes: string[] }}
   */
  read(text) {
    const { longest, subwords, language } = this.translator;
    const given = readable(subwords.source, text);
    const read = respelled(subwords.source, withoutMarkers(given, language));
    const ids = subwords.source.encode(read);
    const notes = read === given ? [] : [`read as: ${read}`];
    if (ids.length > longest)
      notes.push(`the text has ${ids.length} subwords, and the first ${longest} are looked into`);
    const unknown = [...new Set(this.translator.unknown.source.of(read))];
    if (unknown.length > 0) {
      const more = unknown.length > NAMED ? ` and ${unknown.length - NAMED} more` : "";
      const named = unknown
        .slice(0, NAMED)
        .join(", ")
        .replace(/(?! )[\p{C}\p{Z}]/gu, "\ufffd");
      notes.push(`the model spells by single letters, or not at all: ${named}${more}`);
    }
    const source = this.side([...ids.slice(0, longest), EOS], "source");
    // Unknown subwords decode to ⁇, so unknown words are replaced by those of the text, which correspond one to one
    // unless the text itself contains SentencePiece's symbol for a space.
    const original = splitWords(read);
    if (original.length === this.side(ids, "source").words.length)
      source.words = source.words.map((word, n) => (source.unknown.includes(n) ? original[n] : word));
    return { source, notes };
  }

  /**
   * The text, subwords and words of ids; start and end symbols are words of their own.
   * @param {number[]} ids
   * @param {"source" | "target"} which
   * @returns {SideOfTrace}
   */
  side(ids, which) {
    const side = this.translator.subwords[which];
    const pieces = side.written(ids);
    const groups = side.byWord(ids);
    const wordOf = groups.flatMap((group, word) => group.map(() => word));
    return {
      text: side.decode(ids),
      ids,
      pieces,
      words: groups.map((group, word) => strip(side.decode(group)) || pieces[wordOf.indexOf(word)]),
      word_of: wordOf,
      unknown: [...groups.keys()].filter((word) => this.translator.unknown[which].has(groups[word])),
    };
  }

  /**
   * Search with the interventions on the output; a forced word follows the best output of the search before.
   * @param {Intervention[]} interventions
   * @param {(prefix: number[]) => ReturnType<typeof search>} find
   */
  #search(interventions, find) {
    const { subwords, longest } = this.translator;
    const within = (/** @type {string} */ text) => {
      const prefix = subwords.target.encode(text);
      if (prefix.length <= longest) return prefix;
      throw new Refusal(
        `prefix: expected an output that begins with at most ${longest} subwords, found ${prefix.length}`,
      );
    };
    const prefixes = interventions.filter(({ kind }) => kind === "prefix").map(({ text }) => text);
    let found = find(within(line(prefixes.join(" "))));
    const forcedWords = interventions.filter(({ kind }) => kind === "word");
    for (const word of forcedWords.sort((a, b) => (a.amount ?? 0) - (b.amount ?? 0))) {
      const output = words(subwords.target.decode(found.hypotheses[0].tokens));
      if (output.length < (word.amount ?? 0))
        throw new Refusal(
          `intervention '${format(word)}': expected a number up to ${output.length}, as the output has ` +
            `${output.length} words, found ${word.amount}`,
        );
      found = find(within([...output.slice(0, word.amount ?? 0), word.text].join(" ")));
    }
    return found;
  }

  /**
   * Forced decoding of target ids.
   * @param {SideOfTrace} source
   * @param {number[]} target
   * @param {number} alpha
   * @param {Intervention[]} interventions
   */
  #force(source, target, alpha, interventions) {
    const inputs = [BOS, ...target.slice(0, -1)];
    const { model } = this.translator;
    const grids = emptyGrids(model.config, source.ids.length, inputs.length);
    const hidden = this.pass(source.ids, inputs, interventions, (part, layer, { weights }) => {
      weights.forEach((ofRow, row) => {
        for (let head = 0; head < ofRow.shape[0]; head++)
          grids[part].at(layer, head, row).data.set(ofRow.at(head).data);
      });
    });
    const table = model.logProbabilities(hidden);
    if (!table.data.every(Number.isFinite))
      throw new Refusal("expected finite log-probabilities, found others: the model's numbers overflow");
    const side = this.translator.subwords.target;
    const own = target.map((id, step) => table.at(step).data[id]);
    const total = own.reduce((a, b) => a + b, 0);
    const penalty = lengthPenalty(target.length, alpha);
    return {
      target: this.side(target, "target"),
      reads: this.side(inputs, "target"),
      log_probabilities: own,
      alternatives: target.map((_, step) => {
        const row = table.at(step).data;
        return largest(row, ALTERNATIVES).map((id) => ({
          id,
          piece: side.written([id])[0],
          log_probability: row[id],
        }));
      }),
      log_probability: total,
      length_penalty: penalty,
      score: total / penalty,
      attention: Object.fromEntries(Object.entries(grids).map(([part, grid]) => [part, packed(grid)])),
    };
  }

  /**
   * The decoder's last hidden states: encode the source, and read inputs, of which each sees itself and those before.
   * @param {number[]} source
   * @param {number[]} inputs
   * @param {Intervention[]} interventions
   * @param {import("./attention.js").Hooks["observe"]} observe
   */
  pass(source, inputs, interventions, observe) {
    const { model } = this.translator;
    const hooks = { change: changes(interventions, model), observe };
    const paths = inputs.map((_, last) => Array.from({ length: last + 1 }, (_, row) => row));
    return model.read(inputs, paths, model.start(), model.encode(source, hooks), hooks);
  }

  /**
   * The hypotheses and the beam tree of a search, as a trace has them.
   * @param {ReturnType<typeof search>} found
   * @param {number} alpha
   */
  #shown({ hypotheses, tree }, alpha) {
    const { target } = this.translator.subwords;
    const ranks = new Map(hypotheses.map(({ node }, rank) => [node, rank]));
    return {
      hypotheses: hypotheses.map(({ node, tokens, gains, log_probability, score }) => ({
        node,
        text: oneLine(target.decode(tokens)),
        ids: tokens,
        log_probability,
        length_penalty: lengthPenalty(gains.length, alpha),
        score,
        token_log_probabilities: gains,
      })),
      tree: tree.map((node, index) => ({
        ...node,
        piece: target.written([node.token])[0],
        rank: ranks.get(index) ?? null,
      })),
    };
  }
}

/**
 * Attention weights that are 0, (layers, heads, rows, columns) for each part.
 * @param {import("./transformer.js").ModelConfig} config
 * @param {number} source  tokens
 * @param {number} target
 */
function emptyGrids({ encoder_layers: above, decoder_layers: below, heads }, source, target) {
  const zeros = (/** @type {number[]} */ ...shape) =>
    new Tensor(shape, new Float32Array(shape.reduce((a, b) => a * b)));
  return {
    encoder: zeros(above, heads, source, source),
    decoder: zeros(below, heads, target, target),
    cross: zeros(below, heads, target, source),
  };
}

/** An array as responses have it. @param {Tensor} tensor */
export function packed({ shape, data }) {
  return { shape, float32: data };
}
