"""Padding, batches and predictions of the encoder-only tasks, compared with their definitions."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from headwise.config import Config
from headwise.data.stream import PlannedStream
from headwise.errors import CheckpointError
from headwise.models.build import build_encoder_only, load_encoder
from headwise.models.output_heads import HeadedEncoder, pool
from headwise.tasks.batches.examples import make_rows, row_stream
from headwise.tasks.classification import Classification
from headwise.tasks.encoder import EncoderKind, Tools, run_rows
from headwise.tasks.question_answering import QuestionAnswering, best_answer
from headwise.tasks.registry import find_task
from headwise.tasks.tagging import Tagging, best_iob2
from headwise.text.preparation.labelled.classification import LabelledText
from headwise.text.preparation.labelled.examples import Encoded
from headwise.text.preparation.labelled.question_answering import Window
from headwise.text.tokens.subwords import BOS, EOS
from headwise.text.tokens.vocabulary import Characters

MODEL = {"encoder_layers": 2, "d_model": 16, "d_ff": 32, "heads": 2, "max_length": 64, "segments": 2}
LOWEST = torch.finfo(torch.float32).min


def random_logits(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), requires_grad=True)


# Padding and batches

KINDS: dict[str, EncoderKind[Any]] = {
    "classification": Classification(),
    "tagging": Tagging(),
    "question_answering": QuestionAnswering(),
}


def config_of(task: str, **more: Any) -> Config:
    return Config.from_tree({"task": task, "model": MODEL, "batch": {"tokens": 1000}, **more})


def rows_of(task: str) -> Encoded:
    random = np.random.default_rng(1)
    ids, targets = [], []
    for length in (3, 9, 20, 5, 14):
        inside = random.integers(4, 20, length).tolist()
        if task == "question_answering":
            ids.append([BOS, *inside[:2], EOS, *inside[2:], EOS])
            targets.append([4, 4])
        else:
            ids.append([BOS, *inside, EOS])
            targets.append([1] if task == "classification" else [-1, *[2] * length, -1])
    return Encoded(ids, targets, list(range(len(ids))))


@pytest.mark.parametrize("pooling", ["first", "mean"])
@pytest.mark.parametrize("task", KINDS)
def test_padding_changes_nothing(task: str, pooling: str) -> None:
    more = {"classification": {"pooling": pooling}} if task == "classification" else {}
    together, alone = (config_of(task, **more, batch={"tokens": tokens}) for tokens in (1000, 1))
    torch.manual_seed(1)
    head = KINDS[task].head(together, 3)
    model = HeadedEncoder(build_encoder_only(together.model, 20), head).eval()
    vocabulary = Characters("\nabcdefghijklmno")
    (padded_logits, padded_loss), (logits, loss) = (
        run_rows(KINDS[task], Tools(config, model, vocabulary, ["x", "y", "z"]), rows_of(task))
        for config in (together, alone)
    )
    for ids, a, b in zip(rows_of(task).ids, padded_logits, logits, strict=True):
        real = slice(None) if task == "classification" else slice(len(ids))
        assert_close(a[real], b[real], rtol=1e-5, atol=1e-5)
    assert_close(padded_loss.nll, loss.nll)
    assert padded_loss.count == loss.count


def test_a_masked_language_model_has_the_loss_of_the_model_that_it_is_given(tmp_path: Path) -> None:
    """As a sharded copy of it, which is trained in its place."""
    (tmp_path / "text").write_text("the cat sees the dog\n" * 50, encoding="utf-8")
    data = {"text": [str(tmp_path / "text")], "workers": 1}
    subwords = {"kind": "characters"}
    config = config_of("masked_language_model", data=data, subwords=subwords).with_overrides(["model.segments=0"])
    kind = find_task(config.task)
    prepared = kind.prepare(config, tmp_path / "prepared", expected=None, say=lambda _: None)
    whole = kind.task(config, prepared, kind.build(config, prepared))
    copied = whole.with_model(copy.deepcopy(whole.model))
    copied.loss(next(iter(whole.batches()))).total.backward()
    assert all(parameter.grad is None for parameter in whole.model.parameters())
    assert all(parameter.grad is not None for parameter in copied.model.parameters())


def test_pooling_is_the_first_token_or_the_mean_of_the_real_ones() -> None:
    hidden = torch.randn(2, 4, 3)
    mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    assert_close(pool(hidden, mask, "first"), hidden[:, 0])
    assert_close(pool(hidden, mask, "mean"), torch.stack([hidden[0].mean(0), hidden[1, :2].mean(0)]))


# Order


def stream() -> PlannedStream[Any]:
    lengths = np.arange(3, 43)

    def make(epoch: int, rows: np.ndarray, random: np.random.Generator) -> Any:
        return make_rows([[random.integers(100)] * lengths[row] for row in rows], [[1]] * len(rows), rows.tolist())

    return row_stream(lambda _: lengths, make, 100, seed=1, identity={"data": "x"})


def test_every_row_once_an_epoch() -> None:
    one, seen = stream(), list[int]()
    while one.epoch == 0:
        batch = next(one)
        assert batch.ids.numel() <= 100
        seen += batch.rows
    assert sorted(seen) == list(range(40))


def test_a_position_belongs_to_its_budget() -> None:
    with pytest.raises(CheckpointError, match="planned with tokens=99, found tokens=100"):
        stream().load_state(stream().state() | {"tokens": 99})


# Answers


def test_the_best_answer_is_that_of_trying_all() -> None:
    context = "one two three four five"
    words = [(0, 3), (4, 7), (4, 7), (8, 13), (14, 18), (14, 18), (14, 18), (19, 23)]
    begins = [True, True, False, True, True, False, False, True]
    ends = [True, False, True, True, False, False, True, True]
    window = Window([BOS, 9, EOS, *range(10, 18), EOS], 3, words, begins, ends)
    for seed in range(50):
        logits = random_logits(12, 2, seed=seed).detach() * 3
        p = logits.double().softmax(dim=0)
        for longest in (1, 3, 8):
            tried = {
                (words[i][0], words[j][1]): float(p[3 + i, 0] * p[3 + j, 1])
                for i in range(8)
                for j in range(i, min(8, i + longest))
                if begins[i] and ends[j]
            }
            best = max(tried, key=lambda span: tried[span])
            found = best_answer(context, window, logits, longest)
            assert (found.start, found.end) == best
            assert found.text == context[best[0] : best[1]]
            assert found.probability == pytest.approx(tried[best])


def test_the_best_tags_are_those_of_trying_all() -> None:
    labels, changed = ["B-X", "B-Y", "I-X", "I-Y", "O"], 0
    for seed in range(40):
        logits = random_logits(4, 5, seed=seed).detach() * 2
        tried = {
            tags: sum(float(logits[place, tag]) for place, tag in enumerate(tags))
            for tags in itertools.product(range(5), repeat=4)
            if all(
                not labels[tag].startswith("I-") or (place and labels[tags[place - 1]][1:] == labels[tag][1:])
                for place, tag in enumerate(tags)
            )
        }
        found = best_iob2(logits, labels)
        assert tuple(found) == max(tried, key=lambda tags: tried[tags])
        changed += found != logits.argmax(dim=-1).tolist()
    assert changed > 5


# Predictions and scores


@pytest.mark.parametrize("spans", [False, True])
def test_a_sentence_without_words_has_no_tags(spans: bool) -> None:
    config, tagging = config_of("tagging", tagging={"spans": spans}), Tagging()
    model = HeadedEncoder(build_encoder_only(config.model, 20), tagging.head(config, 2)).eval()
    tools = Tools(config, model, Characters("\nabcdefghijklmno"), ["B-X", "O"])
    sentences = [tagging.question(line, "here") for line in ("", "ab c", " ")]
    assert [len(tags) for tags in tagging.predict(tools, sentences)] == [0, 2, 0]


@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_what_is_too_long_is_cut_with_a_warning(task: str) -> None:
    config, kind = config_of(task), KINDS[task]
    model = HeadedEncoder(build_encoder_only(config.model, 20), kind.head(config, 2)).eval()
    tools = Tools(config, model, Characters("\nabcdefghijklmno"), ["a", "b"])
    examples = [kind.question(line, "here") for line in ("a" * 63, "a" * 61, "b" * 100)]
    with pytest.warns(UserWarning, match=r"^2 examples were cut to fit model\.max_length=64$"):
        assert len(kind.predict(tools, examples)) == 3


def test_a_class_without_training_texts_is_in_the_table() -> None:
    examples = [LabelledText("x", "new"), LabelledText("y", "a"), LabelledText("z", "new")]
    record = Classification().score(config_of("classification"), ["a", "b"], examples, [[0.9, 0.1]] * 3)
    supports = {label: scores["support"] for label, scores in record["classes"].items()}
    assert supports == {"a": 1, "b": 0, "new": 2}
    f1 = {label: scores["f1"] for label, scores in record["classes"].items()}
    assert record["macro_f1"] == pytest.approx((f1["a"] + f1["new"]) / 2)


# Weights


def test_an_encoder_of_another_shape_is_named(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    config = config_of("classification")
    model = HeadedEncoder(build_encoder_only(config.model, 20), Classification().head(config, 2))
    save_file({"encoder.embedding.weight": torch.zeros(19, 16)}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"expected encoder.embedding.weight of shape \(20, 16\)"):
        load_encoder(model, tmp_path / "model.safetensors")
