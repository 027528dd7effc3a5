"""Registry of scales: the corpus, the base model and the training budget of experiments.

`tiny` is the built-in miniature corpus and takes minutes; `multi30k` is 29,000 captions and takes hours on a laptop;
`wmt14` is the paper's recipe (configs/wmt14). To add a scale, write a module here and add it to `SCALES`.
"""

from __future__ import annotations

import difflib

from headwise.errors import ConfigError
from headwise.experiments.scales import multi30k, tiny, wmt14
from headwise.experiments.scales.scale import Scale

SCALES = {scale.name: scale for scale in (tiny.SCALE, multi30k.SCALE, wmt14.SCALE)}


def find_scale(name: str) -> Scale:
    """Return a scale by name; raises `ConfigError` with the closest or all names."""
    if name in SCALES:
        return SCALES[name]
    closest = difflib.get_close_matches(name, SCALES, n=1)
    hint = f"did you mean {closest[0]}?" if closest else f"known: {', '.join(SCALES)}"
    raise ConfigError(f"--scale: expected the name of a scale, found {name!r} ({hint})")
