/** Parts common to all panels: heading, tools, loading state and errors, and a table for every chart. */

import { button, fill, h } from "./dom.js";
import { oneStop, roving } from "./keys.js";

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
 * A box for what may be larger than its place, which can be scrolled by keyboard.
 * @param {string} label
 * @param {HTMLElement | null} [content]
 * @param {string} [kind]  a class
 */
export function scrolled(label, content = null, kind = "") {
  return h("div", { class: `scroll ${kind}`, tabindex: "0", role: "group", "aria-label": label }, content);
}

/**
 * A list of tabs, one tab stop with arrow keys, for the view below it.
 * @param {string} label
 * @param {HTMLElement} view
 * @param {string} [kind]  a class
 */
export function tabList(label, view, kind = "steps") {
  const root = h("div", { class: kind, role: "tablist", "aria-label": label });
  roving(root, "[role=tab]");
  /**
   * @param {[id: string, text: import("./dom.js").Child | import("./dom.js").Child[]][]} tabs
   * @param {number} selected
   * @param {(index: number) => void} choose
   */
  const show = (tabs, selected, choose) => {
    const make = (/** @type {(typeof tabs)[number]} */ [id, text], /** @type {number} */ i) =>
      button(text, () => choose(i), {
        role: "tab",
        id,
        "data-key": id,
        "aria-controls": view.id,
        "aria-selected": String(i === selected),
        onfocus: () => i !== selected && choose(i),
      });
    fill(root, ...tabs.map(make));
    oneStop(root.children);
    if (tabs[selected]) view.setAttribute("aria-labelledby", tabs[selected][0]);
  };
  return { root, show };
}

/**
 * A button that repeats a step at regular times, until it returns false or the button is pressed again.
 * @param {number} every  milliseconds
 * @param {() => void} begin
 * @param {() => boolean} step
 * @param {string} key
 */
export function player(every, begin, step, key) {
  let timer = 0;
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  };
  const start = () => {
    begin();
    timer = window.setInterval(() => step() || stop(), every);
    play.textContent = "Stop";
  };
  const play = button("Play", () => (timer ? stop() : start()), { "data-key": key });
  return { play, stop };
}

/**
 * A box for the text of the page's state.
 * @param {import("./state.js").Store} store
 * @param {import("./dom.js").Props} props
 */
export function textBox(store, props) {
  const box = h("textarea", {
    dir: "auto",
    spellcheck: "false",
    ...props,
    oninput: () => store.set({ text: box.value }),
  });
  const show = () => {
    if (box.value !== store.state.text) box.value = store.state.text;
  };
  store.on(show);
  show();
  return box;
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
 * @param {Record<string, string>} options  labels by value
 * @param {(value: string) => void} choose
 */
export function choice(label, options, choose) {
  const name = `choice-${label.replace(/\W/g, "-")}`;
  const inputs = Object.keys(options).map((value) =>
    h("input", { type: "radio", name, value, onchange: () => choose(value) }),
  );
  const root = h(
    "fieldset",
    { class: "choice" },
    h("legend", { class: "hidden" }, label),
    inputs.map((input) => h("label", {}, input, h("span", {}, options[input.value]))),
  );
  const show = (/** @type {string} */ value) => {
    for (const input of inputs) input.checked = input.value === value;
  };
  return { root, show };
}
