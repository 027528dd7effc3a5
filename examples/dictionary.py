"""Make training text of a dictionary, for words that the text at hand has, but seldom, and what looks up the others.

    headwise data get wiktionary-de
    python examples/dictionary.py data/wiktionary-de text/sentences.en text/sentences.de text

`words.en` and `words.de` are such nouns and adjectives, each with its first translation: alone, with an article, in the
plural. `contexts.en` and `contexts.de` are pairs of the text in which one that the dictionary translates so is replaced
by a seldom one and its translation, of the same gender, in the same number and case (Fadaee et al. 2017, "Data
Augmentation for Low-Resource Neural Machine Translation"). They mean little ("Can you see the crisis meeting?", "Können
Sie das Krisentreffen sehen?"), but show how a word is spelled, and that it may stand anywhere.

Words that the text never has aren't among these: they are more than half of the dictionary, and a small model that
learns all of them learns none. `en-de.tsv.xz` and `de-en.tsv.xz` have them, and the abbreviations of
`abbreviations.tsv`, with what each stands for, and the days and months of `calendar.tsv`, of which a small model loses
some in long sentences. As `dictionary.tsv.xz` in the directory of a run, such a file is where it looks up what to read
for an abbreviation, and with `decoding.guard` the words that a translation lacks.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from headwise.errors import DataError, script_errors
from headwise.files import write_bytes, write_text
from headwise.text.reading.dictionary import WORD
from headwise.text.reading.glossary import MOST_FORMS
from headwise.text.reading.lines import read_parallel

ABBREVIATIONS = Path(__file__).with_name("abbreviations.tsv")
CALENDAR = Path(__file__).with_name("calendar.tsv")
LARGEST = 100_000_000  # bytes of a file of the dictionary
SELDOM, SELDOM_ENGLISH = 8, 25  # times that the text has a German, or an English word at most
UNKNOWN = 8  # times that the text has a form at most of a word that is looked up
CONTEXTS = 25  # of a word
FEWEST = 15  # contexts of a kind
LENGTH = range(4, 17)  # words of a side of a context
CASES = ("nominativ", "genitiv", "dativ", "akkusativ")
ARTICLES = {"m": ("der", "ein"), "f": ("die", "eine"), "n": ("das", "ein")}
ENDINGS = ("", "e", "er", "es", "en", "em")
ENGLISH = re.compile(r"[A-Za-z][A-Za-z'’-]+(?: [A-Za-z'’-]+){0,2}")
NOUN, ADJECTIVE = (
    re.compile(r"[A-ZÄÖÜ][A-Za-zäöüßÄÖÜ-]{2,}"),
    re.compile(r"[a-zäöüß]{3,}(?<!e[lnr])(?<![eh])"),
)
AN = re.compile(r"(?!uni|use|euro|one|ewe)[aeiou]|hour|honest|heir", re.IGNORECASE)


class Entry(NamedTuple):
    """An English word and its German translation, with its form in each cell of its table.

    A cell is a gender or "plural" with a case, or an adjective's ending behind a hyphen.
    """

    english: str
    german: str
    forms: dict[str, str]
    gender: str | None = None

    def english_form(self, cell: str) -> str:
        """Return the English word as the cell needs it."""
        return plural(self.english) if cell.startswith("plural") else self.english

    @property
    def countable(self) -> bool:
        """Whether "a" may stand before the word."""
        return self.gender is None or "plural nominativ" in self.forms


class Context(NamedTuple):
    """Where a word and its translation stand in a pair."""

    row: int
    english: tuple[int, int]
    german: tuple[int, int]


def plural(english: str) -> str:
    """Return the regular plural."""
    if english.endswith(("s", "x", "z", "ch", "sh")):
        return english + "es"
    return english[:-1] + "ies" if re.search(r"[^aeiou]y$", english) else english + "s"


def capitalized(text: str) -> str:
    """Return the text with a capital first letter."""
    return text[:1].upper() + text[1:]


def read(folder: Path, name: str) -> dict[str, Any]:
    """Return a file of the dictionary; raises `DataError` where it isn't one."""
    file = folder / f"{name}.zip"
    try:
        with zipfile.ZipFile(file) as archive:
            if archive.getinfo(f"{name}.json").file_size > LARGEST:
                raise DataError(f"{file}: expected at most {LARGEST:,} bytes of JSON, found more")
            found = json.loads(archive.read(f"{name}.json"))
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, RecursionError):
        raise DataError(f"{file}: expected {name}.json in a file of wiktionary-de, found none") from None
    if not isinstance(found, dict):
        raise DataError(f"{file}: expected an entry by its word, found {str(found)[:40]}")
    return found


