"""The benchmarks' peers decode the same model with the same outputs as Headwise, greedy and with a beam."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from benchmarks.systems import OWN, find_peer
from benchmarks.systems.peer import Decoding, Room, Setting
from benchmarks.systems.workload import Workload
from headwise.config import Config
from headwise.decoding.batching import padded
from headwise.models.transformer import Transformer
from headwise.text.tokens.subwords import BOS, EOS, PAD
from headwise.training.loss import smoothed_cross_entropy
from seq2seq import VOCABULARY, small_model

BEAMS = [1, 4]
STEPS, ROWS = 150, 64


def draw(count: int, seed: int) -> list[list[int]]:
    """Return random sentences of 1 to 8 tokens."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 9, (count,), generator=generator).tolist()
    return [torch.randint(4, VOCABULARY, (length,), generator=generator).tolist() for length in lengths]


def learn(model: Transformer) -> None:
    """Train briefly to copy, so that outputs end before the limit, differ, and aren't trivial to search."""
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(STEPS):
        sentences = draw(ROWS, step)
        source, mask = padded([[*ids, EOS] for ids in sentences], PAD, torch.device("cpu"))
        target, _ = padded([[BOS, *ids] for ids in sentences], PAD, torch.device("cpu"))
        hidden = model(source, mask, target)[mask]
        loss, _ = smoothed_cross_entropy(hidden, model.output_weight, source[mask])
        (loss / len(hidden)).backward()
        optimizer.step()
        optimizer.zero_grad()


def make(folder: Path, norm: str) -> Workload:
    model = small_model(norm=norm, max_length=128)
    learn(model)
    save_file({n: p.detach().contiguous() for n, p in model.named_parameters()}, folder / "model.safetensors")
    config = Config.from_tree({"model": model.config.model_dump(mode="json")})
    (folder / "config.yaml").write_text(config.to_yaml())
    sources = [[*ids, EOS] for ids in draw(16, seed=-1)]
    workload = Workload(folder, "toy", VOCABULARY, VOCABULARY, True, "random", sources, [])
    workload.save()
    return workload


@pytest.fixture(scope="module", params=["post", pytest.param("pre", marks=pytest.mark.slow)])
def workload(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Workload:
    return make(tmp_path_factory.mktemp("toy"), request.param)


@pytest.mark.parametrize("beam", BEAMS)
@pytest.mark.parametrize("name", ["ctranslate2", "huggingface"])
def test_outputs_equal_ours(workload: Workload, name: str, beam: int) -> None:
    peer = find_peer(name)
    if reason := peer.absent():
        pytest.skip(reason)
    assert not peer.refuses(workload)
    if not (workload.folder / "ctranslate2-float").exists() and name == "ctranslate2":
        peer.prepare(workload, workload.folder)
    job = Decoding(batch=1, beam=beam, length=None, strict=True)
    setting = next(s for s in peer.decoding_settings(Room(), job) if s.precision == "float32")
    own = find_peer(OWN).open_decoding(workload, Setting("float32", 1), "cpu")
    theirs = peer.open_decoding(workload, setting, "cpu")
    pairs = [(own([source], job)[0], theirs([source], job)[0]) for source in workload.sources]
    outputs = {tuple(ours) for ours, _ in pairs}
    assert len(outputs) > len(pairs) // 2
    assert max(map(len, outputs)) < 30  # they end before any limit
    assert [found for _, found in pairs] == [ours for ours, _ in pairs]


def test_int8_weights_translate_too(workload: Workload) -> None:
    peer = find_peer("ctranslate2")
    if reason := peer.absent():
        pytest.skip(reason)
    if not (workload.folder / "ctranslate2-int8").exists():
        peer.prepare(workload, workload.folder)
    decode = peer.open_decoding(workload, Setting("int8", 1), "cpu")
    outputs = decode(workload.sources, Decoding(batch=4, beam=2, length=6))
    assert [len(output) for output in outputs] == [6] * len(workload.sources)
