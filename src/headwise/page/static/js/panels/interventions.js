/** Interventions in the model (silence, uniform, shift, shuffle, force) and their effect on the translation. */

import { baselineOf } from "../data.js";
import { button, field, fill, h, select } from "../dom.js";
import { order } from "../model/order.js";
import { panel, scrolled, tableOf, watch } from "../panel.js";
import { byRole, onNewHeads } from "../roles.js";
import { number, percent, signed } from "../text.js";
import { changesBetween } from "./difference.js";
import { allHeads } from "./heads.js";
import { imageEffect } from "./image_effect.js";
import { knobs, WITHOUT_MASK } from "./knobs.js";

/**
 * What can be done to heads: its label and, where it has an amount, the label of that and the number that is written.
 * @type {Record<string, { label: string, amount?: string, written?: (value: number) => number }>}
 */
const KINDS = {
  silence: { label: "Silence" },
  uniform: { label: "Make uniform" },
  zero: {
    label: "Set weights on a position to 0",
    amount: "Position, from 1",
    written: (value) => Math.max(0, value - 1),
  },
  shuffle: { label: "Shuffle positions", amount: "Order", written: Math.abs },
  shift: { label: "Shift positions", amount: "By", written: (value) => value },
};

/** @param {import("../types.js").App} app */
export function interventionsPanel(app) {
  const { store, data, say } = app;
  const section = panel(
    "interventions",
    "Interventions",
    6,
    "Change the model for this input and see whether its output cares.",
  );
  const undo = button("Undo", () => store.undo());
  const reset = button("Reset", () => store.intervene([]));
  section.tools.append(undo, reset);
  const list = h("ul", { class: "chips", "aria-label": "Active interventions" });
  const result = h("div", { class: "result", "aria-live": "polite" });
  const forms = h("div", { class: "forms" });
  const switches = knobs(app);
  section.body.append(h("div", {}, switches, forms, list, result));
  watch(section.body, [data.base, data.under, data.unchanged]);

  let kind = "silence";
  let where = "head";
  const amount = h("input", {
    type: "number",
    value: 1,
    step: 1,
    min: -99,
    max: 9999,
    "aria-label": "Amount",
    "data-key": "amount",
  });
  /** @param {string} key @param {string} label @param {number} maxlength @param {string} [placeholder] */
  const textInput = (key, label, maxlength, placeholder = label) =>
    h("input", { type: "text", maxlength, placeholder, "aria-label": label, "data-key": key, dir: "auto" });
  const prefix = textInput("prefix", "Begin the output with", 500);
  const word = textInput("word", "Word", 100, "word");
  const wordNumber = h("input", {
    type: "number",
    min: 1,
    max: 999,
    value: 1,
    "aria-label": "Number of the word",
    "data-key": "word-number",
  });

  const add = (/** @type {string[]} */ changes) => store.intervene([...store.state.changes, ...changes]);
  /** A form that does something. @param {() => void} act @param {...import("../dom.js").Child} children */
  const form = (act, ...children) => {
    const onsubmit = (/** @type {Event} */ event) => {
      event.preventDefault();
      act();
    };
    return h("form", { class: "row", onsubmit }, ...children);
  };

  const showForms = () => {
    switches.hidden = forms.hidden = data.run.value?.recorded === true;
    const { part, layer, head } = store.state;
    const roles = byRole(data.evidence.value);
    const scopes = /** @type {[string, string][]} */ ([
      ["head", `this head (${part} ${layer + 1}.${head + 1})`],
      ["layer", `its layer (${part} ${layer + 1})`],
      ["part", `all of ${part}`],
      ...[...roles].map(([name, heads]) => [`role:${name}`, `all “${name}” heads (${heads.length})`]),
      ...[...roles].map(([name, heads]) => [
        `random:${name}`,
        `as many random heads (${heads.length}, for ${name})`,
      ]),
    ]);
    if (!scopes.some(([name]) => name === where)) where = "head";
    const { amount: needed } = KINDS[kind];
    const { can } = data.run.value ?? {};
    const ofHeads = form(
      () => add(targets()),
      select(
        Object.entries(KINDS).map(([name, { label }]) => [name, label]),
        kind,
        (value) => {
          kind = value;
          showForms();
        },
        { "aria-label": "What to do", "data-key": "kind" },
      ),
      select(
        scopes,
        where,
        (value) => {
          where = value;
        },
        { "aria-label": "Where", "data-key": "where" },
      ),
      needed && field(needed, amount),
      h("button", { class: "primary", "data-key": "apply" }, "Apply"),
    );
    fill(
      forms,
      !can || can.read || can.vision
        ? ofHeads
        : h("p", { class: "detail" }, "This model has no attention; only its output can be changed."),
      ...(can && !can.translate ? [] : ofOutput()),
    );
  };

  /** The forms that force words of a translation. */
  const ofOutput = () => [
    form(forcePrefix, prefix, h("button", { "data-key": "force-prefix" }, "Force beginning")),
    form(forceWord, field("Word", wordNumber), word, h("button", { "data-key": "force-word" }, "Force word")),
  ];
  const forcePrefix = () => prefix.value.trim() && add([`prefix:${prefix.value.trim()}`]);
  const forceWord = () => {
    const [said] = word.value.trim().split(/\s+/);
    if (said) add([`word:${Math.max(1, wordNumber.valueAsNumber || 1) - 1}:${said}`]);
  };

  /** The interventions on the chosen heads. */
  const targets = () => {
    const { part, layer, head } = store.state;
    const [scope, ...rest] = where.split(":");
    const name = rest.join(":");
    const { written } = KINDS[kind];
    const suffix = written ? `@${written(Math.round(amount.valueAsNumber || 0))}` : "";
    if (scope === "layer") return [`${kind}:${part}.${layer + 1}.*${suffix}`];
    if (scope === "part") return [`${kind}:${part}.*.*${suffix}`];
    const role = byRole(data.evidence.value).get(name) ?? [];
    const chosen =
      scope === "role" ? role : scope === "random" ? others(role, data.run.value) : [{ part, layer, head }];
    return chosen.map((one) => `${kind}:${one.part}.${one.layer + 1}.${one.head + 1}${suffix}`);
  };

  const remove = (/** @type {string} */ change) => {
    const { changes } = store.state;
    const at = changes.indexOf(change);
    store.intervene(changes.filter((one) => one !== change));
    const buttons = list.querySelectorAll("button");
    (buttons[Math.min(at, buttons.length - 1)] ?? undo).focus(); // the next one, or what brings it back
  };

  const showList = () => {
    const { changes } = store.state;
    undo.disabled = !store.canUndo;
    reset.disabled = changes.length === 0;
    fill(
      list,
      ...changes.map((change) =>
        h(
          "li",
          {},
          h("span", { dir: "auto" }, describe(change)),
          stated(change, data.trace.value),
          button("×", () => remove(change), {
            "aria-label": `Remove: ${describe(change)}`,
            "data-key": `remove-${change}`,
          }),
        ),
      ),
    );
  };

  const showResult = () => {
    const { can } = data.run.value ?? {};
    section.root.hidden =
      (can !== undefined && !can.translate && !can.read && !can.vision) ||
      (data.run.value?.recorded === true && store.state.changes.length === 0);
    const what = can && !can.translate ? "output" : "translation";
    const [trace, base] = [data.trace.value, data.base.value];
    const settled =
      data.trace.status === "ready" && data.base.status === "ready" && data.under.status !== "loading";
    if (store.state.changes.length === 0 && store.state.base === null) {
      const hint = can?.read ? " x silences the head that is looked into." : "";
      fill(result, h("p", { class: "muted" }, `Nothing is changed.${hint}`));
    } else if (can?.vision) {
      fill(result, ...imageEffect(data));
    } else if (settled && trace && base && trace.hypotheses.length && base.hypotheses.length) {
      const [now, before] = [trace.hypotheses[0], base.hypotheses[0]];
      const under = baselineOf(store.state).text === store.state.text ? data.under.value : null;
      const delta = under ? under.log_probability - before.log_probability : null;
      const same = now.text === before.text;
      // A forced word takes nothing from the model.
      const taken = [...store.state.changes, ...baselineOf(store.state).changes].some(
        (change) => !/^(word|prefix):/.test(change),
      );
      fill(
        result,
        h("h3", {}, `The ${what} ${same ? "stays the same" : "changes"}`),
        !same && changesBetween(before.text, now.text),
        scrolled(
          "Log-probabilities",
          tableOf({
            caption: "Log-probabilities",
            head: ["log P", "before", "now", "Δ"],
            rows: [
              ...(under ? [compared(`of the ${what} before`, before, under)] : []),
              compared(`of the best ${what}`, before, now),
            ],
          }),
        ),
        delta !== null && taken && h("p", { class: "detail" }, explain(what, delta, same)),
        store.state.changes.some((change) => change.startsWith("no-mask:")) &&
          h("p", { class: "detail" }, WITHOUT_MASK),
      );
      say(`The ${what} ${same ? "stays the same" : "changes"}.`);
    }
  };

  store.on((_, changed) => {
    if (["part", "layer", "head", "run"].some((key) => changed.has(key))) showForms();
    showList();
    if (changed.has("changes") || changed.has("base")) showResult();
  });
  data.run.on(() => {
    showForms();
    showResult();
  });
  onNewHeads(data.evidence, showForms);
  data.trace.on(showList);
  for (const slot of [data.trace, data.base, data.under, data.view, data.unchanged]) slot.on(showResult);
  showForms();
  showList();
  showResult();
  return section.root;
}

