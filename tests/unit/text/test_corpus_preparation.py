"""`headwise data prepare`: the same bytes by any engine and after any kill, and streams of batches from its shards."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from headwise.config import CleaningConfig, DataConfig, SubwordConfig
from headwise.corpora.acquire import get_corpus
from headwise.corpora.catalog import find_corpus
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.tasks.batches.pairs import BatchStream
from headwise.text.preparation import tasks
from headwise.text.preparation.cleaning import Rules, words_of
from headwise.text.preparation.corpus import prepare_corpus
from headwise.text.preparation.file_parts import cut, find_files
from headwise.text.preparation.parallel import PreparedData, open_corpora
from headwise.text.preparation.stages import Preparation
from headwise.text.preparation.stores import ShardedStore
from headwise.text.preparation.tables import BANDS, PER_BAND, near_keys
from headwise.text.tokens.pair_vocabulary import PairVocabulary
from headwise.text.tokens.subwords import Subwords
from program import snapshot
from toy import Toy, toy_pairs, write_toy

PAIRS = 300


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return write_toy(tmp_path_factory.mktemp("corpus"), toy_pairs(PAIRS, seed=5))


def job(*sources: object, targets: tuple[object, ...] = (), **changes: object) -> Preparation:
    options = {
        "rules": Rules(CleaningConfig(drop_duplicates=True)),
        "subwords": SubwordConfig(size=48),
        "dev_pairs": 10,
        "shard_pairs": 64,
        "workers": 2,
        **changes,
    }
    return Preparation([str(s) for s in sources], [str(t) for t in targets], **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def prepared(corpus: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("prepared") / "out"
    prepare_corpus(job(corpus.source, targets=(corpus.target,)), out)
    return out


def shards(data: PreparedData) -> ShardedStore:
    assert isinstance(data.train, ShardedStore)
    return data.train


def texts(data: PreparedData) -> list[tuple[str, str]]:
    store = shards(data)
    block = store.block([(end - size, end) for size, end in zip(store._sizes, store._ends, strict=True)])
    decode = data.subwords.decode_target
    sides = [
        [decode(table[row].tolist()) for row in range(len(block))] for table in (block.source_table, block.target_table)
    ]
    return list(zip(*sides, strict=True))


def test_all_pairs_are_in_the_shards_or_the_development_set(corpus: Toy, prepared: Path) -> None:
    data = open_corpora(DataConfig(prepared=[str(prepared)]))
    assert len(shards(data).corpora[0].sizes) == 5
    assert len(data.dev) == 10
    held_out = list(zip(data.dev_source, data.dev_target, strict=True))
    assert sorted([*texts(data), *held_out]) == sorted(corpus.pairs)
    row = 100
    assert f"line {shards(data).block([(row, row + 1)]).lines[0]}" in data.train.locate([row])
    manifest = json.loads((prepared / "manifest.json").read_text())
    listed = {name for shard in manifest["shards"] for name in shard["files"]}
    assert listed == {path.name for path in prepared.glob("shard-*")}


def test_at_most_a_pair_in_twenty_is_held_out_of_a_file_that_is_given_again_and_again(tmp_path: Path) -> None:
    files = write_toy(tmp_path, toy_pairs(60, seed=7))
    keep = Rules(CleaningConfig(drop_duplicates=False))
    again = job(*[files.source] * 6, targets=(files.target,) * 6, rules=keep, shard_pairs=100)
    prepare_corpus(again, tmp_path / "out")
    data = open_corpora(DataConfig(prepared=[str(tmp_path / "out")]))
    different = len(set(files.pairs))
    assert len(data.dev) == different // 20
    held_out = set(zip(data.dev_source, data.dev_target, strict=True))
    assert set(texts(data)) == set(files.pairs) - held_out


def test_the_sample_has_pairs_where_the_first_shard_has_none(corpus: Toy, tmp_path: Path) -> None:
    (tmp_path / "long.tsv").write_text(f"{'a ' * 40}\t{'b ' * 40}\n")
    again = job(tmp_path / "long.tsv", corpus.source, targets=(corpus.target,), longest=30, dev_pairs=0)
    prepare_corpus(again, tmp_path / "out")
    train = shards(open_corpora(DataConfig(prepared=[str(tmp_path / "out")])))
    assert train.corpora[0].sizes[0] == 0
    assert len(train.sample) == 64
    assert len(train.block([(0, 64)])) == 64


def test_a_given_development_set_stays_whole_and_in_order(corpus: Toy, tmp_path: Path) -> None:
    pairs = toy_pairs(150, seed=6)  # more than a shard holds
    files = tmp_path / "dev.src", tmp_path / "dev.tgt"
    for file, side in zip(files, zip(*pairs, strict=True), strict=True):
        file.write_text("".join(f"{text}\n" for text in side))
    given = job(
        corpus.source,
        targets=(corpus.target,),
        development=(str(files[0]), str(files[1])),
        dev_pairs=0,
    )
    report = prepare_corpus(given, tmp_path / "out")
    data = open_corpora(DataConfig(prepared=[str(tmp_path / "out")]))
    assert list(zip(data.dev_source, data.dev_target, strict=True)) == pairs
    assert sorted(texts(data)) == sorted(corpus.pairs)
    assert f"development set: 150 pairs from {files[0]} and {files[1]}" in report
    assert prepare_corpus(given, tmp_path / "out") == report
    files[0].write_text("".join(f"{text} ba\n" for text, _ in pairs))
    with pytest.raises(CheckpointError, match="was begun with other text or options"):
        prepare_corpus(given, tmp_path / "out")


def test_a_kill_at_any_task_changes_nothing(corpus: Toy, prepared: Path, tmp_path: Path) -> None:
    for task in (0, 3, 4, 5):
        with pytest.MonkeyPatch.context() as patched:
            counted = itertools.count()

            def write(path: Path, text: str, most: int = task, counted=counted) -> None:
                if next(counted) == most:
                    raise KeyboardInterrupt
                path.write_text(text)

            patched.setattr(tasks, "write_text", write)
            with pytest.raises(KeyboardInterrupt):
                prepare_corpus(job(corpus.source, targets=(corpus.target,)), tmp_path / "out")
    prepare_corpus(job(corpus.source, targets=(corpus.target,), workers=1), tmp_path / "out")
    assert snapshot_of(tmp_path / "out") == snapshot_of(prepared)


def snapshot_of(out: Path) -> dict[str, bytes]:
    return {name.removeprefix(str(out)): content for name, content in snapshot(out).items()}


def test_formats_have_the_same_pairs(corpus: Toy, prepared: Path, tmp_path: Path) -> None:
    pairs = corpus.pairs
    folder = tmp_path / "shards"
    folder.mkdir()
    (folder / "a.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs[:100]))
    records = [json.dumps({"translation": {"en": s, "de": t}, "source": s, "target": t}) for s, t in pairs[100:200]]
    (folder / "b.jsonl.gz").write_bytes(gzip.compress("\n".join(records).encode()))
    source, target = tmp_path / "c.src", tmp_path / "c.tgt.gz"
    source.write_text("".join(f"{s}\n" for s, _ in pairs[200:]))
    target.write_bytes(gzip.compress("".join(f"{t}\n" for _, t in pairs[200:]).encode()))
    out = tmp_path / "out"
    prepare_corpus(job(folder, source, targets=(target,), given=Subwords.load(prepared)), out)
    ours, theirs = (open_corpora(DataConfig(prepared=[str(path)])) for path in (out, prepared))
    assert texts(ours) == texts(theirs)
    assert ours.dev_source == theirs.dev_source
    assert find_files([f"{folder}/*.tsv"]) == [f"{folder}/a.tsv"]
    assert find_files([f"file://{folder}"]) == [f"file://{folder}/a.tsv", f"file://{folder}/b.jsonl.gz"]
    remote = tmp_path / "remote"
    prepare_corpus(job(f"file://{folder}", source, targets=(target,), given=Subwords.load(prepared)), remote)
    assert texts(open_corpora(DataConfig(prepared=[str(remote)]))) == texts(theirs)


def test_each_rule_counts_what_it_removes(corpus: Toy, prepared: Path, tmp_path: Path) -> None:
    lines = [f"{s}\t{t}" for s, t in corpus.pairs]
    bad = [
        "ba ba ba ba ba ba ba\tmo mo mo mo mo mo mo",
        "ba\t",
        "ba " * 30 + "\tmo",
        "ba ba ba ba ba ba\t" + "m" * 60,
        "no no\tmo mo",
        "Ba mo ba mo.\tBa mo, ba mo",
        "Ba ba: in a test set!\tmo mo mo mo",
        "ba ba ba ba\tMo, of a project.",
    ]
    same = "ba mo mo\tba mo mo"  # of three words, which may be a name
    held_out = tmp_path / "test.txt", tmp_path / "project.tsv"
    held_out[0].write_text("ba ba in a test set\n!\n")
    held_out[1].write_text("Something else.\tmo of a project\n")
    path = tmp_path / "bad.tsv"
    path.write_bytes("\n".join([*lines, bad[0], *bad, same, "?\t?"]).encode() + b"\nb\xff\tmo\n")
    (tmp_path / "rules_of_mine.py").write_text(
        "def known(source, target):\n    print(end='')\n    return 'no' not in source.split()\n"
    )
    cleaning = CleaningConfig(
        max_words=20,
        max_ratio=3,
        drop_duplicates=True,
        drop_untranslated=True,
        held_out=[str(file) for file in held_out],
    )
    rules = Rules(cleaning, filters=["rules_of_mine:known"])
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        given = job(path, rules=rules, given=Subwords.load(prepared))
        report = prepare_corpus(given, tmp_path / "out")
        assert prepare_corpus(given, tmp_path / "out") == report
        held_out[0].write_text("another sentence\n")
        with pytest.raises(CheckpointError, match="was begun with other text or options"):
            prepare_corpus(given, tmp_path / "out")
    counts, _, removed = report[0].partition("; removed: ")
    assert counts == f"{PAIRS + 12} pairs read, {PAIRS + 3} kept"
    expected = [
        *("1 with an empty side", "1 over 20 words", "1 with a length ratio over 3", "1 not UTF-8"),
        *("1 rules_of_mine:known", "1 untranslated", "2 held out", "1 duplicates"),
    ]
    assert sorted(removed.split(", ")) == sorted(expected)


def test_words_that_differ_in_a_vowel_sign_are_other_words() -> None:
    assert words_of("यह किताब नहीं है।") == words_of("यह किताब, नहीं है") != words_of("यह कताब नहीं है।")
    assert words_of("ที่นี่") != words_of("ทีนี")
    assert words_of("Good ❤️ night, e\u0301te\u0301!") == "good night été"


@pytest.mark.parametrize("codes", [("en", "de"), ("eng", "ger"), ("en-GB", "de-AT"), ("eng-US", "deu")])
def test_a_language_is_identified_whatever_its_code(codes: tuple[str, str]) -> None:
    pytest.importorskip("py3langid")
    pair = "The old dog sleeps in front of the house.", "Der alte Hund schläft vor dem Haus."
    ((_, rule),) = Rules(CleaningConfig(), languages=codes).load(("source", "target"))
    assert rule(*pair)
    assert not rule(*reversed(pair))
    assert not rule(pair[0], pair[0])


def test_near_duplicates_are_found_as_often_as_the_formula_says() -> None:
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnopqrst", k=7)) for _ in range(3000)]
    found: list[tuple[float, bool]] = []
    for _ in range(400):
        one = draw.choices(words, k=60)
        other = list(one)
        for place in draw.sample(range(60), draw.choice([2, 3, 5])):
            other[place] = draw.choice(words)
        sides = [" ".join(each) for each in (one, other)]
        grams = [{side[i : i + 8] for i in range(len(side) - 7)} for side in sides]
        similarity = len(grams[0] & grams[1]) / len(grams[0] | grams[1])
        keys = near_keys(sides, seed=1)
        found.append((similarity, bool((keys[0] == keys[1]).any())))
    expected = np.array([1 - (1 - s**PER_BAND) ** BANDS for s, _ in found])
    deviation = float(np.sqrt((expected * (1 - expected)).sum()))
    assert abs(sum(hit for _, hit in found) - expected.sum()) < 4 * deviation
    plain = near_keys(["A dog, 3 cats!", "a DOG cats", "", "x"], seed=1)
    assert (plain[0] == plain[1]).all()
    assert not (plain[2] == plain[3]).any()


def test_near_duplicates_of_earlier_pairs_go(corpus: Toy, prepared: Path, tmp_path: Path) -> None:
    sentence = "a long sentence of many words that stays nearly the same in every copy of it"
    lines = [f"{s}\t{t}" for s, t in corpus.pairs]
    lines += [f"{sentence}\t{sentence}", f"{sentence} !\t{sentence.upper()}", f"{sentence}\t{sentence}"]
    path = tmp_path / "near.tsv"
    path.write_text("\n".join(lines) + "\n")
    report = prepare_corpus(job(path, near=True, given=Subwords.load(prepared)), tmp_path / "out")
    *_, exact, near = report[0].split(", ")
    assert exact == "1 duplicates"
    assert near.endswith(" near duplicates")
    assert int(near.split()[0]) >= 1
    data = open_corpora(DataConfig(prepared=[str(tmp_path / "out")]))
    left = [source for source, _ in [*texts(data), *zip(data.dev_source, data.dev_target, strict=True)]]
    assert sum("nearly the same" in source or "⁇" in source for source in left) == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"targets": ()}, "--target: expected one file for each of the 1 plain-text files of --source, found 0"),
        ({"engine": "spark"}, "--engine: expected one of processes, ray, found 'spark'"),
        ({"rules": Rules(CleaningConfig(), filters=["nothing:here"])}, "--filter nothing:here: can't be imported"),
        ({"rules": Rules(CleaningConfig(), filters=["json"])}, "--filter: expected module:function, found 'json'"),
        (
            {"rules": Rules(CleaningConfig(), filters=["./own.py:keep"])},
            "--filter: expected module:function, found './own.py:keep'",
        ),
        (
            {"rules": Rules(CleaningConfig(), filters=["string:digits"])},
            "--filter string:digits: expected a function digits, found str",
        ),
    ],
)  # fmt: skip
def test_bad_options_are_one_sentence(change: dict[str, object], sentence: str, corpus: Toy, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=sentence.replace("(", r"\(")):
        prepare_corpus(job(corpus.source, **{"targets": (corpus.target,), **change}), tmp_path / "out")  # type: ignore[arg-type]


@pytest.mark.parametrize("weights", [[0.0, 0.0], [0.0, 1.0], [1.0]])
def test_every_corpus_has_a_positive_weight(weights: list[float]) -> None:
    with pytest.raises(ConfigError, match=r"data\.weights: expected (positive numbers|one weight for each of the 2)"):
        open_corpora(DataConfig(prepared=["one", "two"], weights=weights))


def test_bad_files_are_one_sentence(corpus: Toy, prepared: Path, tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.write_text("one\n")
    with pytest.raises(DataError, match=r"same number of lines, found 300 in .* and 1 in"):
        prepare_corpus(job(corpus.source, targets=(short,)), tmp_path / "out")
    with pytest.raises(DataError, match="there is no such file"):
        prepare_corpus(job(tmp_path / "none", targets=(short,)), tmp_path / "out2")
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"source": "a", "target": "b"}\n{"source": 3}\n')
    with pytest.raises(DataError, match=r"broken.jsonl line 2: expected text in field 'source'"):
        prepare_corpus(job(broken), tmp_path / "out3")
    with pytest.raises(CheckpointError, match="was begun with other text or options"):
        prepare_corpus(job(corpus.source, targets=(corpus.target,), dev_pairs=5), prepared)
    assert len(cut([str(short)], [str(short)], 10)) == 1


@pytest.mark.slow
def test_a_restart_leaves_nothing_of_what_was_there(corpus: Toy, prepared: Path, tmp_path: Path) -> None:
    """The given subwords are imported ones, which have files of other names."""
    models = Subwords.load(prepared)
    pieces = tuple(models.source_processor.id_to_piece(number) for number in range(models.source_size))
    imported = Subwords(*models.models, PairVocabulary(pieces))
    (tmp_path / "other.tsv").write_text("".join(f"{s.upper()} {s}\t{t}\n" for s, t in corpus.pairs))
    prepare_corpus(job(tmp_path / "other.tsv", given=imported), tmp_path / "out")
    prepare_corpus(job(corpus.source, targets=(corpus.target,)), tmp_path / "out", restart=True)
    assert snapshot_of(tmp_path / "out") == snapshot_of(prepared)


@pytest.mark.parametrize("restart", [False, True])
def test_a_folder_of_something_else_stays_as_it_is(corpus: Toy, tmp_path: Path, restart: bool) -> None:
    downloaded, own = tmp_path / "downloaded", tmp_path / "own"
    get_corpus(find_corpus("reverse"), downloaded)
    (own / "work").mkdir(parents=True)
    (own / "work" / "thesis").write_text("mine")
    for folder in (downloaded, own):
        (folder / ".lock").touch()
        before = snapshot(folder)
        with pytest.raises(DataError if folder == own else CheckpointError, match="found"):
            prepare_corpus(job(corpus.source, targets=(corpus.target,)), folder, restart=restart)
        assert snapshot(folder) == before


# Training


def stream(data: PreparedData, **changes: object) -> BatchStream:
    options = {"seed": 3, "buffer": 100, **changes}
    return BatchStream(data, 400, **options)  # type: ignore[arg-type]


def test_every_pair_is_used_once_a_pass(prepared: Path) -> None:
    data = open_corpora(DataConfig(prepared=[str(prepared)]))
    total, rows, passes = len(data.train), Counter[int](), 3
    batches = stream(data, buffer=97)
    while batches.epoch * 97 < passes * total:
        rows.update(next(batches).rows)
    used = batches.epoch * 97
    assert set(rows) == set(range(total))
    assert sum(rows.values()) == used
    assert set(rows.values()) <= {used // total, used // total + 1}
    batches.close()


def test_weights_bring_small_corpora_forward(corpus: Toy, prepared: Path, tmp_path: Path) -> None:
    small = write_toy(tmp_path, toy_pairs(40, seed=9))
    few = job(small.source, targets=(small.target,), given=Subwords.load(prepared), dev_pairs=2)
    prepare_corpus(few, tmp_path / "few")
    folders = [str(prepared), str(tmp_path / "few")]
    data = open_corpora(DataConfig(prepared=folders))
    assert len(data.dev) == 12
    large = len(shards(data).corpora[0])
    for options, share in (({}, 38 / 328), ({"weights": [1, 1]}, 0.5), ({"weights": [1, 3]}, 0.75)):
        batches, rows = stream(data, **options), list[int]()
        while batches.epoch < 1:
            rows += next(batches).rows
        batches.close()
        assert np.mean(np.array(rows) >= large) == pytest.approx(share, abs=0.01)
    located = data.train.locate([large])
    assert located.startswith(str(small.source))
    with pytest.raises(ConfigError, match="one weight for each of the 2 corpora"):
        open_corpora(DataConfig(prepared=folders, weights=[1.0]))


def test_a_restored_stream_and_ranks_give_the_same_batches(prepared: Path) -> None:
    data = open_corpora(DataConfig(prepared=[str(prepared)]))
    whole = [batch.rows for batch in itertools.islice(stream(data), 40)]
    first = stream(data)
    for _ in range(17):
        next(first)
    second = stream(data)
    second.load_state(json.loads(json.dumps(first.state())))
    assert [batch.rows for batch in itertools.islice(second, 23)] == whole[17:]
    with pytest.raises(CheckpointError, match="buffer=100, found buffer=50"):
        stream(data, buffer=50).load_state(first.state())
