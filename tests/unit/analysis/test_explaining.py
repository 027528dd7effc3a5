"""Symmetrized alignments, attribution, calibration, text and HTML output of traces, and the commands for them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from headwise.analysis.alignment import Rule, align, symmetrize
from headwise.analysis.attention import CrossAttention
from headwise.analysis.attribution import Attribution, attribute, rank_correlation, rollout, spearman
from headwise.analysis.calibration import free_running, teacher_forced
from headwise.analysis.interventions import parse_interventions
from headwise.analysis.terminal import bar, columns, describe, tree_lines
from headwise.analysis.trace import ForcedDecoding
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.cli.annotated import AnnotatedSentences, read_sentences
from headwise.cli.main import run as headwise
from headwise.config import Config
from headwise.engine.translator import Translator
from headwise.errors import ConfigError, DataError
from headwise.evaluation.alignment import alignment_error_rate
from headwise.evaluation.calibration import calibration, kept_tokens
from headwise.page.recorded_page import recorded_page
from headwise.text.tokens.subwords import EOS
from translator_run import ENGLISH, GERMAN, make_run

TEXT, TARGET = ENGLISH[1], GERMAN[1]
HOSTILE = "</script><script>alert(1)</script> <img src=x onerror=alert(2)> שלום"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "de", seed=5)


@pytest.fixture(scope="module")
def tracer(run: Path) -> TranslationTracer:
    return TranslationTracer(Translator.load(run))


# ---------------------------------------------------------------------------------------------------- alignment


def test_the_error_rate_of_three_sentences_by_hand() -> None:
    """|A| = 2 + 2 + 1, |S| = 2 + 1 + 1, |A ∩ S| = 1 + 1 + 0, |A ∩ P| = 1 + 2 + 0: AER = 1 - 5 / 9."""

    def attending(*rows: list[float]) -> CrossAttention:
        weights = np.array([[rows]], np.float32)
        return CrossAttention(("a", "b", "</s>"), tuple("xyz"[: len(rows)]), weights, weights)

    attentions = [
        attending([0.8, 0.1, 0.1], [0.7, 0.2, 0.1]),  # 0-0 0-1
        attending([0.1, 0.2, 0.7], [0.4, 0.1, 0.5]),  # 1-0 0-1
        attending([0.1, 0.9, 0.0]),  # 1-0
    ]
    found = [align(one, Rule(0, 0)) for one in attentions]
    assert found == [{(0, 0), (0, 1)}, {(1, 0), (0, 1)}, {(1, 0)}]
    sure = [{(0, 0), (1, 1)}, {(1, 0)}, {(0, 0)}]
    assert alignment_error_rate(found, sure, [set(), {(0, 1)}, set()]) == pytest.approx(1 - 5 / 9)


FORWARD = frozenset({(0, 0), (1, 1), (2, 1), (4, 3)})
BACKWARD = frozenset({(0, 0), (1, 1), (1, 2), (3, 4)})


@pytest.mark.parametrize(
    ("method", "added"),
    [
        ("intersection", set()),
        ("grow-diag", {(1, 2), (2, 1)}),
        # (4, 3) isn't a neighbor of any link so far, but both of its words are unaligned; so are those of (3, 4).
        ("grow-diag-final", {(1, 2), (2, 1), (4, 3), (3, 4)}),
        ("grow-diag-final-and", {(1, 2), (2, 1), (4, 3), (3, 4)}),
        ("union", {(1, 2), (2, 1), (4, 3), (3, 4)}),
    ],
)
def test_symmetrization_by_hand(method: str, added: set[tuple[int, int]]) -> None:
    assert symmetrize(FORWARD, BACKWARD, method) == {(0, 0), (1, 1)} | added


def test_final_takes_half_free_links_and_final_and_does_not() -> None:
    forward, backward = frozenset({(0, 0), (0, 5)}), frozenset({(0, 0)})
    assert symmetrize(forward, backward, "grow-diag") == {(0, 0)}
    assert symmetrize(forward, backward, "grow-diag-final") == {(0, 0), (0, 5)}
    assert symmetrize(forward, backward, "grow-diag-final-and") == {(0, 0)}
    with pytest.raises(ConfigError, match="expected one of intersection"):
        symmetrize(forward, backward, "grow")


@pytest.mark.parametrize(
    ("text", "rule"),
    [("mean", Rule()), ("2", Rule(1)), ("2.1+1", Rule(1, 0, 1)), ("mean+1", Rule(shift=1))],
)
def test_a_rule_is_parsed(text: str, rule: Rule) -> None:
    assert Rule.parse(text, 2, 2) == rule


@pytest.mark.parametrize("text", ["", "0", "3", "1.3", "first", "1+2"])
def test_an_invalid_rule_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="rule: expected"):
        Rule.parse(text, 2, 2)


def test_the_shift_selects_the_step_whose_input_is_the_word() -> None:
    predicting, reading = np.eye(3, dtype=np.float32)[:2], np.eye(3, dtype=np.float32)[[1, 0]]
    one = CrossAttention(("a", "b", "</s>"), ("x", "y"), predicting[None, None], reading[None, None])
    assert align(one, Rule()) == {(0, 0), (1, 1)}
    assert align(one, Rule(shift=1)) == {(1, 0), (0, 1)}
    assert "reads" in str(Rule(shift=1))


# -------------------------------------------------------------------------------------------------- attribution


@pytest.fixture(scope="module")
def attribution(tracer: TranslationTracer) -> Attribution:
    return attribute(tracer, TEXT, TARGET)


def test_deleting_a_word_costs_what_scoring_without_it_says(
    tracer: TranslationTracer, attribution: Attribution
) -> None:
    words = TEXT.split()
    score = tracer.translator.score
    whole = score([TEXT], [TARGET])[0].token_log_probabilities
    for number in range(len(words)):
        less = score([" ".join(words[:number] + words[number + 1 :])], [TARGET])[0].token_log_probabilities
        assert attribution.deletion[:, number].sum() == pytest.approx(sum(whole[:-1]) - sum(less[:-1]), abs=1e-4)


def test_a_line_in_capitals_is_attributed_as_it_is_read(tracer: TranslationTracer, tmp_path: Path) -> None:
    run = make_run(tmp_path / "de", seed=5)
    config = (run / "config.yaml").read_text(encoding="utf-8")
    (run / "config.yaml").write_text(config.replace("recase: false", "recase: true"), encoding="utf-8")
    recasing = TranslationTracer(Translator.load(run))
    line = recasing.line(TEXT.upper())
    assert line != TEXT.upper()
    found, expected = attribute(recasing, TEXT.upper(), TARGET), attribute(tracer, line, TARGET)
    assert found.source_words == expected.source_words
    np.testing.assert_allclose(found.gradient, expected.gradient, atol=1e-5)
    np.testing.assert_allclose(found.deletion, expected.deletion, atol=1e-5)


def test_gradient_times_input_is_the_slope_along_the_embedding(tracer: TranslationTracer) -> None:
    """Scaling one embedding by 1 + ε changes log P by ε x · ∂ log P / ∂x."""
    from headwise.analysis.attribution import gradient_times_input

    forced = tracer.force(TEXT, TARGET)
    slopes = gradient_times_input(tracer, tracer.read(TEXT)[0], forced)
    token = tracer.read(TEXT)[0].ids[1]
    assert tracer.read(TEXT)[0].ids.count(token) == 1
    with tracer.model() as model:
        weight = model.source_embedding.weight  # type: ignore[union-attr]
    gains = []
    kept = weight.data[token].clone()
    try:
        for step in (-1e-2, 1e-2):
            weight.data[token] = kept * (1 + step)
            gains.append(np.array(tracer.force(TEXT, TARGET).log_probabilities))
    finally:
        weight.data[token] = kept
    assert np.allclose(slopes[:, 1], (gains[1] - gains[0]) / 2e-2, atol=2e-3)


def test_rollout_by_hand() -> None:
    """One layer, two source tokens, two steps: E = ½ (A + I), and decoder states ½ C E, as they start at 0."""
    encoder = np.array([[[[0.0, 1.0], [0.5, 0.5]]]], np.float32)
    decoder = np.array([[[[1.0, 0.0], [0.2, 0.8]]]], np.float32)
    cross = np.array([[[[1.0, 0.0], [0.0, 1.0]]]], np.float32)
    forced = ForcedDecoding(*[None] * 7, {"encoder": encoder, "decoder": decoder, "cross": cross})  # type: ignore[arg-type]
    encoded = np.array([[0.5, 0.5], [0.25, 0.75]])
    assert np.allclose(rollout(forced), encoded / 2)  # type: ignore[arg-type]
    del forced.attention["encoder"]
    assert rollout(forced) is None


def test_rank_correlation_by_hand() -> None:
    assert spearman([1, 2, 3], [10, 20, 15]) == pytest.approx(0.5)  # 1 - 6 · 2 / (3 · 8)
    assert spearman([1, 1, 2], [5, 5, 9]) == pytest.approx(1.0)
    assert math.isnan(spearman([1, 1], [1, 2]))
    rho, n = rank_correlation(np.array([[1, 2], [1, 1], [2, 1]]), np.array([[1, 2], [1, 2], [1, 2]]))
    assert (rho, n) == (0.0, 2)


def test_views_have_words_for_rows_and_columns(attribution: Attribution) -> None:
    shape = (len(TARGET.split()), len(TEXT.split()))
    for view in (attribution.attention, attribution.rollout, attribution.gradient, attribution.deletion):
        assert view is not None
        assert view.shape == shape
    assert set(attribution.correlations()) >= {"attention, gradient", "attention, deletion"}


def test_a_model_without_self_attention_has_no_rollout(tmp_path: Path) -> None:
    found = attribute(
        TranslationTracer(Translator.load(make_run(tmp_path / "run", architecture="convolutional"))),
        TEXT,
        TARGET,
    )
    assert found.rollout is None
    assert found.attention is not None
    with pytest.raises(ConfigError, match="found an empty one"):
        attribute(TranslationTracer(Translator.load(tmp_path / "run")), " ", TARGET)


# -------------------------------------------------------------------------------------------------- calibration


def test_calibration_by_hand() -> None:
    found = calibration([0.95, 0.85, 0.85, 0.3], [True, True, False, False], bins=10)
    # Bins 0.9-1 (0.95, 1.0), 0.8-0.9 (0.85, 0.5) twice, 0.2-0.3 (0.3, 0).
    assert found.error == pytest.approx((0.05 + 2 * 0.35 + 0.3) / 4)
    assert found.bias == pytest.approx(0.7375 - 0.5)
    assert [one.n for one in found.bins] == [0, 0, 1, 0, 0, 0, 0, 0, 2, 1]
    assert calibration([0.0, 1.0], [False, True]).error == 0.0
    for wrong in (([], []), ([0.5], []), ([1.5], [True])):
        with pytest.raises(DataError, match="calibration"):
            calibration(*wrong)


def test_kept_tokens_by_hand() -> None:
    assert kept_tokens([1, 2, 3], [1, 3]) == [True, False, True]
    assert kept_tokens([1, 9, 3], [1, 2, 3, 4]) == [True, False, True]
    assert kept_tokens([], [1]) == []
    assert kept_tokens([2, 1], [1, 2]).count(True) <= 1


def test_calibration_covers_all_tokens(tracer: TranslationTracer) -> None:
    scored = tracer.translator.score(ENGLISH, GERMAN)
    told = teacher_forced(tracer.translator, ENGLISH, GERMAN)
    assert told.n == sum(len(one.pieces) for one in scored)
    free = free_running(tracer.translator, ENGLISH, GERMAN, beam=1)
    outputs = [t.outputs[0] for t in tracer.translator.translate(ENGLISH, beam=1)]
    gains = [gain for one in outputs for gain in one.token_log_probabilities]
    assert free.n == len(gains)
    assert free.confidence == pytest.approx(np.exp(gains).mean(), abs=1e-5)


# ------------------------------------------------------------------------------------------- terminal and page


def test_the_terminal_view_names_words_and_heads(tracer: TranslationTracer) -> None:
    trace = tracer.trace(TEXT, target=TARGET)
    lines = describe(trace, word="Hunde", words=True)
    assert any("Hunde" in line and "→" in line for line in lines)
    for name in ("Encoder", "Decoder", "Cross"):
        assert sum(line.startswith(name) for line in lines) >= 1
    assert [line[2:5] for line in lines if re.match(r"  \d\.\d  ", line)] == ["1.1", "1.2", "2.1", "2.2"] * 3
    assert describe(trace, word="2")[4:] == describe(trace, word="Hunde")[4:]
    with pytest.raises(ConfigError, match="found 'Katze'"):
        describe(trace, word="Katze")
    tree = tree_lines(trace)
    assert sum("#1" in line for line in tree) == 1
    assert len(tree) == len(trace.tree) + 1


def test_what_a_word_looked_at_are_the_rows_of_the_steps_that_predict_it(tracer: TranslationTracer) -> None:
    trace = tracer.trace(TEXT, target=TARGET)
    assert trace.forced is not None
    target, reads = trace.forced.target, trace.forced.reads
    index = max(range(len(target.words)), key=target.word_of.count)
    steps = [step for step, word in enumerate(target.word_of) if word == index]
    assert len(steps) > 1
    lines = describe(trace, word=str(index + 1))
    for part, side, last in (("cross", trace.source, None), ("decoder", reads, steps[-1])):
        start = next(i for i, line in enumerate(lines) if part in line.lower() and " while " in line)
        expected = dict.fromkeys(range(len(side.words) if last is None else side.word_of[last] + 1), 0.0)
        for row in trace.forced.attention[part].mean((0, 1))[steps]:
            for word, weight in zip(side.word_of, row, strict=True):
                if word in expected:
                    expected[word] += float(weight) / len(steps)
        shown = [line.split() for line in lines[start + 1 : start + 1 + len(expected)]]
        assert [words[0] for words in shown] == list(side.words[: len(expected)])
        assert [float(words[-1]) for words in shown] == pytest.approx(list(expected.values()), abs=0.006)
        assert sum(expected.values()) == pytest.approx(1, abs=1e-5)


def test_control_characters_do_not_reach_the_terminal(tracer: TranslationTracer) -> None:
    lines = describe(tracer.trace("a \x1b[31mman\x07"))
    assert not any("\x1b" in line or "\x07" in line for line in lines)


def test_bars_and_widths() -> None:
    assert bar(0.5, 4) == "██  "
    assert bar(2.0, 2) == "██"
    assert columns("漢a\u0301") == 3


def test_the_page_carries_its_data_safely(tracer: TranslationTracer, run: Path) -> None:
    trace = tracer.trace(HOSTILE)
    html = recorded_page(tracer, Config.load(run / "config.yaml"), run, HOSTILE, trace, trace)
    assert "<img" not in html
    assert html.count("</script>") == 3
    data = re.search(r'<script type="application/json" id="recording">(.*?)</script>', html, re.DOTALL)
    assert data is not None
    (answer,) = (one["answer"] for one in json.loads(data[1])["answers"] if one["path"] == "trace")
    assert answer["source"] == json.loads(trace.dumps())["source"]
    assert not re.search(r'(src|href)="(?!#)', html)


# ----------------------------------------------------------------------------------------------------- commands


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_text("".join(f"{line}\n" for line in ENGLISH), encoding="utf-8")
    target.write_text("".join(f"{line}\n" for line in GERMAN), encoding="utf-8")
    return source, target


Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def call(*arguments: object) -> tuple[int, str, str]:
        code = headwise([str(argument) for argument in arguments])
        done = capsys.readouterr()
        return code, done.out, done.err

    return call


@pytest.mark.parametrize("text", [TEXT, HOSTILE, "a man " * 60])
def test_explain_writes_each_format(run: Path, tmp_path: Path, call: Call, text: str) -> None:
    for name, *more in (("a.png", "--words"), ("a.html",), ("a.json",)):
        code, _, err = call("explain", run, "--text", text, "-o", tmp_path / name, *more)
        assert code == 0, err
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    json.loads((tmp_path / "a.json").read_text())
    code, out, _ = call("explain", run, "--text", text, "--tree", "--do", "silence:cross.*.*")
    assert code == 0
    assert "beam tree" in out


def test_heads_prints_and_writes(run: Path, files: tuple[Path, Path], tmp_path: Path, call: Call) -> None:
    source, target = files
    common = ["analyze", "heads", run, "--source", source, "--target", target]
    code, out, err = call(*common, "--prune", "masking", "--points", 2, "-o", tmp_path / "heads.png")
    assert code == 0, err
    assert "Cross-attention" in out
    assert "removed" in out
    for order, measured in (("random", set()), ("gradient", {"importance_gradient"})):
        code, out, err = call(*common, "--prune", order, "--points", 1, "--json")
        assert code == 0, err
        assert {name for name in json.loads(out) if name.startswith("importance")} == measured
    code, out, err = call(*common, "--train-source", source, "--train-target", target, "--json")
    assert code == 0, err
    assert [part["part"] for part in json.loads(out)["parts"]] == ["encoder", "decoder", "cross"]
    code, out, err = call("analyze", "heads", run, "--miniature", "--limit", 8, "--json")
    assert code == 0, err
    assert 0 < json.loads(out)["parts"][0]["sentences"] <= 8  # the model's maximum length is 40 subwords


def test_align_writes_pharaoh_and_scores(run: Path, files: tuple[Path, Path], tmp_path: Path, call: Call) -> None:
    source, target = files
    gold = tmp_path / "gold.align"
    gold.write_text("0-0 1?1\n" * len(ENGLISH))
    common = ["analyze", "align", run, "--source", source, "--target", target]
    code, out, err = call(*common, "--rule", "1.2+1")
    assert code == 0, err
    assert [len(line.split()) for line in out.splitlines()] == [len(line.split()) for line in GERMAN]
    assert json.loads(call(*common, "--rule", "1.2+1", "--json")[1])["alignments"] == out.splitlines()
    both = ["--reverse", run, "--symmetrize", "intersection", "--gold", gold]
    code, out, err = call(*common, *both, "--rule", "best", "--json", "-o", tmp_path / "a.align")
    assert code == 0, err
    record = json.loads(out)
    assert record["sentences"] == len(ENGLISH) // 2
    assert 0 <= record["alignment_error_rate"] <= 1
    assert len((tmp_path / "a.align").read_text().splitlines()) == len(ENGLISH)


def test_the_best_rule_of_the_reverse_run_is_selected_on_the_dev_set_too(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, asked = make_run(tmp_path / "de", max_length=200), []

    def read(*files: None, miniature: str) -> AnnotatedSentences:
        asked.append(miniature)
        return read_sentences(*files, miniature=miniature, limit=6)

    monkeypatch.setattr("headwise.cli.annotated.read_sentences", read)
    rules = ["--rule", "1", "--reverse", run, "--reverse-rule", "best"]
    code, out, err = call("analyze", "align", run, "--miniature", *rules, "--json")
    assert code == 0, err
    assert asked == ["test", "dev"]
    assert json.loads(out)["sentences"] == 6


def test_attribute_and_calibration_print(run: Path, files: tuple[Path, Path], tmp_path: Path, call: Call) -> None:
    source, target = files
    code, out, err = call("analyze", "attribute", run, "--text", TEXT)
    assert code == 0, err
    assert "deletion" in out
    files_of = ["--source", source, "--target", target]
    code, out, _ = call("analyze", "attribute", run, *files_of, "--limit", 2, "--json")
    assert code == 0
    assert json.loads(out)["sentences"] == 2
    options = ["--source", source, "--reference", target, "--beam", 1, "-o", tmp_path / "c.png"]
    code, out, err = call("analyze", "calibration", run, run, *options)
    assert code == 0, err
    assert out.count("free-running") == 2
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_pairs_longer_than_a_tracer_reads_are_not_attributed(tmp_path: Path, call: Call) -> None:
    run = make_run(tmp_path / "de", max_length=400)
    for name, line in (("a.en", TEXT), ("a.de", TARGET)):
        (tmp_path / name).write_text(f"{line}\n{line * 12}\n", encoding="utf-8")
    files = ["--source", tmp_path / "a.en", "--target", tmp_path / "a.de"]
    code, out, err = call("analyze", "attribute", run, *files, "--json")
    assert code == 0, err
    assert json.loads(out)["sentences"] == 1


def test_explain_prints_what_an_intervention_changes(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert headwise(["explain", str(run), "--text", TEXT, "--do", "no-ffn:*.*", "--beam", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    tracer = TranslationTracer(Translator.load(run))
    before = tracer.trace(TEXT, beam=2)
    after = tracer.trace(TEXT, parse_interventions(["no-ffn:*.*"]), beam=2)
    under = tracer.force(TEXT, (*before.hypotheses[0].ids, EOS), after.interventions)
    start = lines.index("compared with the translation without interventions")
    kept = lines[start + 1].split()[1:]
    assert "[-" in lines[start + 1]
    joined = " ".join(kept)
    assert re.sub(r"\[-.*?-\] ?", "", joined).replace("{+", "").replace("+}", "").split() == after.text.split()
    assert re.sub(r"\{\+.*?\+\} ?", "", joined).replace("[-", "").replace("-]", "").split() == before.text.split()
    delta = float(lines[start + 2].rpartition("Δ ")[2])
    assert delta == pytest.approx(under.log_probability - before.hypotheses[0].log_probability, abs=1e-3)


@pytest.mark.parametrize(("text", "recase"), [(TEXT, False), (TEXT.upper(), False), (TEXT.upper(), True)])
def test_explain_prints_the_steps(run: Path, text: str, recase: bool, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["-s", f"recase={str(recase).lower()}"]
    assert headwise(["explain", str(run), "--text", text, "--steps", "--target", TARGET, *settings]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("the decoder step by step"))
    forced = TranslationTracer(Translator.load(run)).trace(text, target=TARGET, recase=recase).forced
    assert forced is not None
    for line, log_probability in zip(lines[start + 1 :], forced.log_probabilities, strict=False):
        numbers = [float(n) for n in re.findall(r" (\d\.\d{4})", line)]
        assert numbers == pytest.approx([math.exp(log_probability)] * 2, abs=1e-4)
    assert "largest difference" in lines[-1]
