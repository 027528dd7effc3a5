"""The special symbols that a search needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwise.text.tokens.subwords import BOS, EOS, PAD, UNK


@dataclass(frozen=True)
class Symbols:
    """Ids of the special symbols; an output contains none of them, except the unknown word where allowed.

    `given` are language codes of the target. An output begins with the first of them unless its prefix begins with
    another. The probability of that token is 1, because the language is given. `continuing` has a byte for each target
    token, 1 for one that continues a word (see `Subwords.continuing`); empty where no terms are placed. `lettered` has
    one, 1 for a token with a letter or a digit (see `Subwords.lettered`); empty where no output needs one.
    """

    pad: int
    unknown: int
    bos: int
    eos: int
    given: tuple[int, ...] = ()
    continuing: bytes = b""
    lettered: bytes = b""

    def beginning(self, prefix: Sequence[int] | None) -> Sequence[int]:
        """Return the tokens with which an output begins: its prefix, or the target's language code."""
        return self.given[:1] if prefix is None else prefix


SYMBOLS = Symbols(pad=PAD, unknown=UNK, bos=BOS, eos=EOS)
