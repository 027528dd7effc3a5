/** The keyboard: navigation within a chart, the page's shortcuts, and the list of them. */

import { h } from "./dom.js";

const KEYS = [
  ["Tab", "from panel to panel, and to what is in them"],
  ["← → ↑ ↓", "within a chart, a list, or a row of tabs"],
  ["Enter", "pin the word, cell, head or hypothesis"],
  ["Esc", "unpin"],
  ["x", "silence the head that is looked into, or let it speak again"],
  ["u", "undo the last intervention"],
  ["[  ]", "previous and next head"],
  ["0 … 9", "go to a panel"],
  ["?", "this list"],
];

/**
 * Move the focus with arrow keys among the items of a container that is one tab stop (roving tabindex). `selector`
 * matches the items; they form a grid by `data-row` and `data-column` if they have them, otherwise one line. Enter and
 * the space bar click an item of a drawing, as they do a button.
 * @param {HTMLElement | SVGElement} container
 * @param {string} selector
 */
export function roving(container, selector) {
  const items = () => /** @type {(HTMLElement | SVGElement)[]} */ ([...container.querySelectorAll(selector)]);
  container.addEventListener("keydown", (event) => {
    const key = /** @type {KeyboardEvent} */ (event).key;
    const all = items();
    const from = all.find((item) => item === document.activeElement);
    if (!from) return;
    const pressed = from instanceof SVGElement && (key === "Enter" || key === " ");
    const to = key === "Home" ? all[0] : key === "End" ? all[all.length - 1] : neighbor(all, from, key);
    if (!pressed && !to) return;
    event.preventDefault();
    if (pressed) from.dispatchEvent(new MouseEvent("click"));
    else to?.focus();
  });
  container.addEventListener("focusin", (event) => {
    const all = items();
    const current = all.find((item) => item === event.target);
    if (current) for (const item of all) item.setAttribute("tabindex", item === current ? "0" : "-1");
  });
}

const CHOSEN = "[aria-pressed=true], [aria-selected=true], [aria-current]";

/**
 * Leave one tab stop among new items: the one that has the focus or is chosen, or the first.
 * @param {Iterable<Element>} items
 */
export function oneStop(items) {
  const all = [...items];
  const stop =
    all.find((item) => item === document.activeElement) ?? all.find((item) => item.matches(CHOSEN)) ?? all[0];
  for (const item of all) item.setAttribute("tabindex", item === stop ? "0" : "-1");
}

/**
 * The nearest item in an arrow key's direction, null if there is none.
 * @param {(HTMLElement | SVGElement)[]} all
 * @param {HTMLElement | SVGElement} from
 * @param {string} key
 */
function neighbor(all, from, key) {
  /** @type {Record<string, [number, number]>} */
  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const move = moves[key];
  if (!move) return null;
  if (from.dataset.row === undefined) return all[all.indexOf(from) + move[0] + move[1]] ?? null;
  const [row, column] = [Number(from.dataset.row), Number(from.dataset.column)];
  const position = (/** @type {HTMLElement | SVGElement} */ item) => [
    Number(item.dataset.row),
    Number(item.dataset.column),
  ];
  const ahead = all.filter((item) => {
    const [r, c] = position(item);
    return move[0] !== 0 ? Math.sign(r - row) === move[0] : r === row && Math.sign(c - column) === move[1];
  });
  const distance = (/** @type {HTMLElement | SVGElement} */ item) => {
    const [r, c] = position(item);
    return 1000 * Math.abs(move[0] !== 0 ? r - row : c - column) + Math.abs(c - column);
  };
  return ahead.sort((a, b) => distance(a) - distance(b))[0] ?? null;
}

/**
 * Handle the page's shortcuts, except while the user types or a dialog is open.
 * @param {Record<string, () => void>} actions by key
 */
export function listen(actions) {
  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    const modified = (event.ctrlKey || event.metaKey || event.altKey) && !event.getModifierState("AltGraph");
    if (modified || event.defaultPrevented) return;
    const typing =
      target instanceof HTMLElement &&
      target.matches("textarea, select, input:not([type=range], [type=radio])");
    if (typing || !(key in actions) || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    actions[key]();
  });
}

/** The dialog that lists the shortcuts. */
export function keysDialog() {
  const dialog = h(
    "dialog",
    { "aria-labelledby": "keys-title" },
    h("h2", { id: "keys-title" }, "Keys"),
    h(
      "dl",
      { class: "keys" },
      KEYS.map(([key, meaning]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, meaning))),
    ),
    h("form", { method: "dialog" }, h("button", { class: "primary" }, "Close")),
  );
  document.body.append(dialog);
  return dialog;
}
