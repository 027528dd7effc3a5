"""Readers of labelled texts, tagged sentences and questions, and their errors for malformed files."""

from __future__ import annotations

import gzip
import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise.config import SubwordConfig
from headwise.config.tasks import ClassificationConfig, QuestionAnsweringConfig, TaggingConfig
from headwise.corpora.synthetic import DATA_SETS, generate
from headwise.corpora.synthetic.names import names
from headwise.errors import ConfigError, DataError
from headwise.text.preparation.labelled.classification import LabelledTexts
from headwise.text.preparation.labelled.question_answering import Question, Questions, read_question
from headwise.text.preparation.labelled.tagging import TaggedSentence, TaggedSentences
from headwise.text.tokens.subwords import BOS, EOS
from headwise.text.tokens.vocabulary import Pieces, Vocabulary
from paths import SHARED

EWT = SHARED / "ud-ewt/en_ewt-ud-dev.conllu.gz"
SENTENCE = "The old clock was sold by Ada in Kelwick, for two crowns, in 1987; nobody knew why."


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Pieces.learn([f" {SENTENCE}"] * 3, SubwordConfig(size=60))


def classification(**options: Any) -> LabelledTexts:
    return LabelledTexts(ClassificationConfig(**options), share=0.25)


def tagging(**options: Any) -> TaggedSentences:
    return TaggedSentences(TaggingConfig(**options), share=0.25)


def answering(**options: Any) -> Questions:
    return Questions(QuestionAnsweringConfig(**options), share=0.25)


# Texts with labels


