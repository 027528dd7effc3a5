"""The lexicon of the miniature corpus: nouns, verbs, adjectives and adverbials with all inflected forms.

The tables are in `nouns.py`, `verbs.py` and `modifiers.py`; this module parses them once into immutable entries and
resolves the noun groups, which define the words that combine.
"""

from __future__ import annotations

from tools.miniature.inflection import english_ed, english_ing, english_s, german_forms
from tools.miniature.lexicon import modifiers, nouns, verbs
from tools.miniature.lexicon.entries import (
    Adjective,
    Fixed,
    Noun,
    Piece,
    Place,
    Preposition,
    Subordinator,
    Verb,
)


def _rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


def _noun(line: str, pronoun: str, group: str) -> Noun:
    names, german, gender, genitive, plural = line.split()
    english, _, irregular = names.partition("/")
    weak = genitive.endswith("!")
    suffix = genitive.strip("-!")
    return Noun(
        english=english.replace("_", " "),
        english_plural=irregular or english_s(english.replace("_", " ")),
        german=german,
        german_plural=plural,
        gender=gender,
        genitive=german + suffix,
        oblique=german + suffix if weak else german,
        pronoun=pronoun,
        group=group,
        mass=plural == "-",
    )


def _name(english: str, german: str, gender: str, group: str) -> Noun:
    pronoun = {"m": "he", "f": "she", "n": "it"}[gender]
    return Noun(english, english, german, german, gender, german + "s", german, pronoun, group, proper=True)


def _load_nouns() -> dict[str, tuple[Noun, ...]]:
    tables = {"he": nouns.HE, "she": nouns.SHE, "child": nouns.CHILD, "animal": nouns.ANIMAL}
    for group in nouns.THINGS.split():
        tables[group] = getattr(nouns, group.upper())
    groups = {
        group: tuple(
            _noun(line, group if group in ("he", "she") else "it", group) for line in table.strip().splitlines()
        )
        for group, table in tables.items()
    }
    men = tuple(_name(name, name, "m", "name") for name in nouns.MEN.split())
    women = tuple(_name(name, name, "f", "name") for name in nouns.WOMEN.split())
    cities = [name.split("/") for name in nouns.CITIES.split()]
    groups["name"] = men + women
    groups["city_name"] = tuple(_name(english, german, "n", "city_name") for english, german in cities)
    return groups


GROUPS: dict[str, tuple[Noun, ...]] = _load_nouns()
NOUNS: dict[str, Noun] = {noun.english.replace(" ", "_"): noun for group in GROUPS.values() for noun in group}
GROUPS["indoors"] = tuple(NOUNS[name] for name in nouns.INDOORS.split())
GROUPS["person"] = GROUPS["he"] + GROUPS["she"] + GROUPS["name"]
GROUPS["being"] = GROUPS["he"] + GROUPS["she"] + GROUPS["child"] + GROUPS["animal"]
GROUPS["goods"] = GROUPS["vehicle"] + GROUPS["furniture"] + GROUPS["ware"] + GROUPS["clothing"]
GROUPS["predator"] = tuple(NOUNS[name] for name in nouns.PREDATORS.split())
GROUPS["prey"] = tuple(NOUNS[name] for name in nouns.PREY.split())
KIN = frozenset(NOUNS[name] for name in nouns.KIN.split())
FIRMS = frozenset(NOUNS[name] for name in nouns.FIRMS.split())
PROFESSIONS = tuple(NOUNS[name] for name in nouns.PROFESSIONS.split())
# Nouns that don't take my or your
_GROUPED = GROUPS["place"] + GROUPS["light"] + GROUPS["weather"] + GROUPS["event"] + GROUPS["he"] + GROUPS["she"]
_WILD = tuple(NOUNS[name] for name in nouns.WILD.split())
_OWNED = tuple(NOUNS[name] for name in nouns.OWNED.split())
UNOWNED = frozenset(_GROUPED + _WILD) - frozenset(_OWNED) - KIN


def resolve(names: str) -> tuple[Noun, ...]:
    """Return the nouns of a list of groups and single nouns, in order, without duplicates and exceptions (-boy).

    Raises `KeyError` for an unknown name, which is a bug in the tables.
    """
    resolved: dict[Noun, None] = {}
    for name in names.split():
        if name[0] == "-":
            del resolved[NOUNS[name[1:]]]
        else:
            resolved.update(dict.fromkeys(GROUPS[name] if name in GROUPS else (NOUNS[name],)))
    return tuple(resolved)


def _verb(frame: str, row: list[str]) -> Verb:
    english, german, subjects, objects, *rest = row
    forms = [word for word in english.split() if word[0] not in "+~"]
    base = forms[0]
    marks = {word[0]: word[1:] for word in english.split() if word[0] in "+~"}
    words = german.lstrip("*").split()
    reflexive = words[0] == "sich"
    governed = next((word[1:] for word in words if word[0] == "~"), ":")
    words = [word for word in words if word != "sich" and word[0] != "~"]
    prefix, _, words[0] = words[0].rpartition("+")
    infinitive, ich, du, er, preterite, participle = german_forms(" ".join(words))
    flags = rest[0] if frame != "giving" else ("to" if rest[0].endswith(" to") else "shift")
    return Verb(
        frame=frame,
        base=base,
        third=english_s(base),
        past=forms[1] if len(forms) > 1 else english_ed(base),
        participle=(forms[2] if len(forms) > 2 else forms[1]) if len(forms) > 1 else english_ed(base),
        gerund=english_ing(base),
        particle=marks.get("+", ""),
        preposition=marks.get("~", ""),
        infinitive=infinitive,
        first_singular=ich,
        second_singular=du,
        third_singular=er,
        preterite=preterite,
        perfect=prefix + participle,
        prefix=prefix,
        auxiliary="sein" if german.startswith("*") else "haben",
        reflexive=reflexive,
        german_preposition=governed.split(":")[0],
        case=governed.split(":")[1] or ("dat" if frame == "dative" else "acc"),
        subjects=resolve(subjects),
        objects=resolve(objects),
        recipients=resolve(rest[0].removesuffix(" to")) if frame == "giving" else (),
        flags=frozenset([flags]) if frame == "giving" else frozenset(flags),
    )


