/** Why not recurrence: states passed on, gradient against distance, and time against length, beside attention. */

import { field, fill, h, select } from "../dom.js";
import { formatted, lineChart } from "../lines.js";
import { matrixView } from "../matrix.js";
import { panel, twin, watch } from "../panel.js";
import { counted, namedAs, number, percent } from "../text.js";

const RADII = { min: 0.1, max: 4, step: 0.1 }; // spectral radii, as the server accepts them

/**
 * @typedef {import("../types.js").Recurrence} Recurrence
 * @typedef {import("../types.js").Recurring} Recurring
 * @typedef {import("../types.js").Times} Times
 */

/** @param {import("../types.js").App} app */
export function recurrencePanel({ store, data }) {
  const section = panel(
    "recurrence",
    "Why not recurrence",
    null,
    "Recurrent networks beside attention, on this sentence: what is passed on, and what it costs.",
  );
  const slider = h("input", { type: "range", ...RADII, "data-key": "radius" });
  const label = h("output", {});
  slider.addEventListener("input", () => store.set({ radius: slider.valueAsNumber }));
  const choice = h("span", {});
  const controls = h("div", { class: "row" }, choice, field("Spectral radius", slider, label));
  const about = h("p", { class: "detail" });
  const readout = h("p", { class: "detail" });
  const matrix = matrixView({ move: (row, column) => tell(row, column), pin: () => {} });
  matrix.root.classList.add("wide");
  const charts = h("div", { class: "curves" });
  const finding = h("p", { class: "finding", role: "status" });
  const chart = h(
    "div",
    {},
    controls,
    h("h3", {}, "States, one for each token"),
    h("div", { class: "look" }, matrix.root, readout),
    about,
    charts,
    h("p", { class: "detail" }, "Solid lines: one position after the other. Dashed: all positions at once."),
    finding,
  );
  section.body.append(chart);
  watch(section.body, [data.recurrence, data.times]);
  const refresh = twin(section, chart, () => table(data.recurrence.value, data.times.value, named));
  const named = (/** @type {string} */ token) => namedAs(data.run.value)(token);

  const tell = (/** @type {number} */ row, /** @type {number} */ column) => {
    const { value } = data.recurrence;
    if (!value) return;
    const chosen = selected(value, store.state.network);
    const state = chosen.states.at(row).data[column];
    fill(
      readout,
      "After ",
      h("strong", {}, named(value.pieces[row])),
      `, feature ${column + 1}: ${number(state, 3)}. Of the first token, ${percent(chosen.kept.data[row])} is left.`,
    );
  };

  const show = () => {
    section.root.hidden = data.run.value !== null && !data.run.value.can.recurrence;
    slider.value = String(store.state.radius);
    label.value = number(store.state.radius, 1);
    const { value } = data.recurrence;
    controls.hidden = value === null;
    if (!value) {
      fill(choice);
      matrix.show(null, "");
      for (const element of [about, readout, finding]) fill(element);
      fill(charts, h("p", { class: "muted" }, "Nothing to compare yet."));
      return refresh();
    }
    const chosen = selected(value, store.state.network);
    fill(
      choice,
      field(
        "States of",
        select(
          value.networks.map(({ name, title }) => [name, title]),
          chosen.name,
          (network) => store.set({ network }),
          { "data-key": "network" },
        ),
      ),
    );
    const { states } = chosen;
    const most = Math.max(1e-9, ...states.data.map(Math.abs));
    matrix.show(
      {
        weights: states,
        most,
        rows: value.pieces.map(named),
        columns: Array.from({ length: states.shape[1] }, () => ""),
        seen: () => true,
      },
      `States of ${chosen.title}: ${states.shape[0]} tokens by ${states.shape[1]} features. Arrow keys move.`,
    );
    matrix.place(states.shape[0] - 1, 0, null);
    matrix.move(states.shape[0] - 1, 0);
    fill(
      about,
      `${chosen.title}: ${chosen.about}. `,
      value.backward ? "It reads the last token first. " : "",
      chosen.sequential
        ? "Each state is computed from the one before."
        : "Its states are computed all at once, each from all tokens.",
    );
    fill(charts, ...curves(value, chosen, data.times.value));
    fill(finding, sentence(value, data.times.value));
    refresh();
  };

  data.run.on(show);
  for (const slot of [data.recurrence, data.times]) slot.on(({ status }) => status !== "loading" && show());
  store.on((_, changed) => {
    if (changed.has("network")) show();
    if (changed.has("radius")) label.value = number(store.state.radius, 1);
  });
  new IntersectionObserver((entries) => {
    if (entries.some(({ isIntersecting }) => isIntersecting)) data.seeRecurrence();
  }).observe(section.root);
  show();
  return section.root;
}

