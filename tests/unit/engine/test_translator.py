from __future__ import annotations

import copy
import dataclasses
import io
import itertools
import unicodedata
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import headwise
from headwise.characters import join_texts
from headwise.config import SubwordConfig
from headwise.decoding.engine import pytorch_engine
from headwise.engine.alignment import word_links, word_numbers
from headwise.engine.hypotheses import length_penalty
from headwise.engine.outputs import Translation
from headwise.engine.sentences import LongLineWarning, encode_source, readable
from headwise.engine.splitting import split_text
from headwise.engine.symbols import Symbols
from headwise.engine.translator import Translator
from headwise.errors import CheckpointError, ConfigError, DataError, DeviceError
from headwise.text.reading.glossary import Entry, Glossary
from headwise.text.tokens.subwords import BOS, EOS, PAD, UNK, Subwords, train_model
from translator_run import ENGLISH, GERMAN, make_run

LONG = " ".join(ENGLISH)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "de")


@pytest.fixture(scope="module")
def translator(run: Path) -> Translator:
    return Translator.load(run)


def alike(left: Translation, right: Translation) -> bool:
    """Whether the outputs are the same, with scores that differ only by rounding in another batch."""
    return [o.tokens for o in left.outputs] == [o.tokens for o in right.outputs] and all(
        a.token_log_probabilities == pytest.approx(b.token_log_probabilities, abs=1e-4)
        for a, b in zip(left.outputs, right.outputs, strict=True)
    )


@pytest.mark.parametrize("engine", ["native", "pytorch"])
@pytest.mark.parametrize(
    "options",
    [{"beam": 1}, {}, {"beam": 4, "n_best": 4, "no_repeat_ngram": 1}, {"max_length": 1}, {"sample": True}],
)
def test_no_translation_is_empty(ending_run: Path, engine: str, options: dict[str, Any]) -> None:
    """The model ends every output at once; where the source has a letter or digit, the search doesn't."""
    translator = Translator.load(ending_run, engine=engine, device="cpu")
    texts = [*ENGLISH, "5", "☃", "…", "A", LONG, "☃ x"]
    free = translator.translate(texts, split=True, allow_empty=True, **options)
    assert {output.text for each in free for output in each.outputs} >= {""}
    prefixes = ["", ",", *[""] * (len(texts) - 2)]
    for begun in (None, prefixes):
        for each in translator.translate(texts, split=True, prefixes=begun, **options):
            wanted = any(map(str.isalnum, each.source))
            assert all(any(map(str.isalnum, output.text)) >= wanted for output in each.outputs)
            assert wanted or each.text == ("" if begun else each.source.strip())


def test_text_in_the_target_language_stays(translator: Translator, tmp_path: Path) -> None:
    pytest.importorskip("py3langid", reason="needs pip install 'headwise[languages]'")
    told = copy.copy(translator)
    german = "Die alte Frau liest eine Zeitung im Garten."
    texts = [ENGLISH[0], german, german.upper(), "Hotel", ""]
    with pytest.raises(ConfigError, match=r"expected a run whose two languages are known, found none"):
        told.translate(texts, keep_translated=True)
    told.reader = dataclasses.replace(told.reader, languages=("eng", "de"))
    found, free = told.translate(texts, keep_translated=True, alignments=True), told.translate(texts)
    assert [each.text for each in found] == [free[0].text, german, german.upper(), free[3].text, ""]
    assert [bool(each.warnings) for each in found] == [False, True, True, False, False]
    assert all(each.text != text for each, text in zip(free[:4], texts, strict=False))


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("The\u00a0cat\u2003sleeps.", "The cat sleeps."),
        ("The\u200b cat sleeps\ufeff.", "The cat sleeps."),
        ("\u202eThe \x07cat\0 sleeps.\u202c", "The cat sleeps."),
        ("\U0001f600 …", None),
        ("—", None),
    ],
)
def test_what_nobody_sees_changes_nothing_and_what_is_no_word_stays(text: str, same: str | None) -> None:
    demo = Translator.load("demo", device="cpu")
    found = demo.translate([text, same or text])
    assert found[0].text == (text if same is None else found[1].text)
    assert same is None or found[1].text == "Die Katze schläft."
    assert not any(each.warnings or each.unknown for each in found)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("1 000 000", "1 000 000"),
        ("(555) 123-4567", "(555) 123-4567"),
        ("$1,250.50 / 12,000", "$1.250,50 / 12.000"),
        ("12:30 – 14:00", "12:30 – 14:00"),
    ],
)
def test_numbers_without_words_stay_in_guarded_runs(text: str, same: str) -> None:
    demo = Translator.load("demo", device="cpu")
    demo.reader = dataclasses.replace(demo.reader, languages=("en", "de"))
    (found,) = demo.translate([text], guard=True, alignments=True)
    assert (found.text, found.warnings, found.outputs[0].tokens) == (same, (), ())
    assert demo.translate([text], guard=False)[0].outputs[0].tokens  # a model of digits translates them
    glossary = Glossary([Entry(text, ("cat",))])
    assert demo.translate([text], guard=True, glossary=glossary)[0].outputs[0].tokens


