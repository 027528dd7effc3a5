"""The paper's tables as printed, complete, with what its own arithmetic gives beside them; `headwise paper`.

The text is arXiv:1706.03762v7; a note names what differs in the proceedings of NIPS 2017.
"""

from __future__ import annotations

from headwise.config.presets import TRAINING_DIFFERENCES, preset
from headwise.experiments.harness.outcome import Table
from headwise.experiments.harness.paper import (
    DEVICE_FLOPS,
    DEVICES,
    HOURS,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TABLE_4,
    Variation,
    system,
)
from headwise.models.build import build_model, weightless
from headwise.models.counting import parameter_formula

VERSION = "arXiv:1706.03762v7"
VOCABULARY = 37_000  # section 5.1: about so many tokens
_BASE = preset("base")
_PARTS: tuple[str, ...] = ("embeddings", "attention", "feed-forward", "normalization")


def table1() -> Table:
    """Return Table 1: complexity, sequential operations and path length of four kinds of layers."""
    return Table(
        f"Table 1 ({VERSION}): n positions, d dimensions, kernels of k, neighborhoods of r",
        ("layer type", "complexity per layer", "sequential operations", "maximum path length"),
        tuple((row.name, row.complexity, row.sequential, row.path) for row in TABLE_1),
    )


def table2() -> Table:
    """Return Table 2: BLEU and training cost of all systems, the ensembles included."""
    rows = []
    for row in TABLE_2:
        costs = (row.flops or row.flops_en_de, row.flops or row.flops_en_fr)
        rows.append((row.name, *map(_bleu, (row.en_de, row.en_fr)), *map(_power, costs)))
    best = max(TABLE_2[:-2], key=lambda row: row.en_de or 0)
    gnmt, base = system("GNMT + RL"), system("Transformer (base model)")
    assert gnmt.flops_en_de is not None
    assert base.flops is not None
    cost = {name: _power(hours * 3600 * DEVICES * DEVICE_FLOPS) for name, hours in HOURS.items()}
    note = (
        "EN-FR of the big model is 41.8 here and in the abstract; section 6.1 and the NIPS proceedings say 41.0.",
        f"The best before was {best.en_de:g} on EN-DE ({best.name}).",
        f"Cost: time × {DEVICES} GPUs × {DEVICE_FLOPS / 1e12:g} TFLOPS; base {cost['base']}, big {cost['big']}.",
        f"GNMT's single model cost {gnmt.flops_en_de / base.flops:.1f} times base. There are no prices in the paper.",
    )
    return Table(
        f"Table 2 ({VERSION}): BLEU on newstest2014, and training cost in floating-point operations",
        ("system", "EN-DE", "EN-FR", "FLOPs EN-DE", "FLOPs EN-FR"),
        tuple(rows),
        "\n".join(note),
    )


def _bleu(score: float | None) -> str:
    """Return a score with the digits that the paper prints; one of them ends in 0."""
    if score is None:
        return ""
    return "26.30" if score == 26.3 else f"{score:g}"


def _power(operations: float | None) -> str:
    return "" if operations is None else f"{operations:.1e}".replace("e+", "e")


def table3() -> Table:
    """Return Table 3: all twenty rows, blank where a row has base's value, and parameters by formula."""
    return Table(
        f"Table 3 ({VERSION}): development set newstest2013, unaveraged; blank: as base",
        (
            "", "N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "ε_ls", "steps", "PPL", "BLEU", "params ×10⁶",
            "by formula",
        ),
        tuple(_variation(row) for row in TABLE_3),
        f"By formula: parameters of Headwise's model with {VOCABULARY:,} subwords; the printed ones imply about 41,000 "
        "(docs/parameters.md).\nThere is no row without positions: (E) learns them. h = 16 has base's BLEU at a lower "
        "perplexity.",
    )  # fmt: skip


def _variation(row: Variation) -> tuple[str, ...]:
    model, base = preset(row.preset), row.preset == "base"

    def cell(value: object, usual: object) -> str:
        return f"{value:g}" if isinstance(value, int | float) and (base or value != usual) else ""

    training = {"label_smoothing": 0.1, "max_steps": 100_000, **TRAINING_DIFFERENCES.get(row.preset, {})}
    steps = training["max_steps"]
    return (
        f"({row.group})" + (f" {row.label}" if row.group == "E" else "") if row.group else row.preset,
        cell(model.encoder_layers, _BASE.encoder_layers),
        cell(model.d_model, _BASE.d_model),
        cell(model.d_ff, _BASE.d_ff),
        cell(model.heads, _BASE.heads),
        cell(model.key_size, _BASE.key_size),
        cell(model.value_size, _BASE.value_size),
        cell(model.dropout, _BASE.dropout),
        cell(training["label_smoothing"], 0.1),
        f"{steps // 1000}K" if base or steps != 100_000 else "",
        f"{row.perplexity:.2f}",
        f"{row.bleu:.1f}",
        "" if row.parameters is None else str(row.parameters),
        f"{parameter_formula(model, VOCABULARY, VOCABULARY) / 1e6:.1f}",
    )


def table4() -> Table:
    """Return Table 4: English constituency parsing."""
    return Table(
        f"Table 4 ({VERSION}): constituency parsing, section 23 of the Wall Street Journal",
        ("parser", "training", "F1"),
        tuple((row.name, row.training, f"{row.f1:.1f}") for row in TABLE_4),
    )


def parameter_shares(name: str) -> dict[str, int]:
    """Return the number of parameters of each part of a preset's model, counted in the model itself.

    Embeddings are shared by encoder, decoder and output projection, and count once.
    """
    counts = dict.fromkeys(_PARTS, 0)
    model = weightless(lambda: build_model(preset(name), VOCABULARY, VOCABULARY))
    for key, parameter in model.named_parameters():
        part = key.split(".")[-2]
        if "norm" in key:
            part = "normalization"
        elif "feed_forward" in key:
            part = "feed-forward"
        elif "_attention." in key:
            part = "attention"
        elif part.endswith("embedding"):
            part = "embeddings"
        counts[part] += parameter.numel()
    return counts


def parameters() -> Table:
    """Return the parameters of base and big by part, with their shares."""
    sizes = {name: parameter_shares(name) for name in ("base", "big")}
    totals = {name: sum(counts.values()) for name, counts in sizes.items()}
    rows = [
        (
            part,
            *(
                cell
                for name in sizes
                for cell in (f"{sizes[name][part]:,}", f"{sizes[name][part] / totals[name]:.1%}")
            ),
        )
        for part in _PARTS
    ]
    rows.append(("all", *(cell for name in sizes for cell in (f"{totals[name]:,}", "100.0%"))))
    return Table(
        f"Parameters by part, counted in Headwise's models with {VOCABULARY:,} shared subwords",
        ("part", "base", "share", "big", "share"),
        tuple(rows),
        "Embeddings count once, as encoder, decoder and output projection share them (section 3.4).",
    )


TABLES = {"table1": table1, "table2": table2, "table3": table3, "table4": table4, "parameters": parameters}
