/** The beam tree: every hypothesis of the search, and the ranking of the finished ones under a chosen α. */

import { fill, h, s } from "../dom.js";
import { oneStop, roving } from "../keys.js";
import { panel, scrolled, tableOf, twin, watch } from "../panel.js";
import { lengthPenalty, number, percent, piece, shortened } from "../text.js";

const [WIDTH, HEIGHT, LEFT] = [82, 34, 8]; // of a column and a row, and of the left margin, in pixels

/** @typedef {import("../types.js").TreeNode} TreeNode */

/** @param {import("../types.js").App} app */
export function beamPanel({ store, data }) {
  const section = panel(
    "beam",
    "Beam",
    5,
    "Every hypothesis that the search held. Choose one to see what it looked at, even if it lost.",
  );
  const slider = h("input", {
    type: "range",
    min: 0,
    max: 5,
    step: 0.05,
    id: "alpha-slider",
    "aria-label": "Length penalty α",
  });
  const alphaLabel = h("output", { for: "alpha-slider" });
  const tree = h("div", { class: "scroll tree" });
  const caption = h("p", { class: "detail", "aria-live": "polite" });
  const ranking = scrolled("Finished hypotheses", null, "ranking");
  section.tools.append(h("label", { class: "field" }, "α", slider, alphaLabel));
  const chart = h("div", {}, tree, caption);
  section.body.append(chart, ranking);
  watch(section.body, [data.trace, data.chosen]);
  roving(tree, ".node");
  let alpha = 0; // that of the search, or the slider's, which has no others than its steps
  const refresh = twin(section, chart, () => {
    const trace = data.trace.value;
    return (
      trace && {
        caption: `All ${trace.tree.length} hypotheses, beam ${trace.beam}, α ${number(trace.alpha, 2)}`,
        head: ["Hypothesis", "Tokens", "log P of the last", "log P", "Length penalty", "Score", "State"],
        rows: trace.tree.map((node, index) => [
          text(trace.tree, index),
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
    alpha = Number(slider.value);
    alphaLabel.value = number(alpha, 2);
    rank();
  });
  slider.addEventListener("change", () => store.set({ alpha: Number(slider.value) }));

  const show = () => {
    const trace = data.trace.value;
    section.root.hidden = data.run.value !== null && !data.run.value.can.translate;
    if (!trace || trace.tree.length === 0) fill(tree, h("p", { class: "muted" }, "No search yet."));
    else {
      alpha = trace.alpha;
      if (document.activeElement !== slider || store.state.alpha === null) slider.value = String(alpha);
      alphaLabel.value = number(alpha, 2);
      fill(tree, draw(trace.tree));
      oneStop(tree.querySelectorAll(".node"));
    }
    rank();
    refresh();
  };

  /** Rank the finished hypotheses by their scores under the slider's α. */
  const rank = () => {
    const trace = data.trace.value;
    const finished = (trace?.tree ?? [])
      .map((node, index) => ({ node, index, penalty: lengthPenalty(node.length, alpha) }))
      .filter(({ node }) => node.finished)
      .map((entry) => ({ ...entry, score: entry.node.log_probability / entry.penalty }))
      .sort((a, b) => b.score - a.score);
    if (!trace || finished.length === 0) return fill(ranking);
    const table = tableOf({
      caption: `Finished hypotheses ranked with α = ${number(alpha, 2)}`,
      head: ["Rank", "Hypothesis", "log P", "÷ ((5 + tokens) / 6)^α", "= score", "Was"],
      rows: finished.map(({ node, index, penalty, score }, i) => [
        i + 1,
        text(trace.tree, index),
        number(node.log_probability, 4),
        number(penalty, 4),
        number(score, 4),
        node.rank === null ? "not kept" : moved(node.rank, i),
      ]),
    });
    for (const [i, row] of table.querySelectorAll("tbody tr").entries()) {
      if (finished[i].index === chosen()) row.setAttribute("aria-current", "true");
      row.querySelector("td")?.setAttribute("dir", "auto");
    }
    fill(ranking, table);
  };

  const chosen = () => store.state.node ?? data.trace.value?.hypotheses[0]?.node ?? null;

  /** The drawing of the tree. @param {TreeNode[]} nodes */
  const draw = (nodes) => {
    const rowsOfColumn = new Map();
    const positions = nodes.map((node) => {
      const row = rowsOfColumn.get(node.length) ?? 0;
      rowsOfColumn.set(node.length, row + 1);
      return { x: LEFT + (node.length - 1) * WIDTH, y: 4 + row * HEIGHT, row };
    });
    const onPath = new Set();
    for (let index = chosen(); index !== null && nodes[index]; index = nodes[index].parent) onPath.add(index);
    const width = LEFT + Math.max(...nodes.map((node) => node.length)) * WIDTH;
    const height = 8 + Math.max(...rowsOfColumn.values()) * HEIGHT;
    const edges = nodes.map((node, index) => {
      if (node.parent === null) return null;
      const [a, b] = [positions[node.parent], positions[index]];
      const [x1, y1, x2, y2] = [a.x + WIDTH - 14, a.y + 13, b.x, b.y + 13];
      return s("path", {
        d: `M${x1} ${y1} C${x1 + 8} ${y1} ${x2 - 8} ${y2} ${x2} ${y2}`,
        class: onPath.has(index) ? "on" : "",
      });
    });
    const boxes = nodes.map((node, index) => {
      const { x, y, row } = positions[index];
      const label = `${text(nodes, index)}: log P ${number(node.log_probability, 3)}, score ${number(node.score, 3)}, ${state(node)}`;
      const inspect = () => describe(nodes, index);
      const pin = () => store.set({ node: store.state.node === index ? null : index });
      return s(
        "g",
        {
          class: `node${onPath.has(index) ? " on" : ""}${node.finished ? " finished" : ""}`,
          transform: `translate(${x} ${y})`,
          role: "button",
          tabindex: "-1",
          "aria-label": label,
          "aria-pressed": String(chosen() === index),
          "data-key": `node-${index}`,
          "data-row": row,
          "data-column": node.length,
          onclick: pin,
          onfocus: inspect,
          onmouseenter: inspect,
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

  /** Show a hypothesis and its score in the caption. @param {TreeNode[]} nodes @param {number} index */
  const describe = (nodes, index) => {
    const node = nodes[index];
    fill(
      caption,
      h("strong", { dir: "auto" }, text(nodes, index)),
      ` — ${state(node)}. Last token ${percent(Math.exp(node.token_log_probability))}; log P ${number(node.log_probability, 3)} ÷ ${number(node.length_penalty, 3)} = score ${number(node.score, 3)}. Enter shows what it looked at.`,
    );
  };

  store.on((_, changed) => changed.has("node") && show());
  const renew = () => {
    fill(caption); // it described a hypothesis of the tree before
    show();
  };
  data.run.on(renew);
  data.trace.on((slot) => slot.status === "ready" && renew());
  return section.root;
}

/** The state of a hypothesis in words. @param {TreeNode} node */
function state(node) {
  if (node.rank !== null) return `finished, rank ${node.rank + 1}`;
  return node.finished ? "finished, not kept" : "unfinished";
}

/** The label of a node, at most 9 characters. @param {TreeNode} node */
function short(node) {
  const text = node.finished ? `end${node.rank === null ? "" : ` · ${node.rank + 1}`}` : piece(node.piece);
  return shortened(text, 9);
}

/**
 * A hypothesis's rank in the search, and whether it moved up or down.
 * @param {number} before
 * @param {number} now
 */
function moved(before, now) {
  if (before === now) return `${before + 1}`;
  return `${before + 1} ${now < before ? "▲" : "▼"}`;
}

/** The text of a hypothesis. @param {TreeNode[]} nodes @param {number} index */
function text(nodes, index) {
  const pieces = [];
  for (let at = /** @type {number | null} */ (index); at !== null; at = nodes[at].parent)
    if (!nodes[at].finished) pieces.unshift(nodes[at].piece);
  return pieces.join("").replaceAll("▁", " ").trim() || "(nothing)";
}