def test_a_text_is_read_in_the_characters_that_the_vocabulary_spells_shortest() -> None:
    composed = "schöne Häuser für alle finden die Straße"
    decomposed = unicodedata.normalize("NFD", composed)
    usual, unusual = (Subwords(train_model([text] * 9, SubwordConfig(size=60))) for text in (composed, decomposed))
    for text in (decomposed, composed.replace("fi", "\ufb01"), composed.replace("ß", "\u00adß")):
        assert readable(usual, f" {text}\n", "line 1") == composed
    assert readable(unusual, decomposed, "line 1") == decomposed


@pytest.fixture(scope="module")
def ending_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "ending"
    return make_run(folder, share_embeddings="all", logit_bias=True, end_bias=50.0)


def test_translations_come_in_order_whatever_the_batches(translator: Translator) -> None:
    texts = [*ENGLISH, "", ENGLISH[2], "   ", "Snow."]
    together = translator.translate(texts)
    assert [t.source for t in together] == texts
    translator.batch_tokens, before = 1, translator.batch_tokens
    try:
        apart = translator.translate(texts)
    finally:
        translator.batch_tokens = before
    assert [t.text for t in apart] == [t.text for t in together]
    assert len({t.text for t in together}) > 3
    assert alike(together[2], together[7])
    backwards = translator.translate(texts[::-1])
    assert [t.text for t in backwards[::-1]] == [t.text for t in together]


@pytest.mark.parametrize("blank", ["", " ", "  ", "\n"])
def test_a_blank_line_gives_an_empty_one(translator: Translator, blank: str) -> None:
    (translation,) = translator.translate([blank], n_best=2)
    assert (translation.text, translation.log_probability, translation.score) == ("", 0.0, 0.0)
    assert translation.source_pieces == ()


def test_nothing_to_translate(translator: Translator) -> None:
    assert translator.translate([]) == []
    assert translator.score([], []) == []


def test_a_line_break_reads_as_a_space(translator: Translator) -> None:
    broken, whole = translator.translate(["Two dogs\nare playing.", "Two dogs are playing."])
    assert alike(broken, whole)


def test_an_output_is_consistent_in_itself(translator: Translator) -> None:
    for translation in translator.translate(ENGLISH, n_best=3):
        assert len(translation.outputs) == 3
        scores = [output.score for output in translation.outputs]
        assert scores == sorted(scores, reverse=True)
        for output in translation.outputs:
            assert output.text == "".join(output.pieces[:-1]).replace("▁", " ").strip()
            assert output.pieces[-1] == "</s>"
            assert len(output.pieces) == len(output.token_log_probabilities) == len(output.tokens) + 1
            assert output.log_probability == pytest.approx(sum(output.token_log_probabilities))
            assert output.score == pytest.approx(output.log_probability / length_penalty(len(output.pieces), 0.6))


def test_score_of_the_same_tokens_is_what_the_search_reported(translator: Translator) -> None:
    translations = translator.translate(ENGLISH, n_best=3)
    pairs = [(t.source, output) for t in translations for output in t.outputs]
    forced = translator.score([source for source, _ in pairs], [output.tokens for _, output in pairs])
    for (_, output), again in zip(pairs, forced, strict=True):
        assert dataclasses.replace(again, log_probability=0, score=0, token_log_probabilities=()) == (
            dataclasses.replace(output, log_probability=0, score=0, token_log_probabilities=())
        )
        assert again.token_log_probabilities == pytest.approx(output.token_log_probabilities, abs=1e-4)
        assert again.log_probability == pytest.approx(output.log_probability, abs=1e-4)
        assert again.score == pytest.approx(output.score, abs=1e-4)


