"""The search of sentences: their ids are checked before it, and guarded outputs with a defect searched again."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.engine.base import BATCH_TOKENS, Engine, SearchSentence
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.ids import check_sentences
from headwise.engine.second_search import SecondSearch
from headwise.engine.symbols import Symbols


def search_checked(
    engine: Engine,
    sentences: Sequence[SearchSentence],
    symbols: Symbols,
    *,
    batch_tokens: int = BATCH_TOKENS,
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each sentence, as `Engine.search`; with the guard, those to keep.

    Raises `DataError` for ids that aren't in the vocabularies, a shortlist that isn't in order or has no end symbol,
    and terms that don't fit in an output, and `ConfigError` for terms with sampling.
    """
    check_sentences(engine, sentences, symbols)
    found = engine.search(sentences, symbols, batch_tokens=batch_tokens)
    again = SecondSearch(sentences, found)
    again.mend(found, engine.search(again.sentences, symbols, batch_tokens=batch_tokens))
    return found
