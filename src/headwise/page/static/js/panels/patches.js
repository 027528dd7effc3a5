/** A vision model: its classes or its caption similarity for an image, and each head's attention over patches. */

import { button, field, fill, h } from "../dom.js";
import { paint } from "../heat.js";
import {
  asker,
  largest,
  looked,
  patchOf,
  placed,
  sharesOf,
  sharesTable,
  sum,
  tokenName,
  weights,
  weightsTable,
  within,
} from "../image_view.js";
import { oneStop, roving } from "../keys.js";
import { matrixView } from "../matrix.js";
import { panel, twin, watch } from "../panel.js";
import { pictureView, pixelsOf } from "../picture.js";
import { counted, percent, signed } from "../text.js";

/** @typedef {import("../types.js").ImageView} ImageView */

const MOST_WITH_NUMBERS = 8; // most columns of patches into which numbers fit
const CLASSES = 10; // most classes shown

/** @param {import("../types.js").App} app */
export function patchesPanel({ store, data }) {
  const section = panel(
    "patches",
    "Patches",
    1,
    "What the model makes of an image, and which of its patches each head looked at.",
  );
  const pin = (/** @type {number} */ row, /** @type {number} */ column) => {
    const view = data.view.value;
    if (!view) return;
    const token = Number(view.class_token) + row * view.grid[1] + column;
    store.set({ query: store.state.query === token ? null : token, word: null });
  };
  const cells = matrixView({ move: (row, column) => tell(row, column), pin });
  const picture = pictureView((row, column) => cells.move(row, column), pin);
  const row = h("input", {
    type: "number",
    min: 1,
    step: 1,
    id: "image",
    oninput: () => row.value !== "" && store.set({ image: row.valueAsNumber - 1, pixels: null }),
  });
  const step = (/** @type {number} */ by) => {
    const images = data.run.value?.images || 1; // there may be none
    store.set({ image: (store.state.image + by + images) % images, pixels: null });
  };
  const of = h("span", { class: "muted" });
  const file = h("input", { type: "file", accept: "image/*", hidden: true, "aria-label": "Own picture" });
  const fileError = h("p", { class: "detail", role: "status" });
  const own = button("Own picture…", () =>
    store.state.pixels === null ? file.click() : store.set({ pixels: null }),
  );
  const steps = h(
    "div",
    { class: "row" },
    button("‹", () => step(-1), { "aria-label": "Previous image" }),
    button("›", () => step(1), { "aria-label": "Next image" }),
    field("Image", row, of),
    own,
    file,
  );
  const caption = h("input", {
    type: "text",
    maxlength: 500,
    oninput: () => store.set({ caption: caption.value }),
  });
  const captionField = field("Caption", caption);
  const answer = h("div", { class: "answer" });
  const title = h("p", { class: "where" });
  const readout = h("p", { class: "detail", "aria-live": "polite" });
  const grid = h("div", { class: "heads", role: "group", "aria-label": "Heads" });
  const ownScale = h(
    "p",
    { class: "detail" },
    "The deepest shade of each small map is its own largest share.",
  );
  const chart = h("div", {}, cells.root);
  section.body.append(
    h(
      "div",
      { class: "sides" },
      h("div", { class: "ask look" }, steps, fileError, picture.root, captionField, answer),
      h("div", { class: "look" }, title, chart, readout, grid, ownScale),
    ),
  );
  watch(section.body, [data.run, data.view]);
  roving(grid, ".head");
  roving(answer, ".unit");
  const refresh = twin(section, chart, () => {
    const view = data.view.value;
    if (!view) return null;
    return word() === null ? weightsTable(view, store.state, name()) : sharesTable(view);
  });

  /** @type {number | null} */
  let hovered = null;
  /** The word of the caption whose shares are shown: the hovered or the pinned one, null if there is none. */
  const word = () => {
    const pinned = /^w(\d+)$/.exec(store.state.word ?? "");
    const chosen = hovered ?? (pinned ? Number(pinned[1]) : null);
    return chosen !== null && chosen < (data.view.value?.words.length ?? 0) ? chosen : null;
  };
  const name = () => {
    const { over } = store.state;
    const [layer, head] = data.view.value ? within(data.view.value, store.state) : [0, 0];
    if (over === "all") return "all layers (rollout)";
    return over === "layer" ? `layer ${layer + 1}, mean of heads` : `layer ${layer + 1}, head ${head + 1}`;
  };

  const showState = () => {
    const { image, pixels } = store.state;
    const run = data.run.value;
    if (document.activeElement !== row) row.value = String(image + 1);
    row.max = String(run?.images ?? 1);
    fill(of, `of ${counted(run?.images ?? 0)} held out`);
    own.textContent = pixels === null ? "Own picture…" : "Back to the held-out images";
    if (document.activeElement !== caption) caption.value = store.state.caption;
    captionField.hidden = (run?.classes?.length ?? 0) > 0;
  };
  const showPicture = () => {
    const view = data.view.value;
    if (!view) return;
    const [rows, columns] = view.grid;
    const [, height, width] = view.pixels.shape;
    const what = view.image === null ? "Own picture" : `Held-out image ${view.image + 1}: ${view.truth}`;
    picture.show(
      view.pixels,
      view.grid,
      `${what}. ${width} × ${height} pixels in ${columns} × ${rows} patches.`,
    );
    caption.placeholder = view.truth ?? "a bright seven at the top left";
    hovered = null; // the pointer doesn't leave a word that is taken away
    fill(answer, ...(view.probabilities ? classes(view, data.run.value?.classes ?? []) : words(view)));
    oneStop(answer.querySelectorAll(".unit"));
  };
  /** @param {ImageView} view */
  const words = (view) => {
    const { shares } = view;
    if (!shares) return [];
    const total = sum(shares.data);
    return [
      h("p", {}, "Similarity of picture and caption: ", h("strong", {}, signed(total, 3))),
      h(
        "div",
        { class: "words", role: "group", "aria-label": "Words and their shares" },
        view.words.map((text, i) => {
          const share = h("span", { class: "figures" }, signed(sum(shares.at(i).data), 3));
          const pressed = store.state.word === `w${i}`;
          const turn = () => store.set({ word: store.state.word === `w${i}` ? null : `w${i}` });
          return button([text, share], turn, {
            class: "unit",
            "data-key": `word-${i}`,
            "aria-pressed": String(pressed),
            onfocus: () => hover(i),
            onblur: () => hover(null),
            onmouseenter: () => hover(i),
            onmouseleave: () => hover(null),
          });
        }),
      ),
      h("p", { class: "detail" }, "Point at a word to see what each patch adds to it; Enter pins it."),
    ];
  };
  /** @param {number | null} number */
  const hover = (number) => {
    hovered = number;
    showMap();
  };

  /** The map that is shown: the shares of a word, or the weights of the head. @param {ImageView} view */
  const mapOf = (view) => {
    const chosen = word();
    return chosen === null ? looked(view, store.state) : sharesOf(view, chosen);
  };
  const showMap = () => {
    const view = data.view.value;
    if (!view) return;
    const chosen = word();
    const map = mapOf(view);
    const [rows, columns] = view.grid;
    const text = (/** @type {number} */ r, /** @type {number} */ c) => {
      const value = map.data[r * columns + c];
      return chosen === null ? String(Math.round(100 * value)) : value < 0 ? "−" : "+";
    };
    const heading =
      chosen === null
        ? `What ${tokenName(view, asker(view, store.state))} looked at, in ${name()}, in percent`
        : `What each patch adds to “${view.words[chosen]}”`;
    fill(title, heading);
    cells.show(
      {
        weights: map,
        most: largest(map),
        rows: Array.from({ length: rows }, (_, i) => String(i + 1)),
        columns: Array.from({ length: columns }, (_, i) => String(i + 1)),
        seen: () => true,
        ...(columns <= MOST_WITH_NUMBERS ? { text } : {}),
      },
      `${heading}. Arrow keys move, Enter lets the patch look.`,
    );
    const pinned = chosen === null ? patchOf(view, asker(view, store.state)) : null;
    const best = map.data.indexOf(Math.max(...map.data));
    cells.place(Math.floor(best / columns), best % columns, pinned);
    picture.pinned(pinned);
    tell(Math.floor(best / columns), best % columns);
    refresh();
  };

  /** @param {number} r @param {number} c */
  const tell = (r, c) => {
    const view = data.view.value;
    if (!view) return;
    picture.cursor([r, c]);
    const chosen = word();
    const map = mapOf(view);
    const value = map.data[r * view.grid[1] + c];
    const amount = h("data", { value, id: "patch" }, chosen === null ? percent(value) : signed(value, 4));
    const patchName = h("strong", {}, placed(r, c));
    if (chosen !== null) {
      fill(
        readout,
        patchName,
        " adds ",
        amount,
        ` to the ${signed(sum(map.data), 3)} of “${view.words[chosen]}”.`,
      );
    } else {
      const first = view.class_token ? percent(weights(view, store.state)[0]) : null;
      fill(readout, patchName, " gets ", amount, first && `, the class token ${first}`, ".");
    }
  };

  const showGrid = () => {
    const view = data.view.value;
    if (!view) return;
    const [layers, count] = view.attention.shape;
    grid.style.setProperty("--heads", String(count + 1));
    const { state } = store;
    /** @type {[string, { over: "head" | "layer" | "all", layer: number, head: number }, string, number, number][]} */
    const cells = [["rollout", { ...state, over: "all" }, "Rollout, through all layers", 0, 0]];
    for (let layer = 0; layer < layers; layer++) {
      const label = `Layer ${layer + 1}, `;
      cells.push(["mean", { ...state, over: "layer", layer }, `${label}mean of heads`, layer + 1, 0]);
      for (let head = 0; head < count; head++) {
        const cell = { ...state, over: /** @type {const} */ ("head"), layer, head };
        cells.push([`${layer + 1}.${head + 1}`, cell, `${label}head ${head + 1}`, layer + 1, head + 1]);
      }
    }
    const current = within(view, state);
    /** @type {[HTMLCanvasElement, import("../tensor.js").Tensor][]} */
    const maps = [];
    fill(
      grid,
      cells.flatMap(([name, { over, layer, head }, label, r, c]) => {
        const canvas = h("canvas", { "aria-hidden": "true" });
        const chosen =
          over === state.over &&
          (over === "all" || (layer === current[0] && (over === "layer" || head === current[1])));
        const map = [h("span", { class: "map" }, canvas), h("span", { class: "name" }, name)];
        const cell = button(map, () => store.set({ part: "encoder", over, layer, head }), {
          class: "head",
          "data-key": `patch-head-${r}-${c}`,
          "data-row": r,
          "data-column": c,
          "aria-pressed": String(chosen),
          "aria-label": label,
        });
        maps.push([canvas, looked(view, { ...state, over, layer, head })]);
        canvas.style.aspectRatio = `${view.grid[1]} / ${view.grid[0]}`;
        return c === 0
          ? [h("span", { class: "layer" }, r === 0 ? "All layers" : `Layer ${r}`), cell]
          : [cell];
      }),
    );
    for (const [canvas, map] of maps) paint(canvas, map, undefined, largest(map));
    oneStop(grid.querySelectorAll(".head"));
  };

  let read = 0; // pictures, and what was chosen in their place: only the last one is shown
  file.addEventListener("change", async () => {
    const [chosen] = file.files ?? [];
    const shape = data.run.value?.shape;
    if (!chosen || !shape) return;
    fill(fileError);
    const own = ++read;
    try {
      const pixels = await pixelsOf(chosen, shape);
      if (own === read) store.set({ pixels });
    } catch {
      if (own === read) fill(fileError, `${chosen.name} is no picture that this browser can read.`);
    }
    file.value = "";
  });
  store.on((_, changed) => {
    if (["run", "image", "pixels"].some((key) => changed.has(key))) read += 1;
    showState();
    if (changed.has("word"))
      for (const unit of /** @type {NodeListOf<HTMLElement>} */ (answer.querySelectorAll(".unit")))
        unit.setAttribute("aria-pressed", String(unit.dataset.key === `word-${store.state.word?.slice(1)}`));
    if (["query", "over", "layer", "head", "word"].some((key) => changed.has(key))) {
      showMap();
      showGrid();
    }
  });
  data.run.on(({ value }) => {
    section.root.hidden = !value?.can.vision;
    showState();
  });
  data.view.on(({ status }) => {
    if (status !== "ready") return;
    showPicture();
    showMap();
    showGrid();
  });
  section.root.hidden = true;
  return section.root;
}

/** The most probable classes, as bars. @param {ImageView} view @param {string[]} names */
function classes(view, names) {
  const ranked = (view.probabilities ?? [])
    .map((probability, i) => ({ probability, name: names[i] }))
    .sort((a, b) => b.probability - a.probability);
  return [
    h(
      "ol",
      { class: "nexts", "aria-label": "Classes" },
      ranked
        .slice(0, CLASSES)
        .map(({ probability, name }) =>
          h(
            "li",
            { class: "next", style: { "--own": probability, "--drawn": 0 } },
            h(
              "span",
              { class: "piece" },
              name,
              name === view.truth && h("span", { class: "badge" }, " ✓ true"),
            ),
            h("span", { class: "bar" }),
            h("span", { class: "figures" }, percent(probability)),
          ),
        ),
    ),
  ];
}