def test_score_of_text_is_that_of_its_subwords(translator: Translator) -> None:
    ids = [translator.subwords.encode_target(text) for text in GERMAN]
    assert translator.score(ENGLISH, GERMAN) == translator.score(ENGLISH, ids)
    (empty,) = translator.score(["Two dogs."], [""])
    assert empty.pieces == ("</s>",)


def test_a_long_line_is_cut_with_a_warning_that_names_it(translator: Translator) -> None:
    subwords = len(translator.subwords.encode_source(LONG))
    sentence = f"line 12: {subwords} subwords, the model reads the first 39 of them"
    with pytest.warns(LongLineWarning, match=sentence) as caught:
        _, cut = translator.translate(["Snow.", LONG], first_line=11)
    assert len(caught) == 1
    assert len(cut.source_pieces) == 39
    with pytest.warns(LongLineWarning):
        (again,) = translator.translate([LONG])
    assert alike(again, cut)


def test_a_paragraph_is_translated_sentence_by_sentence_with_split(translator: Translator) -> None:
    pytest.importorskip("sentencex", reason="needs pip install 'headwise[documents]'")
    sentences = ["A dog runs.", "Two men eat, e.g. cake … 5.", "A dog sees a cat!"]
    found, whole = translator.translate([f" {'  '.join(sentences)} ", sentences[0]], split=True)
    alone = translator.translate(sentences)
    assert found.text == " ".join(each.text for each in alone)
    assert whole.text == alone[0].text
    words = " ".join(["dog"] * 90)
    (long, plain) = translator.translate([f"{sentences[0]} {words}", words], split=True)
    assert long.text == f"{alone[0].text} {plain.text}"


def test_what_the_subwords_leave_out_is_no_part_of_a_split_line() -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a man rides a horse"] * 9),
        model_writer=model,
        **{"pad_id": PAD, "unk_id": UNK, "bos_id": BOS, "eos_id": EOS},
        **{"vocab_size": 20, "model_type": "bpe", "normalization_rule_name": "nmt_nfkc", "minloglevel": 2},
    )
    line = f"\u200b {'horse' * 30} \u200b"  # a space without width, which these subwords know nothing of
    parts, ids = encode_source(Subwords(model.getvalue()), line, 10, 1, "long")
    assert "".join(parts) == "horse" * 30
    assert all(2 <= len(each) <= 11 for each in ids)


def test_a_long_line_is_translated_whole_with_split(translator: Translator) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (whole,) = translator.translate([LONG], split="long", n_best=3, alignments=True)
        parts = split_text(LONG, lambda part: len(translator.subwords.encode_source(part)) <= 39)
        alone = translator.translate(parts, n_best=3, alignments=True)
    assert len(parts) > 1
    assert whole.source_pieces == tuple(itertools.chain.from_iterable(t.source_pieces for t in alone))
    for rank, output in enumerate(whole.outputs):
        chosen = [t.outputs[rank] for t in alone]
        assert output.text == " ".join(o.text for o in chosen)
        assert output.log_probability == pytest.approx(sum(o.log_probability for o in chosen))
        assert output.log_probability == pytest.approx(sum(output.token_log_probabilities))
        assert output.alignment is not None
        words = len(output.text.split(" "))
        assert [target for _, target in output.alignment] == list(range(words))
        assert max(source for source, _ in output.alignment) < len(LONG.split(" "))
    last = alone[-1].outputs[0].alignment
    assert last is not None
    before = sum(len(part.split(" ")) for part in parts[:-1])
    assert [s - before for s, _ in whole.outputs[0].alignment or ()][-len(last) :] == [s for s, _ in last]


def test_prefixes_begin_the_translations(translator: Translator) -> None:
    prefixes = ["Ein Mann", "", "Die alte Frau liest", "Kinder", "Ein", "Zwei Hunde"]
    translations = translator.translate(ENGLISH, prefixes=prefixes, n_best=2)
    for translation, prefix in zip(translations, prefixes, strict=True):
        assert all(output.text.startswith(prefix) for output in translation.outputs)
    ordinary, foreign, empty = translator.translate(["A man."] * 2 + [""], prefixes=["Ein", "Ein 馬 馬", "馬"])
    assert foreign.warnings == ("prefix: the model's vocabulary can't write 馬",)
    assert ordinary.warnings == empty.warnings == ()
    assert alike(translations[1], translator.translate(ENGLISH[1:2], n_best=2)[0])


