"""Compounds at hyphens, as the paper counted its BLEU for German.

Stanford's WMT 2014 text writes a hyphen inside a word as a token of its own, `##AT##-##AT##`, and the BLEU of the
paper was computed after the same split of both sides ("compound splitting"), which gives points for half a compound.
"""

from __future__ import annotations

import html
import re

_MARK = "##AT##-##AT##"
_INSIDE = re.compile(r"(\S)-(\S)")
_SPLIT = re.compile(r" ?##AT##-##AT## ?")


def split_compounds(line: str) -> str:
    """Write every hyphen that stands inside a word as a token of its own; text already split stays as it is."""
    return _INSIDE.sub(rf"\1 {_MARK} \2", rejoin_hyphens(line))


def rejoin_hyphens(line: str) -> str:
    """Undo `split_compounds`."""
    return _SPLIT.sub("-", line)


def rejoin_compounds(line: str) -> str:
    """Rejoin compounds and turn escaped characters (`&quot;`, `&apos;`, `&#91;`) back, for sacreBLEU."""
    return html.unescape(rejoin_hyphens(line))