/** The network whose states are shown. @param {Recurrence} value @param {string} name @returns {Recurring} */
function selected({ networks }, name) {
  return (
    networks.find((network) => network.name === name) ??
    networks.find(({ sequential }) => sequential) ??
    networks[0]
  );
}

/** @param {Recurrence} value @param {Recurring} chosen @param {Times | null} times */
function curves({ networks, pieces }, chosen, times) {
  const lines = (/** @type {"gradient" | "kept"} */ what, /** @type {number} */ from) =>
    networks.map((network) => ({
      name: network.title,
      points: /** @type {[number, number][]} */ ([...network[what].data].map((y, x) => [x + from, y])),
      dashed: !network.sequential,
      faint: network.sequential && network.name !== chosen.name,
    }));
  return [
    lineChart("Gradient of the last state against distance, in positions", lines("gradient", 0), {
      logY: true,
      named: true,
    }),
    lineChart("What is left of the first token, against position", lines("kept", 1), {
      logY: true,
      named: true,
      xTicks: pieces.length > 1 ? [1, pieces.length] : [1],
    }),
    times &&
      lineChart(
        `Milliseconds of a layer against the number of tokens`,
        times.rows.map(({ title, sequential, milliseconds }) => ({
          name: title,
          points: milliseconds.map((y, i) => [times.lengths[i], y]),
          dashed: !sequential,
          faint: sequential,
        })),
        { logX: true, logY: true, named: true, xTicks: times.lengths },
      ),
  ];
}

/**
 * What was found, in a sentence for each measurement.
 * @param {Recurrence} value
 * @param {Times | null} times
 */
function sentence({ networks, width, radius }, times) {
  const of = (/** @type {string} */ name) =>
    /** @type {Recurring} */ (networks.find((network) => network.name === name)).gradient.data;
  const far = of("gru").length - 1;
  const at = (/** @type {string} */ name) => formatted(of(name)[far]);
  const text =
    `Over ${far} positions, ${at("shrinking")} of the gradient is left where the matrix shrinks the state, ` +
    `${at("stretching")} with a spectral radius of ${number(radius, 1)}, ${at("gru")} in the GRU, ${at("lstm")} in the LSTM, ` +
    `and ${at("attention")} with attention, whose path has one step at any distance. `;
  if (!times) return text;
  const last = times.lengths.length - 1;
  const took = (/** @type {string} */ name) =>
    `${number(times.rows.find((row) => row.name === name)?.milliseconds[last] ?? 0, 1)} ms`;
  const cores = `${times.threads} thread${times.threads === 1 ? "" : "s"}`;
  return (
    `${text}At ${counted(times.lengths[last])} tokens, the GRU’s ${counted(times.lengths[last])} steps, one after the other, ` +
    `take ${took("gru-steps")} (${took("gru")} in one call), attention ${took("attention")} ` +
    `(${times.device}, ${cores}, width ${width}).`
  );
}

/** @param {Recurrence | null} value @param {Times | null} times @param {(token: string) => string} named */
function table(value, times, named) {
  if (!value) return null;
  const { networks, pieces } = value;
  const longest = Math.max(...networks.map(({ gradient }) => gradient.data.length));
  const cell = (/** @type {Float32Array} */ data, /** @type {number} */ i) =>
    i < data.length ? formatted(data[i]) : "";
  return {
    caption:
      "Gradient by distance, what is left of the first token after each token, and milliseconds by length",
    head: ["where", ...networks.map(({ title }) => title), ...(times?.rows ?? []).map(({ title }) => title)],
    rows: [
      ...Array.from({ length: longest }, (_, i) => [
        `distance ${i}`,
        ...networks.map(({ gradient }) => cell(gradient.data, i)),
        ...(times?.rows ?? []).map(() => ""),
      ]),
      ...pieces.map((name, i) => [
        `after ${named(name)}`,
        ...networks.map(({ kept }) => cell(kept.data, i)),
        ...(times?.rows ?? []).map(() => ""),
      ]),
      ...(times?.lengths ?? []).map((length, i) => [
        `${length} tokens`,
        ...networks.map(() => ""),
        ...(times?.rows ?? []).map(({ milliseconds }) => number(milliseconds[i], 3)),
      ]),
    ],
  };
}