def test_options_by_keyword_change_the_runs(translator: Translator) -> None:
    assert (translator.options.beam, translator.options.extra_length) == (3, 4)
    (short,) = translator.translate(ENGLISH[:1], max_length=2)
    assert len(short.outputs[0].tokens) <= 2
    (long,) = translator.translate(ENGLISH[:1], min_length=30)
    assert len(long.outputs[0].tokens) >= 30
    samples = translator.translate(ENGLISH[:1], sample=True, n_best=4, seed=3)
    assert alike(samples[0], translator.translate(ENGLISH[:1], sample=True, n_best=4, seed=3)[0])
    assert len({output.text for output in samples[0].outputs}) > 1


def test_an_output_never_outgrows_the_model(translator: Translator) -> None:
    (translation,) = translator.translate(ENGLISH[:1], extra_length=500, max_length=400)
    assert len(translation.outputs[0].tokens) <= 39
    with pytest.raises(ConfigError, match="min_length: expected at most the model's 39, found 40"):
        translator.translate(ENGLISH[:1], min_length=40)


def test_mistakes_in_calls_are_named(translator: Translator) -> None:
    with pytest.raises(ConfigError, match=r"bem: unknown search option \(did you mean beam\?\)"):
        translator.translate(ENGLISH, bem=3)
    with pytest.raises(ConfigError, match="expected a list of sentences, found one string"):
        translator.translate(ENGLISH[0])
    with pytest.raises(ConfigError, match="translate_lines: expected lines, found one string"):
        next(translator.translate_lines(ENGLISH[0]))
    with pytest.raises(ConfigError, match="prefixes: expected a list of sentences, found one string"):
        next(translator.translate_lines(ENGLISH[:1], prefixes="E"))
    for score in (translator.score, translator.align):
        with pytest.raises(ConfigError, match="sources: expected a list of sentences, found one string"):
            score("ab", "cd")
    with pytest.raises(ConfigError, match="translate: line 2: expected text, found None"):
        translator.translate([ENGLISH[0], None])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="targets: line 1: expected text or ids, found None"):
        translator.score(ENGLISH[:1], [None])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="prefixes: expected a list of sentences, found one string"):
        translator.translate(ENGLISH[:1], prefixes="E")
    with pytest.raises(ConfigError, match="prefixes: line 7: expected text, found 1"):
        translator.translate(ENGLISH[:1], prefixes=[1], first_line=7)  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="prefixes: expected one for each of the 6 sentences, found 1"):
        translator.translate(ENGLISH, prefixes=["Ein"])
    with pytest.raises(DataError, match="prefix 3: expected at most 39 subwords, found"):
        translator.translate(ENGLISH[:1], prefixes=[" ".join(GERMAN)], first_line=3)
    with pytest.raises(DataError, match="expected one target for each of the 6 sources, found 1"):
        translator.score(ENGLISH, GERMAN[:1])
    with pytest.raises(DataError, match="line 1: expected a target of at most 39 subwords, found"):
        translator.score(ENGLISH[:1], [" ".join(GERMAN)])


def test_lines_stream_in_order_within_bounds(translator: Translator) -> None:
    read = 0

    def endless():
        nonlocal read
        for text in itertools.cycle([*ENGLISH, ""]):
            read += 1
            yield text

    stream = translator.translate_lines(endless(), chunk=4, beam=1)
    taken = list(itertools.islice(stream, 10))
    assert read <= 12
    expected = translator.translate([*ENGLISH, ""], beam=1)
    assert [t.text for t in taken] == [(expected + expected)[place].text for place in range(10)]


def test_streamed_warnings_name_the_line_of_the_stream(translator: Translator) -> None:
    with pytest.warns(LongLineWarning, match="line 6: "):
        list(translator.translate_lines(["Snow."] * 5 + [LONG], chunk=2))


