"""Models for several target languages, chosen by the first token of a translation or of a source text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from headwise.cli.main import run as headwise
from headwise.decoding.translator_model import pytorch_model
from headwise.engine.alignment import word_numbers
from headwise.engine.translator import Translator
from headwise.errors import CheckpointError
from headwise.tasks.batches.pairs import make_batch
from headwise.text.preparation.parallel import PreparedData
from headwise.text.tokens.pair_vocabulary import PairVocabulary
from translator_run import ENGLISH, GERMAN, assert_same_weights, make_run

transformers = pytest.importorskip("transformers", reason="needs the extra 'huggingface'")

from marian_models import CODE, code_id, load_tokenizer, write_marian  # noqa: E402 - needs transformers

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

KINDS: dict[str, dict[str, Any]] = {
    "shared": {"target_codes": (">>swe<<", ">>fra<<")},
    "separate": {"separate": True, "target_codes": (">>swe<<", ">>fra<<")},
    "as in mBART": {"target_codes": ("sv_SE", "fr_XX"), "decoder_start_token_id": 0},
}


@pytest.fixture(scope="module", params=KINDS)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Marian model whose translations begin with a forced language code."""
    return write_marian(tmp_path_factory.mktemp("forced") / "model", **KINDS[request.param])


@pytest.fixture(scope="module")
def run(directory: Path) -> Path:
    """Its run directory."""
    out = directory.parent / "run"
    assert headwise(["import", str(directory), "-o", str(out)]) == 0
    return out


def original(directory: Path) -> tuple[Any, Any]:
    return transformers.MarianMTModel.from_pretrained(directory), load_tokenizer(directory)


def codes(directory: Path) -> tuple[int, int]:
    """Return the ids of the codes, the forced one first."""
    tokenizer = load_tokenizer(directory)
    names = next(kind["target_codes"] for kind in KINDS.values() if kind["target_codes"][0] in pieces(tokenizer))
    return code_id(tokenizer, names[0]), code_id(tokenizer, names[1])


def pieces(tokenizer: Any) -> list[str]:
    return list(tokenizer.target_encoder if tokenizer.separate_vocabs else tokenizer.encoder)


def generated(directory: Path, text: str, **options: Any) -> list[str]:
    """Return the pieces that `generate` returns after the symbol that begins, up to the end."""
    model, tokenizer = original(directory)
    row = model.generate(**tokenizer([text], return_tensors="pt"), do_sample=False, max_length=20, **options)
    tokens = row[0].tolist()[1:]
    return [tokenizer.decoder[number] for number in tokens if number not in (0, tokenizer.pad_token_id)]


def translated(translator: Translator, text: str, **options: Any) -> list[str]:
    """Return the pieces of a translation of at most 18 tokens, the code at its beginning included."""
    (translation,) = translator.translate(
        [text], max_length=18, extra_length=50, allow_empty=True, allow_unknown=True, **options
    )
    subwords = translator.subwords
    return subwords.target_pieces([*subwords.given[:1], *translation.outputs[0].tokens])


@pytest.mark.parametrize("engine", ["native", "pytorch"])
def test_translations_begin_with_the_forced_code(directory: Path, run: Path, engine: str) -> None:
    translator = Translator.load(run, engine=engine, device="cpu", precision="float32")
    for text in ENGLISH:
        expected = generated(directory, text, num_beams=1)
        assert expected[0] in (">>swe<<", "sv_SE")
        assert translated(translator, text, beam=1) == expected
    for text in ENGLISH[:3]:
        expected = generated(directory, text, num_beams=3, length_penalty=0.0, early_stopping=True)
        assert translated(translator, text, beam=3, alpha=0.0) == expected


