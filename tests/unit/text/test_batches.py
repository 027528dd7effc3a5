from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headwise.config import AugmentConfig, DataConfig, SubwordConfig
from headwise.data.plans import mix, plan_batches
from headwise.data.stream import StandIn
from headwise.errors import CheckpointError, DataError
from headwise.tasks.batches.pairs import Batch, BatchStream, make_batch
from headwise.text.preparation.in_process import prepare
from headwise.text.preparation.parallel import PreparedData
from headwise.text.tokens.subwords import BOS, EOS, PAD
from paths import SHARED

MULTI30K = SHARED / "multi30k"
TOKENS = 64

lengths = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), max_size=80).map(
    lambda pairs: np.array(pairs, np.int32).reshape(-1, 2).T
)


def padding_share(batches: list[NDArray[np.int64]], *lengths: NDArray[Any]) -> float:
    """Return the fraction of padding among all positions of all batches, over all sides."""
    real = sum(int(side[rows].sum()) for side in lengths for rows in batches)
    return 1 - real / sum(len(rows) * int(side[rows].max()) for side in lengths for rows in batches)


@given(lengths, st.integers(40, 300), st.integers(0, 5), st.integers(0, 5))
def test_a_plan_has_every_row_once_and_keeps_within_the_budget(
    sides: NDArray[np.int32], tokens: int, seed: int, epoch: int
) -> None:
    batches = plan_batches(sides[0], sides[1], tokens, seed=seed, epoch=epoch)
    rows = np.concatenate([*batches, np.zeros(0, np.int64)])
    assert sorted(rows.tolist()) == list(range(sides.shape[1]))
    for batch in batches:
        assert len(batch) * sides[0][batch].max() <= tokens
        assert len(batch) * sides[1][batch].max() <= tokens
    again = plan_batches(sides[0], sides[1], tokens, seed=seed, epoch=epoch)
    assert [batch.tolist() for batch in again] == [batch.tolist() for batch in batches]


def test_plans_differ_from_epoch_to_epoch_and_seed_to_seed() -> None:
    sides = np.random.default_rng(0).integers(1, 30, (2, 500))

    def members(seed: int, epoch: int) -> set[frozenset[int]]:
        return {frozenset(b.tolist()) for b in plan_batches(sides[0], sides[1], 300, seed=seed, epoch=epoch)}

    first = members(1, 0)
    for other in (members(1, 1), members(2, 0)):
        assert len(other & first) < len(first) / 4


def test_large_corpora_are_halved_first_and_planned_as_well() -> None:
    random = np.random.default_rng(0)
    source = random.integers(1, 60, 100_000)
    target = np.clip(source + random.integers(-9, 10, 100_000), 1, None)
    batches = plan_batches(source, target, 1000, seed=1, epoch=0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(100_000))
    for batch in batches:
        assert len(batch) * max(source[batch].max(), target[batch].max()) <= 1000
    assert padding_share(batches, source, target) < 0.02
    assert len(batches) < 1.12 * np.maximum(source, target).sum() / 1000


def test_a_row_longer_than_the_budget() -> None:
    with pytest.raises(DataError, match="pair 2 has 9 subwords on one side, more than a batch of 8 tokens"):
        plan_batches(np.array([1, 2]), np.array([1, 9]), 8, seed=0, epoch=0)


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="needs ../shared/data/multi30k")
@pytest.mark.parametrize("tokens", [4096, 8192])
def test_less_than_five_percent_padding_on_multi30k(tmp_path_factory: pytest.TempPathFactory, tokens: int) -> None:
    directory = tmp_path_factory.getbasetemp() / "multi30k" / "prepared"
    files = {side: [str(MULTI30K / f"train.lc.norm.tok.{side}.gz")] for side in ("en", "de")}
    config = DataConfig(source=files["en"], target=files["de"])
    train = prepare(config, SubwordConfig(size=10_000), directory).train
    source, target = train.source_lengths, train.target_lengths
    for epoch in range(3):
        batches = plan_batches(source, target, tokens, seed=1, epoch=epoch)
        assert padding_share(batches, source, target) < 0.05
        fullest = np.maximum(source, target).sum() / tokens  # batches, were there no padding at all
        assert len(batches) < 1.15 * fullest


