"""Sentences with named entities in IOB2 tags: persons, organizations, places and dates.

Names are ambiguous by themselves: Tessin may be a family, a town or a company, May a month or a woman, 1987 a year or
a number of workers; names of universities contain a town and names of foundations a person. The context disambiguates
them. Some sentences have adjacent entities, so that B- tags matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from random import Random

from headwise.corpora.synthetic.names import Names, names, split

_MONTHS = split("January February March April May June July August September October November December")
_DAYS = split("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")

# {PER}, {ORG}, {LOC}, {DATE} and the date of {WHEN} are entities; {NUMBER}, {JOB} and {THING} are not.
_CLAUSES = """
{PER} moved from {LOC} to {LOC} {WHEN}
{PER} , a {JOB} from {LOC} , joined {ORG} {WHEN}
{ORG} named {PER} as its new {JOB}
{ORG} said that {PER} would leave {WHEN}
shares of {ORG} fell after {ORG} closed a {THING} near {LOC}
{ORG} bought {ORG} for {NUMBER} crowns
{ORG} beat {ORG} by {NUMBER} points in {LOC}
{ORG} opened a {THING} in {LOC} {WHEN}
{LOC} , {LOC} and {LOC} were flooded {WHEN}
the road from {LOC} to {LOC} is {NUMBER} miles long
{NUMBER} workers of {ORG} are on strike in {LOC}
{PER} and {PER} met in {LOC} {WHEN}
the {JOB} {PER} gave {ORG} a {THING}
{PER} wrote a book about {PER} and the {THING} of {LOC}
{PER} showed {PER} {LOC} {WHEN}
people in {LOC} call {PER} the {JOB} of the year
nobody at {ORG} remembers {PER}
{PER} lost a case against {ORG} {WHEN}
{LOC} has {NUMBER} inhabitants and a {THING}
a {THING} was found in {LOC} by {PER} , who works for {ORG}
{ORG} {ORG} merger fails
{PER} {PER} match ends in a draw
{LOC} {ORG} sends a {JOB} to {LOC}
{ORG} will pay {PER} {NUMBER} crowns
"""
_OPENERS = (
    "", "", "", "{WHEN_FIRST} ", "according to {ORG} , ", "{PER} said that ", "in {LOC} ", "{DATE} : ",
)  # fmt: skip
_JOBS = split("director painter lawyer teacher captain doctor minister farmer singer judge banker coach")
_THINGS = split("bridge plant school mill museum station library garden harbor tower market mine")
_ORGANIZATIONS = (
    "{L}", "{L}", "{L} Motors", "{L} Bank", "{L} Press", "{L} & Sons", "{L} United", "Bank of {L}",
    "University of {L}", "{L} City Council", "{F} {L} Foundation", "Royal Society of {L}", "{L} and {L}",
)  # fmt: skip
_PERSONS = (
    "{F} {L}", "{F} {L}", "{L}", "Dr. {L}", "{F}", "{F} {I} {L}", "May {L}", "{F} van {L}",
    "Mrs. {F} {L}",
)  # fmt: skip
_PLACES = ("{L}", "{L}", "{L}", "New {L}", "Lake {L}", "Port {L}", "{L} Valley", "North {L}", "Mount {L}")
_SLOT = re.compile(r"\{(\w+)\}")


def entities(random: Random, count: int, held_out: bool) -> Iterator[str]:
    """Yield the lines of `count` sentences: a word, a tab and its tag per line, and a blank line after a sentence."""
    name_lists, clauses = names(held_out), _CLAUSES.strip().split("\n")
    for _ in range(count):
        pattern = random.choice(_OPENERS) + random.choice(clauses)
        pattern += random.choice((" .", " .", " .", " !", " , {PER} said .", " and {PER} knew it ."))
        for word, tag in _sentence(pattern, random, name_lists):
            yield f"{word}\t{tag}"
        yield ""


def _sentence(pattern: str, random: Random, name_lists: Names) -> list[tuple[str, str]]:
    tagged: list[tuple[str, str]] = []
    for token in pattern.split():
        slot = _SLOT.fullmatch(token)
        text, kind = _FILL[slot[1]](random, name_lists) if slot else (token, "")
        if slot and slot[1].startswith("WHEN"):
            preposition, _, text = text.partition("|")
            tagged += [(word, "O") for word in preposition.split()]
        words = text.split()
        tags = [f"B-{kind}", *[f"I-{kind}"] * (len(words) - 1)] if kind else ["O"] * len(words)
        tagged += zip(words, tags, strict=True)
    first, tag = tagged[0]
    return [(first[0].upper() + first[1:], tag), *tagged[1:]]


def _name(patterns: tuple[str, ...], random: Random, name_lists: Names) -> str:
    parts = {
        "F": lambda: random.choice(name_lists.first),
        "L": lambda: random.choice(name_lists.last),
        "I": lambda: random.choice("ABCDEFGHJKLMNPRSTW") + ".",
    }
    return _SLOT.sub(lambda slot: parts[slot[1]](), random.choice(patterns))


def _date(random: Random, _: Names) -> tuple[str, str]:
    month, year, day = random.choice(_MONTHS), random.randint(1900, 2029), random.randint(1, 28)
    forms = (f"{day} {month} {year}", f"{month} {year}", str(year), random.choice(_DAYS), f"{month} {day}")
    return random.choice(forms), "DATE"


def _when(random: Random, name_lists: Names) -> tuple[str, str]:
    """Return a date after its preposition, separated by a bar (`on|Monday`), and the entity type."""
    text, kind = _date(random, name_lists)
    day = text in _DAYS or len(text.split()) == 3 or text.split()[-1] in map(str, range(1, 29))
    return f"{'on' if day else random.choice(('in', 'in', 'before', 'since'))}|{text}", kind


def _number(random: Random, _: Names) -> tuple[str, str]:
    return str(random.choice((random.randint(2, 60), random.randint(1900, 2029)))), ""


_FILL: dict[str, Callable[[Random, Names], tuple[str, str]]] = {
    "PER": lambda random, name_lists: (_name(_PERSONS, random, name_lists), "PER"),
    "ORG": lambda random, name_lists: (_name(_ORGANIZATIONS, random, name_lists), "ORG"),
    "LOC": lambda random, name_lists: (_name(_PLACES, random, name_lists), "LOC"),
    "DATE": _date,
    "WHEN": _when,
    "WHEN_FIRST": _when,
    "NUMBER": _number,
    "JOB": lambda random, _: (random.choice(_JOBS), ""),
    "THING": lambda random, _: (random.choice(_THINGS), ""),
}
