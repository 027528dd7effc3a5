/**
 * The server's responses (docs/look-inside.md has the trace's schema).
 *
 * @typedef {import("./tensor.js").Tensor} Tensor
 * @typedef {"encoder" | "decoder" | "cross"} Part
 *
 * @typedef {object} Side
 * @property {string} text
 * @property {number[]} ids
 * @property {string[]} pieces
 * @property {string[]} words
 * @property {number[]} word_of
 * @property {number[]} unknown  numbers of the words that the vocabulary has no subwords for
 *
 * @typedef {{ id: number, piece: string, log_probability: number }} Alternative
 *
 * @typedef {{ log_probability: number, length_penalty: number, score: number }} Scored
 *
 * @typedef {Scored & { target: Side, reads: Side, log_probabilities: number[], alternatives: Alternative[][],
 *   attention: Partial<Record<Part, Tensor>> }} Reading
 * @typedef {Scored & { node: number, text: string, ids: number[], token_log_probabilities: number[] }} Hypothesis
 * @typedef {Scored & { parent: number | null, token: number, piece: string, token_log_probability: number,
 *   length: number, finished: boolean, rank: number | null }} TreeNode
 *
 * @typedef {{ beam: number, alpha: number, interventions: string[], notes: string[], source: Side,
 *   forced: Reading | null, hypotheses: Hypothesis[], tree: TreeNode[] }} Trace
 *
 * @typedef {{ part: Part, layer: number, head: number, query: number, query_piece: string, key_pieces: string[],
 *   scale: number, seen: boolean[] } & Record<"q" | "k" | "terms" | "dots" | "scaled" | "bias" | "softmax" | "weights" |
 *   "v" | "weighted" | "result" | "part_of_output" | "output", Tensor>} Products
 *
 * @typedef {object} BoxSize  one box of the model
 * @property {string} name
 * @property {string} title
 * @property {"embedding" | "patches" | "positions" | "attention" | "feed-forward" | "add-norm" | "norm" | "add" |
 *   "pooling" | "head" | "projection" | "softmax"} kind
 * @property {"encoder" | "decoder"} stack
 * @property {"encoder" | "decoder" | "pooled"} row  what its rows are: a stack's tokens, or one vector for all
 * @property {number | null} layer
 * @property {string} part
 * @property {[tokens: number, features: number]} shape
 * @property {number} parameters
 * @property {boolean} shared
 * @property {number | null} flops
 * @property {Tensor} sizes  of what it hands on, for each token
 *
 * @typedef {object} Boxes
 * @property {"pre" | "post"} norm
 * @property {string[]} options
 * @property {Record<"encoder" | "decoder" | "pooled", string[]>} pieces  those of the model's stacks
 * @property {BoxSize[]} boxes
 * @property {{ name: string, parameters: number, flops: number | null }[]} parts
 *
 * @typedef {{ label: string, values: Tensor, names: string[] | null, tokens: boolean }} Vector
 *
 * @typedef {object} Grid
 * @property {string} label
 * @property {Tensor} values
 * @property {string[]} rows
 * @property {string[] | null} columns
 * @property {boolean} tokens  whether the rows are tokens
 * @property {number | null} marked
 *
 * @typedef {{ name: string, formula: string, sentence: string, vectors: Vector[], grids: Grid[],
 *   facts: Record<string, number> }} BoxStep
 *
 * The computation of one box at one token.
 * @typedef {{ name: string, title: string, layer: number | null, position: number, pieces: string[],
 *   steps: BoxStep[] }} Box
 *
 * One step of decoding, and teacher forcing at the same position.
 * @typedef {{ chosen: Alternative, alternatives: Alternative[], forced: number, forced_alternatives: Alternative[],
 *   difference: number }} Step
 *
 * @typedef {object} Stepwise
 * @property {Side} source
 * @property {Side} target
 * @property {Step[]} steps
 * @property {number} difference
 * @property {Tensor | null} attention  (layers, heads, steps, source)
 *
 * @typedef {object} Recurring  one network on one sentence
 * @property {string} name
 * @property {string} title
 * @property {string} about
 * @property {boolean} sequential  whether a state is computed from the one before
 * @property {Tensor} states  (tokens, features)
 * @property {Tensor} kept  what each state has of the first token, (tokens,)
 * @property {Tensor} gradient  by distance, relative to distance 0
 *
 * @typedef {object} Recurrence
 * @property {string[]} pieces  in the order of reading
 * @property {number} width
 * @property {number} radius
 * @property {boolean} backward
 * @property {Recurring[]} networks
 *
 * @typedef {{ width: number, device: string, threads: number, lengths: number[],
 *   rows: { name: string, title: string, sequential: boolean, milliseconds: number[] }[] }} Times
 *
 * @typedef {object} Run
 * @property {string} name
 * @property {string} task
 * @property {string} architecture
 * @property {{ translate: boolean, read: boolean, products: boolean, steps: boolean, boxes: boolean,
 *   switches: boolean, recurrence: boolean, evidence: boolean, language_model: boolean, vision: boolean, metrics: boolean }} can
 * @property {{ source: string | null, target: string | null }} languages
 * @property {boolean} [recorded]  whether only the recording of one text is there
 * @property {Partial<Record<Part, { layers: number, heads: number, products?: boolean }>>} [parts]
 * @property {number} [parameters]
 * @property {number} [beam]
 * @property {number} [alpha]
 * @property {string[]} [samples]
 * @property {number[]} [checkpoints]  training steps whose models are available; 0 is before training
 * @property {number} [images]  number of held-out images of a vision model
 * @property {[channels: number, height: number, width: number]} [shape]  of an image
 * @property {string[]} [classes]  empty for a model that reads captions
 *
 * @typedef {{ read: number, left_out: number, kept: number, entropy: number,
 *   tokens: { id: number, piece: string, text: string, probability: number, drawn: number }[] }} NextToken
 *
 * @typedef {object} ImageView  a vision model's attention over the patches of an image
 * @property {number | null} image
 * @property {string | null} truth  the gold class or caption of a held-out image
 * @property {Tensor} pixels  (channels, height, width), from 0 to 1
 * @property {[rows: number, columns: number]} grid  of patches
 * @property {boolean} class_token
 * @property {Tensor} attention  (layers, heads, tokens, tokens)
 * @property {Tensor} rollout  (tokens, tokens)
 * @property {number[] | null} probabilities
 * @property {string} caption
 * @property {string[]} words
 * @property {Tensor | null} shares  (words, rows, columns)
 *
 * @typedef {{ records: any[], max_steps: number, going_on: boolean }} Curves
 */

/**
 * The parts of the page that panels use.
 *
 * @typedef {object} App
 * @property {import("./state.js").Store} store
 * @property {import("./data.js").Data} data
 * @property {(text: string) => void} say  announces a text to screen readers
 */

/** @type {Part[]} */
export const PARTS = ["encoder", "decoder", "cross"];

/** @type {Record<Part, string>} */
export const PART_NAMES = { encoder: "Encoder", decoder: "Decoder", cross: "Cross" };
