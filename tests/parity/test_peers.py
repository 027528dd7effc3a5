"""The peers of the benchmarks decode the same model as we do: their outputs equal ours, greedy and with a beam."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from headwise.bench.peer import Decoding, Room, Setting
from headwise.bench.peers import OWN, find_peer
from headwise.bench.workload import Workload
from headwise.config import Config
from headwise.text.subword import EOS
from seq2seq import VOCABULARY, small_model

JOBS = {
    "greedy": Decoding(batch=8, beam=1, length=None, strict=True),
    "beam": Decoding(batch=8, beam=4, length=None, strict=True),
    "one-at-a-time": Decoding(batch=1, beam=4, length=None, strict=True),
}


def make(folder: Path, norm: str) -> Workload:
    """A model whose end symbol is likely enough that outputs end by themselves."""
    model = small_model(norm=norm, dropout=0.0, share_embeddings="all", d_k=None)
    with torch.no_grad():
        model.source_embedding.weight.mul_(0.6)
        model.source_embedding.weight[EOS] *= 1.5
    save_file({n: p.detach().contiguous() for n, p in model.named_parameters()}, folder / "model.safetensors")
    config = Config.from_tree({"model": model.config.model_dump(mode="json")})
    (folder / "config.yaml").write_text(config.to_yaml())
    generator = torch.Generator().manual_seed(3)
    sources = [
        [*torch.randint(4, VOCABULARY, (length,), generator=generator).tolist(), EOS]
        for length in (1, 2, 3, 5, 6, 7, 7, 9)
    ]
    workload = Workload(folder, "toy", VOCABULARY, VOCABULARY, True, "random", sources, [])
    workload.save()
    return workload


@pytest.fixture(scope="module", params=["post", "pre"])
def workload(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Workload:
    return make(tmp_path_factory.mktemp("toy"), request.param)


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("name", ["ctranslate2", "huggingface"])
def test_outputs_equal_ours(workload: Workload, name: str, job: str) -> None:
    peer = find_peer(name)
    if reason := peer.absent():
        pytest.skip(reason)
    assert not peer.refuses(workload)
    if not (workload.folder / "ctranslate2-float").exists() and name == "ctranslate2":
        peer.prepare(workload, workload.folder)
    setting = next(s for s in peer.decoding_settings(Room(), JOBS[job]) if s.precision == "float32")
    # Room for every output to end by itself, or for none to: the systems bound a batch's lengths differently.
    sources = workload.sources if JOBS[job].batch == 1 else workload.sources[-1:] * 2
    own = find_peer(OWN).open_decoding(workload, Setting("float32", 1), "cpu")
    theirs = peer.open_decoding(workload, replace(setting, threads=1), "cpu")
    expected = [own([source], JOBS[job])[0] for source in sources]
    found = [theirs([source], JOBS[job])[0] for source in sources]
    assert found == expected
    assert any(output != expected[0] for output in expected) or JOBS[job].batch > 1


def test_int8_weights_translate_too(workload: Workload) -> None:
    peer = find_peer("ctranslate2")
    if reason := peer.absent():
        pytest.skip(reason)
    if not (workload.folder / "ctranslate2-int8").exists():
        peer.prepare(workload, workload.folder)
    decode = peer.open_decoding(workload, Setting("int8", 1), "cpu")
    outputs = decode(workload.sources, Decoding(batch=4, beam=2, length=6))
    assert [len(output) for output in outputs] == [6] * len(workload.sources)
