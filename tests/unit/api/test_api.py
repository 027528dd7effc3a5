"""The Python API: what `headwise.__all__` has, on runs of directories and on models of one's own loop."""

from __future__ import annotations

import importlib
import json
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import headwise
from headwise.api.arguments import in_arguments
from headwise.config import SubwordConfig
from headwise.engine.translator import Translator
from headwise.errors import CheckpointError, ConfigError, DataError, HeadwiseError
from headwise.models.base import Seq2Seq
from headwise.processes import child_environment, python_command
from headwise.text.tokens.subwords import BOS, EOS
from language_model_run import make_language_model_run, make_masked_model_run
from program import call
from toy import Toy
from translator_run import ENGLISH, GERMAN, make_run

MODEL = {"encoder_layers": 2, "decoder_layers": 1, "d_model": 16, "d_ff": 32, "heads": 2, "max_length": 40}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("api") / "run")


@pytest.fixture(scope="module")
def run(directory: Path) -> headwise.Run:
    return headwise.load(directory, engine="pytorch")


@pytest.fixture(scope="module")
def subwords() -> headwise.Subwords:
    return headwise.Subwords.train(ENGLISH, GERMAN, SubwordConfig(size=120))


@pytest.fixture
def model(subwords: headwise.Subwords) -> Seq2Seq:
    torch.manual_seed(1)
    return headwise.build(MODEL, subwords)


