"""The configuration: errors name unknown keys and invalid values, and YAML files can be read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from headwise.config import Config, ModelConfig, apply_overrides
from headwise.config.keys import recorded
from headwise.config.support import Support
from headwise.errors import ConfigError


def problems(tree: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        Config.from_tree(tree)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_defaults_are_the_papers() -> None:
    config = Config()
    model = config.model
    assert (model.encoder_layers, model.decoder_layers, model.d_model, model.d_ff, model.heads) == (
        6,
        6,
        512,
        2048,
        8,
    )
    assert (model.key_size, model.value_size) == (64, 64)
    assert (model.norm, model.activation, model.positions, model.share_embeddings) == (
        "post",
        "relu",
        "sinusoidal",
        "all",
    )
    assert (model.dropout, model.attention_dropout, model.activation_dropout) == (0.1, 0.0, 0.0)
    assert not model.attention_bias
    adam = config.optimizer
    assert (adam.beta1, adam.beta2, adam.epsilon, adam.weight_decay) == (0.9, 0.98, 1e-9, 0.0)
    assert (config.schedule.name, config.schedule.warmup, config.schedule.scale) == ("noam", 4000, 1.0)
    assert (config.training.label_smoothing, config.training.max_steps, config.training.average_last) == (
        0.1,
        100_000,
        5,
    )
    assert (config.decoding.beam, config.decoding.alpha, config.decoding.extra_length) == (4, 0.6, 50)
    assert (config.subwords.size, config.subwords.joint, config.batch.tokens) == (37_000, True, 25_000)


@pytest.mark.parametrize(
    ("tree", "key", "meant"),
    [
        ({"model": {"droput": 0.1}}, "model.droput", "model.dropout"),
        ({"trainig": {}}, "trainig", "training"),
        ({"data": {"cleaning": {"max_word": 3}}}, "data.cleaning.max_word", "data.cleaning.max_words"),
        # Right name, wrong section.
        ({"label_smoothing": 0.1}, "label_smoothing", "training.label_smoothing"),
        ({"training": {"dropout": 0.1}}, "training.dropout", "model.dropout"),  # not training.r_drop
        ({"label_smothing": 0.1}, "label_smothing", "training.label_smoothing"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known_one(tree: dict[str, Any], key: str, meant: str) -> None:
    assert f"{key}: unknown key (did you mean {meant}?)" in problems(tree)


def test_a_key_like_no_other_gets_the_list_of_known_ones() -> None:
    message = problems({"batch": {"zzzzzz": 1}})
    assert "batch.zzzzzz: unknown key (known keys here: tokens, accumulate)" in message


def test_all_problems_are_reported_at_once() -> None:
    message = problems(
        {
            "model": {"droput": 0.1, "d_model": 100, "heads": 7},
            "training": {"label_smoothing": 1.5, "seed": -1},
            "schedule": {"name": "inverse_sqrt"},
            "colour": "red",
        }
    )
    for part in (
        "model.droput",
        "training.label_smoothing",
        "training.seed",
        "schedule inverse_sqrt",
        "colour",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("override", "key", "found"),
    [
        ("model.dropout=1.0", "model.dropout", "1.0"),
        ("model.dropout=-0.1", "model.dropout", "-0.1"),
        ("model.d_model=0", "model.d_model", "0"),
        ("model.d_model=2.5", "model.d_model", "2.5"),
        ("model.norm=middle", "model.norm", "'middle'"),
        ("subwords.character_coverage=1.1", "subwords.character_coverage", "1.1"),
        ("optimizer.epsilon=0", "optimizer.epsilon", "0"),
        ("optimizer.clip_norm=.inf", "optimizer.clip_norm", "inf"),
        ("training.max_minutes=.nan", "training.max_minutes", "nan"),
        ("training.precision=float8", "training.precision", "'float8'"),
        ("data.weights=[1, many]", "data.weights.1", "'many'"),
        ("data.source=train.en", "data.source", "'train.en'"),
        ("model=3", "model", "3"),
    ],
)
def test_a_value_out_of_range_is_named_with_what_was_found(override: str, key: str, found: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config().with_overrides([override])
    message = str(caught.value)
    assert message.startswith(f"command line: {key}: ")
    assert message.endswith(f"found {found}")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"d_model": 512, "heads": 7}, "found d_model=512 and heads=7"),
        ({"d_model": 512, "heads": 7, "d_k": 64}, "found d_model=512 and heads=7"),
        ({"d_model": 33, "heads": 3}, "even d_model, found 33"),
    ],
)
def test_a_shape_that_cannot_be_built_is_refused(changes: dict[str, Any], sentence: str) -> None:
    assert sentence in problems({"model": changes})


def test_heads_need_not_divide_where_there_are_none() -> None:
    assert ModelConfig(architecture="recurrent", d_model=500).d_model == 500


@pytest.mark.parametrize(("architecture", "section"), [("recurrent", "size"), ("convolutional", "channels")])
def test_what_cannot_be_expressed_of_another_architecture_is_its_name(architecture: str, section: str) -> None:
    model = ModelConfig(architecture=architecture, **{architecture: {section: 264}})
    assert Support().problems(model) == [f"model.architecture={architecture}"]


@pytest.mark.parametrize("symbols", [["<a>", "<a>"], ["</s>"], ["a b"]])
def test_symbols_are_new_words(symbols: list[str]) -> None:
    assert "symbols: expected words" in problems({"subwords": {"symbols": symbols}})


def test_heads_need_not_divide_where_their_sizes_are_given() -> None:
    model = ModelConfig(d_model=512, heads=7, d_k=60, d_v=70)
    assert (model.key_size, model.value_size) == (60, 70)


def test_a_schedule_takes_its_own_scale_only() -> None:
    assert "needs a peak learning rate" in problems({"schedule": {"name": "cosine"}})
    assert "noam takes scale, not peak" in problems({"schedule": {"peak": 0.001}})
    both = {"name": "cosine", "peak": 0.001, "scale": 2}
    assert "cosine takes peak, not scale; found scale=2" in problems({"schedule": both})


def test_overrides_reach_into_sections_and_are_read_as_yaml() -> None:
    config = Config().with_overrides(
        [
            "model.d_model=256",
            "optimizer.epsilon=1e-8",
            "training.validate_bleu=false",
            "data.source=[a.en, b.en]",
            "optimizer.clip_norm=null",
            "data.dev_source=dev=1.en",
            "model.d_model=128",
        ]
    )
    assert config.model.d_model == 128  # the last override wins
    assert config.optimizer.epsilon == 1e-8
    assert config.training.validate_bleu is False
    assert config.data.source == ["a.en", "b.en"]
    assert config.optimizer.clip_norm is None
    assert config.data.dev_source == "dev=1.en"
    assert Config().model.d_model == 512


def test_overrides_leave_the_tree_they_are_given_alone() -> None:
    tree = {"model": {"heads": 4}}
    assert apply_overrides(tree, ["model.heads=2", "batch.tokens=100"]) == {
        "model": {"heads": 2},
        "batch": {"tokens": 100},
    }
    assert tree == {"model": {"heads": 4}}


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("model.heads", "expected key.sub=value, found 'model.heads'"),
        ("=3", "expected key.sub=value, found '=3'"),
        ("model.heads=[1", "model.heads: expected a YAML value, found '[1'"),
        ("model.heads.number=3", "model.heads.number: heads is a value and has no keys inside"),
    ],
)
def test_an_override_that_cannot_be_read_is_refused(override: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config().with_overrides([override])
    assert str(caught.value) == f"command line: {sentence}"


def test_yaml_round_trip(tmp_path: Path) -> None:
    config = Config().with_overrides(
        [
            "data.source=[Größe.en]",
            "schedule={name: cosine, peak: 0.001}",
            "model.d_k=7",
            "training.max_minutes=1.5",
        ]
    )
    path = tmp_path / "config.yaml"
    path.write_text(config.to_yaml(), encoding="utf-8")
    assert Config.load(path) == config
    assert "Größe" in config.to_yaml()
    # Fully resolved: the file has every key, so that a later change of a default can't change a run.
    assert yaml.safe_load(config.to_yaml()) == config.model_dump()


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("# nothing yet\n")
    assert Config.load(path) == Config()
    assert Config.load(path, ["training.seed=2"]).training.seed == 2


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"model: [1, 2", "expected a YAML file"),
        (b"\xff\xfe\x00", "expected a YAML file"),
        (b"- 1\n- 2\n", "expected keys and values, found a list"),
        (b"model:\n", "model: input should be a valid dictionary"),
        (b"1: 2\n", "1: unknown key"),
    ],
)
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        Config.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_error_names_the_file_or_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("model: {d_model: 60, heads: 4}\n")
    for override, found in {
        "model.heads=7": "heads=7",
        "model.hedas=2": "model.heads",
        "seed=1": "seed",
    }.items():
        with pytest.raises(ConfigError, match=f"^command line: .*{found}"):
            Config.load(file, [override])
    file.write_text("model: {d_model: 60, heads: 7}\n")
    assert Config.load(file, ["model.heads=6"]).model.heads == 6
    for overrides in ([], ["model.hedas=2"]):
        with pytest.raises(ConfigError, match=f"^{file}: .*heads=7"):
            Config.load(file, overrides)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such configuration file"):
        Config.load(tmp_path / "config.yaml")


@given(seed=st.integers(0, 1000), dropout=st.floats(0, 0.99), size=st.integers(8, 100))
def test_the_digest_tells_configurations_apart(seed: int, dropout: float, size: int) -> None:
    changes = [f"training.seed={seed}", f"model.dropout={dropout!r}", f"subwords.size={size}"]
    config = Config().with_overrides(changes)
    assert config.digest() == Config().with_overrides(reversed(changes)).digest()
    assert config.digest() != Config().with_overrides([*changes, f"training.seed={seed + 1}"]).digest()
    assert len(config.digest()) == 12
    int(config.digest(), 16)


def test_keys_that_are_younger_than_runs_are_in_the_digest_only_where_they_are_used() -> None:
    plain, used = Config(), Config().with_overrides(["data.augment.typos=0.1"])
    assert "augment" not in recorded(plain)["data"]
    assert "imports" not in recorded(plain)
    assert recorded(used)["data"]["augment"]["typos"] == 0.1
    assert plain.digest() != used.digest()


def test_the_digest_is_the_same_in_another_process_and_after_a_round_trip(tmp_path: Path) -> None:
    import subprocess
    import sys

    path = tmp_path / "config.yaml"
    path.write_text(Config().to_yaml())
    command = "from headwise.config import Config; print(Config().digest())"
    other = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == Config().digest() == Config.load(path).digest()


def test_values_are_checked_on_assignment() -> None:
    config = Config()
    with pytest.raises(ValueError, match="less than 1"):
        config.model.dropout = 1.0


@pytest.mark.parametrize(
    "key",
    ["training.patience", "optimizer.clip_norm", "model.d_k", "training.max_minutes", "training.processes"],
)
@pytest.mark.parametrize("word", ["yes", "no", "true"])
def test_a_word_for_true_is_no_number(key: str, word: str) -> None:
    with pytest.raises(ConfigError, match=rf"{key}: expected a number, found (true|false)"):
        Config().with_overrides([f"{key}={word}"])


def test_a_word_for_true_in_a_list_is_no_number() -> None:
    with pytest.raises(ConfigError, match=r"data\.weights: expected a number, found true"):
        Config().with_overrides(["data.weights=[0.5, yes]"])


def test_a_file_in_the_run_moves_with_it(tmp_path: Path) -> None:
    tree = {
        "data": {
            "dev_source": "{run}/dev.en",
            "dev_target": "dev.de",
            "source": ["{run}/train.en", "other.en"],
            "cleaning": {"held_out": ["{run}/test.en"]},
        }
    }
    for name in ("here", "there"):
        file = tmp_path / name / "config.yaml"
        file.parent.mkdir()
        file.write_text(yaml.safe_dump(tree), encoding="utf-8")
        data = Config.load(file).data
        assert data.dev_source == str(tmp_path / name / "dev.en")
        assert data.dev_target == "dev.de"
        assert data.source == [str(tmp_path / name / "train.en"), "other.en"]
        assert data.cleaning.held_out == [str(tmp_path / name / "test.en")]
