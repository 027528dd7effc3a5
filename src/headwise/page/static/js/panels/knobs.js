/** Parts of the model switched off, the temperature of the softmax, and the model at its checkpoints. */

import { button, field, fill, formula, h, select } from "../dom.js";
import { player } from "../panel.js";
import { number } from "../text.js";
import { PARTS } from "../types.js";

const EVERY = 1500; // milliseconds that a checkpoint is shown while they are played
const RANGE = 3; // the temperature goes from 2^-RANGE to 2^RANGE

/** @typedef {{ part: string, layer: string }} Scope  part and layer as interventions write them: `*` for all */

/**
 * A switch: its label, what it does, and its intervention; null where the scope doesn't have the part.
 * @typedef {{ name: string, about: string, change: (scope: Scope, head: number) => string | null }} Switch
 */

const layers =
  (/** @type {string} */ kind) =>
  (/** @type {Scope} */ { part, layer }) =>
    part === "cross" ? null : `${kind}:${part}.${layer}`;

/** @type {Switch[]} */
const SWITCHES = [
  {
    name: "√d_k",
    about: "softmax(QKᵀ) without the division by √d_k",
    change: ({ part, layer }) => `no-scaling:${part}.${layer}.*`,
  },
  { name: "Residuals", about: "Sublayer(x) in place of x + Sublayer(x)", change: layers("no-residual") },
  { name: "LayerNorm", about: "LayerNorm(x) = x", change: layers("no-norm") },
  { name: "FFN", about: "FFN(x) = 0", change: layers("no-ffn") },
  {
    name: "Positions",
    about: "tokens without position encoding",
    change: ({ part, layer }) => (part === "cross" || layer !== "*" ? null : `no-positions:${part}`),
  },
  {
    name: "Order of positions",
    about: "source tokens get each other’s positions, as if the sentence had another order",
    change: ({ part, layer }) =>
      layer === "*" && (part === "*" || part === "encoder") ? "shuffle-positions:encoder@1" : null,
  },
  {
    name: "Causal mask",
    about: "the decoder’s positions attend to later ones",
    change: ({ part, layer }) => (part === "*" || part === "decoder" ? `no-mask:decoder.${layer}` : null),
  },
  {
    name: "All heads but one",
    about: "only the selected head’s number is left in each layer",
    change: ({ part, layer }, head) => `only:${part}.${layer}.${head + 1}`,
  },
];

/**
 * The controls, for the panel of interventions; returns their element.
 * @param {import("../types.js").App} app
 */
export function knobs({ store, data }) {
  /** The scope of the state; all layers where a link names one that the run doesn't have. @returns {Scope} */
  const scope = () => {
    const chosen = scopesOf(data.run.value).find(([value]) => value === store.state.scope)?.[0] ?? "*.*";
    const [part, layer] = chosen.split(".");
    return { part, layer };
  };
  const switches = h("div", { class: "forms" });
  const training = checkpoints({ store, data });

  const temperature = h("input", {
    type: "range",
    min: -RANGE,
    max: RANGE,
    step: 0.25,
    id: "temperature-slider",
    "data-key": "temperature",
    "aria-label": "Temperature of the softmax",
  });
  const heat = h("output", { for: "temperature-slider" });
  const warmth = field("Temperature", temperature, heat); // stays in place, so that it keeps the focus
  const root = h("div", { class: "forms knobs" }, switches, warmth, training);
  const prefix = () => `temperature:${scope().part}.${scope().layer}.*@`;
  const chosenHeat = () => Number(number(2 ** Number(temperature.value), 4));
  temperature.addEventListener("input", () => {
    heat.value = number(chosenHeat(), 2);
  });
  temperature.addEventListener("change", () => {
    const others = store.state.changes.filter((change) => !change.startsWith(prefix()));
    store.intervene(chosenHeat() === 1 ? others : [...others, `${prefix()}${chosenHeat()}`]);
  });

  const show = () => {
    const run = data.run.value;
    const { changes, head } = store.state;
    switches.hidden = warmth.hidden = run !== null && !run.can.switches;
    const { part, layer } = scope();
    fill(
      switches,
      field(
        "Switch off in",
        select(scopesOf(run), `${part}.${layer}`, (value) => store.set({ scope: value }), {
          "data-key": "knobs-where",
        }),
      ),
      h(
        "div",
        { class: "row", role: "group", "aria-label": "Switch off" },
        SWITCHES.map(({ name, about, change }) => {
          const intervention = change({ part, layer }, head);
          const changed = intervention && /:(encoder|decoder)\b/.exec(intervention)?.[1];
          const missing = changed && run !== null && !run.parts?.[/** @type {"encoder"} */ (changed)];
          const on = intervention !== null && changes.includes(intervention);
          const flip = () => {
            if (intervention === null) return;
            const only = `only:${part}.${layer}.`; // one head of these: two would leave none
            const replaced = (/** @type {string} */ one) =>
              one === intervention || (intervention.startsWith(only) && one.startsWith(only));
            const others = changes.filter((one) => !replaced(one));
            store.intervene(on ? others : [...others, intervention]);
          };
          return button(formula(name), flip, {
            class: "knob",
            title: about,
            "aria-pressed": String(on),
            disabled: intervention === null || Boolean(missing),
            "data-key": `knob-${name}`,
          });
        }),
      ),
    );
    const set = changes.find((change) => change.startsWith(prefix()));
    const degree = Number(set?.split("@")[1] ?? 1) || 1;
    temperature.value = String(Math.log2(degree));
    heat.value = number(degree, 2); // a link may have one that the slider can't
  };
  store.on((_, changed) => ["changes", "scope", "head", "run"].some((key) => changed.has(key)) && show());
  data.run.on(show);
  show();
  return root;
}

