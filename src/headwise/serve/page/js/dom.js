/** Making elements. Text is always set as text: nothing that a user or a model wrote is ever read as HTML. */

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, unknown>} Props */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Make an HTML element. `on…` properties are listeners, `style` an object of CSS properties, `class` a string; true and
 * false set or leave out an attribute, everything else is an attribute's text.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, props, ...children) {
  return dress(document.createElement(tag), props, children);
}

/**
 * Make an SVG element, as `h`.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props} [props]
 * @param {...(Child | Child[])} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function s(tag, props, ...children) {
  return dress(document.createElementNS(SVG, tag), props, children);
}

/**
 * @template {HTMLElement | SVGElement} E
 * @param {E} element
 * @param {Props | undefined} props
 * @param {(Child | Child[])[]} children
 * @returns {E}
 */
function dress(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    } else if (name === "style") {
      for (const [key, text] of Object.entries(/** @type {Record<string, unknown>} */ (value))) {
        element.style.setProperty(key, String(text));
      }
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
  append(element, children);
  return element;
}

/**
 * @param {Element} element
 * @param {(Child | Child[])[]} children
 */
function append(element, children) {
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) {
      element.append(child instanceof Node ? child : String(child));
    }
  }
}

/**
 * Set a formula as papers do: `W^Q` with a superscript, `q_d` with a subscript.
 * @param {string} text
 * @returns {(Node | string)[]}
 */
export function formula(text) {
  return text
    .split(/([_^]\w)/)
    .map((part) => (/^[_^]/.test(part) ? h(part[0] === "_" ? "sub" : "sup", {}, part[1]) : part));
}

/**
 * Put new children in the place of the old. Whoever had the keyboard keeps it: the new element with the same
 * `data-key` gets the focus.
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function fill(element, ...children) {
  const active = document.activeElement;
  const held = active instanceof HTMLElement || active instanceof SVGElement ? active : null;
  const inside = held !== null && held !== element && element.contains(held);
  const key = inside ? held.dataset.key : undefined;
  element.replaceChildren();
  append(element, children);
  if (inside && key !== undefined) {
    const same = element.querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (same instanceof HTMLElement || same instanceof SVGElement) same.focus({ preventScroll: true });
  }
}

/**
 * A button.
 * @param {Child | Child[]} label
 * @param {(event: Event) => void} onclick
 * @param {Props} [props]
 */
export function button(label, onclick, props) {
  return h("button", { type: "button", onclick, ...props }, label);
}

/**
 * A labeled control; the label stands before it.
 * @param {string} label
 * @param {HTMLElement} control
 * @param {...Child} more
 */
export function field(label, control, ...more) {
  return h("label", { class: "field" }, h("span", {}, label), control, ...more);
}

/**
 * A choice among few.
 * @param {[value: string, label: string][]} options
 * @param {string} value
 * @param {(value: string) => void} choose
 * @param {Props} [props]
 */
export function select(options, value, choose, props) {
  const made = h(
    "select",
    { ...props, onchange: () => choose(made.value) },
    options.map(([name, label]) => h("option", { value: name, selected: name === value }, label)),
  );
  return made;
}
