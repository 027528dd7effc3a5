"""JoeyNMT checkpoints in, against JoeyNMT itself where it is installed, and `torch.nn`."""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
import yaml

from headwise.cli.main import run as headwise
from headwise.config import Config
from headwise.decoding.translator import Translator
from joey_models import settings, write_joey
from translator_run import ENGLISH, GERMAN

KINDS: dict[str, dict[str, Any]] = {
    "shared": {},
    "pre-norm": {"norm": "pre", "tied": "target"},
    "untied, unscaled": {"tied": "none", "scaled": False},
    "words": {"level": "word", "tied": "none"},
    "characters": {"level": "char"},
}


def imported(source: Path, run: Path) -> Path:
    assert headwise(["import", str(source), "-o", str(run)]) == 0
    return run


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_and_tokens_are_those_of_torch(kind: str, tmp_path: Path) -> None:
    theirs, pairs = write_joey(tmp_path / "joey", **KINDS[kind])
    run = imported(tmp_path / "joey", tmp_path / "run")
    scores = Translator.load(run, engine="pytorch", device="cpu").score(ENGLISH, GERMAN)
    for (source, target), output in zip(pairs, scores, strict=True):
        found = theirs(torch.tensor(source), torch.tensor([2, *target[:-1]]))
        expected = found.gather(-1, torch.tensor(target)[:, None])[:, 0]
        assert list(output.token_log_probabilities) == pytest.approx(expected.tolist(), abs=1e-5)
    pieces = (tmp_path / "joey" / "trg_vocab.txt").read_text().splitlines()
    for engine in ("native", "pytorch"):
        translator = Translator.load(run, engine=engine, device="cpu", precision="float32")
        outputs = translator.translate(ENGLISH, beam=1, max_length=20)
        for (source, _), translation in zip(pairs, outputs, strict=True):
            expected = [pieces[number] for number in theirs.greedy(source, 2, 3, [0, 1, 2], 20)]
            assert translator.subwords.target_pieces(translation.outputs[0].tokens) == expected
            if kind == "words":
                assert translation.text == " ".join(expected)
            if kind == "characters":
                assert translation.text == "".join(expected).replace("▁", " ")


def test_search_options_and_a_single_checkpoint(tmp_path: Path) -> None:
    write_joey(tmp_path / "joey")
    runs = [imported(tmp_path / "joey" / name, tmp_path / (name or "d")) for name in ("", "5.ckpt")]
    decoding = Config.load(runs[0] / "config.yaml").decoding
    assert (decoding.beam, decoding.alpha, decoding.extra_length) == (3, 1.0, 30)
    before, after = ((run / "model.safetensors").read_bytes()[-1000:] for run in runs)
    assert before == after


THEIRS = """
import json, sys, torch
from pathlib import Path
from joeynmt.config import load_config, parse_global_args
from joeynmt.helpers import load_checkpoint
from joeynmt.model import build_model
from joeynmt.search import greedy
from joeynmt.tokenizers import build_tokenizer
from joeynmt.vocabulary import build_vocab
args = parse_global_args(load_config(Path(sys.argv[1], "config.yaml")), mode="train")
vocabularies = build_vocab(args.data, model_dir=Path(sys.argv[1]))
model = build_model(args.model, *vocabularies)
model.load_state_dict(load_checkpoint(Path(sys.argv[1], "best.ckpt"), "cpu")["model_state"])
model.eval()
tokenizer = build_tokenizer(args.data)
for side, vocabulary in zip(("src", "trg"), vocabularies):
    tokenizer[side].set_vocab(vocabulary)
found = []
for source, target in json.loads(sys.argv[2]):
    ids = [vocabulary.sentences_to_ids([tokenizer[side](text)], bos=bos, eos=True)[0]
           for side, vocabulary, text, bos in zip(("src", "trg"), vocabularies, (source, target), (False, True))]
    src, trg = map(torch.tensor, ids)
    mask, own = (torch.ones(1, 1, length, dtype=torch.bool) for length in (src.shape[1], trg.shape[1] - 1))
    with torch.no_grad():
        states, _, _, _ = model(
            return_type="encode", src=src, src_length=torch.tensor([src.shape[1]]), src_mask=mask)
        logits, _, _, _ = model(
            return_type="decode", trg_input=trg[:, :-1], encoder_output=states, encoder_hidden=None, src_mask=mask,
            unroll_steps=None, decoder_hidden=None, trg_mask=own)
    scores = logits[0].log_softmax(-1).gather(-1, trg[0, 1:, None])[:, 0].tolist()
    tokens = greedy(
        max_output_length=20, model=model, encoder_output=states, encoder_hidden=None, src_mask=mask,
        generate_unk=False, min_output_length=1, n_best=1)[0]
    pieces = vocabularies[1].arrays_to_sentences(tokens)[0]
    found.append((scores, [piece for piece in pieces if piece != "</s>"]))
print(json.dumps(found))
"""
KINDS_OF_JOEY = {"post": "all", "pre": "target", "sparse": "none"}


