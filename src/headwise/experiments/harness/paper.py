"""The tables of "Attention Is All You Need" (Vaswani et al. 2017) as data, exactly as printed.

Every number is the paper's, rounded as in the paper. None stands for a blank cell. Several published summaries
misquote these tables, so a test compares this file with a second transcript.
"""

from __future__ import annotations

from dataclasses import dataclass


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


def system(name: str) -> System:
    """Return the row of Table 2 with that name."""
    return next(row for row in TABLE_2 if row.name == name)