def test_every_name_is_there_and_documented() -> None:
    for module in (headwise, importlib.import_module("headwise.nn")):
        assert sorted(module.__all__) == module.__all__
        for name in module.__all__:
            assert getattr(module, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = headwise.trian
    assert set(headwise.__all__) <= set(dir(headwise))


def test_translating_imports_no_torch(directory: Path) -> None:
    code = (
        "import sys, headwise; assert not {'numpy', 'torch', 'pydantic'} & sys.modules.keys();"
        "print(headwise.load(sys.argv[1]).translate(['A man.'])[0].text); assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [*python_command("-c", code), str(directory)],
        env=child_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if "native library" in done.stderr:
        pytest.skip("the native engine isn't built")
    assert done.returncode == 0, done.stderr


def test_training_returns_the_run_and_tells_its_records(
    toy: Toy, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    records: list[dict[str, Any]] = []
    out = tmp_path / "run"
    trained = headwise.train(
        config=toy.config,
        out=out,
        max_steps=4,
        model={"d_model": 16, "dropout": 0.0},
        training={"log_every": 2},
        progress=records.append,
    )
    assert capfd.readouterr() == ("", "")
    written = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert records == written
    assert {"train", "averaged"} <= {record["kind"] for record in records}
    assert (trained.path, trained.config.model.d_model, trained.config.training.max_steps) == (out, 16, 4)
    assert len(trained.translate(["ba be"])) == 1
    # again in this process: resumed and found finished, in a thread
    found: list[headwise.Run] = []
    thread = threading.Thread(target=lambda: found.append(headwise.train(out=out, max_steps=4)))
    thread.start()
    thread.join()
    assert found[0].path == out


def test_training_is_that_of_the_command_line(toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    headwise.train(config=toy.config, out=tmp_path / "api", max_steps=3, seed=7)
    ran = call(capsys, "train", "-c", toy.config, "--max-steps=3", "--seed=7", "-o", tmp_path / "cli")
    assert ran.code == 0, ran.err
    for name in ("config.yaml", "model.safetensors"):
        assert (tmp_path / "api" / name).read_bytes() == (tmp_path / "cli" / name).read_bytes()


def test_a_task_needs_no_file_of_configuration(toy: Toy, tmp_path: Path) -> None:
    trained = headwise.train(
        task="language_model",
        data={"text": [toy.source]},
        subwords={"size": 40},
        model={"d_model": 16, "d_ff": 16, "heads": 2, "decoder_layers": 1},
        training={"processes": 1, "products": "torch"},
        out=tmp_path / "run",
        max_steps=1,
    )
    assert trained.config.task == "language_model"
    assert len(trained.predict(["ba be"])) == 1


def test_an_error_in_the_callback_ends_the_training(toy: Toy, tmp_path: Path) -> None:
    def stop(record: dict[str, Any]) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        headwise.train(config=toy.config, out=tmp_path / "run", max_steps=4, progress=stop)


def test_unknown_keys_are_errors_that_name_the_nearest(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.d_modle: unknown key \(did you mean model\.d_model\?\)"):
        headwise.train(config=toy.config, out=tmp_path / "run", model={"d_modle": 16})
    with pytest.raises(ConfigError, match=r"model\.layers"):
        headwise.build({"layers": 2})
    for number in (np.int64(16), np.float32(0.5)):
        with pytest.raises(ConfigError, match=r"model\.d_ff: expected text, a number, .*, found np\."):
            headwise.train(config=toy.config, out=tmp_path / "run", model={"d_ff": number})


def test_errors_name_arguments_and_not_options(run: headwise.Run, toy: Toy, tmp_path: Path) -> None:
    out = tmp_path / "run"
    for sentence, wrong in (
        ("train: expected source and target, or config FILE, found neither", lambda: headwise.train(out=out)),
        (
            "data.target (target): expected one file for each plain-text file in data.source (source) (1 beside 0 with "
            "both sides), found 0",
            lambda: headwise.train(toy.source, out=out),
        ),
        (
            "imports: expected the name of a Python module, such as my_attention, found '-'",
            lambda: headwise.load(run.path or "", imports=["-"]),
        ),
        (
            "precision: expected int8 or bfloat16 for to run, found 'int3'",
            lambda: run.export(out, to="run", precision="int3"),
        ),
        ("texts: expected a list, found one string, 'A man.'", lambda: run.predict("A man.")),
        (
            "imports: expected a list, found one string, 'my_attention'",
            lambda: headwise.load(run.path or "", imports="my_attention"),
        ),
        (
            "mix: expected a list, found one string, 'runs/de=0.3'",
            lambda: headwise.train(toy.source, toy.target, out=out, mix="runs/de=0.3"),
        ),
        ("others: expected a list, found one string, 'a'", lambda: run.export(out, to="run", others="a")),
    ):
        with pytest.raises(HeadwiseError) as raised:
            wrong()
        assert str(raised.value) == sentence
    assert in_arguments("swapped; `--no-checks` trains") == "swapped; `checks=False` trains"
    message = "use --restart, or run `headwise export RUN --to run -o DIR`; -s patience=2 and /tmp/a--b/--x stay"
    expected = "use restart=True, or run `headwise export RUN --to run -o DIR`; patience=2 and /tmp/a--b/--x stay"
    assert in_arguments(message) == expected
    options = "-s guard: expected --average without --with; --to-language: expected none"
    assert in_arguments(options) == "guard: expected average without others; languages: expected none"


def test_a_run_does_what_its_translator_does(run: headwise.Run, directory: Path) -> None:
    translator = Translator.load(directory, engine="pytorch")
    assert run.translate(ENGLISH, beam=2) == translator.translate(ENGLISH, beam=2)
    assert list(run.translate_lines(iter(ENGLISH))) == translator.translate(ENGLISH)
    assert run.score(ENGLISH, GERMAN) == translator.score(ENGLISH, GERMAN)
    with ThreadPoolExecutor(4) as threads:
        each = threads.map(lambda text: run.translate([text], beam=2)[0].text, ENGLISH)
        assert [*each] == [translation.text for translation in run.translate(ENGLISH, beam=2)]
    with pytest.raises(ConfigError, match="did you mean beam"):
        run.translate(ENGLISH, baem=2)
    with pytest.raises(CheckpointError, match="expected a run directory"):
        headwise.load(directory / "none")


def test_an_open_file_is_a_list_of_its_lines(run: headwise.Run, tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("".join(f"{text}\n" for text in ENGLISH[:2]), encoding="utf-8")
    with open(tmp_path / "a.en", encoding="utf-8") as file:
        translated = run.translate(file, beam=2)  # type: ignore[arg-type]
    assert [one.text for one in translated] == [one.text for one in run.translate(ENGLISH[:2], beam=2)]
    assert run.score(iter(ENGLISH), iter(GERMAN)) == run.score(ENGLISH, GERMAN)  # type: ignore[arg-type]
    references = [one.text for one in translated]
    with open(tmp_path / "a.en", encoding="utf-8") as file:
        scores = run.evaluate(file, [f"{text}\n" for text in references], beam=2)  # type: ignore[arg-type]
    assert scores == run.evaluate(ENGLISH[:2], references, beam=2)
    assert scores.exact == 100
    with pytest.raises(ConfigError, match="references: expected a list of sentences, found one string"):
        run.evaluate(ENGLISH[:2], "ab")


def test_files_are_translated_as_by_the_command(run: headwise.Run, directory: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join([*ENGLISH, "ξ"]) + "\n", encoding="utf-8")
    (tmp_path / "a.html").write_text(f"<p>{ENGLISH[0]}</p>", encoding="utf-8")
    warnings = run.translate_file(tmp_path / "a.txt", tmp_path / "b.txt", beam=2)
    written = (tmp_path / "b.txt").read_text("utf-8").splitlines()
    assert written[:-1] == [translation.text for translation in run.translate(ENGLISH, beam=2)]
    assert any("ξ (line 7)" in line for line in warnings)
    run.translate_file(tmp_path / "a.txt", tmp_path / "n.txt", n_best=2)
    numbers = [line.partition("\t")[0] for line in (tmp_path / "n.txt").read_text("utf-8").splitlines()]
    assert numbers == [str(number) for number in range(1, len(written) + 1) for _ in range(2)]
    with pytest.raises(ConfigError, match=r"beem.*did you mean beam"):
        run.translate_file(tmp_path / "a.txt", tmp_path / "c.txt", beem=4)
    with pytest.raises(ConfigError, match="chunk: expected"):
        list(run.translate_lines(ENGLISH, chunk=0))
    with pytest.raises(ConfigError, match="split: expected"):
        run.translate(ENGLISH, split="sentences")
    run.translate_file(tmp_path / "a.html", tmp_path / "b.html")
    assert (tmp_path / "b.html").read_text("utf-8").startswith("<p>")
    with pytest.raises(ConfigError, match="expected an output file that is not an input file"):
        run.translate_file(tmp_path / "a.txt", tmp_path / "a.txt")


def test_evaluating_is_that_of_the_command_line(
    run: headwise.Run, directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = run.evaluate(ENGLISH, GERMAN)
    for name, lines in (("en", ENGLISH), ("de", GERMAN)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    sides = "--source", tmp_path / "en", "--reference", tmp_path / "de"
    outcome = call(capsys, "evaluate", directory, *sides, "--json", "--engine=pytorch")
    assert json.loads(outcome.out) == scores.to_json()
    assert outcome.out.count("\n") == 1
    assert not any("source itself" in note for note in scores.notes)
    same = call(capsys, "evaluate", directory, *sides[:3], tmp_path / "en", "--engine=pytorch")
    assert "note: the reference is the source itself in 6 of 6 lines" in same.err
    assert str(scores).splitlines()[0].startswith("BLEU ")
    with pytest.raises(DataError):
        run.evaluate(ENGLISH, GERMAN[1:])


def test_a_run_that_has_translated_still_knows_its_checkpoints(tmp_path: Path) -> None:
    run = headwise.load(make_run(tmp_path / "de"))
    run.translate([ENGLISH[0]])
    with pytest.raises(ConfigError, match=r"expected a step that .*de has a checkpoint of \(none\)"):
        run.explain(ENGLISH[0], do=["checkpoint:3"])


def test_an_explanation_has_the_weights_of_an_independent_pass(run: headwise.Run, tmp_path: Path) -> None:
    seen = run.explain(ENGLISH[1], beam=2)
    subwords = run.translator.subwords
    source = [*subwords.encode_source(ENGLISH[1]), EOS]
    target = seen.trace.forced.target.ids if seen.trace.forced else ()
    recorded = headwise.record(run.model, source, target)  # type: ignore[arg-type]
    assert seen.attention.keys() == {"encoder", "decoder", "cross"}
    for part, weights in recorded.attention.items():
        np.testing.assert_allclose(seen.attention[part], weights, atol=1e-6)
    assert seen.weights.shape == (2, 2, len(target), len(source))
    assert (len(seen.rows), len(seen.columns)) == seen.weights.shape[2:]
    np.testing.assert_allclose(seen.weights[0][1].sum(-1), 1.0, atol=1e-5)
    translated = run.translate([ENGLISH[1]], beam=2, alignments=True)[0]
    assert seen.output == translated.text
    assert seen.alignment == translated.outputs[0].alignment
    for name in ("a.html", "a.json", "a.png"):
        seen.save(tmp_path / name)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "a.json").read_text())["hypotheses"][0]["text"] == seen.output
    page = (tmp_path / "a.html").read_text("utf-8")
    shown = seen._repr_html_()
    assert page == seen.page()
    assert shown.startswith("<iframe srcdoc=")
    assert shown.count('"') == 4  # the page is quoted
    other = run.explain(ENGLISH[1], beam=2, hypothesis=1)
    given = run.explain(ENGLISH[1], target=other.output)
    assert given.output == other.output == other.trace.hypotheses[1].text != seen.output
    changed = run.explain(ENGLISH[1], do=["silence:cross.1.1"])
    assert changed.plain.text == run.explain(ENGLISH[1]).output
    assert changed.output == run.explain(ENGLISH[1], do="silence:cross.1.1").output
    with pytest.raises(ConfigError, match=r"part: expected a picture \(\.png\) to save, found .*b\.json"):
        seen.save(tmp_path / "b.json", part="encoder")
    with pytest.raises(ConfigError, match=r"ends in \.png, \.html or \.json"):
        seen.save(tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("make", "text"), [(make_language_model_run, "the cat"), (make_masked_model_run, "the <mask>at")]
)
def test_the_picture_of_a_model_without_cross_attention_is_of_the_part_that_it_has(
    tmp_path: Path, make: Callable[[Path], Path], text: str
) -> None:
    seen = headwise.load(make(tmp_path / "run"), device="cpu").explain(text)
    (part,) = seen.attention
    seen.save(tmp_path / "own.png")
    seen.save(tmp_path / "named.png", part=part)
    assert (tmp_path / "own.png").read_bytes() == (tmp_path / "named.png").read_bytes()


def test_an_ensemble_isnt_taken_for_its_first_run(directory: Path, tmp_path: Path) -> None:
    several = headwise.load(directory, directory, engine="pytorch")
    with pytest.raises(ConfigError, match="save: expected one run, found an ensemble of 2"):
        several.save(tmp_path / "saved")
    with pytest.raises(ConfigError, match="export: expected one run, found an ensemble of 2"):
        several.export(tmp_path / "exported", to="run", precision="int8")
    assert not list(tmp_path.iterdir())


def test_options_of_decoding_and_more_runs_are_for_translation(tmp_path: Path) -> None:
    single = make_language_model_run(tmp_path / "run")
    for name, value in (("precision", "int8"), ("engine", "native"), ("workers", 2), ("shortlist", True)):
        with pytest.raises(ConfigError, match=f"{name}: expected a translation run beside it, found task lan"):
            headwise.load(single, **{name: value})
    with pytest.raises(CheckpointError, match="expected a run of task translation, found one of language_m"):
        headwise.load(single, single)


def test_a_translation_is_shown_with_its_alignment(run: headwise.Run) -> None:
    translated = run.translate(["A <b>man</b> rides."], alignments=True)[0]
    shown = translated._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert shown.count("<line ") == len(translated.outputs[0].alignment or ())
    assert "<svg" not in run.translate(["A man."])[0]._repr_html_()


def test_decoding_and_recording_are_those_of_the_formula(model: Seq2Seq, subwords: headwise.Subwords) -> None:
    sources = [subwords.encode_source(text) for text in ENGLISH]
    model.train()
    found = headwise.decode(model, sources, beam=2, n_best=2, max_length=6)
    assert model.training
    assert [len(hypotheses) for hypotheses in found] == [2] * len(ENGLISH)
    width = max(map(len, sources))
    padded = torch.tensor([[*ids, *[0] * (width - len(ids))] for ids in sources])
    assert headwise.decode(model, padded, beam=2, n_best=2, max_length=6) == found
    best = found[0][0]
    recorded = headwise.record(model, sources[0], best.tokens)
    assert recorded.log_probabilities == pytest.approx(best.token_log_probabilities, abs=1e-5)
    model.eval()
    source = torch.tensor([[*sources[0], EOS]])
    hidden = model(source, torch.ones_like(source, dtype=torch.bool), torch.tensor([[BOS, *best.tokens]]))
    expected = model.project(hidden)[0].log_softmax(-1).gather(1, torch.tensor([[*best.tokens, EOS]]).T)[:, 0]
    assert recorded.log_probabilities == pytest.approx(expected.tolist(), abs=1e-5)
    assert recorded.outputs["encoder.0"].shape == (1, source.size(1), 16)
    with pytest.raises(DataError, match="expected ids from 0 to 119, found 120"):
        headwise.decode(model, [[120]])
    with pytest.raises(DataError, match="target 1: expected ids"):
        headwise.record(model, sources[0], [-1])
    for flat in (sources[0], torch.tensor(sources[0])):
        with pytest.raises(DataError, match=f"source 1: expected a list of ids, found {sources[0][0]}"):
            headwise.decode(model, flat)  # type: ignore[arg-type]
    for fractions in ([[5.5]], torch.tensor([[5.5]])):
        with pytest.raises(DataError, match=r"source 1: expected ids that are whole numbers, found 5\.5"):
            headwise.decode(model, fractions)  # type: ignore[arg-type]
    for wrong in (["Hello"], ["12"], [[None]], np.array([[5.5]], np.float32), [torch.tensor([5.5])]):
        with pytest.raises(DataError, match="source 1: expected ids that are whole numbers, found"):
            headwise.decode(model, wrong)
    for ask in (lambda: headwise.decode(model, [[5] * 40]), lambda: headwise.record(model, [5], [5] * 40)):
        with pytest.raises(DataError, match=r"expected at most 40 positions \(model.max_length\), found 41"):
            ask()


def test_a_vocabulary_has_the_special_symbols() -> None:
    for size in (3, -1, 2.5):
        with pytest.raises(ConfigError, match=f"vocabulary: expected .* of at least 4, found {size}"):
            headwise.build(MODEL, size)  # type: ignore[arg-type]
    assert headwise.build(MODEL, 4).source_size == 4


def test_a_model_of_ones_own_loop_becomes_a_run(model: Seq2Seq, subwords: headwise.Subwords, tmp_path: Path) -> None:
    config = headwise.Config(model=headwise.ModelConfig.model_validate(MODEL))
    run = headwise.Run.from_model(model, subwords, config)
    ids = headwise.decode(model, [subwords.encode_source(text) for text in ENGLISH])
    texts = [translation.text for translation in run.translate(ENGLISH)]
    assert texts == [subwords.decode_target(found[0].tokens) for found in ids]
    assert run.explain(ENGLISH[0]).output == texts[0]
    saved = run.save(tmp_path / "run")
    for other in (saved, headwise.load(tmp_path / "run"), saved.save(tmp_path / "copy")):
        assert [translation.text for translation in other.translate(ENGLISH)] == texts
        assert other.config.model == config.model
    with pytest.raises(CheckpointError, match="expected a new directory's name"):
        run.save(tmp_path / "run")
    notes = run.export(tmp_path / "marian", to="marian")
    back = headwise.import_model(tmp_path / "marian", tmp_path / "back")
    assert notes
    assert [translation.text for translation in back.translate(ENGLISH)] == texts
    with pytest.raises(ConfigError, match="expected vocabularies of 120 and 120 subwords"):
        headwise.Run.from_model(headwise.build(MODEL, 64), subwords, config)


@pytest.mark.parametrize("architecture", ["transformer", "recurrent", "convolutional"])
def test_a_run_of_a_model_is_of_that_model_as_it_was(
    subwords: headwise.Subwords, tmp_path: Path, architecture: str
) -> None:
    torch.manual_seed(1)  # weights of chance may find an empty output best, which `translate` doesn't give
    shape = {**MODEL, "architecture": architecture, "decoder_layers": 2}
    trained, untouched = (headwise.build(shape, subwords) for _ in range(2))
    untouched.load_state_dict(trained.state_dict())
    trained.train()
    run = headwise.Run.from_model(trained, subwords)  # whose default model is another
    assert trained.training
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.add_(torch.randn_like(parameter))
    expected = headwise.decode(untouched, [subwords.encode_source(ENGLISH[0])])[0][0]
    text = subwords.decode_target(expected.tokens)
    for of in (run, run.save(tmp_path / "run")):
        assert of.config.model == headwise.ModelConfig.model_validate(shape)
        found = of.translate(ENGLISH[:1])[0]
        assert (found.text, found.score) == (text, pytest.approx(expected.score, abs=1e-4))
        assert of.explain(ENGLISH[0]).output == text
    other = headwise.ModelConfig.model_validate({**shape, "heads": 4})
    run = headwise.Run.from_model(untouched, subwords, headwise.Config(model=other))
    assert run.translate(ENGLISH[:1])[0].text == text


def test_a_run_of_ones_own_loop_records_what_its_subwords_are(tmp_path: Path) -> None:
    joining = headwise.Subwords.train(ENGLISH, GERMAN, SubwordConfig(size=120, joiners=True))
    saved = headwise.Run.from_model(headwise.build(MODEL, joining), joining).save(tmp_path / "run")
    assert saved.translator.subwords.joiners


def test_a_files_name_is_no_text_to_learn_subwords_from() -> None:
    with pytest.raises(ConfigError, match=r"expected lists of sentences, found one string, 'train\.de'"):
        headwise.Subwords.train(ENGLISH, "train.de", SubwordConfig(size=120))


def test_layers_are_modules_for_ones_own_loop() -> None:
    from headwise import nn

    x = torch.randn(2, 5, 16, requires_grad=True)
    keep = torch.ones(2, 5, dtype=torch.bool)
    layers = torch.nn.Sequential(nn.SinusoidalPositions(16), nn.MultiHeadAttention(16, 4))
    layer = nn.EncoderLayer(headwise.ModelConfig(d_model=16, heads=4, d_ff=32))
    layer(layers(x), nn.padding_mask(keep)).sum().backward()
    assert x.grad is not None
    assert all(parameter.grad is not None for parameter in layer.parameters())
    q = x[:, None]
    torch.testing.assert_close(nn.attend(q, q, q), functional.scaled_dot_product_attention(q, q, q))
    with pytest.raises(AttributeError, match="no attribute 'Encoder'"):
        _ = nn.Encoder