def test_the_same_texts_from_every_format(tmp_path: Path) -> None:
    texts_and_labels = [("fine, really", "1"), ('so "so"', "0"), ("bad\\n", "0")]
    (tmp_path / "a.tsv").write_text("text\tlabel\n" + "".join(f"{t}\t{y}\n" for t, y in texts_and_labels))
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"label": int(y), "text": t, "x": 1}) + "\n" for t, y in texts_and_labels)
    )
    quoted = "".join('"' + t.replace('"', '""') + f'",{y}\n' for t, y in texts_and_labels)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(("text,label\n" + quoted).encode()))
    (tmp_path / "zero").write_text("".join(f"{t}\n\n" for t, y in texts_and_labels if y == "0"))
    (tmp_path / "one").write_text("".join(f"{t}\n" for t, y in texts_and_labels if y == "1"))
    for name in ("a.tsv", "a.jsonl", "a.csv.gz"):
        examples = classification().read([tmp_path / name])
        assert [(e.text, e.label) for e in examples] == texts_and_labels
    plain = classification(labels=["0", "1"]).read([tmp_path / "zero", tmp_path / "one"])
    assert sorted((e.text, e.label) for e in plain) == sorted(texts_and_labels)
    assert [(e.file, e.line) for e in plain] == [(0, 1), (0, 3), (1, 1)]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.tsv", "text\tlabel\nfine\n", "a.tsv line 2: expected 2 columns (text, label), found 1"),
        ("a.tsv", "body\tlabel\nfine\t1\n", "a.tsv line 2: expected a field 'text', found body, label"),
        ("a.tsv", "text\tlabel\nfine\t\n", "a.tsv line 2: expected a label in field 'label', found none"),
        ("a.tsv", "text\tlabel\n", "a.tsv: expected texts, found none"),
        ("a.jsonl", '{"text": "fine", "label": [1]}\n', "a.jsonl line 1: expected text in field 'label', found a list"),
        ("a.jsonl", "fine\n", "a.jsonl line 1: expected a JSON object, found"),
        ("a.jsonl", "[1]\n", "a.jsonl line 1: expected a JSON object, found a list"),
        ("a.csv", 'text,label\n"fine,1\n', "a.csv line 2: expected comma-separated values, found"),
        ("a.tsv", "text\tlabel\ttext\nfine\t1\tbad\n", "a.tsv line 1: expected each field once, found 'text' again"),
        ("a.csv", "text,label,text\nfine,1,bad\n", "a.csv line 1: expected each field once, found 'text' again"),
        ("a.tsv", "text\tlabel\nfine\t\xff\n", "a.tsv line 2: expected UTF-8 text, found other bytes"),
    ],
)  # fmt: skip
def test_texts_that_are_not_as_they_should_be(name: str, content: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(DataError) as caught:
        classification().read([tmp_path / name])
    assert f"{tmp_path}/{sentence}" in str(caught.value)


def test_a_cell_may_be_a_long_document(tmp_path: Path) -> None:
    text = "word " * 30_000 + "end"
    (tmp_path / "a.csv").write_text(f"text,label,,\n{text},good,,\nfair,bad,,\n")
    assert [example.text for example in classification().read([tmp_path / "a.csv"])] == [text, "fair"]


def test_labels_that_do_not_fit(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("text\tlabel\nfine\tgood\n")
    (tmp_path / "plain").write_text("fine\n")
    with pytest.raises(DataError, match=r"a.tsv line 2: expected one of the labels a, b, found 'good'"):
        classification(labels=["a", "b"]).read([tmp_path / "a.tsv"])
    with pytest.raises(ConfigError, match=r"found 0 labels for 1 files"):
        classification().read([tmp_path / "plain"])
    with pytest.raises(ConfigError, match=r"beside others"):
        classification().read([tmp_path / "plain", tmp_path / "a.tsv"])
    with pytest.raises(DataError, match=r"at least two classes, found good alone"):
        classification().labels(classification().read([tmp_path / "a.tsv"]))


def test_one_class_may_have_several_files_and_spaces_around_its_label(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).write_text(f"text {name}\n")
    form = classification(labels=["good", "good", "bad"])
    examples = form.read([tmp_path / "one", tmp_path / "two", tmp_path / "three"])
    assert form.labels(examples) == ["good", "bad"]
    (tmp_path / "a.csv").write_text("text,label\nfine,good\nfair, good \npoor, bad\n")
    assert classification().labels(classification().read([tmp_path / "a.csv"])) == ["bad", "good"]


def test_folds_are_of_all_classes_alike_and_their_own(tmp_path: Path) -> None:
    rows = [f"t{i}\t{'a' if i % 3 else 'b'}\n" for i in range(90)]
    (tmp_path / "a.tsv").write_text("text\tlabel\n" + "".join(rows))
    examples = classification().read([tmp_path / "a.tsv"])
    held = np.array([classification(folds=5, fold=k).hold_out(examples) for k in range(1, 6)])
    assert (held.sum(axis=0) == 1).all()
    is_a = np.array([e.label == "a" for e in examples])
    assert held[:, is_a].sum(axis=1).tolist() == [12] * 5
    assert classification().hold_out(examples).sum() == round(0.25 * 60) + round(0.25 * 30)
    assert (classification(folds=5, split_seed=2).hold_out(examples) != held[0]).any()


def test_a_long_text_is_cut(vocabulary: Vocabulary, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(f"text\tlabel\n{SENTENCE}\ta\nold\tb\n")
    form = classification()
    examples = form.read([tmp_path / "a.tsv"])
    encoded = form.encode(examples, vocabulary, ["a", "b"], 8)
    assert encoded.cut == 1
    assert len(encoded.ids[0]) == 8
    assert encoded.ids[1] == [BOS, *vocabulary.encode("old"), EOS]
    assert encoded.targets == [[0], [1]]


# Sentences with tags

CONLLU = """# text = It's on
1-2\tIt's\t_\t_\t_\t_\t_\t_\t_\t_
1\tIt\tit\tPRON\tPRP\t_\t0\troot\t_\t_
2\t's\tbe\tAUX\tVBZ\t_\t1\tcop\t_\t_
2.1\tgone\tgo\tVERB\tVBN\t_\t_\t_\t_\t_
3\ton\ton\tADV\tRB\t_\t1\tadvmod\t_\t_

"""


def test_conllu_words_are_its_syntactic_words(tmp_path: Path) -> None:
    (tmp_path / "a.conllu").write_text(CONLLU * 2)
    first, second = tagging().read([tmp_path / "a.conllu"])
    assert (first.words, first.tags) == (["It", "'s", "on"], ["PRON", "AUX", "ADV"])
    assert (first.line, second.line) == (3, 10)
    assert tagging(column="xpos").read([tmp_path / "a.conllu"])[0].tags == ["PRP", "VBZ", "RB"]


def test_english_web_text_is_read_whole() -> None:
    if not EWT.exists():
        pytest.skip(f"needs {EWT}")
    sentences = tagging().read([EWT])
    assert len(sentences) == 2001
    assert len(tagging().labels(sentences)) == 17  # the universal tags


def test_columns_of_conll_2003(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("-DOCSTART- -X- O O\n\nAda NNP I-NP B-PER\nslept VBD I-VP O\n")
    (sentence,) = tagging(spans=True).read([tmp_path / "a.txt"])
    assert (sentence.words, sentence.tags, sentence.line) == (["Ada", "slept"], ["B-PER", "O"], 3)
    (tmp_path / "a.txt").write_text("10\u00a0000  CD O\neuros NNS O \n")
    (sentence,) = tagging().read([tmp_path / "a.txt"])
    assert (sentence.words, sentence.tags) == (["10\u00a0000", "euros"], ["O", "O"])


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.conllu", "1\tIt\tit\tPRON\n", "a.conllu line 1: expected 10 columns separated by tabs, found 4"),
        ("a.txt", "Ada\n", "a.txt line 1: expected a word and its tag, found 'Ada'"),
        ("a.iob", "a\tO\n\nb\tI-PER\n", "a.iob line 3: expected an IOB2 tag (O, B-TYPE, or I-TYPE that goes on with"),
        ("a.iob", "a\tB-ORG\nb\tI-PER\n", "'I-PER' of 'b' after 'B-ORG'"),
        ("a.iob", "a\tPER\n", "found 'PER' of 'a' after 'O'"),
        ("a.iob", "\n\n", "a.iob: expected tagged sentences, found none"),
    ],
)  # fmt: skip
def test_sentences_that_are_not_as_they_should_be(name: str, content: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError) as caught:
        tagging(spans=True).read([tmp_path / name])
    assert sentence in str(caught.value)


def test_a_tag_belongs_to_the_first_piece_and_a_long_sentence_is_several_rows(vocabulary: Vocabulary) -> None:
    words = SENTENCE.split()
    example = TaggedSentence(words, ["A" if len(word) > 3 else "B" for word in words])
    for longest in (200, 20, 12):
        encoded = tagging().encode([example], vocabulary, ["A", "B"], longest)
        assert all(len(ids) <= longest for ids in encoded.ids)
        assert set(encoded.owners) == {0}
        inner = [i for ids in encoded.ids for i in ids[1:-1]]
        assert inner == vocabulary.encode("".join(f" {word}" for word in words))
        targets = [t for row in encoded.targets for t in row if t != -1]
        assert targets == [0 if tag == "A" else 1 for tag in example.tags]
        for ids, row in zip(encoded.ids, encoded.targets, strict=True):
            starts = [vocabulary.spelled(i).startswith(b" ") for i in ids]
            assert starts == [target != -1 for target in row]


# Questions


def test_windows_cover_a_text_and_know_its_words(vocabulary: Vocabulary) -> None:
    example = Question("Who sold it?", SENTENCE, [], [])
    (whole,) = answering(stride=8).windows(example, vocabulary, 400)
    windows = answering(stride=8).windows(example, vocabulary, 36)
    assert len(windows) > 2
    assert all(len(window.ids) <= 36 for window in windows)
    pieces = [window.ids[window.first : -1] for window in windows]
    joined = pieces[0] + [i for part in pieces[1:] for i in part[8:]]
    assert joined == whole.ids[whole.first : -1]
    for before, after in itertools.pairwise(windows):
        assert before.ids[-9:-1] == after.ids[after.first : after.first + 8]
    words = [SENTENCE[slice(*whole.words[i])] for i, begins in enumerate(whole.begins) if begins]
    assert words == re.findall(r"\w+|[^\w\s]", SENTENCE)


@pytest.mark.parametrize("answer", ["Ada", "old clock", "Kelwick", "1987", "in Kelwick, for two crowns", "The"])
def test_an_answer_is_whole_in_some_window(answer: str, vocabulary: Vocabulary) -> None:
    start = SENTENCE.index(answer)
    example = Question("Who?", SENTENCE, [answer], [start])
    length = len(vocabulary.encode(" " + answer))
    matches = 0
    for window in answering(stride=length).windows(example, vocabulary, length + 40):
        first, last = window.place(start, start + len(answer))
        if first:
            matches += 1
            words = window.words
            assert SENTENCE[words[first - window.first][0] : words[last - window.first][1]] == answer
            text = vocabulary.decode(window.ids[first : last + 1])
            assert text.split() == answer.split()
        else:
            assert (first, last) == (0, 0)
    assert matches


def test_questions_from_squad_and_lines(tmp_path: Path) -> None:
    answers = [{"text": "Ada", "answer_start": SENTENCE.index("Ada")}, {"text": "Ada in", "answer_start": 26}]
    tree = {
        "data": [{"paragraphs": [{"context": SENTENCE, "qas": [{"id": "q", "question": "Who?", "answers": answers}]}]}]
    }
    (tmp_path / "a.json").write_text(json.dumps(tree, indent=1))
    hugging = {"text": ["Ada", "Ada in"], "answer_start": [26, 26]}
    lines = [
        {"question": "Who?", "context": SENTENCE, "answers": hugging},
        {"question": "Who?", "context": SENTENCE, "answer": "Ada"},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (squad,) = answering().read([tmp_path / "a.json"])
    first, second = answering().read([tmp_path / "a.jsonl"])
    assert squad.answers == first.answers == ["Ada", "Ada in"]
    assert squad.starts == first.starts == [26, 26]
    assert squad.name == "q"
    assert (second.answers, second.starts, second.line) == (["Ada"], [26], 2)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"answer": "Eve"}, "line 1: expected the answer 'Eve' at character -1 of the context, found None"),
        ({"answer": "Ada", "start": 3}, "line 1: expected the answer 'Ada' at character 3 of the context, found ' ol'"),
        ({"answers": {"text": [], "answer_start": []}}, "expected answers, each with its start, found [] and []"),
        ({"answers": "Ada"}, "line 1: expected answers with text and answer_start, found 'Ada'"),
        ({"answers": {"text": [5], "answer_start": [0]}}, "line 1: expected the answer 5 at character 0 of"),
        ({"answers": {"text": ["T"], "answer_start": ["0"]}}, "line 1: expected the answer 'T' at character 0 of"),
        ({}, "line 1: expected a field 'answer', found question, context"),
    ],
)  # fmt: skip
def test_questions_that_are_not_as_they_should_be(fields: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"question": "Who?", "context": SENTENCE, **fields}) + "\n")
    with pytest.raises(DataError) as caught:
        answering().read([tmp_path / "a.jsonl"])
    assert sentence in str(caught.value)


