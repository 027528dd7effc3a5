"""Write pairs of what letters, appointments and lists are made of: forms that running text has seldom.

    python examples/phrases.py everyday.en everyday.de data/phrases

Writes data/phrases.en and data/phrases.de: the lines of phrases.tsv with names, dates, times, amounts and measures, in
the forms that people type in both languages ("March 3rd", "9am-5pm", "20 min"), and pairs of the text with the marks of
a list before them.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from headwise.errors import script_errors
from headwise.files import check_output, write_text
from headwise.text.reading.lines import read_lines, read_parallel

FILLED, LISTED = 60, 6_000  # times that each line with a slot is filled; lines of a list
MARKS = ("- ", "- ", "* ", "• ", "– ", "> ", "1. ", "2. ", "3) ", "a) ", "(b) ", "[ ] ", "TODO: ")
SHE = [
    "Anna", "Maria", "Julia", "Sarah", "Laura", "Lisa", "Emma", "Mia", "Sophie", "Lena", "Clara", "Ella", "Eva",
    "Nina", "Helen", "Kate", "Emily", "Jane", "Alice", "Mary", "Susan", "Linda",
]  # fmt: skip
HE = [
    "Peter", "John", "Paul", "Max", "Leon", "Lukas", "Tom", "Tim", "Felix", "Jonas", "Ben", "David", "Daniel",
    "Michael", "Thomas", "Martin", "Jack", "James", "Bob", "Mark", "Alex", "Chris",
]  # fmt: skip
LAST = [
    "Smith", "Meyer", "Schmidt", "Müller", "Brown", "Jones", "Miller", "Fischer", "Weber", "Wagner", "Becker",
    "Hill", "Baker", "Cooper", "Koch", "Klein", "Wolf", "Braun", "Taylor",
]  # fmt: skip
WEEKDAYS = {
    "Monday": "Montag", "Tuesday": "Dienstag", "Wednesday": "Mittwoch", "Thursday": "Donnerstag", "Friday": "Freitag",
    "Saturday": "Samstag", "Sunday": "Sonntag",
}  # fmt: skip
MONTHS = {
    "January": "Januar", "February": "Februar", "March": "März", "April": "April", "May": "Mai", "June": "Juni",
    "July": "Juli", "August": "August", "September": "September", "October": "Oktober", "November": "November",
    "December": "Dezember",
}  # fmt: skip
# English -> German accusative and genitive.
PAPERS = {
    "the invoice": ("die Rechnung", "der Rechnung"), "the report": ("den Bericht", "des Berichts"),
    "the contract": ("den Vertrag", "des Vertrags"), "the file": ("die Datei", "der Datei"),
    "the photos": ("die Fotos", "der Fotos"), "the form": ("das Formular", "des Formulars"),
    "the offer": ("das Angebot", "des Angebots"), "the list": ("die Liste", "der Liste"),
    "the documents": ("die Unterlagen", "der Unterlagen"), "the slides": ("die Folien", "der Folien"),
    "the tickets": ("die Karten", "der Karten"), "the receipt": ("die Quittung", "der Quittung"),
}  # fmt: skip

# English and German forms: abbreviations, which running text has seldom, and words.
MEASURES = {
    "seconds": ("s|sec|sec.|secs|seconds", "s|Sek.|Sek.|Sekunden"),
    "minutes": ("min|min|min.|mins|minutes", "min|Min.|Min.|Minuten"),
    "hrs": ("h|hr|hrs|hrs.|hours", "h|Std.|Std.|Stunden"),
    "length": ("m|m|km|cm|mm", "m|m|km|cm|mm"),
    "weight": ("kg|kg|g|g|t", "kg|kg|g|g|t"),
    "pounds": ("lb|lbs|lbs|lbs.|pounds", "Pfund"),
    "feet": ("ft|ft|ft.|feet", "Fuß"),
    "volume": ("l|l|ml|ml|cl", "l|l|ml|ml|cl"),
    "speed": ("km/h|mph", "km/h|mph"),
    "tablespoons": ("tbsp|tbsp|tbsp.|tablespoons", "EL|EL|Esslöffel"),
    "teaspoons": ("tsp|tsp|tsp.|teaspoons", "TL|TL|Teelöffel"),
}
SYMBOLS = ("length", "weight", "volume", "speed")  # measures whose units are written alike
FOODS = {
    "flour": "Mehl", "sugar": "Zucker", "butter": "Butter", "milk": "Milch", "olive oil": "Olivenöl", "rice": "Reis",
    "salt": "Salz", "honey": "Honig", "cheese": "Käse", "cream": "Sahne", "water": "Wasser", "tomatoes": "Tomaten",
    "potatoes": "Kartoffeln", "onions": "Zwiebeln", "cocoa": "Kakao", "vinegar": "Essig", "pepper": "Pfeffer",
    "lemon juice": "Zitronensaft", "oats": "Haferflocken", "baking powder": "Backpulver", "mustard": "Senf",
}  # fmt: skip
RULERS = {
    "Henry": "Heinrich", "Louis": "Ludwig", "George": "Georg", "Charles": "Karl", "William": "Wilhelm",
    "Frederick": "Friedrich", "Philip": "Philipp", "Pope John Paul": "Papst Johannes Paul", "Elizabeth": "Elisabeth",
    "Catherine": "Katharina", "Edward": "Eduard", "Leopold": "Leopold", "Pope Benedict": "Papst Benedikt",
}  # fmt: skip
ROMAN = [
    "II", "II", "III", "III", "IV", "V", "VI", "VII", "VIII", "IX", "XI", "XII", "XIII", "XIV", "XV", "XVI",
]  # fmt: skip

Pair = tuple[str, str]


def nth(number: int) -> str:
    """Return the English ordinal of a number in digits."""
    teens = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def date(chance: random.Random, *, after_weekday: bool = False) -> Pair:
    """Return a date, in half of the cases with a year."""
    day, (month, german) = chance.randint(1, 28), chance.choice(list(MONTHS.items()))
    forms = [
        f"{month} {day}",
        f"{month} {day}",
        f"{month} {nth(day)}",
        f"{month} {nth(day)}",
        f"{day} {month}",
    ]
    if not after_weekday:
        forms.append(f"the {nth(day)} of {month}")
    if len(month) > len("March") and chance.random() < 0.2:
        short = "Sept." if month == "September" else f"{month[:3]}."
        forms, german = [f"{short} {day}", f"{day} {month[:3]}"], chance.choice((german, f"{german[:3]}."))
    english = chance.choice(forms)
    if chance.random() < 0.5:
        return english, f"{day}. {german}"
    year = chance.randint(1900, 2035)
    comma = "," if english.startswith(month) else ""
    return f"{english}{comma} {year}", f"{day}. {german} {year}"


def time(chance: random.Random) -> Pair:
    """Return a time of day, in English mostly of the clock with twelve hours."""
    hour, minute = chance.randint(0, 23), chance.choice(("00", "00", "00", "15", "30", "45", "05", "20"))
    german = f"{hour} Uhr" if minute == "00" else f"{hour}:{minute} Uhr"
    if chance.random() < 0.15:
        return f"{hour}:{minute}", f"{hour}:{minute} Uhr"
    clock = str(hour % 12 or 12) + ("" if minute == "00" else f":{minute}")
    half = "ap"[hour >= 12]
    return clock + chance.choice((f"{half}m", f" {half}m", f" {half}.m.", f" {half}.m.")), german


def hours(chance: random.Random) -> Pair:
    """Return opening hours."""
    start, end = chance.randint(6, 11), chance.randint(13, 22)
    forms = ("{0}am to {1}pm", "{0}am-{1}pm", "{0} am to {1} pm", "{0} a.m. to {1} p.m.", "{0}:00 to {2}:00")
    return chance.choice(forms).format(start, end - 12, end), f"{start} bis {end} Uhr"


def amount(chance: random.Random) -> Pair:
    """Return an amount of money."""
    english, german = chance.choice((("euros", "Euro"), ("dollars", "Dollar"), ("pounds", "Pfund")))
    whole = chance.choice((chance.randint(2, 99), chance.randint(100, 9999)))
    cents = chance.choice(("", "", f"{chance.randint(1, 99):02}"))
    number = f"{whole:,}" + (cents and f".{cents}")
    return f"{number} {english}", f"{number.translate(str.maketrans(',.', '.,'))} {german}"


def measure(chance: random.Random, kind: str) -> Pair:
    """Return a number with a unit, which one of the sides at least abbreviates where it has words, too."""
    units, german_units = (forms.split("|") for forms in MEASURES[kind])
    number = str(chance.choice((chance.randint(2, 12), chance.randint(2, 60), 10 * chance.randint(1, 50))))
    if chance.random() < 0.15:
        number = f"{chance.randint(1, 9)}.{chance.randint(1, 9)}"
    chosen = chance.randrange(len(units))
    unit = units[chosen]
    german = german_units[chosen] if kind in SYMBOLS else chance.choice(german_units)
    if unit == units[-1] and german == german_units[-1] and kind not in SYMBOLS:
        unit = units[0]
    space = "" if chance.random() < 0.15 and len(unit) < len("seconds") else " "
    return f"{number}{space}{unit}", f"{number.replace('.', ',')} {german}"


def numbered(chance: random.Random) -> Pair:
    """Return the number of a thing."""
    number = chance.choice((chance.randint(1, 30), chance.randint(1, 999), chance.randint(1_000, 99_999)))
    return f"{chance.choice(('no. ', 'no. ', 'No. ', 'No. ', 'no ', '#'))}{number}", f"Nr. {number}"


def name_of_thing(chance: random.Random) -> str:
    """Return the name of a road, a gate or a room, of a letter and a number."""
    return f"{chance.choice('ABCDEFGKLMQRTUX')}{chance.choice((chance.randint(1, 9), chance.randint(10, 99)))}"


def slots(chance: random.Random) -> dict[str, Pair]:
    """Return what fills each slot of a line."""
    paper, (accusative, genitive) = chance.choice(list(PAPERS.items()))
    percent = chance.choice((5, 10, 15, 20, 25, 30, 50, 70, 75, 99))
    she, he, last = chance.choice(SHE), chance.choice(HE), chance.choice(LAST)
    name = chance.choice((she, he))
    first, second = chance.sample(range(1, 31), 2)
    thing, roman, decade = (
        name_of_thing(chance),
        chance.choice(ROMAN),
        chance.randint(18, 20) * 10 + chance.randint(0, 9),
    )
    ruler, german_ruler = chance.choice(list(RULERS.items()))
    whole = str(chance.randint(2, 99))
    return {
        **{kind: measure(chance, kind) for kind in MEASURES},
        "number": numbered(chance),
        "n": (whole, whole),
        "thing": (thing, thing),
        "roman": (roman, roman),
        "ruler": (f"{ruler} {roman}", f"{german_ruler} {roman}."),
        "decade": (f"{decade}0s", f"{decade}0er"),
        "food": chance.choice(list(FOODS.items())),
        "she": (she, she),
        "he": (he, he),
        "name": (name, name),
        "last": (last, last),
        "weekday": chance.choice(list(WEEKDAYS.items())),
        "date": date(chance),
        "date2": date(chance),
        "time": time(chance),
        "hours": hours(chance),
        "amount": amount(chance),
        "percent": (f"{percent}%", f"{percent} %"),
        "nth": (nth(first), f"{first}."),
        "nth2": (nth(second), f"{second}."),
        "the_paper": (paper, accusative),
        "of_the_paper": (paper, genitive),
    }


def filled(line: Pair, chance: random.Random) -> Pair:
    """Return a line with its slots filled."""
    values = slots(chance)
    if "{weekday}, {date}" in line[0]:
        values["date"] = date(chance, after_weekday=True)

    def side(number: int) -> Callable[[re.Match[str]], str]:
        return lambda slot: values[slot[1]][number]

    english, german = (re.sub(r"\{(\w+)\}", side(number), text) for number, text in enumerate(line))
    english, german = (re.sub(r"(?<!\.)\.\.(?!\.)", ".", text) for text in (english, german))
    return english, german


def phrases(chance: random.Random) -> Iterator[Pair]:
    """Yield the lines of phrases.tsv, filled."""
    for text in read_lines(Path(__file__).with_suffix(".tsv")):
        if text.startswith("#"):
            continue
        english, german = text.split("\t")
        for _ in range(FILLED if "{" in english else FILLED // 4):
            yield filled((english, german), chance)


def listed(text: list[Pair], chance: random.Random) -> Iterator[Pair]:
    """Yield pairs of the text as the items of a list, with the same mark on both sides."""
    for english, german in chance.sample(text, min(LISTED, len(text))):
        mark = chance.choice(MARKS)
        yield mark + english, mark + german


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("english", type=Path, help="The text at hand.")
    parser.add_argument("german", type=Path, help="Its translation.")
    parser.add_argument("out", help="What the files to write are called, without .en and .de.")
    options = parser.parse_args()
    outputs = [Path(f"{options.out}.{language}") for language in ("en", "de")]
    for file in outputs:
        check_output(file, options.english, options.german)
    english, german = read_parallel(options.english, options.german)
    chance = random.Random(1)
    pairs = [*phrases(chance), *listed(list(zip(english, german, strict=True)), chance)]
    for side, file in enumerate(outputs):
        write_text(file, "".join(f"{pair[side]}\n" for pair in pairs))
    print(f"{options.out}: {len(pairs):,} pairs")


if __name__ == "__main__":
    with script_errors():
        main()
