/** The page: its state, data and panels, and the keyboard shortcuts. */

import { Failure } from "./api.js";
import { allRuns, Data } from "./data.js";
import { button, fill, h, select } from "./dom.js";
import { repaint } from "./heat.js";
import { linkFollower, moveTo } from "./jump.js";
import { keysDialog, listen } from "./keys.js";
import { architecturePanel } from "./panels/architecture.js";
import { beamPanel } from "./panels/beam.js";
import { evidencePanel } from "./panels/evidence.js";
import { allHeads, headsPanel, silence } from "./panels/heads.js";
import { insidePanel } from "./panels/inside.js";
import { interventionsPanel } from "./panels/interventions.js";
import { languagePanel } from "./panels/language.js";
import { maskedPanel } from "./panels/masked.js";
import { microscopePanel } from "./panels/microscope.js";
import { patchesPanel } from "./panels/patches.js";
import { recurrencePanel } from "./panels/recurrence.js";
import { ribbonPanel } from "./panels/ribbon.js";
import { trainingPanel } from "./panels/training.js";
import { translatePanel } from "./panels/translate.js";
import { wordsPanel } from "./panels/words.js";
import { recording } from "./recording.js";
import { fromFragment, Store, toFragment } from "./state.js";
import { counted } from "./text.js";
import { PARTS } from "./types.js";

const PANELS = [
  translatePanel,
  languagePanel,
  maskedPanel,
  patchesPanel,
  ribbonPanel,
  headsPanel,
  microscopePanel,
  architecturePanel,
  insidePanel,
  beamPanel,
  wordsPanel,
  interventionsPanel,
  evidencePanel,
  recurrencePanel,
  trainingPanel,
];
const WRITE_AGAIN = 1000; // milliseconds to the next attempt to write the fragment, which the browser refused
const RETRY_EVERY = 2000; // milliseconds between attempts to reach the server after a lost connection

const store = new Store(fromFragment(location.hash || (recording?.state ?? "")));
const data = new Data(store);
const liveRegion = h("div", { class: "hidden", "aria-live": "polite" });
/** @type {import("./types.js").App} */
const app = { store, data, say: (text) => fill(liveRegion, text) };
const dialog = keysDialog();

/**
 * Keep the URL fragment and the state in step, also when the user follows a link or edits the URL.
 * @param {() => void} followLink
 */
function syncFragment(followLink) {
  let fragment = location.hash.slice(1);
  let timer = 0;
  const navigated = () => location.hash.slice(1) !== fragment;
  const follow = () => {
    if (!navigated()) return;
    fragment = location.hash.slice(1);
    const parsed = fromFragment(fragment);
    const run = parsed.run || store.state.run;
    // A link without a text is about the one that is there; another run begins with a text of its own.
    const text = parsed.text || (run === store.state.run ? store.state.text : "");
    const theme = parsed.theme === "auto" ? store.state.theme : parsed.theme; // the reader's own choice
    store.set({ ...parsed, run, text, theme });
    followLink();
  };
  const write = () => {
    if (navigated()) return follow(); // the user followed a link meanwhile
    const written = toFragment(store.state);
    try {
      history.replaceState(null, "", written ? `#${written}` : location.pathname);
    } catch {
      timer = window.setTimeout(write, WRITE_AGAIN); // Safari takes at most 100 in 30 seconds
    }
    fragment = location.hash.slice(1);
  };
  store.on(() => {
    clearTimeout(timer);
    timer = window.setTimeout(write, 60);
  });
  window.addEventListener("hashchange", follow);
}

/** Apply the chosen color theme, and repaint the heat maps when it changes. */
function followTheme() {
  const show = () => {
    document.documentElement.dataset.theme = store.state.theme;
    repaint();
  };
  store.on((_, changed) => changed.has("theme") && show());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  show();
}

/**
 * Fill the header: the run's description, the choices of run and theme, and the list of keys.
 * @param {{ name: string, task: string, ready: boolean }[]} runs
 */
function header(runs) {
  const theme = select(
    Object.entries({ auto: "Auto", light: "Light", dark: "Dark" }),
    store.state.theme,
    (value) => store.set({ theme: /** @type {"auto" | "light" | "dark"} */ (value) }),
    { "aria-label": "Colors" },
  );
  const run = select(
    runs.map(({ name, ready }) => [name, ready ? name : `${name} (in training)`]),
    store.state.run,
    (name) => store.set({ run: name }),
    { "aria-label": "Run", id: "run" },
  );
  store.on(() => {
    run.value = store.state.run;
    theme.value = store.state.theme;
  });
  const controls = /** @type {HTMLElement} */ (document.querySelector("#controls"));
  const about = h("p", { class: "about-run" });
  data.run.on(({ value }) => {
    fill(about, value && aboutRun(value));
    const option = [...run.options].find((one) => one.value === value?.name);
    if (option && value?.parameters) option.textContent = value.name;
  });
  fill(
    controls,
    about,
    run,
    theme,
    button("?", () => dialog.showModal(), { "aria-label": "Keys" }),
  );
}