/**
 * A row of the table of log-probabilities.
 * @param {string} name
 * @param {{ log_probability: number }} before
 * @param {{ log_probability: number }} now
 */
function compared(name, { log_probability: before }, { log_probability: now }) {
  return [name, number(before, 4), number(now, 4), signed(now - before, 4)];
}

/**
 * A change of the log-probability in words.
 * @param {string} what
 * @param {number} delta
 * @param {boolean} same
 */
function explain(what, delta, same) {
  if (Math.abs(delta) < 5e-5) return "No change: the model doesn’t use what was taken away, for this input.";
  const factor = Math.exp(-Math.abs(delta));
  return `The ${what} from before is now ${delta < 0 ? `${percent(factor)} as probable as it was` : `${number(1 / factor, 2)} times as probable`}${same ? ", and still the best." : "."}`;
}

/**
 * As many random heads that don't have the role; the same ones each time.
 * @param {{ part: string, layer: number, head: number }[]} role
 * @param {import("../types.js").Run | null} run
 */
function others(role, run) {
  const taken = new Set(role.map((one) => `${one.part}.${one.layer}.${one.head}`));
  const parts = new Set(role.map(({ part }) => part));
  const all = allHeads(run).filter(
    ({ part, layer, head }) => parts.has(part) && !taken.has(`${part}.${layer}.${head}`),
  );
  let seed = 1;
  const draw = () => {
    seed = (seed * 48271) % 2147483647;
    return seed;
  };
  return all
    .map((one) => ({ one, order: draw() }))
    .sort((a, b) => a.order - b.order)
    .slice(0, role.length)
    .map(({ one }) => one);
}