@pytest.mark.parametrize("replacement", [None, 5, {"x": 1}, [None], [["x"]]])
@pytest.mark.parametrize(
    "part", ["data", "paragraphs", "qas", "answers", "context", "question", "text", "answer_start"]
)
def test_squad_without_its_parts(part: str, replacement: Any, tmp_path: Path) -> None:
    def damaged(name: str, value: Any) -> dict[str, Any]:
        return {name: replacement if name == part else value}

    answer = damaged("text", "Ada") | damaged("answer_start", 0)
    question = damaged("question", "Who?") | damaged("answers", [answer])
    paragraph = damaged("context", "Ada slept.") | damaged("qas", [question])
    tree = damaged("data", [damaged("paragraphs", [paragraph])])
    (tmp_path / "a.json").write_text(json.dumps(tree))
    with pytest.raises(DataError, match=f"{tmp_path}/a.json.*expected.*found"):
        answering().read([tmp_path / "a.json"])


def test_a_line_that_asks() -> None:
    assert read_question("Who?\tAda slept.", "here") == read_question(
        '{"question": "Who?", "context": "Ada slept."}', "here"
    )
    with pytest.raises(DataError, match="here: expected a question, a tab and a text"):
        read_question("Who slept?", "here")


# Generated data


@pytest.mark.parametrize("name", DATA_SETS)
def test_generated_data_is_the_same_again_and_grows_at_its_end(name: str, tmp_path: Path) -> None:
    sizes = {"train": 60, "dev": 20, "test": 20}
    files = generate(name, tmp_path / "a", **sizes)
    assert sorted(files) == sorted((tmp_path / "a").iterdir())
    again = generate(name, tmp_path / "b", **sizes)
    assert [file.read_bytes() for file in files] == [file.read_bytes() for file in again]
    generate(name, tmp_path / "c", **sizes | {"train": 90})
    generate(name, tmp_path / "d", **sizes, seed=2)
    for file in files:
        text = file.read_bytes()
        assert (tmp_path / "c" / file.name).read_bytes().startswith(text)
        assert (tmp_path / "d" / file.name).read_bytes() != text
    assert len({file.read_bytes() for file in files if file.suffix == files[0].suffix}) == 3


