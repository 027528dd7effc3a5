"""Synthetic extractive question answering: stories about people and objects, with questions and answer spans.

The sentences of a story share the same people, places, colors and objects in different combinations, so that an answer
of the right type isn't necessarily correct. A question has exactly one answer and never repeats the
wording of the sentence that states it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from headwise.corpora.synthetic.names import names, split

_COLORS = split("red green blue black white yellow brown gray")
_OBJECTS = split("bicycle boat clock violin table mirror lamp carpet piano chest wagon statue")
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
_MIN_EVENTS, _MAX_EVENTS = 2, 9  # draws per story


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
    """Yield `count` lines of `.jsonl`: a question, its context, the answer and its start (a character offset)."""
    for number in range(count):
        yield json.dumps({"id": str(number + 1), **_question(random, held_out)}, ensure_ascii=False)


def _question(random: Random, held_out: bool) -> dict[str, str | int]:
    while True:
        events = _events(random, held_out)
        event_asked, kind = random.choice(events), random.choice(list(_QUESTIONS))
        pattern = random.choice(_QUESTIONS[kind])
        known_fields = [name for name in ("who", "did", "what", "where", "when") if f"{{{name}}}" in pattern]
        known_fields += ["did"] * ("{do}" in pattern or "{done}" in pattern)
        answers = {
            e.words[kind] for e in events if all(e.words[name] == event_asked.words[name] for name in known_fields)
        }
        if len(answers) == 1:
            break
    context, start = "", 0
    for event in events:
        text, offset = _statement(event, kind, random)
        if event is event_asked:
            start = len(context) + offset
        context += text + " "
        if random.random() < 0.3:
            remark_words = random.choice(events).words
            context += random.choice(_REMARKS).format(**remark_words) + " "
    question = pattern.format(**event_asked.words)
    return {
        "question": question,
        "context": context.strip(),
        "answer": event_asked.words[kind],
        "start": start,
    }


def _events(random: Random, held_out: bool) -> list[_Event]:
    """Draw the events of a story from a few people, towns, years and objects; a verb and object occur together once."""
    name_lists = names(held_out)
    people = [f"{random.choice(name_lists.first)} {random.choice(name_lists.last)}" for _ in range(3)]
    towns, years = random.sample(name_lists.last, 3), [str(random.randint(1900, 2029)) for _ in range(3)]
    objects = [f"{c} {o}" for c in random.sample(_COLORS, 3) for o in random.sample(_OBJECTS, 2)]
    events: dict[tuple[str, str], _Event] = {}
    for _ in range(random.randint(_MIN_EVENTS, _MAX_EVENTS)):
        did, do = random.choice(_VERBS)
        event = _Event(
            random.choice(people), did, do, random.choice(objects), random.choice(towns), random.choice(years)
        )
        events.setdefault((did, event.what), event)
    return list(events.values())


def _statement(event: _Event, kind: str, random: Random) -> tuple[str, int]:
    """Return a sentence that states the event, and the offset of its field `kind` in it."""
    prefix, _, suffix = random.choice(_STATEMENTS).partition(f"{{{kind}}}")
    start = prefix.format(**event.words)
    return f"{start}{event.words[kind]}{suffix.format(**event.words)}", len(start)