@pytest.mark.skipif(
    importlib.util.find_spec("joeynmt") is None, reason="needs JoeyNMT itself: pip install joeynmt"
)
@pytest.mark.parametrize("kind", KINDS_OF_JOEY)
def test_a_model_of_joeynmts_own_trainer(kind: str, tmp_path: Path) -> None:
    train_joey(tmp_path, kind, KINDS_OF_JOEY[kind])
    pairs = list(zip(ENGLISH, GERMAN, strict=True))
    command = [sys.executable, "-c", THEIRS, str(tmp_path / "model"), json.dumps(pairs)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    theirs = json.loads(done.stdout.splitlines()[-1])
    run = imported(tmp_path / "model", tmp_path / "run")
    ours = Translator.load(run, engine="pytorch", device="cpu")
    for output, (scores, _) in zip(ours.score(ENGLISH, GERMAN), theirs, strict=True):
        assert list(output.token_log_probabilities) == pytest.approx(scores, abs=1e-5)
    for engine in ("native", "pytorch"):
        translator = Translator.load(run, engine=engine, device="cpu", precision="float32")
        outputs = translator.translate(ENGLISH, beam=1, min_length=1, max_length=20, extra_length=40)
        for translation, (_, pieces) in zip(outputs, theirs, strict=True):
            assert translator.subwords.target_pieces(translation.outputs[0].tokens) == pieces


def train_joey(folder: Path, kind: str, tied: str) -> None:
    """Let JoeyNMT train for some steps, into `folder / "model"`."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*ENGLISH, *GERMAN] * 5),
        model_writer=model,
        vocab_size=130,
        model_type="unigram",
        hard_vocab_limit=False,
        pad_id=1,
        unk_id=0,
        bos_id=2,
        eos_id=3,
        minloglevel=2,
    )
    (folder / "sp.model").write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [processor.id_to_piece(number) for number in range(processor.vocab_size())]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    for side, lines in (("src", ENGLISH), ("trg", GERMAN)):
        for name in ("train", "dev"):
            (folder / f"{name}.{side}").write_text("\n".join(lines * (20 if name == "train" else 1)) + "\n")
    tree = settings(tied, "pre" if kind == "pre" else "post", "sentencepiece", scaled=kind != "sparse")
    for side in ("src", "trg"):
        tree["data"][side] |= {"voc_file": str(folder / "vocab.txt"), "max_length": 100, "normalize": False}
        tree["data"][side]["tokenizer_cfg"]["model_file"] = str(folder / "sp.model")
    tree["data"] |= {"train": str(folder / "train"), "dev": str(folder / "dev"), "dataset_type": "plain"}
    tree |= {"model_dir": str(folder / "model"), "use_cuda": False, "random_seed": 1}
    tree["training"] = {
        "optimizer": "adam",
        "learning_rate": 0.01,
        "learning_rate_min": 1e-9,
        "decrease_factor": 0.999,
        "scheduling": "exponential",
        "batch_size": 20,
        "updates": 100,
        "epochs": 100,
        "validation_freq": 50,
        "logging_freq": 10,
        "overwrite": True,
        "print_valid_sents": [],
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(tree))
    command = [sys.executable, "-m", "joeynmt", "train", str(folder / "config.yaml"), "--skip-test"]
    subprocess.run(command, capture_output=True, check=True, cwd=folder)


class Bomb:
    """What a hostile pickle holds."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("boom",))


def edit_settings(*keys: str, value: Any) -> Any:
    def edit(folder: Path) -> None:
        tree = yaml.safe_load((folder / "config.yaml").read_text())
        node = tree
        for key in keys[:-1]:
            node = node.setdefault(key, {})
        node[keys[-1]] = value
        (folder / "config.yaml").write_text(yaml.safe_dump(tree))

    return edit


def edit_state(**changes: Any) -> Any:
    def edit(folder: Path) -> None:
        checkpoint = torch.load(folder / "5.ckpt", weights_only=True)
        for name, tensor in changes.items():
            checkpoint["model_state"][name.replace("__", ".")] = tensor
        torch.save(checkpoint, folder / "5.ckpt")

    return edit


def save(content: Any) -> Any:
    return lambda folder: torch.save(content, folder / "5.ckpt")


def compressed(folder: Path) -> None:
    with zipfile.ZipFile(folder / "5.ckpt") as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(folder / "5.ckpt", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def edit_vocabulary(change: Any) -> Any:
    def edit(folder: Path) -> None:
        for file in (folder / "src_vocab.txt", folder / "trg_vocab.txt"):
            file.write_text(change(file.read_text()))

    return edit


STACK = ("model", "encoder")
HOSTILE = {
    "code in a pickle": (save({"model_state": {"a": Bomb()}}), "found a pickle that needs more"),
    "no zip": (lambda folder: (folder / "5.ckpt").write_bytes(gzip.compress(b"x")), "in its zip format"),
    "compressed": (compressed, "expected uncompressed tensors"),
    "an expanded tensor": (edit_state(src_embed__lut__weight=torch.zeros(1).expand(10**12)), "within its"),
    "a list": (save([1]), "expected model_state, the parameters by name, found none"),
    "no parameters": (save({"model_state": {"a": 1}}), "expected tensors by name, found a int for 'a'"),
    "a missing tensor": (save({"model_state": {}}), "expected tensor src_embed.lut.weight, found none"),
    "one tensor more": (
        edit_state(more=torch.zeros(3)),
        "found tensor more, which Headwise has no place for",
    ),
    "numbers that aren't": (
        edit_state(src_embed__lut__weight=torch.full((110, 32), float("nan"))),
        "tied to",
    ),
    "other positions": (edit_state(encoder__pe__pe=torch.zeros(1, 9, 32)), "to be the paper's sinusoids"),
    "positions of another shape": (
        edit_state(encoder__pe__pe=torch.zeros(9, 32)),
        "of shape (1, positions, 32)",
    ),
    "few rows": (
        edit_state(
            **{
                name: torch.zeros(9, 32)
                for name in (
                    "src_embed__lut__weight",
                    "trg_embed__lut__weight",
                    "decoder__output_layer__weight",
                )
            }
        ),
        "expected 110 rows",
    ),
    "a recurrent encoder": (edit_settings(*STACK, "type", value="recurrent"), "model.encoder.type: expected"),
    "an activation": (
        edit_settings(*STACK, "activation", value="tanh"),
        "model.encoder.activation: expected",
    ),
    "a residual weight": (
        edit_settings(*STACK, "alpha", value=1.5),
        "model.encoder.alpha: expected less than or",
    ),
    "no normalization": (
        edit_settings(*STACK, "layer_norm", value=None),
        "model.encoder.layer_norm: expected",
    ),
    "unequal normalization": (
        edit_settings(*STACK, "layer_norm", value="pre"),
        "model.*.layer_norm: expected both",
    ),
    "unequal widths": (
        edit_settings(*STACK, "hidden_size", value=48),
        "expected both to be equal, found 48 and 32",
    ),
    "a vast width": (edit_settings(*STACK, "hidden_size", value=10**12), "model.encoder.hidden_size: "),
    "more layers": (edit_settings(*STACK, "num_layers", value=3), "expected tensor encoder.layers.2."),
    "another width": (edit_settings(*STACK, "num_heads", value=5), "model.*.num_heads"),
    "a tokenizer": (
        edit_settings("data", "src", "tokenizer_cfg", "pretokenizer", value="moses"),
        "data.src.tokenizer_cfg.pretokenizer: expected 'none', found 'moses'",
    ),
    "a normalization": (
        edit_settings("data", "src", "normalize", value=True),
        "data.src.normalize: expected false",
    ),
    "language tags": (edit_settings("data", "special_symbols", "lang_tags", value=["<de>"]), "lang_tags: "),
    "equal ids": (
        edit_settings("data", "special_symbols", "pad_id", value=0),
        "expected different ids below 110",
    ),
    "a vast id": (
        edit_settings("data", "special_symbols", "pad_id", value=10**8),
        "expected different ids below 110",
    ),
    "a piece twice": (
        edit_vocabulary(lambda text: text + "▁A\n"),
        "expected different pieces, found '▁A' twice",
    ),
    "a missing piece": (
        edit_vocabulary(lambda text: text.replace("▁A\n", "")),
        "expected all pieces of the SentencePiece model, found no '▁A'",
    ),
    "two vocabularies": (
        lambda folder: (folder / "trg_vocab.txt").write_text("a\nb\n"),
        "expected the pieces of src_vocab.txt",
    ),
    "no subwords": (lambda folder: (folder / "sp.model").write_bytes(b"x"), "expected a SentencePiece model"),
    "missing subwords": (
        lambda folder: (folder / "sp.model").unlink(),
        "sp.model: there is no such subword model",
    ),
    "no YAML": (lambda folder: (folder / "config.yaml").write_text("{"), "expected a YAML file"),
    "two checkpoints": (
        lambda folder: ((folder / "best.ckpt").unlink(), (folder / "6.ckpt").write_text("")),
        "expected best.ckpt or one .ckpt file, found 2",
    ),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undamaged directory."""
    folder = tmp_path_factory.mktemp("whole")
    write_joey(folder)
    return folder


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_directory_gets_a_sentence(
    name: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "joey"
    folder.mkdir()
    for file in whole.iterdir():
        if not file.is_symlink():
            (folder / file.name).write_bytes(file.read_bytes())
    (folder / "best.ckpt").symlink_to("5.ckpt")
    damage, sentence = HOSTILE[name]
    damage(folder)
    assert headwise(["import", str(folder), "-o", str(tmp_path / "run")]) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.err.count("\n") == 1
    assert "boom" not in captured.out
    assert not (tmp_path / "run").exists()
