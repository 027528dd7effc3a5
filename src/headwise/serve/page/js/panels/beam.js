/** The beam tree: every hypothesis that the search held, and the ranking as α would have it. */

import { fill, h, s } from "../dom.js";
import { oneStop, roving } from "../keys.js";
import { panel, twin, watch } from "../panel.js";
import { lengthPenalty, number, percent, piece } from "../text.js";

const [WIDTH, HEIGHT, LEFT] = [82, 34, 8];

/** @typedef {import("../types.js").TreeNode} TreeNode */

/** @param {import("../types.js").App} app */
export function beamPanel({ store, data }) {
  const made = panel(
    "beam",
    "Beam",
    5,
    "Every hypothesis that the search held. Choose one to see what it looked at, even if it lost.",
  );
  const slider = h("input", {
    type: "range",
    min: 0,
    max: 2,
    step: 0.05,
    id: "alpha-slider",
    "aria-label": "Length penalty α",
  });
  const shown = h("output", { for: "alpha-slider" });
  const tree = h("div", { class: "scroll tree" });
  const caption = h("p", { class: "detail", "aria-live": "polite" });
  const ranking = h("div", {
    class: "scroll ranking",
    tabindex: "0",
    role: "group",
    "aria-label": "Finished hypotheses",
  });
  made.tools.append(h("label", { class: "field" }, "α", slider, shown));
  const chart = h("div", {}, tree, caption);
  made.body.append(chart, ranking);
  watch(made.body, [data.trace, data.chosen]);
  roving(tree, ".node");
  const alphaNow = () => (slider.value === "" ? 0 : Number(slider.value));
  const refresh = twin(made, chart, () => {
    const trace = data.trace.value;
    return (
      trace && {
        caption: `All ${trace.tree.length} hypotheses, beam ${trace.beam}, α ${number(trace.alpha, 2)}`,
        head: ["Hypothesis", "Tokens", "log P of the last", "log P", "Length penalty", "Score", "State"],
        rows: trace.tree.map((node, place) => [
          text(trace.tree, place),
          node.length,
          number(node.token_log_probability, 4),
          number(node.log_probability, 4),
          number(node.length_penalty, 4),
          number(node.score, 4),
          state(node),
        ]),
      }
    );
  });

  slider.addEventListener("input", () => {
    shown.value = number(alphaNow(), 2);
    rank();
  });
  slider.addEventListener("change", () => store.set({ alpha: alphaNow() }));

  const show = () => {
    const trace = data.trace.value;
    made.root.hidden = data.run.value !== null && !data.run.value.can.translate;
    if (!trace || trace.tree.length === 0) fill(tree, h("p", { class: "muted" }, "No search yet."));
    else {
      if (document.activeElement !== slider || store.state.alpha === null) slider.value = String(trace.alpha);
      shown.value = number(alphaNow(), 2);
      fill(tree, draw(trace.tree));
      oneStop(tree.querySelectorAll(".node"), (node) => node.getAttribute("aria-pressed") === "true");
    }
    rank();
    refresh();
  };

  /** Order what finished by the score that the slider's α gives. */
  const rank = () => {
    const trace = data.trace.value;
    const alpha = alphaNow();
    const finished = (trace?.tree ?? [])
      .flatMap((node, place) => (node.finished ? [{ node, place }] : []))
      .map(({ node, place }) => ({ node, place, penalty: lengthPenalty(node.length, alpha) }))
      .map((one) => ({ ...one, score: one.node.log_probability / one.penalty }))
      .sort((a, b) => b.score - a.score);
    if (!trace || finished.length === 0) return fill(ranking);
    fill(
      ranking,
      h(
        "table",
        {},
        h("caption", {}, `Finished hypotheses ranked with α = ${number(alpha, 2)}`),
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["Rank", "Hypothesis", "log P", "÷ ((5 + tokens) / 6)^α", "= score", "Was"].map((name) =>
              h("th", { scope: "col" }, name),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          finished.map(({ node, place, penalty, score }, i) =>
            h(
              "tr",
              { "aria-current": place === chosen() ? "true" : null },
              h("th", { scope: "row" }, i + 1),
              h("td", { class: "text", dir: "auto" }, text(trace.tree, place)),
              h("td", {}, number(node.log_probability, 4)),
              h("td", {}, number(penalty, 4)),
              h("td", {}, number(score, 4)),
              h("td", {}, node.rank === null ? "not kept" : moved(node.rank, i)),
            ),
          ),
        ),
      ),
    );
  };

  const chosen = () => store.state.node ?? data.trace.value?.hypotheses[0]?.node ?? null;

  /** @param {TreeNode[]} nodes */
  const draw = (nodes) => {
    const rows = new Map();
    const places = nodes.map((node) => {
      const row = rows.get(node.length) ?? 0;
      rows.set(node.length, row + 1);
      return { x: LEFT + (node.length - 1) * WIDTH, y: 4 + row * HEIGHT, row };
    });
    const onPath = new Set();
    for (let place = chosen(); place !== null && nodes[place]; place = nodes[place].parent) onPath.add(place);
    const width = LEFT + Math.max(...nodes.map((node) => node.length)) * WIDTH;
    const height = 8 + Math.max(...rows.values()) * HEIGHT;
    const edges = nodes.map((node, place) => {
      if (node.parent === null) return null;
      const [a, b] = [places[node.parent], places[place]];
      const [x1, y1, x2, y2] = [a.x + WIDTH - 14, a.y + 13, b.x, b.y + 13];
      return s("path", {
        d: `M${x1} ${y1} C${x1 + 8} ${y1} ${x2 - 8} ${y2} ${x2} ${y2}`,
        class: onPath.has(place) ? "on" : "",
      });
    });
    const boxes = nodes.map((node, place) => {
      const { x, y, row } = places[place];
      const label = `${text(nodes, place)}: log P ${number(node.log_probability, 3)}, score ${number(node.score, 3)}, ${state(node)}`;
      const tell = () => describe(nodes, place);
      const pin = () => store.set({ node: store.state.node === place ? null : place });
      return s(
        "g",
        {
          class: `node${onPath.has(place) ? " on" : ""}${node.finished ? " finished" : ""}`,
          transform: `translate(${x} ${y})`,
          role: "button",
          tabindex: "-1",
          "aria-label": label,
          "aria-pressed": String(chosen() === place),
          "data-key": `node-${place}`,
          "data-row": row,
          "data-column": node.length,
          onclick: pin,
          onfocus: tell,
          onmouseenter: tell,
          onkeydown: (/** @type {KeyboardEvent} */ event) => {
            if (event.key !== "Enter" && event.key !== " ") return;
            event.preventDefault();
            pin();
          },
        },
        s("rect", { width: WIDTH - 14, height: 26, rx: node.finished ? 0 : 4 }),
        s("text", { x: 6, y: 17 }, short(node)),
        s("rect", {
          class: "sure",
          x: 0,
          y: 23,
          height: 3,
          width: (WIDTH - 14) * Math.exp(node.token_log_probability),
        }),
      );
    });
    return s(
      "svg",
      { width, height, role: "group", "aria-label": "Beam tree: a column a step, the best on top" },
      edges,
      boxes,
    );
  };

  /**
   * @param {TreeNode[]} nodes
   * @param {number} place
   */
  const describe = (nodes, place) => {
    const node = nodes[place];
    fill(
      caption,
      h("strong", { dir: "auto" }, text(nodes, place)),
      ` — ${state(node)}. Last token ${percent(Math.exp(node.token_log_probability))}; log P ${number(node.log_probability, 3)} ÷ ${number(node.length_penalty, 3)} = score ${number(node.score, 3)}. Enter shows what it looked at.`,
    );
  };

  store.on((_, changed) => changed.has("node") && show());
  data.run.on(show);
  data.trace.on((slot) => slot.status === "ready" && show());
  return made.root;
}

/** @param {TreeNode} node */
function state(node) {
  if (node.rank !== null) return `finished, rank ${node.rank + 1}`;
  return node.finished ? "finished, not kept" : "unfinished";
}

/** @param {TreeNode} node */
function short(node) {
  const text = node.finished ? `end${node.rank === null ? "" : ` · ${node.rank + 1}`}` : piece(node.piece);
  return text.length > 9 ? `${text.slice(0, 8)}…` : text;
}

/**
 * @param {number} before
 * @param {number} now
 */
function moved(before, now) {
  if (before === now) return `${before + 1}`;
  return `${before + 1} ${now < before ? "▲" : "▼"}`;
}

/**
 * The text of a hypothesis.
 * @param {TreeNode[]} nodes
 * @param {number} place
 */
function text(nodes, place) {
  const pieces = [];
  for (let at = /** @type {number | null} */ (place); at !== null; at = nodes[at].parent)
    if (!nodes[at].finished) pieces.unshift(nodes[at].piece);
  return pieces.join("").replaceAll("▁", " ").trim() || "(nothing)";
}