def test_another_language_is_an_option(
    directory: Path, run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, other = codes(directory)
    name = load_tokenizer(directory).decoder[other]
    text = ENGLISH[0]
    expected = generated(directory, text, num_beams=1, forced_bos_token_id=other)
    translator = Translator.load(run, engine="native", language=name.strip("<>"))
    assert translated(translator, text, beam=1) == expected
    assert expected != generated(directory, text, num_beams=1)
    chosen = tmp_path / "chosen"
    assert headwise(["import", str(directory), "-o", str(chosen), "--target-language", name]) == 0
    assert f"{name} is put before each translation" in capfd.readouterr().err
    assert translated(Translator.load(chosen, engine="native"), text, beam=1) == expected
    (tmp_path / "text").write_text(text + "\n")
    for arguments in ([str(chosen)], [str(run), "--target-language", name]):
        assert headwise(["translate", *arguments, str(tmp_path / "text"), "--beam", "1"]) == 0
    first, second = capfd.readouterr().out.splitlines()
    assert first == second
    assert name not in first
    memory, out = tmp_path / "a.tmx", tmp_path / "b.tmx"
    memory.write_text(f"<tmx><header srclang='en'/><tu><tuv xml:lang='en'><seg>{text}</seg></tuv></tu></tmx>")
    assert headwise(["translate", str(run), str(memory), "--target-language", name, "-o", str(out)]) == 0
    assert f'<tuv xml:lang="{translator.languages[1]}">' in out.read_text()


@torch.no_grad()
def test_forced_scores_are_theirs(directory: Path, run: Path) -> None:
    ours, (theirs, tokenizer) = Translator.load(run, engine="pytorch", device="cpu"), original(directory)
    forced, _ = codes(directory)
    for source, target, output in zip(ENGLISH, GERMAN, ours.score(ENGLISH, GERMAN), strict=True):
        labels = [forced, *tokenizer(text_target=target)["input_ids"]]
        batch = tokenizer([source], return_tensors="pt")
        logits = theirs(**batch, labels=torch.tensor([labels])).logits[0]
        expected = logits.log_softmax(-1).gather(-1, torch.tensor(labels)[:, None])[1:, 0]
        assert list(output.token_log_probabilities) == pytest.approx(expected.tolist(), abs=1e-5)
        assert output.log_probability == pytest.approx(expected.sum().item(), abs=1e-4)
    (found,) = ours.translate(ENGLISH[:1], n_best=3, beam=3)
    again = ours.score(ENGLISH[:1] * 3, [output.tokens for output in found.outputs])
    for output, scored in zip(found.outputs, again, strict=True):
        assert scored.tokens == output.tokens
        assert scored.score == pytest.approx(output.score, abs=1e-5)


def test_prefixes_alignments_and_parts(run: Path) -> None:
    translator = Translator.load(run, engine="native")
    (begun,) = translator.translate(ENGLISH[:1], prefixes=["Zwei Hunde"], beam=2)
    assert begun.text.startswith("Zwei Hunde")
    long = " ".join(ENGLISH * 4)
    (split,) = translator.translate([long], split=True, alignments=True, beam=1)
    assert split.source_pieces == tuple(translator.subwords.source_pieces(translator.subwords.encode_source(long)))
    assert split.outputs[0].alignment
    (translation,) = translator.translate(ENGLISH[:1], alignments=True, beam=1)
    output = translation.outputs[0]
    assert len(output.token_log_probabilities) == len(output.pieces) == len(output.tokens) + 1
    assert output.alignment is not None
    assert [target for _, target in output.alignment] == list(range(word_numbers(output.pieces[:-1])[-1] + 1))
    (sampled,) = translator.translate(ENGLISH[:1], sample=True, n_best=2)
    assert all(output.token_log_probabilities for output in sampled.outputs)


def test_training_goes_on_with_the_code(directory: Path, run: Path, tmp_path: Path) -> None:
    for name, lines in (("new.en", ENGLISH), ("new.de", GERMAN)):
        (tmp_path / name).write_text("\n".join(lines * 4) + "\n", encoding="utf-8")
    new, out = tmp_path / "new", tmp_path / "out"
    files = ["--source", str(tmp_path / "new.en"), "--target", str(tmp_path / "new.de")]
    quick = ["training.threads=1", "training.precision=float32", "batch.tokens=100", "training.r_drop=0"]
    assert headwise(["train", "--from", str(run), *files, *quick, "--max-steps=3", "-o", str(new)]) == 0
    theirs, tokenizer = original(directory)
    prepared = PreparedData.open(new / "prepared")
    batch = make_batch(prepared.dev, [0])
    labels = [codes(directory)[0], *tokenizer(text_target=prepared.dev_target[0])["input_ids"]]
    assert prepared.subwords.target_pieces(batch.target_output[0].tolist()) == [
        tokenizer.decoder[number] for number in labels
    ]
    model = pytorch_model(Translator.load(run, engine="pytorch", device="cpu"))
    log_probs = model.project(model(batch.source, batch.source_mask, batch.target_input)).log_softmax(-1)
    loss = -log_probs[0].gather(-1, batch.target_output[0][:, None]).mean()
    source = tokenizer(prepared.dev_source[:1], return_tensors="pt")
    assert loss.item() == pytest.approx(theirs(**source, labels=torch.tensor([labels])).loss.item(), abs=1e-5)

    assert headwise(["export", str(new), "--to", "huggingface", "-o", str(out)]) == 0
    exported = json.loads((out / "generation_config.json").read_text())
    name = tokenizer.decoder[labels[0]]
    assert json.loads((out / "vocab.json").read_text()).get(name) == exported["forced_bos_token_id"] or (
        json.loads((out / "target_vocab.json").read_text())[name] == exported["forced_bos_token_id"]
    )
    translator = Translator.load(new, engine="native", precision="float32")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(out)
    for text in ENGLISH:
        row = model.generate(**load_tokenizer(out)([text], return_tensors="pt"), num_beams=1, max_length=20)[0].tolist()
        (translation,) = translator.translate([text], beam=1, max_length=18, extra_length=50, allow_empty=True)
        assert row[2:] == [*translation.outputs[0].tokens, *row[2 + len(translation.outputs[0].tokens) :]]
    back = tmp_path / "back"
    assert headwise(["import", str(out), "-o", str(back)]) == 0
    assert_same_weights(new, back)
    assert Translator.load(back).subwords.digest() == Translator.load(new).subwords.digest()


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose source texts name the language, as OPUS-MT's for several."""
    return write_marian(tmp_path_factory.mktemp("tagged") / "model", steps=3)


def test_a_code_before_the_source_is_chosen_by_the_same_option(
    tagged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert headwise(["import", str(tagged), "-o", str(tmp_path / "plain")]) == 0
    assert f"or --target-language adds it: {CODE}" in capsys.readouterr().err
    assert headwise(["import", str(tagged), "-o", str(tmp_path / "german"), "--target-language", "deu"]) == 0
    tokenizer = load_tokenizer(tagged)
    runs = [
        Translator.load(tmp_path / "german"),
        Translator.load(tmp_path / "plain", language="deu"),
    ]
    for translator in runs:
        for text in (*ENGLISH, f"{CODE} {ENGLISH[0]}"):
            expected = tokenizer(text if text.startswith(CODE) else f"{CODE} {text}")["input_ids"][:-1]
            found = translator.subwords.source_pieces(translator.subwords.encode_source(text))
            assert found == [tokenizer.decoder[number] for number in expected]
        (translation,) = translator.translate(ENGLISH[:1], beam=1, max_length=18, extra_length=50, allow_empty=True)
        assert translation.source == ENGLISH[0]
        assert (
            translation.text
            == Translator.load(tmp_path / "plain")
            .translate([f"{CODE} {ENGLISH[0]}"], beam=1, max_length=18, extra_length=50, allow_empty=True)[0]
            .text
        )
        assert translator.translate([" "])[0].text == ""
        assert not translator.subwords.given


def test_other_formats(directory: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    code = load_tokenizer(directory).decoder[codes(directory)[0]]
    folder = tmp_path / "ctranslate2"
    assert headwise(["export", str(run), "--to", "ctranslate2", "-o", str(folder)]) == 0
    assert f"translate_batch needs target_prefix=[[{code!r}]" in capsys.readouterr().err
    translator = Translator.load(run, engine="native", precision="float32")
    theirs = ctranslate2.Translator(str(folder), device="cpu")
    for text in ENGLISH:
        source = translator.subwords.source_pieces(translator.subwords.encode_source(text))
        (result,) = theirs.translate_batch([source], [[code]], beam_size=1, max_decoding_length=18, disable_unk=False)
        assert result.hypotheses[0] == translated(translator, text, beam=1)
    pytest.importorskip("onnxruntime")
    assert headwise(["export", str(run), "--to", "onnx", "-o", str(tmp_path / "onnx")]) == 2
    assert "expected translations without a language code" in capsys.readouterr().err


def edit(folder: Path, name: str, **changes: Any) -> None:
    file = folder / name
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize("forced", [0, 1, 10**7])
def test_a_forced_symbol_is_refused(
    tagged: Path, forced: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for file in tagged.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    edit(folder, "generation_config.json", forced_bos_token_id=forced)
    assert headwise(["import", str(folder), "-o", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert f"forced_bos_token_id: expected the id of a piece that is no special symbol, found {forced}" in error
    assert not (tmp_path / "run").exists()


def test_an_unknown_language_gets_a_sentence(tagged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert headwise(["import", str(tagged), "-o", str(tmp_path / "run"), "--target-language", "tlh"]) == 2
    error = capsys.readouterr().err
    assert f"--target-language: expected a language code of this vocabulary ({CODE}), found 'tlh'" in error
    run = make_run(tmp_path / "own")
    (tmp_path / "text").write_text("A dog\n")
    assert headwise(["translate", str(run), str(tmp_path / "text"), "--target-language", "deu"]) == 2
    assert "expected a vocabulary with language codes, found none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"language": "x"}, "language: expected a piece of the source side, found 'x'"),
        ({"language": 3}, "language: expected a piece"),
        ({"language": "</s>"}, "language: expected a piece"),
        ({"tagged": "both"}, "tagged: expected source or target, found 'both'"),
        ({"tagged": ["target"]}, "tagged: expected source or target"),
    ],
)
def test_a_damaged_choice_is_refused(changes: dict[str, Any], sentence: str) -> None:
    content = PairVocabulary(("<pad>", "<unk>", "<s>", "</s>", "▁A", CODE)).content()
    with pytest.raises(CheckpointError, match=r"vocabulary\.json: ") as caught:
        PairVocabulary.parse(json.dumps(json.loads(content) | changes).encode(), "vocabulary.json")
    assert sentence in str(caught.value)
