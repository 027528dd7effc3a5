"""How large an experiment is: which text, which model is its base, and how long it trains.

`tiny` is the built-in miniature corpus and takes minutes; `multi30k` is 29,000 captions and takes hours on a laptop;
`wmt14` is the paper's own recipe (configs/wmt14). Another scale is another file here, and a word in `SCALES`.
"""

from __future__ import annotations

import difflib

from headwise.errors import ConfigError
from headwise.experiments.scales import multi30k, tiny, wmt14
from headwise.experiments.scales.scale import Scale

SCALES = {scale.name: scale for scale in (tiny.SCALE, multi30k.SCALE, wmt14.SCALE)}


def find_scale(name: str) -> Scale:
    """Return the scale of that name; raises `ConfigError` naming the known ones."""
    if name in SCALES:
        return SCALES[name]
    near = difflib.get_close_matches(name, SCALES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(SCALES)}"
    raise ConfigError(f"--scale: expected the name of a scale, found {name!r} ({hint})")
