"""A small task is learned with the commands of a user only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwise.engine.translator import Translator
from program import call
from toy import toy_pairs, write_toy

# A model that learns within seconds on one core to translate word by word in reverse order.
SMALL = [
    *(
        "model.encoder_layers=1",
        "model.decoder_layers=1",
        "model.d_model=32",
        "model.d_ff=64",
        "model.heads=2",
    ),
    *("model.dropout=0", "subwords.size=60", "subwords.dropout=0", "batch.tokens=400", "data.dev_pairs=50"),
    *("schedule.name=inverse_sqrt", "schedule.peak=0.01", "schedule.warmup=100", "training.max_steps=1000"),
    *("training.validate_every=500", "training.checkpoint_every=50", "training.average_last=5"),
    *("training.threads=1", "training.precision=float32", "training.device=cpu"),
]


def test_two_files_in_and_a_translator_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = toy_pairs(4000, shortest=1, longest=4)
    known, unseen = pairs[:-200], pairs[-200:]
    toy, run = write_toy(tmp_path, known), tmp_path / "run"
    outcome = call(
        capsys, "train", "--source", toy.source, "--target", toy.target, "-o", run, *SMALL, "--json"
    )
    assert outcome.code == 0, outcome.err
    report = json.loads(outcome.out)
    assert (report["run"], report["steps"], report["ended"]) == (str(run), 1000, "reached 1000 steps")
    assert report["dev"]["bleu"] > 90
    assert report["dev"]["perplexity"] < 1.5

    text, translated, reference = tmp_path / "test.src", tmp_path / "test.out", tmp_path / "test.tgt"
    text.write_text("".join(f"{source}\n" for source, _ in unseen))
    reference.write_text("".join(f"{target}\n" for _, target in unseen))
    assert call(capsys, "translate", run, text, "--scores", "-o", translated).code == 0
    lines = [line.split("\t") for line in translated.read_text().splitlines()]
    right = sum(line[1] == target for line, (_, target) in zip(lines, unseen, strict=True))
    assert right > 0.95 * len(unseen)

    # For the same subwords, forced decoding gives the scores of the search. A text has several segmentations, and an
    # output may have another one than encoding gives: then `evaluate --per-line`, which reads text, scores others.
    jsonl = tmp_path / "test.jsonl"
    assert call(capsys, "translate", run, text, "--jsonl", "-o", jsonl).code == 0
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
    translated.write_text("".join(f"{line[1]}\n" for line in lines))
    scored = call(
        capsys, "evaluate", run, "--per-line", "--source", text, "--reference", translated, "--jsonl"
    )
    records = [json.loads(line) for line in scored.out.splitlines()]
    alike = 0
    for output, record in zip(outputs, records, strict=True):
        assert sum(record["token_log_probabilities"]) == pytest.approx(record["log_probability"], abs=1e-5)
        if record["pieces"] == output["pieces"]:
            alike += 1
            assert record["score"] == pytest.approx(output["score"], abs=1e-5)
    assert alike > 0.5 * len(unseen)
    forwards = tmp_path / "test.wrong"
    forwards.write_text("".join(f"{' '.join(reversed(target.split()))}\n" for _, target in unseen))
    wrong = call(capsys, "evaluate", run, "--per-line", "--source", text, "--reference", forwards)
    totals = [float(line.split("\t")[0]) for line in wrong.out.splitlines()]
    palindromes = sum(target.split() == target.split()[::-1] for _, target in unseen)
    less = sum(total < output["log_probability"] - 1 for total, output in zip(totals, outputs, strict=True))
    assert less > 0.95 * len(unseen) - palindromes
