"""Metrics of labels, spans and answers against scikit-learn, seqeval and examples computed by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.evaluation.labels import (
    accuracy,
    by_class,
    exact_match,
    macro_f1,
    normalize,
    score_spans,
    spans,
    word_f1,
)

LABELS = ["a", "b", "c"]
TAGS = ["O", "B-X", "I-X", "B-Y", "I-Y"]


@given(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1, max_size=30))
def test_classes_are_scored_as_scikit_learn_does(pairs: list[tuple[str, str]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="needs the extra 'digits'")
    predicted, gold = [s for s, _ in pairs], [g for _, g in pairs]
    expected = metrics.precision_recall_fscore_support(gold, predicted, labels=LABELS, zero_division=0)
    scores = by_class(predicted, gold, LABELS)
    for index, name in enumerate(("precision", "recall", "f1")):
        assert [scores[label][name] / 100 for label in LABELS] == pytest.approx(expected[index].tolist())
    assert [scores[label]["support"] for label in LABELS] == expected[3].tolist()
    assert macro_f1(predicted, gold) / 100 == pytest.approx(metrics.f1_score(gold, predicted, average="macro"))
    assert accuracy(predicted, gold) / 100 == pytest.approx(metrics.accuracy_score(gold, predicted))


@given(st.lists(st.sampled_from(TAGS), max_size=12))
def test_spans_are_those_of_strict_iob2(tags: list[str]) -> None:
    scheme = pytest.importorskip("seqeval.scheme")
    expected = [(e.tag, e.start, e.end) for e in scheme.Tokens(tags, scheme.IOB2).entities]
    assert spans(tags) == expected


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of numpy, by seqeval 1.2.2
@given(st.lists(st.lists(st.tuples(*[st.sampled_from(TAGS)] * 2), min_size=1, max_size=8), min_size=1, max_size=5))
def test_spans_are_scored_as_seqeval_does(sentences: list[list[tuple[str, str]]]) -> None:
    metrics, scheme = (pytest.importorskip(f"seqeval.{name}") for name in ("metrics", "scheme"))
    predicted, gold = ([[pair[side] for pair in sentence] for sentence in sentences] for side in (0, 1))
    scores = score_spans(predicted, gold)
    if not scores["types"]:  # where there is no span, seqeval has no report
        assert not any(map(spans, [*predicted, *gold]))
        return
    report = metrics.classification_report(
        gold, predicted, output_dict=True, mode="strict", scheme=scheme.IOB2, zero_division=0
    )
    names = {"precision": "precision", "recall": "recall", "f1": "f1-score"}
    for kind, found in (*scores["types"].items(), ("micro avg", scores)):
        for ours, theirs in names.items():
            assert found[ours] / 100 == pytest.approx(report[kind][theirs])
    assert {kind: each["support"] for kind, each in scores["types"].items()} == {
        kind: each["support"] for kind, each in report.items() if "avg" not in kind
    }


def test_spans_count_whole() -> None:
    """By hand: 2 of 3 gold spans are correct, 1 of 3 predictions has a wrong end; adjacent spans stay separate."""
    gold = [["B-X", "I-X", "B-X", "O"], ["B-Y", "I-Y"]]
    predicted = [["B-X", "I-X", "B-X", "O"], ["B-Y", "O"]]
    scores = score_spans(predicted, gold)
    assert (scores["precision"], scores["recall"], scores["f1"]) == pytest.approx((200 / 3, 200 / 3, 200 / 3))
    assert scores["types"]["X"] == {"precision": 100.0, "recall": 100.0, "f1": 100.0, "support": 2}
    assert scores["types"]["Y"]["f1"] == 0
    joined = score_spans([["B-X", "I-X", "I-X", "O"], ["O", "O"]], gold)
    assert joined["f1"] == 0


def test_nothing_to_find_and_nothing_found() -> None:
    assert score_spans([["O"]], [["O"]]) == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "types": {}}


@pytest.mark.parametrize(
    ("answer", "normal"),
    [
        ("The  Eiffel Tower!", "eiffel tower"),
        ("a man, a plan", "man plan"),
        ("U.S.A.", "usa"),
        ("Theodore", "theodore"),
        ("", ""),
    ],
)
def test_answers_are_normalized(answer: str, normal: str) -> None:
    assert normalize(answer) == normal


def test_answers_are_scored_against_the_one_that_fits_best() -> None:
    assert exact_match("the red boat.", ["Red boat", "ship"]) == 100
    assert exact_match("boat", ["red boat"]) == 0
    # 1 word of 1 is right, 1 of 2 found: 2 · 1 · ½ / (1 + ½)
    assert word_f1("boat", ["ship", "red boat"]) == pytest.approx(200 / 3)
    # Words count as often as they come: 1 right of 2 and of 1.
    assert word_f1("boat boat", ["boat"]) == pytest.approx(200 / 3)
    assert word_f1("", ["the"]) == 100
    assert word_f1("", ["boat"]) == 0