/**
 * The slider over the run's checkpoints; its right end is the trained model.
 * @param {{ store: import("../state.js").Store, data: import("../data.js").Data }} app
 */
function checkpoints({ store, data }) {
  const slider = h("input", {
    type: "range",
    min: 0,
    step: 1,
    id: "checkpoint-slider",
    "aria-label": "Training step",
  });
  const label = h("output", { for: "checkpoint-slider" });
  const steps = () => data.run.value?.checkpoints ?? [];
  const current = () => {
    const change = store.state.changes.find((one) => one.startsWith("checkpoint:"));
    const at = change ? steps().indexOf(Number(change.split(":")[1])) : -1;
    return at < 0 ? steps().length : at;
  };
  const name = (/** @type {number} */ at) =>
    at < steps().length
      ? steps()[at] === 0
        ? "0 (random weights)"
        : String(steps()[at])
      : "the trained model";
  const go = (/** @type {number} */ at) => {
    const others = store.state.changes.filter((one) => !one.startsWith("checkpoint:"));
    store.intervene(at < steps().length ? [`checkpoint:${steps()[at]}`, ...others] : others);
  };
  const advance = () => {
    if (data.trace.status === "loading") return true;
    if (current() < steps().length) go(current() + 1);
    return current() < steps().length && data.trace.status !== "failed";
  };
  const { play, stop } = player(EVERY, () => go(0), advance, "play-checkpoints");
  const root = h("div", { class: "row", hidden: true }, field("Training step", slider, label), play);
  slider.addEventListener("input", () => {
    label.value = name(Number(slider.value));
  });
  slider.addEventListener("change", () => go(Number(slider.value)));
  const show = () => {
    root.hidden = steps().length === 0;
    slider.max = String(steps().length);
    slider.value = String(current());
    label.value = name(current());
    slider.setAttribute("aria-valuetext", name(current()));
  };
  store.on((_, changed) => {
    if (changed.has("run")) stop();
    if (changed.has("changes")) show();
  });
  data.run.on(show);
  return root;
}

/**
 * The places where parts can be switched off.
 * @param {import("../types.js").Run | null} run
 * @returns {[value: string, label: string][]}
 */
function scopesOf(run) {
  const names = { encoder: "the encoder", decoder: "the decoder", cross: "cross-attention" };
  const parts = PARTS.filter((part) => run?.parts?.[part]);
  return [
    ["*.*", "all layers"],
    ...parts.map((part) => /** @type {[string, string]} */ ([`${part}.*`, `all of ${names[part]}`])),
    ...parts.flatMap((part) =>
      Array.from(
        { length: run?.parts?.[part]?.layers ?? 0 },
        (_, layer) =>
          /** @type {[string, string]} */ ([`${part}.${layer + 1}`, `${part} layer ${layer + 1}`]),
      ),
    ),
  ];
}

/** What forced decoding means without a causal mask. */
export const WITHOUT_MASK =
  "Without the causal mask, the best translation is searched with each prefix read anew, and the translation before is " +
  "read at once, so that each position sees the tokens after it, which the model was never trained to.";
