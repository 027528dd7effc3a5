/** Creation of elements. Text is always set as text: nothing from a user or a model is ever parsed as HTML. */

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, unknown>} Props */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Create an HTML element. `on…` properties are event listeners, `style` is an object of CSS properties, `class` a
 * string; true and false set or omit an attribute, any other value is the attribute's text.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, props, ...children) {
  return setUp(document.createElement(tag), props, children);
}

/**
 * Create an SVG element, as `h`.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props} [props]
 * @param {...(Child | Child[])} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function s(tag, props, ...children) {
  return setUp(document.createElementNS(SVG, tag), props, children);
}

/**
 * Set an element's properties and append its children.
 * @template {HTMLElement | SVGElement} E
 * @param {E} element
 * @param {Props | undefined} props
 * @param {(Child | Child[])[]} children
 * @returns {E}
 */
function setUp(element, props, children) {
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
 * Append children; null, undefined and false are left out.
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
 * The nodes of a typeset formula: `W^Q` with a superscript, `q_d` with a subscript, `d_{model}` with a longer one.
 * @param {string} text
 * @returns {(Node | string)[]}
 */
export function formula(text) {
  return text
    .split(/([_^](?:\w|\{[^}]*\}))/)
    .map((part) =>
      /^[_^]/.test(part)
        ? h(part[0] === "_" ? "sub" : "sup", {}, part.slice(1).replace(/^\{|\}$/g, ""))
        : part,
    );
}

/**
 * Replace the children. If one of the old ones had the keyboard focus, the new element with the same `data-key` gets
 * it.
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function fill(element, ...children) {
  const active = document.activeElement;
  const focused = active instanceof HTMLElement || active instanceof SVGElement ? active : null;
  const inside = focused !== null && focused !== element && element.contains(focused);
  const key = inside ? focused.dataset.key : undefined;
  element.replaceChildren();
  append(element, children);
  if (inside && key !== undefined) {
    const same = element.querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (same instanceof HTMLElement || same instanceof SVGElement) same.focus({ preventScroll: true });
  }
}

/** A button. @param {Child | Child[]} label @param {(event: Event) => void} onclick @param {Props} [props] */
export function button(label, onclick, props) {
  return h("button", { type: "button", onclick, ...props }, label);
}

/**
 * A control with a label before it.
 * @param {string} label
 * @param {HTMLElement} control
 * @param {...Child} more
 */
export function field(label, control, ...more) {
  return h("label", { class: "field" }, h("span", {}, label), control, ...more);
}

/**
 * An input of a number; `change` gets each one that is typed.
 * @param {Props} props
 * @param {(value: number) => void} change
 */
export function numberInput(props, change) {
  const input = h("input", {
    type: "number",
    ...props,
    oninput: () => Number.isFinite(input.valueAsNumber) && change(input.valueAsNumber),
  });
  return input;
}

/**
 * A drop-down list.
 * @param {[value: string, label: string][]} options
 * @param {string} value
 * @param {(value: string) => void} choose
 * @param {Props} [props]
 */
export function select(options, value, choose, props) {
  const list = h(
    "select",
    { ...props, onchange: () => choose(list.value) },
    options.map(([name, label]) => h("option", { value: name, selected: name === value }, label)),
  );
  return list;
}
