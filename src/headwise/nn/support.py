"""Feature table of the attention kinds, from the registries, for the documentation and its test."""

from __future__ import annotations

from collections.abc import Iterator

from headwise.config import ModelConfig
from headwise.nn.attention import FEATURES, Registered, all_registered
from headwise.nn.positions import position_encoding, position_encodings


def support_table() -> str:
    """Return a Markdown table with a row per kind, followed by the reason for every `no`."""
    columns = [
        ("self-attention", None),
        ("causal", None),
        ("padding", None),
        ("key/value cache", None),
        ("cross-attention", "cross"),
        ("any mask", "pairs"),
        ("dropout of weights", "dropout"),
        ("recorded weights", "probe"),
    ]
    positions = list(_positions())
    header = [name for name, _ in columns] + [f"`{name}`" for name, _ in positions]
    lines = [f"| kind | {' | '.join(header)} |", "|---" * (len(header) + 1) + "|"]
    for kind in all_registered():
        cells = [_cell(kind, frozenset({feature} if feature else ())) for _, feature in columns]
        cells += [_cell(kind, needs) for _, needs in positions]
        lines.append(f"| `{kind.name}` | {' | '.join(cells)} |")
    reasons = [
        f"- `{kind.name}`, {FEATURES[feature]}: {reason}."
        for kind in all_registered()
        for feature, reason in kind.lacks.items()
    ]
    return "\n".join([*lines, "", *reasons])


def _positions() -> Iterator[tuple[str, frozenset[str]]]:
    """Yield every position encoding, with its variants, and the features that it needs."""
    for encoding in position_encodings():
        yield encoding.name, _needs(encoding.name, {})
        if encoding.inside is not None:
            for label, options in encoding.inside.variants.items():
                yield f"{encoding.name} {label}", _needs(encoding.name, {encoding.name: options})


def _needs(name: str, options: dict[str, dict[str, bool]]) -> frozenset[str]:
    config = ModelConfig.model_validate({"positions": name, "position_options": options})
    inside = position_encoding(name).inside
    return frozenset() if inside is None else frozenset(inside(config, causal=True).needs)


def _cell(kind: Registered, needs: frozenset[str]) -> str:
    return "no" if needs & set(kind.lacks) else "yes"
