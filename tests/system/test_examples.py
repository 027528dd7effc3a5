"""The scripts in examples/: distillation, back-translation, a dictionary's words, phrases, a filter."""

from __future__ import annotations

import calendar
import itertools
import json
import lzma
import re
import subprocess
import sys
import zipfile
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest

from headwise.config import Config
from headwise.engine.options import SearchOptions
from headwise.engine.translator import Translator
from headwise.text.tokens.subwords import Subwords
from paths import ROOT
from program import saved_step, shell_environment
from text_lines import lines, write_lines
from toy import Toy, shape, toy_pairs, write_toy

SMALL = (
    *shape(16, 32, encoder_layers=2),
    *("batch.tokens=400", "data.dev_pairs=10", "data.workers=1", "schedule.warmup=5"),
    *("training.checkpoint_every=1", "training.validate_every=10", "training.average_last=1"),
    *("training.threads=1", "training.precision=float32", "training.processes=1", "training.products=torch"),
    *("--max-steps", "3"),
)  # fmt: skip


NOUNS = [("tree", "Baum"), ("car", "Auto"), ("garden", "Garten"), ("house", "Haus")]


def script(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a script; `headwise` in it is the program of these tests."""
    interpreter = [sys.executable] if name.endswith(".py") else []
    command = [*interpreter, str(ROOT / "examples" / name), *map(str, arguments)]
    return subprocess.run(command, env=shell_environment(), capture_output=True, text=True, check=False)


def done(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a script that succeeds."""
    outcome = script(name, *arguments)
    assert outcome.returncode == 0, outcome.stderr
    return outcome


def refusal(name: str, *arguments: object) -> str:
    """Run a script that refuses what it is given; return what it says."""
    outcome = script(name, *arguments)
    assert outcome.returncode == 2
    return outcome.stderr


def pairs_of(stem: Path) -> list[tuple[str, str]]:
    return list(zip(lines(stem.with_suffix(".en")), lines(stem.with_suffix(".de")), strict=True))


@pytest.fixture
def text(tmp_path: Path) -> Toy:
    """Pairs, one of which has an empty source."""
    toy = write_toy(tmp_path, toy_pairs(60, seed=2))
    toy.source.write_text("\n" + toy.source.read_text().partition("\n")[2])
    return toy


@pytest.mark.parametrize("name", ["distill.sh", "back_translate.sh"])
def test_a_script_without_its_arguments_says_what_they_are(name: str) -> None:
    said = refusal(name, "runs/de")
    assert said.startswith(f"usage: examples/{name} RUN SOURCE ")
    assert said.count("\n") == 1


@pytest.mark.slow
def test_a_student_learns_from_an_ensembles_translations(trained: Path, text: Toy, tmp_path: Path) -> None:
    run = tmp_path / "student"
    teacher = f"{trained} --with {trained} --beam 2"
    said = done("distill.sh", run, text.source, teacher, *SMALL).stderr
    assert "6+2 layers" not in said  # the sizes of SMALL come after the preset
    assert "2+1 layers of width 16, as decoding spends most of its time in the decoder" in said
    expected = Translator.load([trained, trained]).translate(lines(text.source), SearchOptions(beam=2))
    assert lines(run / "translations.txt") == [translation.text for translation in expected]
    assert (run / "spm.model").read_bytes() == (trained / "spm.model").read_bytes()
    again = done("distill.sh", run, text.source, teacher, *SMALL, "--max-steps", 4)
    assert "resuming from" in again.stderr
    assert saved_step(run) == 4


def test_a_student_keeps_the_recipe_except_for_its_size(trained: Path, text: Toy, tmp_path: Path) -> None:
    given = [option for option in SMALL if not option.startswith("model.")]
    done("distill.sh", tmp_path / "student", text.source, f"{trained} --beam 1", *given)
    model = Config.of_run(tmp_path / "student").model
    assert (model.encoder_layers, model.decoder_layers, model.d_model, model.d_ff) == (6, 2, 128, 512)
    assert (model.norm, model.dropout) == ("pre", 0.25)


@pytest.mark.slow
def test_synthetic_sources_are_tagged_translations(trained: Path, toy: Toy, text: Toy, tmp_path: Path) -> None:
    run = tmp_path / "run"
    back = ("back_translate.sh", run, toy.target, toy.source, text.source, f"{trained} --beam 2")
    done(*back, *SMALL, "subwords.size=60", "data.weights=[0.75,0.25]")
    translated = Translator.load(trained).translate(lines(text.source), SearchOptions(beam=2))
    assert lines(run / "synthetic.txt") == [f"<bt> {t.text}" if t.text else "" for t in translated]
    data = Config.of_run(run).data
    assert data.source == [str(toy.target), str(run / "synthetic.txt")]
    assert data.target == [str(toy.source), str(text.source)]
    assert (data.dev_files, data.weights) == (1, [0.75, 0.25])
    subwords = Subwords.load(run)
    tagged, plain = (subwords.encode_source(text) for text in ("<bt> mo", "mo"))
    assert len(tagged) - len(plain) in (1, 2)  # the tag, and the space before it
    assert "<bt>" in subwords.source_pieces(tagged)


def test_translations_that_are_near_real_ones_but_new_are_added_to_the_pairs(tmp_path: Path) -> None:
    names = [tmp_path / name for name in ("text.en", "text.de", "made.en", "made.de")]
    english, german, made_english, made_german = names
    write_lines(english, ["A cat sleeps.", "A dog.", "A cat sleeps.", "Hello!"])
    write_lines(german, ["Eine Katze schläft.", "Ein Hund.", "Es schläft eine Katze.", "Hallo!"])
    write_lines(made_english, ["A cat is sleeping.", "A dog.", "There sleeps a cat.", "Hallo!"])
    write_lines(made_german, ["Es schläft eine Katze.", "Ein Hund!", "Es schläft eine Katze.", "Quark."])
    done("diversify.py", *names, tmp_path / "diverse")
    pairs = pairs_of(tmp_path / "diverse")
    assert pairs[:4] == pairs_of(tmp_path / "text")
    assert pairs[4:] == [
        ("A dog.", "Ein Hund!"),
        ("A cat is sleeping.", "Eine Katze schläft."),
        ("There sleeps a cat.", "Es schläft eine Katze."),
    ]
    made_german.write_text("Eine Zeile.\n", "utf-8")
    said = refusal("diversify.py", *names, tmp_path / "diverse")
    assert said == f"{made_german}: expected 4 lines, as many as {english}, found 1\n"
    before = english.read_bytes()
    said = refusal("diversify.py", *names, tmp_path / "text")
    assert said == f"{english}: expected an output file that is not an input file\n"
    assert english.read_bytes() == before
    said = refusal("diversify.py", english, made_english, made_english, english, tmp_path / "diverse")
    assert "expected another suffix than that of" in said


def test_seldom_words_of_a_dictionary_stand_where_others_of_their_gender_and_case_do(tmp_path: Path) -> None:
    dictionary, english, german = tmp_path / "dictionary", tmp_path / "text.en", tmp_path / "text.de"
    dictionary.mkdir()

    def noun(gender: str, *singular: str, plural: str) -> dict[str, object]:
        cases = dict(zip(("nominativ", "genitiv", "dativ", "akkusativ"), singular, strict=True))
        many = plural.removesuffix("n")
        forms = {case: many + "n" * (case == "dativ" or plural.endswith("n")) for case in cases}
        table = {case: {"singular": {"sg1": [form]}, "plural": {"pl1": [forms[case]]}} for case, form in cases.items()}
        return {"u1": {"gen_case_num": {"genus": {"sg1": [gender]}, **table}}}

    def translations(**words: str) -> dict[str, object]:
        return {word: {"u1": {"translations": {"en": {"m1": [english]}}}} for word, english in words.items()}

    files = {
        "de_noun_entries": {
            "Hund": noun("m", "Hund", "Hundes", "Hund", "Hund", plural="Hunde"),
            "Igel": noun("m", "Igel", "Igels", "Igel", "Igel", plural="Igel"),
            "Bär": noun("m", "Bär", "Bären", "Bären", "Bären", plural="Bären"),
            "Eule": noun("f", "Eule", "Eule", "Eule", "Eule", plural="Eulen"),
        },
        "de_noun_translations": translations(Hund="a dog", Igel="urchin", Bär="bear", Eule="owl"),
        "de_adj_entries": {"rot": {}, "flink": {}},
        "de_adj_translations": translations(rot="red", flink="agile"),
    }
    for name, content in files.items():
        with zipfile.ZipFile(dictionary / f"{name}.zip", "w") as archive:
            archive.writestr(f"{name}.json", json.dumps(content))
    text = [
        *((f"Today I saw a dog {n}.", f"Ich sah heute einen Hund {n}.") for n in range(30)),
        *((f"The red cars {n} are here.", f"Die roten Autos {n} sind hier.") for n in range(30)),
        ("Agile bears, agile urchins.", "Flinke Bären, flinke Igel."),
    ]
    write_lines(english, [side for side, _ in text])
    write_lines(german, [side for _, side in text])
    done("dictionary.py", dictionary, english, german, tmp_path)
    contexts = pairs_of(tmp_path / "contexts")
    assert Counter(tuple(re.sub(r"\d+", "N", side) for side in pair) for pair in contexts) == {
        ("Today I saw an urchin N.", "Ich sah heute einen Igel N."): 25,
        ("The agile cars N are here.", "Die flinken Autos N sind hier."): 25,
    }  # not the bear, of which nominative and accusative differ, nor the owl, which the text never has
    words = {*pairs_of(tmp_path / "words")}
    assert {("urchin", "Igel"), ("agile", "flink"), ("bear", "Bär")} <= words
    assert not words & {("dog", "Hund"), ("owl", "Eule"), ("red", "rot")}
    assert words & {("the urchin", "der Igel"), ("an urchin", "ein Igel")}
    there, back = (
        lzma.decompress((tmp_path / f"{pair}.tsv.xz").read_bytes()).decode().splitlines() for pair in ("en-de", "de-en")
    )
    assert {"urchin\tIgel\tIgels", "owl\tEule", "owls\tEulen", "bear\tBär\tBären"} <= {*there}
    assert {"Igel\turchin\turchins", "Eulen\towls", "Bären\tbears\tbear", "flinkes\tagile"} <= {*back}
    names = {*calendar.day_name, *calendar.month_name[1:]}
    assert {line.split("\t")[0] for line in there} & names == names - {"May"}
    assert {form for line in back for form in line.split("\t")[1:]} >= names
    for made, pair in ((there, "en-de"), (back, "de-en")):
        shipped = lzma.decompress((ROOT / "models" / f"open-{pair}" / "dictionary.tsv.xz").read_bytes()).decode()
        abbreviations = [line for line in made if "\t= " in line]
        assert len(abbreviations) > 90
        assert abbreviations == [line for line in shipped.splitlines() if "\t= " in line]
        assert {line for line in made if names & {*line.split("\t")}} <= {*shipped.splitlines()}
    assert not any(line.startswith(("dog\t", "red\t", "Hund\t", "roten\t")) for line in (*there, *back))
    german.write_text("Eine Zeile.\n")
    said = refusal("dictionary.py", dictionary, english, german, tmp_path)
    assert said == f"{german}: expected 61 lines, as many as {english}, found 1\n"
    damaged = dictionary / "de_adj_entries.zip"
    damaged.write_bytes(b"PK")
    said = refusal("dictionary.py", dictionary, english, english, tmp_path)
    assert said == f"{damaged}: expected de_adj_entries.json in a file of wiktionary-de, found none\n"


def test_phrases_say_the_same_in_both_languages(tmp_path: Path) -> None:
    english, german = tmp_path / "text.en", tmp_path / "text.de"
    write_lines(english, [f"Line {n}." for n in range(300)])
    write_lines(german, [f"Zeile {n}." for n in range(300)])
    done("phrases.py", english, german, tmp_path / "phrases")
    pairs = pairs_of(tmp_path / "phrases")
    assert not any(re.search(r"[{}\t]|(?<!\.)\.\.(?!\.)", side) for pair in pairs for side in pair)
    assert {("Dear Anna,", "Liebe Anna,"), ("Dear Peter,", "Lieber Peter,")} <= {*pairs}
    born = [pair for pair in pairs if pair[0].startswith("She was born")]
    monate = "Januar Februar März April Mai Juni Juli August September Oktober November Dezember"
    months = dict(zip(calendar.month_name[1:], monate.split(" "), strict=True))
    for date, datum in born:
        (month,) = (name for name in months if name[:3] in date)
        day, *year = re.findall(r"\d+", date)
        forms = [months[month]] if month in date else [months[month], f"{months[month][:3]}."]
        assert datum in [f"Sie wurde am {day}. {' '.join([form, *year])} geboren." for form in forms]
        ordinal = re.search(r"(\d+)(st|nd|rd|th)\b", date)
        suffixes = {1: "st", 21: "st", 2: "nd", 22: "nd", 3: "rd", 23: "rd"}  # of days
        assert ordinal is None or ordinal[2] == suffixes.get(int(ordinal[1]), "th")
    for clock, uhr in (pair for pair in pairs if pair[0].startswith("I get up")):
        hour, minute = re.findall(r"\d+", f"{uhr} 0")[:2]
        said = clock.removeprefix("I get up at ").replace(".", "").replace(" ", "")
        form = "%I%p" if ":" not in said else "%I:%M%p" if said[-1] == "m" else "%H:%M"
        read = datetime.strptime(said, form)
        assert (read.hour, read.minute) == (int(hour), int(minute))
    late = [pair for pair in pairs if pair[0].startswith("The train was")]
    assert late
    for delay, verspätung in late:
        said = re.fullmatch(r"The train was ([\d.]+?) ?(mins?\.?|minutes) late\.", delay)
        gesagt = re.fullmatch(r"Der Zug hatte ([\d,]+) (min|Min\.|Minuten) Verspätung\.", verspätung)
        assert said
        assert gesagt
        assert said[1] == gesagt[1].replace(",", ".")
        assert (said[2], gesagt[2]) != ("minutes", "Minuten")  # which running text has
    items = [pair for pair in pairs if "Line" in pair[0]]
    assert len(items) == 300
    for item, punkt in items:
        mark, number = item.split("Line ")
        assert mark
        assert punkt == f"{mark}Zeile {number}"
    assert refusal("phrases.py", english, german, tmp_path / "text").startswith(str(english))
    assert len(lines(english)) == 300
    german.write_text("Eine Zeile.\n")
    said = refusal("phrases.py", english, german, tmp_path / "phrases")
    assert said == f"{german}: expected 300 lines, as many as {english}, found 1\n"


def test_everyday_text_has_short_sentences_and_idioms_more_often(tmp_path: Path) -> None:
    corpus, out = tmp_path / "corpus", tmp_path / "out"
    (corpus / "test").mkdir(parents=True)
    long = [
        (f"The {en} and the {other} have number {n}.", f"Das {de} und das {more} haben die Nummer {n}.")
        for n, ((en, de), (other, more)) in enumerate(itertools.product(NOUNS, NOUNS))
    ]
    idiom, shortest = ("Tree, car!", "Garten, Haus!"), ("Garden, house!", "Garten, Haus?")
    short = ("The house and garden.", "Das Haus und Garten.")
    write_lines(corpus / "tatoeba.tsv", map("\t".join, [*long, idiom, shortest, short]))
    write_lines(corpus / "open-source-guides.tsv", ["A text.\tEin Text."])
    done("open_text.py", corpus, out)
    everyday = Counter(pairs_of(out / "everyday"))
    assert all(everyday[pair] == 1 for pair in long)
    assert (everyday[idiom], everyday[shortest], everyday[short]) == (6, 4, 2)
    assert lines(out / "sentences.en") == [en for en, _ in (*long, idiom, shortest, short)]


def test_the_open_text_is_filtered_and_what_a_model_finds_unlikely_left_out(tmp_path: Path) -> None:
    corpus, out, again = tmp_path / "corpus", tmp_path / "out", tmp_path / "again"
    (corpus / "test").mkdir(parents=True)
    named = [(n, *NOUNS[n % 4]) for n in range(40)]
    kept = [(f"The {en} has number {n}.", f"Das {de} hat die Nummer {n}.") for n, en, de in named]
    kept[39] = ("Some trees & cars, e.g. this one.", "Einige Bäume & Autos, z. B. dieses.")
    lost = [
        ("the house has number 7", "Das Haus hat die Nummer 7!"),  # the same words
        ("A sentence to test on.", "Irgendein anderer Satz."),
        ("Something else.", "Ein Satz zum Testen."),
        ("A text of the project.", "Ein Text des Projekts."),
        ("Nobody translated this sentence.", "Nobody translated this sentence."),
        ("Short.", "Ein sehr viel längerer Satz, der nicht dazu gehört."),
        ("=== 12 + 30 - 7 ===", "=== 12 + 30 - 8 ==="),
        ("a" * 401, "b" * 401),
        ("", "Leer."),
    ]
    texts = {
        "one.tsv": kept[:20] + lost,
        "two.tsv": [*kept[10:39], (kept[39][0].replace("&", "&amp;"), kept[39][1].replace("z. B.", "&zb;"))],
        "open-source-guides.tsv": [("A text of the project.", "Ein anderer Text.")],
    }
    for name, pairs in texts.items():
        write_lines(corpus / name, map("\t".join, pairs))
    (corpus / "test" / "test.en").write_text("A sentence to test on.\n", "utf-8")
    (corpus / "test" / "test.de").write_text("Ein Satz zum Testen.\n", "utf-8")
    done("open_text.py", corpus, out)
    assert pairs_of(out / "train") == kept
    assert lines(out / "open-source-guides.de") == ["Ein anderer Text."]
    assert lines(out / "sentences.en") == []
    everyday = pairs_of(out / "everyday")
    assert everyday[:43] == [*kept, *3 * kept[39:]]  # an abbreviation inside a sentence
    assert {("house", "Haus"), ("House", "Haus"), ("tree", "Baum")} <= set(everyday[43:])
    scores = tmp_path / "scores"  # of sentences of two and of one subword: means count
    scores.write_text("".join("-3\t-1 -2\n" if n % 20 != 5 else "-2\t-2\n" for n in range(40)), "utf-8")
    done("open_text.py", corpus, again, "--scores", scores)
    assert lines(again / "train.en") == [en for n, (en, _) in enumerate(kept) if n % 20 != 5]
    scores.write_text("-3\t-1 -2\n", "utf-8")
    said = refusal("open_text.py", corpus, again, "--scores", scores)
    assert said == f"{scores}: expected 40 lines, one for each pair, found 1\n"
    scores.write_text("-3\t-1 -2\n" * 39 + "-3\n", "utf-8")
    said = refusal("open_text.py", corpus, again, "--scores", scores)
    expected = "expected a score, a tab and those of the subwords, found '-3'"
    assert said == f"{scores} line 40: {expected}\n"
    said = refusal("open_text.py", tmp_path / "nothing", again)
    assert said.startswith(f"{tmp_path / 'nothing'}: expected what `headwise data get")
    said = refusal("open_text.py", corpus, scores)
    assert said == f"{scores}: expected a folder to write to, found a file\n"