/**
 * The order of a shuffle, for the positions of the text (of the output, if its own are shuffled).
 * @param {string} change
 * @param {import("../types.js").Trace | null} trace
 */
function stated(change, trace) {
  const shuffled = change.match(/^shuffle(-positions)?:(\w+|\*).*@(-?\d+)$/);
  const count = (shuffled?.[2] === "decoder" ? trace?.forced?.target : trace?.source)?.ids.length;
  if (!shuffled || !count) return null;
  // The end symbol keeps its position where tokens have each other's.
  const places = order(count - (shuffled[1] ? 1 : 0), Number(shuffled[3])).map((place) => place + 1);
  const from = places.map((_, i) => i + 1);
  return h("span", { class: "muted" }, `positions ${from.join(" ")} become ${places.join(" ")}`);
}

/** An intervention in words. @param {string} change */
function describe(change) {
  const [kind, ...rest] = change.split(":"); // a link may hold anything
  const text = rest.join(":");
  const [address, amount] = text.split("@");
  const [part, layer = "*", head = "*"] = address.split(".");
  const name = part === "*" ? "every part" : part;
  const all = layer === "*" ? `all of ${name}` : `${name} layer ${layer}`;
  const one = layer === "*" ? `head ${head} of ${all}` : `${name} ${layer}.${head}`;
  const heads = head === "*" ? all : one;
  const place = part === "*" ? "" : ` in ${part}`;
  const at = layer === "*" ? place : `${place || " in"} layer ${layer}`;
  const ofHead = `${at}${head === "*" ? "" : `, head ${head}`}`;
  /** @type {Record<string, string>} */
  const words = {
    prefix: `begin with “${text}”`,
    word: `word ${Number(rest[0]) + 1} is “${rest.slice(1).join(":")}”`,
    silence: `silence ${heads}`,
    uniform: `make ${heads} uniform`,
    zero: amount ? `${heads} ignores position ${Number(amount) + 1}` : `zero ${heads}`,
    shuffle: `shuffle ${heads} (order ${amount})`,
    shift: `shift ${heads} by ${amount}`,
    only: `only head ${head}${at}`,
    "no-scaling": `no √d_k${ofHead}`,
    temperature: `temperature ${amount}${ofHead}`,
    "no-residual": `no residuals${at}`,
    "no-norm": `no LayerNorm${at}`,
    "no-ffn": `no FFN${at}`,
    "no-mask": `no causal mask${at}`,
    "no-positions": `no positions${place}`,
    "shuffle-positions": `shuffled positions${place} (order ${amount})`,
    checkpoint: text === "0" ? "random weights (step 0)" : `after ${text} steps of training`,
  };
  return words[kind] ?? change;
}
