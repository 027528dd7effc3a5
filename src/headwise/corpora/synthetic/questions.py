"""Stories in which a few people do things to a few objects, and questions about them.

All sentences of a story are alike: the same people, places, colors and objects come back in them in other
combinations, so that an answer of the right kind isn't yet the right one. A question names just enough to single out
one event, never in the words of its sentence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from headwise.corpora.synthetic.names import names

_COLORS = ["red", "green", "blue", "black", "white", "yellow", "brown", "gray"]
_OBJECTS = [
    "bicycle",
    "boat",
    "clock",
    "violin",
    "table",
    "mirror",
    "lamp",
    "carpet",
    "piano",
    "chest",
    "wagon",
    "statue",
]
_VERBS = (("bought", "buy"), ("sold", "sell"), ("repaired", "repair"), ("lost", "lose"), ("painted", "paint"))
_STATEMENTS = (
    "{who} {did} the {what} in {where} in {when}.",
    "In {when} {who} {did} the {what} in {where}.",
    "In {where}, the {what} was {done} by {who} in {when}.",
    "It was {who} who {did} the {what}, in {where}, in {when}.",
    "The {what} was {done} in {when}; {who} did it in {where}.",
)
_REMARKS = (
    "{who} was not there.",
    "Nobody in {where} was surprised.",
    "It rained in {where}.",
    "{who} had seen it coming.",
    "The year {when} was a good one.",
)
_QUESTIONS = {
    "who": ("Who {did} the {what}?", "By whom was the {what} {done}?"),
    "where": ("Where did {who} {do} the {what}?", "In which town was the {what} {done}?"),
    "when": ("When did {who} {do} the {what}?", "In which year was the {what} {done}?"),
    "what": ("What did {who} {do} in {where}?", "What was {done} in {where} in {when}?"),
}
_FEWEST, _MOST = 2, 9  # events


@dataclass(frozen=True)
class _Event:
    who: str
    did: str
    do: str
    what: str
    where: str
    when: str

    @property
    def words(self) -> dict[str, str]:
        return {**vars(self), "done": self.did}


def questions(random: Random, count: int, held_out: bool) -> Iterator[str]:
    """Yield so many lines of `.jsonl`: a question, its context, the answer and the character that it starts with."""
    for number in range(count):
        yield json.dumps({"id": str(number + 1), **_question(random, held_out)}, ensure_ascii=False)


def _question(random: Random, held_out: bool) -> dict[str, str | int]:
    while True:
        events = _events(random, held_out)
        asked, kind = random.choice(events), random.choice(list(_QUESTIONS))
        pattern = random.choice(_QUESTIONS[kind])
        given = [name for name in ("who", "did", "what", "where", "when") if f"{{{name}}}" in pattern]
        given += ["did"] * ("{do}" in pattern or "{done}" in pattern)
        answers = {e.words[kind] for e in events if all(e.words[name] == asked.words[name] for name in given)}
        if len(answers) == 1:
            break
    context, start = "", 0
    for event in events:
        text, place = _tell(event, kind, random)
        if event is asked:
            start = len(context) + place
        context += text + " "
        if random.random() < 0.3:
            other = random.choice(events).words
            context += random.choice(_REMARKS).format(**other) + " "
    question = pattern.format(**asked.words)
    return {"question": question, "context": context.strip(), "answer": asked.words[kind], "start": start}


def _events(random: Random, held_out: bool) -> list[_Event]:
    """Draw events from a small cast; a person does a thing to an object once."""
    known = names(held_out)
    people = [f"{random.choice(known.first)} {random.choice(known.last)}" for _ in range(3)]
    towns, years = random.sample(known.last, 3), [str(random.randint(1900, 2029)) for _ in range(3)]
    objects = [f"{c} {o}" for c in random.sample(_COLORS, 3) for o in random.sample(_OBJECTS, 2)]
    found: dict[tuple[str, str], _Event] = {}
    for _ in range(random.randint(_FEWEST, _MOST)):
        did, do = random.choice(_VERBS)
        event = _Event(
            random.choice(people), did, do, random.choice(objects), random.choice(towns), random.choice(years)
        )
        found.setdefault((did, event.what), event)
    return list(found.values())


def _tell(event: _Event, kind: str, random: Random) -> tuple[str, int]:
    """Return a sentence, and where in it the part that may be asked for starts."""
    before, _, after = random.choice(_STATEMENTS).partition(f"{{{kind}}}")
    start = before.format(**event.words)
    return f"{start}{event.words[kind]}{after.format(**event.words)}", len(start)