def test_generated_entities_need_their_neighbors(tmp_path: Path) -> None:
    train, _, test = generate("entities", tmp_path, train=1500, dev=1, test=300)
    examples = tagging(spans=True).read([train])  # which checks that they are IOB2
    assert {tag[2:] for e in examples for tag in e.tags if tag != "O"} == {"PER", "ORG", "LOC", "DATE"}
    kinds: dict[str, set[str]] = {}
    touching = 0
    for example in examples:
        for word, tag in zip(example.words, example.tags, strict=True):
            kinds.setdefault(word, set()).add(tag[2:])
        pairs = zip(example.tags, example.tags[1:], strict=False)
        touching += any(a[2:] == b[2:] and b.startswith("B-") for a, b in pairs)
    assert sum({"PER", "ORG", "LOC"} <= found for found in kinds.values()) > 100
    assert "PER" in kinds["May"]
    assert "DATE" in kinds["May"]
    assert touching > 30
    unseen = {w for e in tagging(spans=True).read([test]) for w in e.words} - set(kinds)
    assert len(unseen) > 50


def test_generated_questions_have_rivals_for_their_answer(tmp_path: Path) -> None:
    train, _, test = generate("questions", tmp_path, train=300, dev=1, test=100)
    examples = answering().read([train])  # which checks that answers are where they should be
    years = [e for e in examples if e.answers[0].isdigit()]
    rivals = [len({w for w in e.context.replace(";", " ").replace(".", " ").split() if w.isdigit()}) for e in years]
    assert sum(count > 1 for count in rivals) > 0.7 * len(years)
    known, every = names(False), names(True)
    assert set(known.last) < set(every.last)
    assert set(known.first) < set(every.first)
    new = set(every.last) - set(known.last)
    assert not any(name in e.context for e in examples for name in new)
    assert any(name in e.context for e in answering().read([test]) for name in new)
