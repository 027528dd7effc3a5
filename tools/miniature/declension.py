"""German inflection tables: articles, adjective endings, pronouns and the auxiliaries.

Cases are `nom`, `acc`, `dat`, `gen`; the gender key is `m`, `f`, `n`, or `p` for the plural of all genders.
"""

from __future__ import annotations

from tools.miniature.lexicon.entries import Noun
from tools.miniature.lexicon.lexicon import NUMBERS

CASES = ("nom", "acc", "dat", "gen")


def _table(text: str) -> dict[tuple[str, str], str]:
    """Parse four rows (m, f, n, p) of four endings (nom, acc, dat, gen); `-` is the empty ending."""
    rows = [line.split() for line in text.strip().splitlines()]
    return {
        (gender, case): ending.replace("-", "")
        for gender, row in zip("mfnp", rows, strict=True)
        for case, ending in zip(CASES, row, strict=True)
    }


DEFINITE = _table("""
    der den dem des
    die die der der
    das das dem des
    die die den der
""")
# dieser, jeder, welcher, alle; and adjectives without an article, but for -en in the genitive m and n
PRONOMINAL = _table("""
    er en em es
    e  e  er er
    es es em es
    e  e  en er
""")
# ein, kein, mein, dein, sein, ihr, unser
POSSESSIVE = _table("""
    -  en em es
    e  e  er er
    -  -  em es
    e  e  en er
""")
STRONG = _table("""
    er en em en
    e  e  er er
    es es em en
    e  e  en er
""")
WEAK = _table("""
    e  en en en
    e  e  en en
    e  e  en en
    en en en en
""")
MIXED = _table("""
    er en en en
    e  e  en en
    es es en en
    en en en en
""")
RELATIVE = _table("""
    der den dem dessen
    die die der deren
    das das dem dessen
    die die denen deren
""")
PERSONAL = _table("""
    er  ihn ihm  seiner
    sie sie ihr  ihrer
    es  es  ihm  seiner
    sie sie ihnen ihrer
""")
# (person, plural) to forms; the corpus has no second person but du
SPEAKERS = {
    (1, False): {"nom": "ich", "acc": "mich", "dat": "mir"},
    (2, False): {"nom": "du", "acc": "dich", "dat": "dir"},
    (1, True): {"nom": "wir", "acc": "uns", "dat": "uns"},
}
REFLEXIVES = {(1, False): "mich", (2, False): "dich", (1, True): "uns"}
QUESTIONS = {"nom": "wer", "acc": "wen", "dat": "wem"}

# determiner stem and the adjective declension that follows it
STEMS = {
    "this": ("dies", WEAK),
    "every": ("jed", WEAK),
    "all": ("all", WEAK),
    "which": ("welch", WEAK),
    "a": ("ein", MIXED),
    "no": ("kein", MIXED),
    "my": ("mein", MIXED),
    "your": ("dein", MIXED),
    "our": ("unser", MIXED),
}
STRONG_STEMS = {"many": "viel", "some": "einig"}

CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
}

# by (person, plural): present and preterite of the auxiliaries
SEIN = {(1, False): "bin", (2, False): "bist", (3, False): "ist", (1, True): "sind", (3, True): "sind"}
WAR = {(1, False): "war", (2, False): "warst", (3, False): "war", (1, True): "waren", (3, True): "waren"}
HABEN = {(1, False): "habe", (2, False): "hast", (3, False): "hat", (1, True): "haben", (3, True): "haben"}
WERDEN = {
    (1, False): "werde",
    (2, False): "wirst",
    (3, False): "wird",
    (1, True): "werden",
    (3, True): "werden",
}
WURDE = {
    (1, False): "wurde",
    (2, False): "wurdest",
    (3, False): "wurde",
    (1, True): "wurden",
    (3, True): "wurden",
}


def noun_form(noun: Noun, plural: bool, case: str) -> str:
    """Return the noun in a case: -n in the dative plural, and -(e)n in every oblique singular of weak nouns."""
    if plural:
        form = noun.german_plural
        return form + "n" if case == "dat" and form[-1] not in "ns" else form
    if noun.proper:
        return noun.genitive if case == "gen" else noun.german
    if case == "nom":
        return noun.german
    return noun.genitive if case == "gen" else noun.oblique


def determiner_form(determiner: str, gender: str, case: str) -> str:
    """Return the form of any determiner but `own` and `bare`."""
    if determiner == "the":
        return DEFINITE[gender, case]
    if determiner in NUMBERS:
        return NUMBERS[determiner]
    if determiner in STRONG_STEMS:
        return STRONG_STEMS[determiner] + PRONOMINAL[gender, case]
    stem, declension = STEMS[determiner]
    return stem + (PRONOMINAL if declension is WEAK else POSSESSIVE)[gender, case]


def adjective_declension(determiner: str) -> dict[tuple[str, str], str]:
    """Return the adjective endings after a determiner: weak, mixed or (after uninflected ones) strong."""
    if determiner == "the":
        return WEAK
    if determiner in STEMS:
        return STEMS[determiner][1]
    return MIXED if determiner == "own" else STRONG