@given(st.lists(st.integers(1, 30), min_size=1, max_size=9), st.integers(0, 9), st.floats(0.1, 9.0))
@settings(max_examples=50)
def test_mixing_gives_each_file_its_share(sizes: list[int], seed: int, weight: float) -> None:
    files = np.repeat(np.arange(len(sizes)), sizes)
    weights = [weight, *[1.0] * (len(sizes) - 1)]
    epochs = [mix(files, weights, seed=seed, epoch=epoch) for epoch in range(4)]
    for rows in epochs:
        assert len(rows) == len(files)
        for index, count in enumerate(np.bincount(files[rows], minlength=len(sizes))):
            assert abs(count - len(files) * weights[index] / sum(weights)) <= 1
    # Over several epochs, the rows of one file are used equally often.
    uses = np.bincount(np.concatenate(epochs), minlength=len(files))
    for index in range(len(sizes)):
        assert np.ptp(uses[files == index]) <= 1


# --- Streams -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    return make_prepared(tmp_path_factory.mktemp("plain"), dropout=0.0)


@pytest.fixture(scope="module")
def with_dropout(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    return make_prepared(tmp_path_factory.mktemp("dropout"), dropout=0.2)


def make_prepared(folder: Path, dropout: float) -> PreparedData:
    random = np.random.default_rng(0)
    words = ["a", "man", "woman", "rides", "horse", "beach", "on", "the"]
    for side in ("en", "de"):
        text = [" ".join(random.choice(words, n)) for n in random.integers(1, 9, 60)]
        (folder / f"a.{side}").write_text("\n".join(text[:40]))
        (folder / f"b.{side}").write_text("\n".join(text[40:]))
    config = DataConfig(
        source=[str(folder / "a.en"), str(folder / "b.en")],
        target=[str(folder / "a.de"), str(folder / "b.de")],
        dev_pairs=0,
        cleaning={"max_ratio": 100.0},  # type: ignore[arg-type]
    )
    return prepare(config, SubwordConfig(size=40, dropout=dropout), folder / "prepared")


def take(stream: BatchStream, count: int) -> list[Batch]:
    items = [next(stream) for _ in range(count)]
    return [item.batch if isinstance(item, StandIn) else item for item in items]


def epoch_of(stream: BatchStream) -> list[Batch]:
    """All batches of the epoch that the stream is at the beginning of."""
    batches, epoch = take(stream, 1), stream.epoch
    if stream.index:
        while stream.epoch == epoch:
            batches += take(stream, 1)
    return batches


def same(left: list[Batch], right: list[Batch]) -> bool:
    return len(left) == len(right) and all(
        a.rows == b.rows and torch.equal(a.source, b.source) and torch.equal(a.target_output, b.target_output)
        for a, b in zip(left, right, strict=True)
    )


def test_a_batch_by_definition(prepared: PreparedData) -> None:
    train = prepared.train
    rows = [3, 0, 17, 5]
    batch = make_batch(train, rows)
    assert batch.rows == rows
    width = max(len(train.source(row)) for row in rows)
    height = max(len(train.target(row)) for row in rows) + 1
    assert batch.source.shape == batch.source_mask.shape == (4, width)
    assert batch.target_input.shape == batch.target_output.shape == (4, height)
    for place, row in enumerate(rows):
        source, target = train.source(row).tolist(), train.target(row).tolist()
        assert batch.source[place].tolist() == source + [PAD] * (width - len(source))
        assert batch.source_mask[place].tolist() == [True] * len(source) + [False] * (width - len(source))
        padding = [PAD] * (height - len(target) - 1)
        assert batch.target_input[place].tolist() == [BOS, *target, *padding]
        assert batch.target_output[place].tolist() == [*target, EOS, *padding]
    assert batch.target_tokens == int((batch.target_output != PAD).sum())
    assert batch.source.dtype == batch.target_input.dtype == batch.target_output.dtype == torch.int64
    assert batch.source_mask.dtype == torch.bool


def test_a_stream_gives_every_row_once_an_epoch(prepared: PreparedData) -> None:
    with_stream = BatchStream(prepared, TOKENS, seed=1)
    seen = []
    for epoch in range(3):
        assert (with_stream.epoch, with_stream.index) == (epoch, 0)
        batches = epoch_of(with_stream)
        assert sorted(row for batch in batches for row in batch.rows) == list(range(len(prepared.train)))
        seen.append([batch.rows for batch in batches])
    assert seen[0] != seen[1] != seen[2]
    with_stream.close()


@given(st.integers(0, 40), st.integers(0, 20), st.integers(1, 3), st.booleans(), st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_going_on_from_a_state_is_going_on(
    prepared: PreparedData, before: int, ahead: int, world: int, whole: bool, seed: int
) -> None:
    stream = BatchStream(prepared, TOKENS, seed=seed)
    stream.share(world - 1, world, whole=whole)
    take(stream, before)
    state = json.loads(json.dumps(stream.state()))
    expected = take(stream, ahead)  # goes on in the same stream, whose thread is batches ahead of the state
    other = BatchStream(prepared, TOKENS, seed=seed)
    other.share(world - 1, world, whole=whole)
    other.load_state(state)
    assert same(take(other, ahead), expected)
    stream.load_state(state)
    assert same(take(stream, ahead), expected)
    stream.close()
    assert same(take(stream, 3), take(other, 3))  # closing loses no batch
    assert stream.state() == other.state()
    stream.close()
    other.close()


@pytest.mark.parametrize("world", [1, 2, 3, 16])
@pytest.mark.parametrize("whole", [False, True])
def test_ranks_keep_in_step_and_share_the_rows(prepared: PreparedData, world: int, whole: bool) -> None:
    streams = [BatchStream(prepared, TOKENS, seed=1) for _ in range(world)]
    for rank, stream in enumerate(streams):
        stream.share(rank, world, whole=whole)
    alone = BatchStream(prepared, TOKENS, seed=1)
    for _ in range(2):
        rows, expected = list[list[int]](), [batch.rows for batch in epoch_of(alone)]
        while (streams[0].epoch, streams[0].index) != (alone.epoch, alone.index):
            parts = [next(stream) for stream in streams]
            assert len({json.dumps(stream.state()) for stream in streams}) == 1
            rows += [part.rows for part in parts if not isinstance(part, StandIn)]
        assert sorted(itertools.chain(*rows)) == list(range(len(prepared.train)))
        assert not whole or rows == expected
    for stream in (*streams, alone):
        stream.close()


def test_weights_mix_the_files(prepared: PreparedData) -> None:
    stream = BatchStream(prepared, TOKENS, seed=1, weights=[1.0, 3.0])
    rows = [row for batch in epoch_of(stream) for row in batch.rows]
    stream.close()
    assert np.bincount(prepared.train.files[rows]).tolist() == [15, 45]


def test_dropout_segments_every_epoch_anew_and_resumes(with_dropout: PreparedData) -> None:
    stream = BatchStream(with_dropout, TOKENS, seed=1, dropout=0.2)
    first = epoch_of(stream)
    state = stream.state()
    second = epoch_of(stream)
    stream.close()

    def texts(batches: list[Batch]) -> dict[int, list[int]]:
        return {row: batch.source[i].tolist() for batch in batches for i, row in enumerate(batch.rows)}

    a, b = texts(first), texts(second)
    assert a.keys() == b.keys()
    subwords = with_dropout.subwords
    assert {row: subwords.decode_source(ids) for row, ids in a.items()} == {
        row: subwords.decode_source(ids) for row, ids in b.items()
    }
    other = BatchStream(with_dropout, TOKENS, seed=1, dropout=0.2)
    other.load_state(state)
    assert same(take(other, len(second)), second)
    other.close()
    assert any(
        subwords.encode_source(subwords.decode_source(ids)) != [i for i in ids if i not in (PAD, EOS)]
        for ids in a.values()
    )


def test_augmented_epochs_resume_and_belong_to_their_shares(with_dropout: PreparedData) -> None:
    shares = AugmentConfig(capitals=0.5, typos=0.5)
    stream = BatchStream(with_dropout, TOKENS, seed=1, augment=shares)
    first, state = epoch_of(stream), stream.state()
    second = epoch_of(stream)
    stream.close()
    assert not same(first, second)
    other = BatchStream(with_dropout, TOKENS, seed=1, augment=shares)
    other.load_state(state)
    assert same(take(other, len(second)), second)
    other.close()
    with pytest.raises(CheckpointError, match="augment"):
        BatchStream(with_dropout, TOKENS, seed=1).load_state(state)


def test_a_position_in_other_batches_is_refused(prepared: PreparedData) -> None:
    state = BatchStream(prepared, TOKENS, seed=1).state()
    with pytest.raises(CheckpointError, match="seed=1, found seed=2"):
        BatchStream(prepared, TOKENS, seed=2).load_state(state)
    with pytest.raises(CheckpointError, match=f"tokens={TOKENS}, found tokens=128"):
        BatchStream(prepared, 128, seed=1).load_state(state)
    with pytest.raises(CheckpointError, match="data=other"):
        BatchStream(prepared, TOKENS, seed=1).load_state({**state, "data": "other"})


def test_a_pair_longer_than_a_batch_is_named(prepared: PreparedData) -> None:
    longest = np.maximum(prepared.train.source_lengths, prepared.train.target_lengths)
    row = int(longest.argmax())
    stream = BatchStream(prepared, int(longest.max()) - 1, seed=1)
    for _ in range(2):  # asking again doesn't hang
        with pytest.raises(DataError) as caught:
            next(stream)
        assert str(caught.value).startswith(f"{prepared.train.locate([row])} has {longest.max()} subwords")
    stream.close()
