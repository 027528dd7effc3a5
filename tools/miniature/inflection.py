"""Regular English and German inflection, so that the lexicon lists irregular forms only."""

from __future__ import annotations

import re

# ------------------------------------------------------------------------------------------ English by rule


def _sibilant(word: str) -> bool:
    return word.endswith(("s", "x", "z", "ch", "sh"))


def english_s(word: str) -> str:
    """Return the form with -s, plural of nouns and third person of verbs: tries, boxes, goes, has."""
    if word == "have":
        return "has"
    if word[-1] == "y" and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if _sibilant(word) or (word[-1] == "o" and word[-2] not in "aeiou") else "s")


def _doubles(word: str) -> bool:
    one_syllable = len(re.findall("[aeiou]+", word)) == 1
    stressed_end = one_syllable or word in ("begin", "forget")
    return stressed_end and re.search("[^aeiou][aeiou][^aeiouwxy]$", word) is not None


def english_ed(word: str) -> str:
    """Return the regular past and participle: tried, hugged, opened."""
    if word.endswith("e"):
        return word + "d"
    if word[-1] == "y" and word[-2] not in "aeiou":
        return word[:-1] + "ied"
    return word + (word[-1] if _doubles(word) else "") + "ed"


def english_ing(word: str) -> str:
    """Return the progressive participle: lying, making, sitting, beginning."""
    if word.endswith("ie"):
        return word[:-2] + "ying"
    if word.endswith("e") and not word.endswith("ee"):
        return word[:-1] + "ing"
    return word + (word[-1] if _doubles(word) else "") + "ing"


# ------------------------------------------------------------------------------------------- German by rule

_INSEPARABLE = ("be", "ge", "er", "ver", "zer", "ent", "wieder", "über")
_PRESENT = {"wissen": "weiß weißt weiß", "mögen": "mag magst mag"}


def _weak_stem(infinitive: str) -> str:
    return infinitive[:-2] if infinitive.endswith("en") else infinitive[:-1]


def _linked(stem: str) -> str:
    """Return the stem with an epenthetic e where one is needed: arbeite-t, öffne-t, zeichne-t, but lern-t."""
    return stem + "e" if re.search("([dt]|ch[mn]|[^aeiouäöülrh][mn])$", stem) else stem


def german_forms(spec: str) -> tuple[str, str, str, str, str, str]:
    """Return infinitive, ich-form, du-form, er-form, preterite and participle of one entry of the verb tables.

    `spec` is the infinitive, followed for strong verbs by er-form, preterite and participle.
    """
    infinitive, *strong = spec.split()
    stem = _weak_stem(infinitive)
    ich = stem[:-2] + "le" if infinitive.endswith("eln") else stem + "e"
    if strong:
        er, preterite, participle = strong
    else:
        er, preterite = _linked(stem) + "t", _linked(stem) + "te"
        plain = infinitive.startswith(_INSEPARABLE) or infinitive.endswith("ieren")
        participle = ("" if plain else "ge") + er
    if er.endswith("t") and er[-2] in "sßzx":
        du = er
    else:
        du = ("hältst" if er == "hält" else er[:-1] + "st") if er.endswith("t") else er + "st"
    if infinitive in _PRESENT:
        ich, du, er = _PRESENT[infinitive].split()
    return infinitive, ich, du, er, preterite, participle
