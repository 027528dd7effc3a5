/**
 * The server's responses (docs/look-inside.md has the trace's schema).
 *
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
 * @typedef {object} Reading
 * @property {Side} target
 * @property {Side} reads
 * @property {number[]} log_probabilities
 * @property {Alternative[][]} alternatives
 * @property {number} log_probability
 * @property {number} length_penalty
 * @property {number} score
 * @property {Partial<Record<Part, import("./tensor.js").Tensor>>} attention
 *
 * @typedef {object} Hypothesis
 * @property {number} node
 * @property {string} text
 * @property {number[]} ids
 * @property {number} log_probability
 * @property {number} length_penalty
 * @property {number} score
 * @property {number[]} token_log_probabilities
 *
 * @typedef {object} TreeNode
 * @property {number | null} parent
 * @property {number} token
 * @property {string} piece
 * @property {number} token_log_probability
 * @property {number} log_probability
 * @property {number} length
 * @property {number} length_penalty
 * @property {number} score
 * @property {boolean} finished
 * @property {number | null} rank
 *
 * @typedef {object} Trace
 * @property {number} beam
 * @property {number} alpha
 * @property {string[]} interventions
 * @property {string[]} notes
 * @property {Side} source
 * @property {Reading | null} forced
 * @property {Hypothesis[]} hypotheses
 * @property {TreeNode[]} tree
 *
 * @typedef {object} Products
 * @property {Part} part
 * @property {number} layer
 * @property {number} head
 * @property {number} query
 * @property {string} query_piece
 * @property {string[]} key_pieces
 * @property {import("./tensor.js").Tensor} q
 * @property {import("./tensor.js").Tensor} k
 * @property {import("./tensor.js").Tensor} terms
 * @property {import("./tensor.js").Tensor} dots
 * @property {number} scale
 * @property {import("./tensor.js").Tensor} scaled
 * @property {import("./tensor.js").Tensor} bias
 * @property {boolean[]} seen
 * @property {import("./tensor.js").Tensor} softmax
 * @property {import("./tensor.js").Tensor} weights
 * @property {import("./tensor.js").Tensor} v
 * @property {import("./tensor.js").Tensor} weighted
 * @property {import("./tensor.js").Tensor} result
 * @property {import("./tensor.js").Tensor} part_of_output
 * @property {import("./tensor.js").Tensor} output
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
 * @property {import("./tensor.js").Tensor} sizes  of what it hands on, for each token
 *
 * @typedef {object} Boxes
 * @property {"pre" | "post"} norm
 * @property {string[]} options
 * @property {Record<"encoder" | "decoder" | "pooled", string[]>} pieces  those of the model's stacks
 * @property {BoxSize[]} boxes
 * @property {{ name: string, parameters: number, flops: number | null }[]} parts
 *
 * @typedef {{ label: string, values: import("./tensor.js").Tensor, names: string[] | null, tokens: boolean }} Vector
 *
 * @typedef {object} Grid
 * @property {string} label
 * @property {import("./tensor.js").Tensor} values
 * @property {string[]} rows
 * @property {string[] | null} columns
 * @property {boolean} tokens  whether the rows are tokens
 * @property {number | null} marked
 *
 * @typedef {object} BoxStep
 * @property {string} name
 * @property {string} formula
 * @property {string} sentence
 * @property {Vector[]} vectors
 * @property {Grid[]} grids
 * @property {Record<string, number>} facts
 *
 * @typedef {object} Box  the computation of one box at one token
 * @property {string} name
 * @property {string} title
 * @property {number | null} layer
 * @property {number} position
 * @property {string[]} pieces
 * @property {BoxStep[]} steps
 *
 * @typedef {object} Step  one step of decoding, and teacher forcing at the same position
 * @property {Alternative} chosen
 * @property {Alternative[]} alternatives
 * @property {number} forced
 * @property {Alternative[]} forced_alternatives
 * @property {number} difference
 *
 * @typedef {object} Stepwise
 * @property {Side} source
 * @property {Side} target
 * @property {Step[]} steps
 * @property {number} difference
 * @property {import("./tensor.js").Tensor | null} attention  (layers, heads, steps, source)
 *
 * @typedef {object} Recurring  one network on one sentence
 * @property {string} name
 * @property {string} title
 * @property {string} about
 * @property {boolean} sequential  whether a state is computed from the one before
 * @property {import("./tensor.js").Tensor} states  (tokens, features)
 * @property {import("./tensor.js").Tensor} kept  what each state has of the first token, (tokens,)
 * @property {import("./tensor.js").Tensor} gradient  by distance, relative to distance 0
 *
 * @typedef {object} Recurrence
 * @property {string[]} pieces  in the order of reading
 * @property {number} width
 * @property {number} radius
 * @property {boolean} backward
 * @property {Recurring[]} networks
 *
 * @typedef {object} Times
 * @property {number} width
 * @property {string} device
 * @property {number} threads
 * @property {number[]} lengths
 * @property {{ name: string, title: string, sequential: boolean, milliseconds: number[] }[]} rows
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
 * @property {number | null} [key_size]
 * @property {number} [d_model]
 * @property {number} [parameters]
 * @property {number} [subwords]
 * @property {number} [beam]
 * @property {number} [alpha]
 * @property {number} [longest]
 * @property {string[]} [samples]
 * @property {number[]} [checkpoints]  training steps whose models are available; 0 is before training
 * @property {number} [images]  number of held-out images of a vision model
 * @property {[channels: number, height: number, width: number]} [shape]  of an image
 * @property {string[]} [classes]  empty for a model that reads captions
 *
 * @typedef {object} NextToken
 * @property {number} read
 * @property {number} left_out
 * @property {number} kept
 * @property {number} entropy
 * @property {{ id: number, piece: string, text: string, probability: number, drawn: number }[]} tokens
 *
 * @typedef {object} ImageView  a vision model's attention over the patches of an image
 * @property {number | null} image
 * @property {string | null} truth  the gold class or caption of a held-out image
 * @property {import("./tensor.js").Tensor} pixels  (channels, height, width), from 0 to 1
 * @property {[rows: number, columns: number]} grid  of patches
 * @property {boolean} class_token
 * @property {import("./tensor.js").Tensor} attention  (layers, heads, tokens, tokens)
 * @property {import("./tensor.js").Tensor} rollout  (tokens, tokens)
 * @property {number[] | null} probabilities
 * @property {string} caption
 * @property {string[]} words
 * @property {import("./tensor.js").Tensor | null} shares  (words, rows, columns)
 *
 * @typedef {{ kind: string, step: number } & Record<string, number | null>} MetricsRecord
 * @typedef {{ records: any[], count: number, max_steps: number, going_on: boolean }} Curves
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
