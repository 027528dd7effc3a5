/** Links to a panel: the page shows it, and keeps it in place while data above it arrives. */

const BY_USER = ["wheel", "touchstart", "pointerdown", "keydown"];

/**
 * Move to a panel and focus its heading; whether there is such a panel for the run.
 * @param {string | null} id
 */
export function moveTo(id) {
  if (!id) return false;
  const panel = document.querySelector(`.panel#${CSS.escape(id)}:not([hidden])`);
  if (panel === null) return false;
  panel.scrollIntoView({ block: "start" });
  /** @type {HTMLElement | null} */ (panel.querySelector("h2"))?.focus({ preventScroll: true });
  return true;
}

/**
 * The function that follows a link to the state's panel: it moves there, and again whenever the page's height changes,
 * until the user does something.
 * @param {import("./state.js").Store} store
 */
export function linkFollower(store) {
  let following = false;
  const move = () => {
    if (following) moveTo(store.state.panel);
  };
  for (const name of BY_USER) window.addEventListener(name, () => (following = false), { capture: true });
  new ResizeObserver(move).observe(document.body);
  return () => {
    following = store.state.panel !== null;
    move();
  };
}
