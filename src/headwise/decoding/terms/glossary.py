"""From a glossary to the terms of a sentence: the token ids of the translations that it must contain."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.characters import UNSPACED
from headwise.decoding.terms.automaton import MOST_NODES, MOST_TERMS, Term, Terms
from headwise.text.reading.glossary import Match
from headwise.text.tokens.subwords import SPECIAL, Subwords

TERM_BEAM = 10  # smallest beam of a sentence with terms, as in Post and Vilar 2018: its banks share the beam
_SPACE = "▁"


def sentence_terms(matches: Sequence[Match], subwords: Subwords, room: int) -> Terms | None:
    """Return the terms of a sentence whose glossary matches are given; None without any.

    `room` bounds the tokens of all terms together. A form with a character that the vocabulary lacks can't be written;
    an entry without another form is left out, and so are entries beyond the bounds of an automaton.
    """
    terms: list[Term] = []
    copies = nodes = 0
    for match in matches:
        forms = [form for target in match.entry.targets for form in _forms(target, subwords)]
        if not forms:
            continue
        term = Term(tuple(dict.fromkeys(forms)), match.count)
        copies += term.count
        nodes += sum(map(len, term.forms))
        if copies > MOST_TERMS or nodes >= MOST_NODES or sum(each.length for each in [*terms, term]) > room:
            break
        terms.append(term)
    return Terms(terms) if terms else None


def _forms(target: str, subwords: Subwords) -> list[tuple[int, ...]]:
    """Return the ids of a translation; in scripts without spaces also as they are inside a sentence."""
    ids = subwords.encode_target(target)
    if ids and ids[0] in subwords.given:
        ids = ids[1:]
    if not ids or not {*SPECIAL, *subwords.given}.isdisjoint(ids):
        return []
    if len(ids) > 1 and UNSPACED.match(target) and subwords.target_pieces(ids[:1]) == [_SPACE]:
        return [tuple(ids), tuple(ids[1:])]
    return [tuple(ids)]