WHOLES: dict[Noun, tuple[Noun, ...]] = {
    part: resolve(wholes) for parts, wholes in _rows(nouns.PARTS) for part in resolve(parts)
}
NUMBERS: dict[str, str] = {row[0]: row[1] for row in map(str.split, modifiers.NUMBERS.strip().splitlines())}

FRAMES = tuple(name.lower() for name in vars(verbs) if name.isupper())
VERBS: dict[str, tuple[Verb, ...]] = {
    frame: tuple(_verb(frame, row) for row in _rows(getattr(verbs, frame.upper()))) for frame in FRAMES
}


def _adjective(row: list[str]) -> Adjective:
    words, groups, *comparative = row
    english, german = words.split()
    english_more, german_more = comparative[0].split() if comparative else ("", "")
    stem = {"teuer": "teur", "dunkel": "dunkl", "müde": "müd"}.get(german, german)
    more = tuple(english_more.split("_")) if english_more else ()
    return Adjective(english, german, stem, more, german_more, resolve(groups))


ADJECTIVES: tuple[Adjective, ...] = tuple(_adjective(row) for row in _rows(modifiers.ADJECTIVES))


def _pieces(text: str) -> tuple[Piece, ...]:
    return tuple(Piece(*word.split(":")) for word in text.split())


def _fixed(table: str) -> tuple[Fixed, ...]:
    return tuple(Fixed(_pieces(row[0]), _pieces(row[1]), frozenset(row[2].split())) for row in _rows(table))


TIMES = _fixed(modifiers.TIMES)
FREQUENCIES = _fixed(modifiers.FREQUENCIES)
COMMENTS = _fixed(modifiers.COMMENTS)
MANNERS = _fixed(modifiers.MANNERS)
DEGREES = _fixed(modifiers.DEGREES)


def _preposition(english: str, german: str, case: str) -> Preposition:
    return Preposition(tuple(english.replace("_", " ").split()), german, case)


def _places(table: str) -> tuple[Place, ...]:
    return tuple(
        Place(_preposition(*row[-4:-1]), resolve(row[-1]), tuple(row[-5].split()) if len(row) > 4 else ())
        for row in _rows(table)
    )


LOCATIONS = _places(modifiers.LOCATIONS)
ACTIVITIES = _places(modifiers.ACTIVITIES)
HOMES = _places(modifiers.HOMES)
DIRECTIONS = _places(modifiers.DIRECTIONS)
TARGETS = _places(modifiers.TARGETS)
EVENTS = _places(modifiers.EVENTS)
CAUSES = _places(modifiers.CAUSES)
SUBORDINATORS = tuple(Subordinator(tuple(row[0].split()), row[1], row[2]) for row in _rows(modifiers.SUBORDINATORS))


PREDICATES = tuple(verb for frame in FRAMES[:8] for verb in VERBS[frame])
VERBS_BY_KEY: dict[str, tuple[Verb, ...]] = {
    key: tuple(verb for verb in PREDICATES if verb.key == key) for key in dict.fromkeys(verb.key for verb in PREDICATES)
}
ADJECTIVES_BY_NAME = {adjective.english: adjective for adjective in ADJECTIVES}


def _motives() -> dict[Adjective, tuple[tuple[Verb, ...], tuple[Verb, ...]]]:
    return {
        ADJECTIVES_BY_NAME[row[0]]: (
            tuple(verb for key in row[1].split() for verb in VERBS_BY_KEY[key]),
            tuple(verb for key in row[2].split() for verb in VERBS_BY_KEY[key]),
        )
        for row in _rows(modifiers.MOTIVES)
    }


def _reasons() -> dict[Verb, tuple[tuple[Adjective, ...], tuple[Adjective, ...]]]:
    return {
        verb: (
            tuple(ADJECTIVES_BY_NAME[name] for name in row[1].split()),
            tuple(ADJECTIVES_BY_NAME[name] for name in row[2].split()),
        )
        for row in _rows(modifiers.REASONS)
        for verb in VERBS_BY_KEY[row[0]]
        if verb.objects
    }


SEATS = tuple(NOUNS[name] for name in modifiers.SEATS.split())
SEAT_REASONS, SEAT_OBJECTIONS = (
    tuple(ADJECTIVES_BY_NAME[name] for name in names.split()) for names in modifiers.SEAT_REASONS.split("|")
)
ABSOLUTE = frozenset(ADJECTIVES_BY_NAME[name] for name in modifiers.ABSOLUTE.split())
TEMPORARY = frozenset(ADJECTIVES_BY_NAME[name] for name in modifiers.TEMPORARY.split())
OPPOSITES = frozenset(frozenset(line.split()) for line in modifiers.OPPOSITES.strip().splitlines())
MOTIVES = _motives()
REASONS = _reasons()
