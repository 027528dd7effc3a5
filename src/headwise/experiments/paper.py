"""The tables of "Attention Is All You Need" (Vaswani et al. 2017) as data, exactly as printed, and as tables.

Every number is the paper's, rounded as in the paper; None stands for a blank cell. The text is arXiv:1706.03762v7; a
note names what differs in the proceedings of NIPS 2017, and what the paper's own arithmetic gives stands beside.
Several published summaries misquote these tables, so a test compares this file with a second transcript.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwise.config.presets import TRAINING_DIFFERENCES, preset
from headwise.experiments.harness.outcome import Table
from headwise.models.build import build_model, weightless
from headwise.models.counting import parameter_formula


@dataclass(frozen=True)
class LayerType:
    """A row of Table 1, for sequences of length n, width d, kernels of size k and neighborhoods of size r."""

    name: str
    complexity: str  # operations of one layer
    sequential: str  # minimum number of sequential operations
    path: str  # maximum path length between two positions


TABLE_1 = (
    LayerType("Self-Attention", "O(n²·d)", "O(1)", "O(1)"),
    LayerType("Recurrent", "O(n·d²)", "O(n)", "O(n)"),
    LayerType("Convolutional", "O(k·n·d²)", "O(1)", "O(log_k(n))"),
    LayerType("Self-Attention (restricted)", "O(r·n·d)", "O(1)", "O(n/r)"),
)


@dataclass(frozen=True)
class System:
    """A row of Table 2: BLEU on newstest2014, and training cost in floating-point operations.

    The two Transformers have one cost each, printed across both columns; it is in `flops`.
    """

    name: str
    en_de: float | None
    en_fr: float | None
    flops_en_de: float | None = None
    flops_en_fr: float | None = None
    flops: float | None = None


TABLE_2 = (
    System("ByteNet", 23.75, None),
    System("Deep-Att + PosUnk", None, 39.2, None, 1.0e20),
    System("GNMT + RL", 24.6, 39.92, 2.3e19, 1.4e20),
    System("ConvS2S", 25.16, 40.46, 9.6e18, 1.5e20),
    System("MoE", 26.03, 40.56, 2.0e19, 1.2e20),
    System("Deep-Att + PosUnk Ensemble", None, 40.4, None, 8.0e20),
    System("GNMT + RL Ensemble", 26.30, 41.16, 1.8e20, 1.1e21),
    System("ConvS2S Ensemble", 26.36, 41.29, 7.7e19, 1.2e21),
    System("Transformer (base model)", 27.3, 38.1, flops=3.3e18),
    System("Transformer (big)", 28.4, 41.8, flops=2.3e19),
)


@dataclass(frozen=True)
class Variation:
    """A row of Table 3, on newstest2013: beam search, no checkpoint averaging.

    `preset` is the row's name in `headwise.config.presets`; `parameters` are millions, None if the paper prints none.
    """

    preset: str
    group: str  # the table's letter for rows that vary the same hyperparameter
    label: str
    perplexity: float  # per subword
    bleu: float
    parameters: int | None = None


TABLE_3 = (
    Variation("base", "", "base", 4.92, 25.8, 65),
    Variation("table3-a-h1", "A", "h = 1, d_k = d_v = 512", 5.29, 24.9),
    Variation("table3-a-h4", "A", "h = 4, d_k = d_v = 128", 5.00, 25.5),
    Variation("table3-a-h16", "A", "h = 16, d_k = d_v = 32", 4.91, 25.8),
    Variation("table3-a-h32", "A", "h = 32, d_k = d_v = 16", 5.01, 25.4),
    Variation("table3-b-dk16", "B", "d_k = 16", 5.16, 25.1, 58),
    Variation("table3-b-dk32", "B", "d_k = 32", 5.01, 25.4, 60),
    Variation("table3-c-n2", "C", "N = 2", 6.11, 23.7, 36),
    Variation("table3-c-n4", "C", "N = 4", 5.19, 25.3, 50),
    Variation("table3-c-n8", "C", "N = 8", 4.88, 25.5, 80),
    Variation("table3-c-d256", "C", "d_model = 256, d_k = d_v = 32", 5.75, 24.5, 28),
    Variation("table3-c-d1024", "C", "d_model = 1024, d_k = d_v = 128", 4.66, 26.0, 168),
    Variation("table3-c-ff1024", "C", "d_ff = 1024", 5.12, 25.4, 53),
    Variation("table3-c-ff4096", "C", "d_ff = 4096", 4.75, 26.2, 90),
    Variation("table3-d-drop0", "D", "P_drop = 0.0", 5.77, 24.6),
    Variation("table3-d-drop2", "D", "P_drop = 0.2", 4.95, 25.5),
    Variation("table3-d-ls0", "D", "ε_ls = 0.0", 4.67, 25.3),
    Variation("table3-d-ls2", "D", "ε_ls = 0.2", 5.47, 25.7),
    Variation("table3-e-learned", "E", "learned positions instead of sinusoids", 4.92, 25.7),
    Variation("big", "", "big", 4.33, 26.4, 213),
)


@dataclass(frozen=True)
class Parser:
    """A row of Table 4: F1 on section 23 of the Wall Street Journal."""

    name: str
    training: str
    f1: float


TABLE_4 = (
    Parser("Vinyals & Kaiser et al. (2014)", "WSJ only, discriminative", 88.3),
    Parser("Petrov et al. (2006)", "WSJ only, discriminative", 90.4),
    Parser("Zhu et al. (2013)", "WSJ only, discriminative", 90.4),
    Parser("Dyer et al. (2016)", "WSJ only, discriminative", 91.7),
    Parser("Transformer (4 layers)", "WSJ only, discriminative", 91.3),
    Parser("Zhu et al. (2013)", "semi-supervised", 91.3),
    Parser("Huang & Harper (2009)", "semi-supervised", 91.3),
    Parser("McClosky et al. (2006)", "semi-supervised", 92.1),
    Parser("Vinyals & Kaiser et al. (2014)", "semi-supervised", 92.1),
    Parser("Transformer (4 layers)", "semi-supervised", 92.7),
    Parser("Luong et al. (2015)", "multi-task", 93.0),
    Parser("Dyer et al. (2016)", "generative", 93.3),
)

# Section 5.2: eight NVIDIA P100 GPUs; footnote 5 assumes 9.5 TFLOPS each, in single precision.
DEVICES, DEVICE_FLOPS = 8, 9.5e12
HOURS = {"base": 12, "big": 84}  # 100,000 and 300,000 steps; 3.5 days


def variation(preset: str) -> Variation:
    """Return the row of Table 3 with that preset."""
    return next(row for row in TABLE_3 if row.preset == preset)


def row_name(preset: str) -> str:
    """Return the name of the row of a preset of Table 3 in experiments."""
    return preset if preset.startswith("table3-") else f"table3-{preset}"


def system(name: str) -> System:
    """Return the row of Table 2 with that name."""
    return next(row for row in TABLE_2 if row.name == name)


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
        "(docs/models.md).\nThere is no row without positions: (E) learns them. h = 16 has base's BLEU at a lower "
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
            *(cell for name in sizes for cell in (f"{sizes[name][part]:,}", f"{sizes[name][part] / totals[name]:.1%}")),
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