def translations(entry: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the usage of a German word and an English translation, the first ones first."""
    for usage, of_usage in entry.items():
        for meaning in of_usage["translations"].get("en", {}).values():
            for text in meaning:
                english = re.sub(r"^(?:the|an?) ", "", " ".join(text.split()))
                if ENGLISH.fullmatch(english) and not english.startswith("to "):
                    yield usage, english


def noun_forms(usage: dict[str, Any]) -> tuple[str | None, dict[str, str]]:
    """Return the gender, where there is one, and the first form of each case."""
    table = usage.get("gen_case_num", {})
    genders = table.get("genus", {}).get("sg1", [])
    gender = genders[0] if len(genders) == 1 else None
    cells = {}
    for case in CASES:
        of_case = table.get(case, {})
        for cell, number, name in ((gender, "singular", "sg1"), ("plural", "plural", "pl1")):
            forms = of_case.get(number, {}).get(name)
            if cell and forms and NOUN.fullmatch(forms[0]):
                cells[f"{cell} {case}"] = forms[0]
    return gender, cells


def of_word(german: str, entry: dict[str, Any], nouns: dict[str, Any] | None) -> Iterator[Entry]:
    """Yield a German word with each of its translations; it is an adjective without `nouns`, their tables."""
    for usage, english in dict.fromkeys(translations(entry)):
        if nouns is not None:
            gender, forms = noun_forms(nouns[german].get(usage, {}))
            # Dachs is a badger, and a roof's in the genitive.
            forms = {cell: form for cell, form in forms.items() if form == german or form not in nouns}
        else:
            gender, forms = None, {f"-{ending}": german + ending for ending in ENDINGS}
        yield Entry(english, german, forms, gender)


def entries(folder: Path) -> tuple[list[Entry], list[Entry]]:
    """Return the nouns and adjectives: each with its first translation, and with every one.

    Raises `DataError`.
    """
    first: list[Entry] = []
    every: list[Entry] = []
    nouns, adjectives = read(folder, "de_noun_entries"), read(folder, "de_adj_entries")
    for name, known in (("de_noun_translations", nouns), ("de_adj_translations", adjectives)):
        for german, entry in read(folder, name).items():
            if not (NOUN if known is nouns else ADJECTIVE).fullmatch(german) or german not in known:
                continue
            try:
                found = list(of_word(german, entry, nouns if known is nouns else None))
            except (AttributeError, KeyError, TypeError, IndexError):
                raise DataError(
                    f"{folder / name}.zip: expected an entry of wiktionary-de for {german!r}, found {str(entry)[:60]}"
                ) from None
            first += found[:1]
            every += found
    return first, every


def contexts(every: list[Entry], english: list[str], german: list[str]) -> dict[frozenset[str], list[Context]]:
    """Return where the text has an entry of one English word, by the cells that its German form may be of."""
    by_form: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for entry in every:
        if entry.english.islower() and " " not in entry.english:
            for cell, form in entry.forms.items():
                by_form[form].append((entry.english_form(cell), cell))
    found: dict[frozenset[str], list[Context]] = defaultdict(list)
    for row, sides in enumerate(zip(english, german, strict=True)):
        spans: list[dict[str, tuple[int, int]]] = [{}, {}]
        for side, words in zip(spans, (list(WORD.finditer(text)) for text in sides), strict=True):
            times = Counter(word[0] for word in words)
            if len(words) in LENGTH:
                side |= {word[0]: word.span() for word in words if times[word[0]] == 1}
        for form in filter(by_form.__contains__, spans[1]):  # in the text's order, the same in every process
            cells: dict[str, set[str]] = defaultdict(set)
            for word, cell in by_form[form]:
                if word in spans[0]:
                    cells[word].add(cell)
            for word, of_word in cells.items():
                found[frozenset(of_word)].append(Context(row, spans[0][word], spans[1][form]))
    return {cells: of_cells for cells, of_cells in found.items() if len(of_cells) >= FEWEST}


def article(english: str) -> str:
    """Return the indefinite article of an English word."""
    return "an" if AN.match(english) else "a"


def put(text: str, span: tuple[int, int], word: str) -> str:
    """Return the text with the word in place of another; it is capitalized where that begins the text."""
    return text[: span[0]] + (word if span[0] else capitalized(word)) + text[span[1] :]


def replaced(
    entry: Entry,
    found: dict[frozenset[str], list[Context]],
    english: list[str],
    german: list[str],
    chance: random.Random,
) -> Iterator[tuple[str, str]]:
    """Yield pairs of the text with the entry in place of another one."""
    forms = {cells: {entry.forms.get(cell, "") for cell in cells} for cells in found}
    fitting = [cells for cells, of_cells in forms.items() if len(of_cells) == 1 and "" not in of_cells]
    if not fitting:
        return
    weights = [len(found[cells]) for cells in fitting]
    for cells in chance.choices(fitting, weights, k=CONTEXTS):
        context = chance.choice(found[cells])
        text, (start, end) = english[context.row], context.english
        word = entry.english_form(next(iter(cells)))
        if an := re.search(r"\b[Aa]n? $", text[:start]):
            if not entry.countable:
                continue
            start, word = an.start() + 1, article(word)[1:] + " " + word
        yield put(text, (start, end), word), put(german[context.row], context.german, *forms[cells])


def words(wanted: list[Entry], chance: random.Random) -> Iterator[tuple[str, str]]:
    """Yield each word alone, nouns once more with an article, some in the plural or with a capital."""
    for entry in wanted:
        pairs = [(entry.english, entry.german)]
        if entry.english.islower() and entry.gender in ARTICLES and entry.countable:
            the, a = ARTICLES[entry.gender]
            definite = f"the {entry.english}", f"{the} {entry.german}"
            indefinite = f"{article(entry.english)} {entry.english}", f"{a} {entry.german}"
            pairs.append(chance.choice([definite, indefinite]))
            if chance.random() < 0.3:
                pairs.append((plural(entry.english), entry.forms["plural nominativ"]))
        for english, german in pairs:
            yield english, german
            if chance.random() < 0.25:
                yield capitalized(english), capitalized(german)


def seldom(entry: Entry, english: Counter[str], german: Counter[str]) -> bool:
    """Whether the text has the entry on one side, and on none so often that another translation is better known."""
    seen_german = max(german[form.lower()] for form in (entry.german, *entry.forms.values()))
    seen_english = english[entry.english] + english[plural(entry.english)]
    return (
        entry.english.islower()
        and seen_german <= SELDOM
        and seen_english <= SELDOM_ENGLISH
        and seen_german + seen_english > 0
    )


def looked_up(every: list[Entry], counts: Counter[str], *, german: bool) -> bytes:
    """Return the packed lines of what is looked up in one language.

    That is words that the text hardly has, with their translations' forms, abbreviations, and days and months.
    """
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for entry in every:
        if WORD.fullmatch(entry.english) and entry.english.islower():
            for cell, form in entry.forms.items():
                sides = (form, entry.english_form(cell)) if german else (entry.english_form(cell), form)
                if counts[sides[0].lower()] <= UNKNOWN:
                    found[sides[0]][sides[1]] = None
    lines = ["\t".join([word, *forms][: MOST_FORMS + 1]) for word, forms in found.items() if word not in forms]
    language = "de" if german else "en"
    lines += [entry.replace("\t", "\t= ") for entry in of_language(ABBREVIATIONS, language)]
    lines += of_language(CALENDAR, language)
    return lzma.compress("".join(f"{line}\n" for line in sorted(lines)).encode(), preset=9)


def of_language(file: Path, language: str) -> list[str]:
    """Return the lines of a table that begin with a language, without it."""
    lines = (line.partition("\t") for line in file.read_text(encoding="utf-8").splitlines())
    return [rest for code, _, rest in lines if code == language]


def write(folder: Path, name: str, pairs: list[tuple[str, str]]) -> None:
    """Write both sides of pairs, a line each."""
    for side, suffix in enumerate(("en", "de")):
        write_text(folder / f"{name}.{suffix}", "".join(f"{pair[side]}\n" for pair in pairs))
    print(f"{folder / name}: {len(pairs):,} pairs")


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dictionary", type=Path, help="The folder of headwise data get wiktionary-de.")
    parser.add_argument("english", type=Path, help="The text at hand.")
    parser.add_argument("german", type=Path, help="Its translation.")
    parser.add_argument("out", type=Path, help="The folder of the files to write.")
    options = parser.parse_args()
    if options.out.is_file():
        raise DataError(f"{options.out}: expected a folder to write to, found a file")
    english, german = read_parallel(options.english, options.german)
    first, every = entries(options.dictionary)
    english_words, german_words = (
        Counter(word for line in lines for word in WORD.findall(line.lower())) for lines in (english, german)
    )
    wanted = [entry for entry in first if seldom(entry, english_words, german_words)]
    chance = random.Random(1)
    found = contexts(every, english, german)
    made = [pair for entry in wanted for pair in replaced(entry, found, english, german, chance)]
    write(options.out, "words", list(words(wanted, chance)))
    write(options.out, "contexts", made)
    write_bytes(options.out / "en-de.tsv.xz", looked_up(every, english_words, german=False))
    write_bytes(options.out / "de-en.tsv.xz", looked_up(every, german_words, german=True))


if __name__ == "__main__":
    with script_errors():
        main()
