"""A small task is learned with the commands of a user only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwise.engine.translator import Translator
from program import Call
from text_lines import write_lines
from toy import shape, toy_pairs, write_toy

# A model that learns within seconds on one core to translate word by word in reverse order.
SMALL = [
    *shape(32, 64),
    *("model.dropout=0", "subwords.size=60", "subwords.dropout=0", "batch.tokens=400", "data.dev_pairs=50"),
    *("schedule.name=inverse_sqrt", "schedule.peak=0.01", "schedule.warmup=100", "training.max_steps=1000"),
    *("training.validate_every=500", "training.checkpoint_every=50", "training.average_last=5"),
    *("training.threads=1", "training.precision=float32", "training.device=cpu"),
]


def test_two_files_in_and_a_translator_out(tmp_path: Path, program: Call) -> None:
    pairs = toy_pairs(4000, shortest=1, longest=4)
    known, unseen = pairs[:-200], pairs[-200:]
    toy, run = write_toy(tmp_path, known), tmp_path / "run"
    text = ("--source", toy.source, "--target", toy.target)
    report = program("train", *text, "-o", run, *SMALL, "--json").json
    assert (report["run"], report["steps"], report["ended"]) == (str(run), 1000, "reached 1000 steps")
    assert report["dev"]["bleu"] > 90
    assert report["dev"]["perplexity"] < 1.5

    text, translated = tmp_path / "test.src", tmp_path / "test.out"
    write_lines(text, [source for source, _ in unseen])
    program("translate", run, text, "--scores", "-o", translated).ok()
    lines = [line.split("\t") for line in translated.read_text().splitlines()]
    right = sum(line[1] == target for line, (_, target) in zip(lines, unseen, strict=True))
    assert right > 0.95 * len(unseen)

    # For the same subwords, forced decoding gives the scores of the search. A text has several segmentations, and an
    # output may have another one than encoding gives: then `evaluate --per-line`, which reads text, scores others.
    jsonl = tmp_path / "test.jsonl"
    program("translate", run, text, "--jsonl", "-o", jsonl).ok()
    outputs = [json.loads(line)["outputs"][0] for line in jsonl.read_text().splitlines()]
    assert [[f"{output['score']:.6f}", output["text"]] for output in outputs] == lines
    translator = Translator.load(run, engine="pytorch", device="cpu")
    to_id = translator.subwords.target_processor.piece_to_id
    ids = [[to_id(piece) for piece in output["pieces"][:-1]] for output in outputs]
    for output, forced in zip(outputs, translator.score([source for source, _ in unseen], ids), strict=True):
        assert list(forced.pieces) == output["pieces"]
        assert forced.score == pytest.approx(output["score"], abs=1e-5)
        each = pytest.approx(output["token_log_probabilities"], abs=1e-5)
        assert list(forced.token_log_probabilities) == each
    write_lines(translated, [line[1] for line in lines])
    scored = ("evaluate", run, "--per-line", "--source", text, "--reference")
    records = program(*scored, translated, "--jsonl").records
    alike = 0
    for output, record in zip(outputs, records, strict=True):
        assert sum(record["token_log_probabilities"]) == pytest.approx(record["log_probability"], abs=1e-5)
        if record["pieces"] == output["pieces"]:
            alike += 1
            assert record["score"] == pytest.approx(output["score"], abs=1e-5)
    assert alike > 0.5 * len(unseen)
    forwards = write_lines(tmp_path / "wrong", [" ".join(reversed(target.split())) for _, target in unseen])
    totals = [float(line.split("\t")[0]) for line in program(*scored, forwards).out.splitlines()]
    palindromes = sum(target.split() == target.split()[::-1] for _, target in unseen)
    less = sum(total < output["log_probability"] - 1 for total, output in zip(totals, outputs, strict=True))
    assert less > 0.95 * len(unseen) - palindromes