/** A line about a run. @param {import("./types.js").Run} run */
function aboutRun(run) {
  const { source, target } = run.languages;
  const pair = source && target ? `${source} → ${target}, ` : "";
  return `${pair}${run.architecture}${run.parameters ? `, ${counted(run.parameters)} parameters` : ""}`;
}

/** Define the keyboard shortcuts. */
function keys() {
  const step = (/** @type {number} */ by) => {
    const all = allHeads(data.run.value);
    const { layer, head } = store.state;
    const part = data.run.value?.parts?.[store.state.part] ? store.state.part : all[0]?.part;
    const current = all.findIndex((one) => one.part === part && one.layer === layer && one.head === head);
    if (all.length === 0) return;
    const next = all[(current + by + all.length) % all.length];
    if (data.run.value?.can.vision) store.set({ ...next, over: "head" });
    else store.set({ ...next, query: null, key: null });
  };
  const panels = () => /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".panel:not([hidden])")]);
  const attends = () => data.run.value?.can.read || data.run.value?.can.vision;
  const changes = () => data.run.value?.can.translate || attends();
  /** @type {Record<string, () => void>} */
  const actions = {
    x: () => attends() && silence(store, store.state.part, store.state.layer, store.state.head),
    u: () => changes() && store.undo(),
    "[": () => step(-1),
    "]": () => step(1),
    "?": () => dialog.showModal(),
    Escape: () => store.set({ query: null, key: null, word: null, node: null }),
  };
  for (let number = 0; number <= 9; number++) {
    actions[String(number)] = () => {
      const panel = panels().find((one) => one.dataset.number === String(number));
      if (panel && moveTo(panel.id)) store.set({ panel: panel.id });
    };
  }
  listen(actions);
}

/** Retry the requests that didn't reach the server, as soon as it responds again. */
function recover() {
  window.setInterval(async () => {
    const lost = () => data.slots.filter((slot) => slot.status === "failed" && slot.failure?.lost);
    if (lost().length === 0) return;
    const back = await allRuns().then(
      () => true,
      () => false,
    );
    if (back) for (const slot of lost()) slot.retry(); // of another run, meanwhile, none may be lost
  }, RETRY_EVERY);
}

/** Load the runs and build the page. */
async function begin() {
  const main = /** @type {HTMLElement} */ (document.querySelector("main"));
  /** @type {Awaited<ReturnType<typeof allRuns>>} */
  let runs;
  try {
    runs = await allRuns();
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    fill(
      main,
      h("div", { class: "notice", role: "alert" }, h("span", {}, error.message), button("Try again", begin)),
    );
    return;
  }
  document.querySelector(".skip")?.addEventListener("click", (event) => {
    event.preventDefault(); // a link's fragment would replace the page's state
    main.focus();
  });
  if (store.state.run === "") store.state = { ...store.state, run: runs[0].name };
  fill(main, ...PANELS.map((make) => make(app)));
  document.body.append(liveRegion);
  const followLink = linkFollower(store);
  syncFragment(followLink);
  followTheme();
  header(runs);
  keys();
  recover();
  data.run.on(({ value, status }) => {
    if (status !== "ready" || !(value?.can.translate || value?.can.read || value?.can.vision)) return;
    const shape = value.parts?.[store.state.part]; // another run may have fewer layers and heads
    if (shape) {
      const { layer, head } = store.state;
      store.set({ layer: Math.min(layer, shape.layers - 1), head: Math.min(head, shape.heads - 1) });
    }
    const [part] = PARTS.filter((one) => value.parts?.[one]);
    if (part && !value.parts?.[store.state.part])
      store.set(value.can.vision ? { part } : { part, layer: 0, head: 0, query: null, key: null });
    const { state } = store;
    if (state.text !== "" || value.can.vision) return;
    // Cross-attention of the penultimate layer aligns best (Garg et al. 2019).
    const layer = state.layer || Math.max(0, (value.parts?.cross?.layers ?? 1) - 2);
    const { node, query, key, word } = state; // a link may pin them without naming the text
    store.set({ layer, text: value.samples?.[0] ?? "", node, query, key, word });
  });
  data.begin();
  followLink();
}

begin();
