/** Measurements over many sentences, and a note on what attention doesn't prove. */

import { button, fill, h, s } from "../dom.js";
import { panel, tableOf, twin, watch } from "../panel.js";
import { byRole, sentence } from "../roles.js";
import { counted, number, percent } from "../text.js";

const POLL_EVERY = 3000; // milliseconds between requests while the measurement is running

/** @param {import("../types.js").App} app */
export function evidencePanel({ store, data }) {
  const section = panel(
    "evidence",
    "Evidence",
    7,
    "What holds over many sentences, with what chance or a simple rule would give.",
  );
  const body = h("div", { class: "findings" });
  const note = h(
    "aside",
    { class: "note", "aria-label": "What attention does not prove" },
    h(
      "p",
      {},
      h("strong", {}, "Attention is where a head looks, not why the model decides."),
      " A large weight can carry a value that nothing uses, and other weights can give the same output. To know what a head does, take it away (Interventions) and see whether the output changes.",
    ),
  );
  const chart = h("div", {}, body);
  section.body.append(chart, note);
  watch(section.body, [data.evidence]);
  const refresh = twin(section, chart, () => {
    const evidence = data.evidence.value;
    if (evidence?.status !== "measured") return null;
    return {
      caption: `Every head over ${counted(evidence.sentences)} sentences`,
      head: ["Head", "Roles", "Most frequent offset", "Largest weight", "Entropy, nats"],
      rows: Object.entries(evidence.heads).flatMap(([part, layers]) =>
        layers.flatMap((heads, layer) =>
          heads.map((values, head) => [
            `${part} ${layer + 1}.${head + 1}`,
            values.roles.map((role) => role.name).join(", ") || "–",
            sentence(values.position),
            number(values.confidence, 3),
            number(values.entropy, 3),
          ]),
        ),
      ),
    };
  });

  const show = () => {
    section.root.hidden = data.run.value !== null && !data.run.value.can.evidence;
    const evidence = data.evidence.value;
    if (!evidence) return;
    if (evidence.status !== "measured") {
      const status = evidence.status === "measuring" ? "Being measured. " : "Not measured. ";
      fill(body, h("p", { role: "status" }, h("strong", {}, status), evidence.about));
      return refresh();
    }
    const roles = [...byRole(evidence)].sort((a, b) => b[1].length - a[1].length);
    const facts = /** @type {[string, ...(string | number)[]][]} */ ([
      [
        "Alignment error rate",
        evidence.alignment
          ? `${number(evidence.alignment.error, 3)} (${evidence.alignment.rule}, ${counted(evidence.alignment.sentences)} sentences)`
          : "not measured: needs gold alignments and cross-attention",
      ],
      ...evidence.attribution.map((one) => [
        `Attention and ${one.name}`,
        `rank correlation ${number(one.correlation, 2)} (${counted(one.samples)} tokens)`,
      ]),
      ...evidence.calibration.map((one) => [
        `Calibration, ${one.name}`,
        `expected error ${number(one.error, 3)} (${counted(one.tokens)} tokens)`,
      ]),
    ]);
    fill(
      body,
      h("p", { class: "detail" }, evidence.about),
      h(
        "dl",
        { class: "facts" },
        facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
      ),
      h("h3", {}, "Roles"),
      roles.length === 0
        ? h("p", {}, "No head passes the threshold of any role.")
        : h(
            "ul",
            { class: "roles" },
            roles.map(([name, heads]) =>
              h(
                "li",
                {},
                h("strong", {}, name),
                ": ",
                heads.flatMap(({ part, layer, head }, i) => [
                  i > 0 && ", ",
                  button(
                    `${part} ${layer + 1}.${head + 1}`,
                    () => store.set({ part, layer, head, query: null, key: null }),
                    { class: "link" },
                  ),
                ]),
              ),
            ),
          ),
      h("div", { class: "reliabilities" }, evidence.calibration.map(reliability)),
    );
    refresh();
  };
  data.run.on(show);
  data.evidence.on((slot) => slot.status === "ready" && show());
  window.setInterval(() => {
    const { value, status } = data.evidence;
    if (value?.status === "measuring" && status === "ready" && !document.hidden) data.evidence.retry();
  }, POLL_EVERY);
  return section.root;
}

/**
 * A reliability diagram: accuracy by confidence; the diagonal is perfect calibration.
 * @param {import("../roles.js").Calibration} calibration
 */
function reliability({ name, bins, error }) {
  const side = 160;
  const table = tableOf({
    caption: `Calibration, ${name}`,
    head: ["Confidence", "Accuracy", "Tokens"],
    rows: bins.map((bin) => [percent(bin.confidence), percent(bin.accuracy), counted(bin.count)]),
  });
  return h(
    "figure",
    { class: "reliability" },
    h("figcaption", {}, h("h3", {}, `Calibration, ${name}`)),
    s(
      "svg",
      {
        viewBox: `-16 -6 ${side + 24} ${side + 26}`,
        role: "img",
        "aria-label": `Reliability diagram, expected calibration error ${number(error, 3)}`,
      },
      s("path", { class: "grid", fill: "none", d: `M0 0 V${side} H${side} M0 ${side} L${side} 0` }),
      s("text", { x: side, y: side + 12, "text-anchor": "end" }, "confidence"),
      s("text", { x: -6, y: 0, transform: "rotate(-90 -6 0)", "text-anchor": "end" }, "accuracy"),
      bins
        .filter((bin) => bin.count > 0)
        .map((bin) => s("circle", { cx: bin.confidence * side, cy: side - bin.accuracy * side, r: 4 })),
    ),
    h("details", {}, h("summary", {}, "Table"), table),
  );
}