def test_streamed_prefixes_must_fit_the_lines(translator: Translator) -> None:
    texts = [t.text for t in translator.translate_lines(ENGLISH, chunk=2, prefixes=iter(["Ein"] * 6))]
    assert all(text.startswith("Ein") for text in texts)
    with pytest.raises(DataError, match="prefixes: expected one for each line, found none for line 4"):
        list(translator.translate_lines(ENGLISH, chunk=2, prefixes=["Ein"] * 3))
    with pytest.raises(DataError, match="prefixes: expected one for each of the 6 lines, found more"):
        list(translator.translate_lines(ENGLISH, chunk=2, prefixes=["Ein"] * 7))


def test_an_ensemble_of_runs_votes(run: Path, translator: Translator, tmp_path: Path) -> None:
    other = make_run(tmp_path / "other", seed=1)
    both = headwise.load(str(run), str(other))
    alone = Translator.load(other)
    one, two, mean = (t.score(ENGLISH, GERMAN) for t in (translator, alone, both))
    for a, b, c in zip(one, two, mean, strict=True):
        pairs = torch.tensor([a.token_log_probabilities, b.token_log_probabilities], dtype=torch.float64)
        assert c.token_log_probabilities == pytest.approx(pairs.exp().mean(0).log().tolist(), abs=1e-5)
    translations = both.translate(ENGLISH, alignments=True)
    assert [t.text for t in translations] != [t.text for t in translator.translate(ENGLISH)]


