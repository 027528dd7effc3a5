/** Interventions in the model (silence, uniform, shift, shuffle, force) and their effect on the translation. */

import { baselineOf } from "../data.js";
import { button, field, fill, h, select } from "../dom.js";
import { order } from "../model/order.js";
import { panel, tableOf, watch } from "../panel.js";
import { byRole, onNewHeads } from "../roles.js";
import { number, percent, signed } from "../text.js";
import { changesBetween } from "./difference.js";
import { allHeads, hasAttention } from "./heads.js";
import { imageEffect } from "./image_effect.js";
import { knobInWords, knobs, WITHOUT_MASK } from "./knobs.js";

const KINDS = /** @type {[string, string][]} */ ([
  ["silence", "Silence"],
  ["uniform", "Make uniform"],
  ["zero", "Set weights on a position to 0"],
  ["shuffle", "Shuffle positions"],
  ["shift", "Shift positions"],
]);

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
  const prefix = h("input", {
    type: "text",
    maxlength: 500,
    placeholder: "Begin the output with",
    "aria-label": "Begin the output with",
    "data-key": "prefix",
    dir: "auto",
  });
  const word = h("input", {
    type: "text",
    maxlength: 100,
    placeholder: "word",
    "aria-label": "Word",
    "data-key": "word",
    dir: "auto",
  });
  const wordNumber = h("input", {
    type: "number",
    min: 1,
    max: 999,
    value: 1,
    "aria-label": "Number of the word",
    "data-key": "word-number",
  });

  const add = (/** @type {string[]} */ changes) => store.intervene([...store.state.changes, ...changes]);
  const submit = (/** @type {() => void} */ act) => (/** @type {Event} */ event) => {
    event.preventDefault();
    act();
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
    const needs = kind === "zero" || kind === "shuffle" || kind === "shift";
    const names = { zero: "Position, from 1", shuffle: "Order", shift: "By" };
    const attends = !data.run.value || hasAttention(data.run.value) || data.run.value.can.vision;
    const ofHeads = h(
      "form",
      { class: "row", onsubmit: submit(() => add(targets())) },
      select(
        KINDS,
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
      needs && field(names[/** @type {"zero" | "shuffle" | "shift"} */ (kind)], amount),
      h("button", { class: "primary", "data-key": "apply" }, "Apply"),
    );
    fill(
      forms,
      attends
        ? ofHeads
        : h("p", { class: "detail" }, "This model has no attention; only its output can be changed."),
      ...(data.run.value && !data.run.value.can.translate ? [] : ofOutput()),
    );
  };

  /** The forms that force words of a translation. */
  const ofOutput = () => [
    h(
      "form",
      {
        class: "row",
        onsubmit: submit(() => prefix.value.trim() && add([`prefix:${prefix.value.trim()}`])),
      },
      prefix,
      h("button", { "data-key": "force-prefix" }, "Force beginning"),
    ),
    h(
      "form",
      {
        class: "row",
        onsubmit: submit(
          () =>
            word.value.trim() &&
            add([
              `word:${Math.max(1, wordNumber.valueAsNumber || 1) - 1}:${word.value.trim().split(/\s+/)[0]}`,
            ]),
        ),
      },
      field("Word", wordNumber),
      word,
      h("button", { "data-key": "force-word" }, "Force word"),
    ),
  ];

  /** The interventions on the chosen heads. */
  const targets = () => {
    const { part, layer, head } = store.state;
    const [scope, ...rest] = where.split(":");
    const name = rest.join(":");
    const value = Math.round(amount.valueAsNumber || 0);
    const suffix =
      kind === "zero"
        ? `@${Math.max(0, value - 1)}`
        : kind === "shuffle"
          ? `@${Math.abs(value)}`
          : kind === "shift"
            ? `@${value}`
            : "";
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
      fill(
        result,
        h(
          "p",
          { class: "muted" },
          "Nothing is changed.",
          data.run.value && hasAttention(data.run.value) && " x silences the head that is looked into.",
        ),
      );
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
        scrolled({
          caption: "Log-probabilities",
          head: ["log P", "before", "now", "Δ"],
          rows: [
            ...(under && delta !== null
              ? [
                  [
                    `of the ${what} before`,
                    number(before.log_probability, 4),
                    number(under.log_probability, 4),
                    signed(delta, 4),
                  ],
                ]
              : []),
            [
              `of the best ${what}`,
              number(before.log_probability, 4),
              number(now.log_probability, 4),
              signed(now.log_probability - before.log_probability, 4),
            ],
          ],
        }),
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

/** @param {import("../panel.js").Table} table */
function scrolled(table) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": table.caption },
    tableOf(table),
  );
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

/**
 * An intervention in words.
 * @param {string} change
 */
function describe(change) {
  const [kind, ...rest] = change.split(":");
  const text = rest.join(":");
  if (kind === "prefix") return `begin with “${text}”`;
  if (kind === "word") return `word ${Number(rest[0]) + 1} is “${rest.slice(1).join(":")}”`;
  const knob = knobInWords(change);
  if (knob !== null) return knob;
  const [address, amount] = text.split("@");
  const [part, layer, head] = address.split(".");
  const name = part === "*" ? "every part" : part;
  const all = layer === "*" ? `all of ${name}` : `${name} layer ${layer}`;
  const one = layer === "*" ? `head ${head} of ${all}` : `${name} ${layer}.${head}`;
  const at = head === "*" ? all : one;
  /** @type {Record<string, string>} */
  const verbs = {
    silence: `silence ${at}`,
    uniform: `make ${at} uniform`,
    zero: amount ? `${at} ignores position ${Number(amount) + 1}` : `zero ${at}`,
    shuffle: `shuffle ${at} (order ${amount})`,
    shift: `shift ${at} by ${amount}`,
  };
  return verbs[kind] ?? change;
}
