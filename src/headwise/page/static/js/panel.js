/** Parts common to all panels: heading, tools, loading state and errors, and a table for every chart. */

import { button, fill, h } from "./dom.js";

/**
 * @typedef {object} Panel
 * @property {HTMLElement} root
 * @property {HTMLElement} tools
 * @property {HTMLElement} body
 */

/**
 * Create a panel with its heading; `number` is the key that moves to it, if there is one.
 * @param {string} id
 * @param {string} title
 * @param {number | null} number
 * @param {string} about one sentence
 * @returns {Panel}
 */
export function panel(id, title, number, about) {
  const tools = h("div", { class: "tools" });
  const body = h("div", { class: "body" });
  const heading = h("h2", { id: `${id}-title`, tabindex: "-1" }, title);
  const root = h(
    "section",
    { id, class: "panel", "aria-labelledby": `${id}-title`, "data-number": number },
    h("header", {}, heading, h("p", { class: "about" }, about), tools),
    body,
  );
  return { root, tools, body };
}

/** @typedef {{ caption: string, head: string[], rows: (string | number)[][] }} Table */

/**
 * Add a button that shows a chart's numbers as a table in its place; returns the function that updates the table.
 * @param {Panel} where
 * @param {HTMLElement} chart
 * @param {() => Table | null} numbers
 */
export function twin(where, chart, numbers) {
  const table = h("div", { class: "twin scroll", hidden: true, tabindex: "0" });
  const toggle = button("Table", () => turn(table.hidden), { class: "quiet", "aria-pressed": "false" });
  /** @param {boolean} shown */
  const turn = (shown) => {
    table.hidden = !shown;
    chart.hidden = shown;
    toggle.setAttribute("aria-pressed", String(shown));
    refresh();
  };
  const refresh = () => {
    if (table.hidden) return;
    const content = numbers();
    table.setAttribute("role", "group");
    table.setAttribute("aria-label", content?.caption ?? "Nothing to show yet");
    fill(table, content ? tableOf(content) : h("p", { class: "muted" }, "Nothing to show yet."));
  };
  where.tools.append(toggle);
  chart.after(table);
  return refresh;
}

/** A table element. @param {Table} table */
export function tableOf({ caption, head, rows }) {
  return h(
    "table",
    {},
    h("caption", {}, caption),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        head.map((name) => h("th", { scope: "col" }, name)),
      ),
    ),
    h(
      "tbody",
      {},
      rows.map((row) =>
        h(
          "tr",
          {},
          row.map((cell, i) => (i === 0 ? h("th", { scope: "row" }, cell) : h("td", {}, cell))),
        ),
      ),
    ),
  );
}

/**
 * Show the state of slots: busy while one loads, a message and a button to try again if one failed.
 * @param {HTMLElement} body keeps its children; the message comes first
 * @param {import("./api.js").Slot<any>[]} slots
 */
export function watch(body, slots) {
  const notice = h("div", { class: "notice", role: "alert" });
  body.prepend(notice);
  const show = () => {
    const failed = slots.find((slot) => slot.status === "failed");
    body.setAttribute("aria-busy", String(slots.some((slot) => slot.status === "loading")));
    body.classList.toggle("stale", failed !== undefined);
    if (!failed) fill(notice);
    else if (notice.dataset.shown !== failed.failure?.message || notice.childElementCount === 0) {
      const retry = button("Try again", () =>
        slots.filter((slot) => slot.status === "failed").map((slot) => slot.retry()),
      );
      fill(
        notice,
        h("span", { class: "mark", "aria-hidden": "true" }, "!"),
        h("span", {}, failed.failure?.message),
        retry,
      );
    }
    notice.dataset.shown = failed?.failure?.message ?? "";
  };
  for (const slot of slots) slot.on(show);
}

/**
 * A group of radio buttons, one tab stop with arrow keys.
 * @param {string} label
 * @param {[value: string, label: string][]} options
 * @param {(value: string) => void} choose
 */
export function choice(label, options, choose) {
  const name = `choice-${label.replace(/\W/g, "-")}`;
  const inputs = new Map(
    options.map(([value]) => [
      value,
      h("input", { type: "radio", name, value, onchange: () => choose(value) }),
    ]),
  );
  const root = h(
    "fieldset",
    { class: "choice" },
    h("legend", { class: "hidden" }, label),
    options.map(([value, text]) =>
      h("label", {}, /** @type {HTMLInputElement} */ (inputs.get(value)), h("span", {}, text)),
    ),
  );
  const show = (/** @type {string} */ value) => {
    const input = inputs.get(value);
    if (input) input.checked = true;
  };
  return { root, show };
}