def test_runs_that_cannot_be_loaded_are_named(run: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere: expected a run directory, found none"):
        Translator.load(tmp_path / "nowhere")
    other = make_run(tmp_path / "other", size=140)
    with pytest.raises(CheckpointError, match=r"other: expected the subwords of .*de \("):
        Translator.load([run, other])
    if not torch.cuda.is_available():
        with pytest.raises(DeviceError, match=r"device: expected auto or one of cpu.* on this machine, found 'cuda'"):
            Translator.load(run, device="cuda")
    with pytest.raises(ConfigError, match="precision: expected auto, float32, bfloat16, int8, found 'int4'"):
        Translator.load(run, precision="int4")


def test_bfloat16_scores_are_close(run: Path, translator: Translator) -> None:
    low = Translator.load(run, precision="bfloat16").score(ENGLISH, GERMAN)
    for rough, exact in zip(low, translator.score(ENGLISH, GERMAN), strict=True):
        assert rough.log_probability == pytest.approx(exact.log_probability, rel=0.02)
        assert rough.log_probability != exact.log_probability


def test_translating_leaves_autograd_on(translator: Translator) -> None:
    translator.translate(ENGLISH[:1])
    translator.score(ENGLISH[:1], GERMAN[:1])
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
    assert (torch.ones(1, requires_grad=True) * 2).requires_grad


# Alignment


def test_word_links_follow_the_weights() -> None:
    source, target = ["▁the", "▁hou", "se", "."], ["▁das", "▁Ha", "us"]
    weights = np.array(
        [
            [0.6, 0.1, 0.1, 0.1],
            [0.4, 0.3, 0.2, 0.0],  # "Haus": 0.4 + 0.0 on "the", 0.5 + 0.3 on the subwords of "house."
            [0.0, 0.1, 0.1, 0.1],
        ],
        dtype=np.float32,
    )
    assert word_links(weights, source, target) == ((0, 0), (1, 1))
    assert word_links(weights[:, :0], [], target) == ()
    assert word_links(weights[:1], source, ["▁"]) == ()


def test_links_are_read_from_subwords_alone(translator: Translator) -> None:
    source = [*translator.subwords.encode_source(ENGLISH[0]), EOS]
    target = translator.subwords.encode_target(GERMAN[0])
    inner = np.random.default_rng(0).random((len(target), len(source) - 1), dtype=np.float32)
    attention = np.full((4, 2, len(target) + 1, len(source)), 9.0, dtype=np.float32)
    attention[1:3, :, :-1, :-1] = inner + np.array([-0.1, 0.1], dtype=np.float32)[:, None, None]
    pieces = translator.subwords.source_pieces(source[:-1]), translator.subwords.target_pieces(target)
    weights, *found = translator.subword_weights(attention, source, target)
    assert np.allclose(weights, inner, atol=1e-6)  # the mean of the inner layers and of the heads
    assert tuple(found) == pieces
    assert translator.links(attention, source, target) == word_links(weights, *pieces)


def test_words_are_what_spaces_separate() -> None:
    assert word_numbers(["▁A", "▁", "xy", "▁man", "."]) == [0, 1, 1, 2, 2]
    assert word_numbers(["la", "te"]) == [0, 0]
    assert word_numbers(["▁", "▁A", "▁", "▁", "▁man", ".", "▁"]) == [0, 0, 1, 1, 1, 1, 1]


@given(pieces=st.lists(st.sampled_from(["▁", "▁A", "b", ""]), max_size=9))
def test_words_are_those_of_the_decoded_text(pieces: list[str]) -> None:
    words = "".join(pieces).replace("▁", " ").split()
    assert max(word_numbers(pieces), default=0) == max(len(words) - 1, 0)
    for number, word in enumerate(words):
        own = [piece for piece, each in zip(pieces, word_numbers(pieces), strict=True) if each == number]
        assert "".join(own).strip("▁") == word


def test_cross_attention_is_a_distribution_over_the_source_alone(translator: Translator) -> None:
    symbols = Symbols(pad=PAD, unknown=UNK, bos=BOS, eos=EOS)
    sources = [[*translator.subwords.encode_source(text), EOS] for text in ENGLISH]
    targets = [translator.subwords.encode_target(text) for text in GERMAN]
    engine = pytorch_engine(translator.engine)
    together = engine.cross_attention(sources, targets, symbols)
    for weights, source, target in zip(together, sources, targets, strict=True):
        assert weights.shape[2:] == (len(target) + 1, len(source))
        assert np.allclose(weights.sum(-1), 1, atol=1e-5)
        (alone,) = engine.cross_attention([source], [target], symbols)
        assert np.allclose(weights, alone, atol=1e-5)


def test_words_are_those_between_spaces_where_subwords_have_joiners(tmp_path: Path) -> None:
    joining = Translator.load(make_run(tmp_path / "run", joiners=True, size=180))
    text = '(A man) rides a "brown horse" along-the beach'
    (found,) = joining.translate([text], alignments=True)
    assert word_numbers(found.source_pieces)[-1] + 1 == len(text.split())
    for output in found.outputs:
        assert "".join(output.pieces[:-1]).replace("▁", " ").split() == output.text.split()


def test_alignments_of_translations_are_those_of_their_tokens(translator: Translator) -> None:
    translations = translator.translate([*ENGLISH, ""], alignments=True, n_best=2)
    for translation in translations[:-1]:
        for output in translation.outputs:
            (links,) = translator.align([translation.source], [output.tokens])
            assert output.alignment == links
            assert output.pharaoh == " ".join(f"{source}-{target}" for source, target in links)
            assert len(links) == word_numbers(output.pieces[:-1])[-1] + 1
    assert translations[-1].outputs[0].alignment == ()


# Splitting


@settings(max_examples=200, deadline=None)
@given(text=st.text(alphabet="ab .,!?;。、日本", max_size=60), room=st.integers(1, 20))
def test_parts_fit_and_lose_nothing(text: str, room: int) -> None:
    parts = split_text(text, lambda part: len(part) <= room)
    assert all(0 < len(part) <= room and part == part.strip() for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_cuts_are_made_where_they_hurt_least() -> None:
    def cut(text: str, room: int) -> list[str]:
        return split_text(text, lambda part: len(part) <= room)

    assert cut("One two. Three four. Five.", 13) == ["One two.", "Three four.", "Five."]
    assert cut("One two. Three four. Five.", 20) == ["One two. Three four.", "Five."]
    assert cut("He said “No!” Then left.", 15) == ["He said “No!”", "Then left."]
    assert cut("one two, three four", 11) == ["one two,", "three four"]
    assert cut("one two three", 8) == ["one two", "three"]
    assert cut("incomprehensible", 6) == ["incomp", "rehens", "ible"]
    assert cut("これはペンです。あれは本です。", 9) == ["これはペンです。", "あれは本です。"]


def test_parts_are_joined_as_their_script_is() -> None:
    assert join_texts(["Das ist es.", "", "Und das."]) == "Das ist es. Und das."
    assert join_texts(["これはペンです。", "あれは本です。"]) == "これはペンです。あれは本です。"
    assert join_texts([]) == ""
