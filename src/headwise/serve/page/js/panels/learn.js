/** A tour in nine steps for users new to attention; each step shows the model's current numbers. */

import { button, fill, h } from "../dom.js";
import { panel } from "../panel.js";
import { STEPS } from "../tour.js";

/** @param {import("../types.js").App} app */
export function learnPanel(app) {
  const { store, data } = app;
  const section = panel(
    "learn",
    "Learn",
    8,
    "Attention in nine steps, from a look-up in a dictionary to the decoder’s mask, with this model’s own numbers.",
  );
  const go = (/** @type {number} */ step) => store.set({ tour: step, ...STEPS[step].act(app) });
  const list = h(
    "ol",
    { class: "tour-steps" },
    STEPS.map((step, i) =>
      h(
        "li",
        {},
        button([h("strong", {}, step.title), h("span", {}, step.gist)], () => go(i), {
          class: "tour-step",
          "data-key": `tour-${i}`,
        }),
      ),
    ),
  );
  const chapters = h(
    "p",
    { class: "detail" },
    h("a", { href: "learn/" }, "Fourteen chapters"),
    " lead from the idea to the running model, with numbers to calculate along.",
  );
  section.body.append(chapters, list);

  const card = h("aside", { class: "tour", "aria-label": "Tour", hidden: true });
  document.body.append(card);
  const end = () => {
    store.set({ tour: null });
    document.querySelector("#learn h2")?.scrollIntoView();
    /** @type {HTMLElement | null} */ (document.querySelector("#learn .tour-step"))?.focus({
      preventScroll: true,
    });
  };
  /** @type {number | null} */
  let last = null;
  const show = () => {
    const { tour } = store.state;
    const changed = tour !== last;
    last = tour;
    card.hidden = tour === null || tour >= STEPS.length || section.root.hidden;
    for (const one of document.querySelectorAll(".panel"))
      one.classList.toggle("toured", tour !== null && one.id === STEPS[tour]?.panel);
    if (tour === null || card.hidden) return;
    const step = STEPS[tour];
    const next = tour + 1 < STEPS.length;
    const heading = h(
      "h2",
      { tabindex: "-1", "data-key": "tour-title" },
      h("span", { class: "muted" }, `${tour + 1} of ${STEPS.length} `),
      step.title,
    );
    fill(
      card,
      heading,
      h("p", {}, step.text),
      h("p", { class: "live", "aria-live": "polite" }, step.live(app)),
      h("p", { class: "detail" }, step.attempt),
      h(
        "div",
        { class: "row" },
        button("Back", () => go(tour - 1), { disabled: tour === 0, "data-key": "tour-back" }),
        next ? button("Next", () => go(tour + 1), { class: "primary", "data-key": "tour-next" }) : null,
        button("End the tour", end, { "data-key": "tour-end" }),
      ),
    );
    if (!changed) return;
    const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)").matches;
    document
      .getElementById(step.panel)
      ?.scrollIntoView({ block: "start", behavior: reducedMotion ? "auto" : "smooth" });
    heading.focus({ preventScroll: true });
  };
  store.on(show);
  data.run.on(() => {
    section.root.hidden =
      data.run.value !== null && !(data.run.value.can.translate && data.run.value.can.products);
  });
  data.cell.on((slot) => slot.status === "ready" && show());
  data.trace.on((slot) => slot.status === "ready" && show());
  return section.root;
}
