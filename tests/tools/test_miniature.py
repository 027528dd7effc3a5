"""The miniature corpus as data: determinism, splits, held-out combinations, annotation, files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from headwise.errors import DataError
from tools.miniature import EXAMPLES, MiniatureCorpus, MiniaturePair, generate
from tools.miniature.corpus import annotate, combinations, is_held_out
from tools.miniature.lexicon.entries import Noun
from tools.miniature.lexicon.lexicon import ADJECTIVES, GROUPS, NOUNS, VERBS, VERBS_BY_KEY
from tools.miniature.phrases import Retry
from tools.miniature.sentences import CONSTRUCTIONS, Constructions

CONTENT = {"NOUN", "PROPN", "VERB", "ADJ", "NUM"}


@pytest.fixture(scope="module")
def corpus() -> MiniatureCorpus:
    return generate(train=6000, dev=200, test=200, seed=1)


def draw(sampler: Constructions, name: str = "sentence") -> MiniaturePair:
    while True:
        sampler.mentions.clear()
        try:
            return annotate(getattr(sampler, name)())
        except Retry:
            continue


# ------------------------------------------------------------------------------------------ sizes and determinism


def test_sizes_are_as_asked_and_sources_are_distinct(corpus: MiniatureCorpus) -> None:
    sources = [[pair.source for pair in part] for part in (corpus.train, corpus.dev, corpus.test)]
    assert [len(part) for part in sources] == [6000, 200, 200]
    everything = [source for part in sources for source in part]
    assert len(set(everything)) == len(everything)


def test_the_same_seed_gives_the_same_corpus_in_another_process() -> None:
    program = (
        "import hashlib; from tools.miniature import generate; c = generate(300, 40, 40, seed=5);"
        "rows = [(p.source, p.target, sorted(p.alignment), p.target_coreference, p.source_heads)"
        " for part in (c.train, c.dev, c.test) for p in part];"
        "print(hashlib.sha256(repr(rows).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "4242")
    }
    assert len(digests) == 1


def test_other_seeds_give_other_corpora_and_larger_sets_begin_with_smaller_ones(
    corpus: MiniatureCorpus,
) -> None:
    small = generate(train=200, dev=200, test=200, seed=1)
    assert small.train == corpus.train[:200]
    assert (small.dev, small.test) == (corpus.dev, corpus.test)
    other = generate(train=200, dev=0, test=0, seed=2)
    assert len({pair.source for pair in other.train} & {pair.source for pair in small.train}) < 5


def test_negative_sizes_are_the_users_mistake() -> None:
    with pytest.raises(DataError, match=r"dev: .* 0 or more, found -1"):
        generate(train=1, dev=-1)


# ------------------------------------------------------------------------------------------ held-out combinations


def word_pairs(pair: MiniaturePair) -> set[tuple[str, str, str]]:
    """Return attribute and argument pairs of the English tree as words; pronouns are replaced by their nouns.

    Other than in the generator's combinations, forms of one verb are different, and sit equals sit down.
    """
    links = dict(pair.source_coreference)
    combined = set()
    for index, (head, relation) in enumerate(zip(pair.source_heads, pair.source_relations, strict=True)):
        if relation in ("amod", "obj", "obl", "iobj", "nsubj", "nsubj:pass", "obl:agent"):
            noun = pair.source_tokens[links.get(index, index)].lower()
            combined.add((relation, noun, pair.source_tokens[head].lower()))
    return combined


def word_forms() -> list[set[str]]:
    """Return the forms of each noun and verb, as single words in lower case."""
    nouns = [{n.english.split()[-1].lower(), n.english_plural.split()[-1].lower()} for n in NOUNS.values()]
    verbs = [{v.base, v.third, v.past, v.participle, v.gerund} for group in VERBS.values() for v in group]
    return nouns + verbs


def test_test_sentences_combine_words_that_training_knows_but_never_combines(corpus: MiniatureCorpus) -> None:
    seen = {token.lower() for pair in corpus.train for token in pair.source_tokens}
    for forms in word_forms():
        if seen & forms:  # a form of it is known
            seen |= forms
    combined = set().union(*map(word_pairs, corpus.train))
    for pair in corpus.test:
        assert {token.lower() for token in pair.source_tokens} <= seen, pair.source
    new = sum(bool(word_pairs(pair) - combined) for pair in corpus.test)
    assert new >= 0.98 * len(corpus.test)


def test_held_out_combinations_never_occur_in_training() -> None:
    sampler = Constructions(Random("combinations"))
    held_out: set[tuple[str, str]] = set()
    trained = {pair.source for pair in generate(train=8000, dev=0, test=0, seed=1).train}
    for _ in range(8000):
        sampler.mentions.clear()
        try:
            sentence = sampler.sentence()
        except Retry:
            continue
        held = {combination for combination in combinations(sentence) if is_held_out(combination)}
        held_out |= held
        assert not held or annotate(sentence).source not in trained
    assert len(held_out) > 100


# ------------------------------------------------------------------------------------------ unique translations


class Dense(Constructions):
    """Sampler that draws from three options of each long list, so that sources repeat often."""

    offset = 0

    def pick(self, options):  # type: ignore[override]
        if len(options) > 6 and not isinstance(options[0], str):
            return options[(self.offset + int(self.random() * 3) * 7) % len(options)]
        return super().pick(options)


def test_english_determines_german() -> None:
    translations: dict[str, str] = {}
    repeated = 0
    for offset in range(5):
        sampler = Dense(Random(f"dense {offset}"))
        sampler.offset = 11 * offset
        for _ in range(1500):
            pair = draw(sampler)
            repeated += pair.source in translations
            assert translations.setdefault(pair.source, pair.target) == pair.target, pair.source
    assert repeated > 300  # otherwise this would test nothing


def test_over_a_hundred_thousand_pairs_can_be_drawn() -> None:
    """Count one construction from the lexicon: singular definite subject and object, present and past."""

    def singles(nouns: tuple[Noun, ...]) -> int:
        return sum(not noun.proper for noun in nouns)

    count = 2 * sum(
        singles(verb.subjects) * singles(verb.objects) - len(set(verb.subjects) & set(verb.objects))
        for verb in VERBS["transitive"]
    )
    assert count > 100_000
    # distinct English: no two transitive verbs that look alike share a subject and an object
    for one in VERBS["transitive"]:
        for other in VERBS["transitive"]:
            alike = (one.base, one.particle, one.preposition) == (
                other.base,
                other.particle,
                other.preposition,
            )
            assert one is other or not alike or not set(one.subjects) & set(other.subjects)


def test_large_samples_hardly_repeat() -> None:
    sampler = Constructions(Random("distinct"))
    sources = {draw(sampler).source for _ in range(4_000)}
    assert len(sources) > 3_800


def test_there_are_several_hundred_lemmas_and_all_are_used() -> None:
    assert len(NOUNS) + len(VERBS_BY_KEY) + len(ADJECTIVES) >= 350
    pairs = generate(train=20_000, dev=0, test=0, seed=3).train
    counts: dict[str, int] = {}
    for pair in pairs:
        for token in pair.source_tokens:
            counts[token.lower()] = counts.get(token.lower(), 0) + 1
    for forms in word_forms():
        assert sum(counts.get(form, 0) for form in forms) >= 30, forms
    for adjective in ADJECTIVES:
        assert counts.get(adjective.english, 0) >= 30, adjective.english
    lengths = [len(pair.target_tokens) for pair in pairs]
    assert 8 <= sum(lengths) / len(lengths) <= 10
    assert min(lengths) >= 2
    assert max(lengths) <= 17


# ------------------------------------------------------------------------------------------ annotation


def side(pair: MiniaturePair, german: bool) -> tuple:
    if german:
        return (
            pair.target,
            pair.target_tokens,
            pair.target_heads,
            pair.target_relations,
            pair.target_coreference,
        )
    return pair.source, pair.source_tokens, pair.source_heads, pair.source_relations, pair.source_coreference


@pytest.mark.parametrize("german", [False, True])
def test_heads_form_a_tree_with_one_root(corpus: MiniatureCorpus, german: bool) -> None:
    for pair in corpus.test + corpus.train[:2000]:
        text, tokens, heads, relations, _ = side(pair, german)
        assert len(tokens) == len(heads) == len(relations)
        assert list(heads).count(-1) == 1, text
        assert relations[heads.index(-1)] == "root"
        assert all(relations[i] and relations[i] != "root" for i, head in enumerate(heads) if head != -1), text
        for index in range(len(heads)):
            steps, node = 0, index
            while node != -1:
                node, steps = heads[node], steps + 1
                assert steps <= len(heads), text


@pytest.mark.parametrize("german", [False, True])
def test_tokens_make_the_text(corpus: MiniatureCorpus, german: bool) -> None:
    for pair in corpus.test + corpus.train[:2000]:
        text, tokens, *_ = side(pair, german)
        assert text.replace(" ", "") == "".join(tokens)
        assert text[0].isupper() or text[0].isdigit()
        assert text[-1] in ".?"
        assert not any(mark in text for mark in (" .", " ?", " ,", "  ", " 's", ",,"))
        assert all(" " not in token and token for token in tokens)


def test_alignments_are_in_range_and_cover_the_content_words(corpus: MiniatureCorpus) -> None:
    for pair in corpus.test + corpus.train[:2000]:
        left, right = {i for i, _ in pair.alignment}, {j for _, j in pair.alignment}
        assert left <= set(range(len(pair.source_tokens)))
        assert right <= set(range(len(pair.target_tokens)))
        assert {i for i, tag in enumerate(pair.source_tags) if tag in CONTENT} <= left, pair.source
        assert {j for j, tag in enumerate(pair.target_tags) if tag in CONTENT} <= right, pair.target
        assert (len(pair.source_tokens) - 1, len(pair.target_tokens) - 1) in pair.alignment
        assert any(i != j for i, j in pair.alignment) or len(pair.source_tokens) == len(pair.target_tokens)


def test_aligned_nouns_translate_each_other(corpus: MiniatureCorpus) -> None:
    known: dict[str, set[str]] = {}
    for noun in NOUNS.values():
        forms = {noun.german, noun.oblique, noun.genitive, noun.german_plural, noun.german_plural + "n"}
        for english in (noun.english.split()[-1], noun.english_plural.split()[-1]):
            known.setdefault(english, set()).update(forms)
    for english in ("bank", "banks"):  # of a river
        known[english] |= known["shore"]
    checked = 0
    for pair in corpus.test:
        for i, j in pair.alignment:
            word = pair.source_tokens[i]
            nouns = {pair.source_tags[i], pair.target_tags[j]} <= {"NOUN", "PROPN"}
            if nouns and word in known:
                assert pair.target_tokens[j] in known[word], pair.source
                checked += 1
    assert checked > 400


@pytest.mark.parametrize("german", [False, True])
def test_coreference_leads_from_pronouns_to_nouns(corpus: MiniatureCorpus, german: bool) -> None:
    links = 0
    for pair in corpus.test + corpus.train[:2000]:
        text, *_, coreference = side(pair, german)
        tags = pair.target_tags if german else pair.source_tags
        for pronoun, noun in coreference:
            assert tags[noun] in ("NOUN", "PROPN"), text
            assert tags[pronoun] in ("PRON", "DET"), text
            assert pronoun != noun
            links += 1
    assert links > 500


def test_english_pronouns_fit_what_they_refer_to(corpus: MiniatureCorpus) -> None:
    classes = {"he": "he", "him": "he", "his": "he", "she": "she", "her": "she", "it": "it", "its": "it"}
    singular = {noun.english.split()[-1]: noun.pronoun for noun in NOUNS.values()}
    plural = {noun.english_plural.split()[-1] for noun in NOUNS.values() if not noun.mass and not noun.proper}
    for pair in corpus.train:
        for pronoun, noun in pair.source_coreference:
            word, antecedent = pair.source_tokens[pronoun].lower(), pair.source_tokens[noun]
            if word in classes:
                assert singular[antecedent] == classes[word], pair.source
            elif word in ("they", "them", "their"):
                joined = any(
                    h == noun and r == "conj" for h, r in zip(pair.source_heads, pair.source_relations, strict=True)
                )
                assert joined or antecedent in plural, pair.source
            elif word in ("who", "whom"):
                assert any(antecedent in (n.english, n.english_plural) for n in GROUPS["being"] if n.human), pair.source


# ------------------------------------------------------------------------------------------ English


def test_english_agrees_and_has_its_articles_right(corpus: MiniatureCorpus) -> None:
    for pair in corpus.train:
        tokens = [token.lower() for token in pair.source_tokens]
        question = pair.source.endswith("?")  # did she have to work?
        for index, (token, following) in enumerate(pairwise(tokens)):
            if token in ("a", "an"):
                vowel = following[0] in "aeiou" or following == "honest"
                assert (token == "an") == vowel, pair.source
            if question or pair.source_relations[index] != "nsubj":
                continue
            if token in ("he", "she", "it"):
                assert following not in ("are", "were", "have", "do", "am"), pair.source
            if token in ("they", "we", "you"):
                assert following not in ("is", "was", "has", "does", "am"), pair.source


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_every_construction_can_be_drawn(name: str) -> None:
    sampler = Constructions(Random(name))
    sources = {draw(sampler, name).source for _ in range(50)}
    assert len(sources) > 40


@pytest.mark.parametrize(
    ("english", "german"),
    [
        (lambda s: " it " in s and " because " in s, ", weil sie "),
        (lambda s: s.startswith("Because the "), "Weil de"),
        (lambda s: " does not have to " in s, "muss"),
        (lambda s: s.startswith("Whom "), "We"),
        (lambda s: " must not " in s, "darf"),
        (lambda s: " whose " in s, ", de"),
        (lambda s: " cannot " in s, "kann"),
        (lambda s: "didn't" in s, "nicht"),
        (lambda s: s.startswith("I'm a "), "Ich bin "),
        (lambda s: " of the river" in s, " des Flusses"),
        (lambda s: s.startswith("Where is "), "Wo ist "),
        (lambda s: " because " in s and " too " in s, " zu "),
    ],
)
def test_what_the_corpus_is_there_for_occurs(
    corpus: MiniatureCorpus, english: Callable[[str], bool], german: str
) -> None:
    assert any(german in pair.target for pair in corpus.train if english(pair.source))


def test_the_generator_needs_no_torch() -> None:
    program = "import sys, tools.miniature; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# ------------------------------------------------------------------------------------------ sentences of walk-throughs


def test_it_is_the_sitter_or_the_seat_and_german_gender_tells_which() -> None:
    """The cat sat on the mat because it was tired / because it was soft: sie is the cat, er the mat (der Teppich)."""
    sampler = Constructions(Random("seats"))
    meant: dict[tuple[str, str], set[str]] = {}
    for _ in range(4000):
        pair = draw(sampler, "seat")
        words, links = pair.source_tokens, dict(pair.source_coreference)
        german = dict(pair.target_coreference)
        if "mat" not in words or "cat" not in words or "it" not in words:
            continue
        ((_, antecedent),) = german.items()
        index = words.index("it")
        key = (words[links[index]], words[-2])  # what it means, and why
        assert pair.target_tokens[antecedent] == {"cat": "Katze", "mat": "Teppich"}[key[0]], pair.source
        assert {"cat": "sie", "mat": "er"}[key[0]] in pair.target_tokens, pair.target
        meant.setdefault(key, set()).add(pair.source)
    assert {("cat", "tired"), ("mat", "soft"), ("mat", "comfortable")} <= set(meant)
    assert not {reason for word, reason in meant if word == "cat"} & {reason for word, reason in meant if word == "mat"}


def test_training_may_hold_every_combination_of_the_walk_throughs() -> None:
    used = {
        "sit_sitzen:subject": "cat dog",
        "chase_jagen:subject": "dog cat",
        "chase_jagen:direct": "ball cat mouse",
        "bite_beißen:subject": "dog man",
        "bite_beißen:direct": "dog man",
        "help_helfen:subject": "Alice Bob",
        "help_helfen:direct": "Alice Bob",
        "wake_aufwachen:subject": "cat",
        "tired": "cat dog animal",
        "old": "cat",
        "cross_überqueren:subject": "animal cat dog",
        "cross_überqueren:direct": "street river",
        "wide": "street river",
        "quick": "fox",
        "brown": "fox",
        "lazy": "dog",
        "jump_springen:subject": "fox",
        "care_sorgen:subject": "Alice",
        "raise_erhöhen:direct": "rate",
        "soft": "mat",
        "comfortable": "mat",
        "red": "ball",
        "friendly": "Alice Bob",
        "sick": "Alice Bob",
    }
    verbs = {verb.key for group in VERBS.values() for verb in group}
    adjectives = {adjective.english for adjective in ADJECTIVES}
    for word, nouns in used.items():
        assert word.split(":")[0] in verbs | adjectives
        for noun in nouns.split():
            assert noun in NOUNS
            assert not is_held_out((word, noun))


def test_the_examples_are_in_words_of_the_corpus() -> None:
    corpus = generate(train=20_000, dev=0, test=0, seed=3)
    seen = {token.lower() for pair in corpus.train for token in pair.source_tokens}
    for text in EXAMPLES:
        assert {word.lower().strip(".") for word in text.split()} <= seen, text


def test_it_is_the_animal_or_the_street() -> None:
    """The animal didn't cross the street because it was too tired / too wide, with every animal and every way."""
    sampler = Constructions(Random("crossings"))
    meant: dict[tuple[str, str], set[str]] = {}
    for _ in range(1500):
        pair = draw(sampler, "crossing")
        words, links = pair.source_tokens, dict(pair.source_coreference)
        if "it" not in words:
            continue
        antecedent = links[words.index("it")]
        (german,) = {noun for _, noun in pair.target_coreference if pair.target_tags[noun] == "NOUN"}
        role = pair.source_relations[antecedent]
        assert role == pair.target_relations[german], pair.target
        meant.setdefault((role, words[-2]), set()).add(pair.target_tokens[german])
    assert {"Tier", "Hund", "Katze", "Pferd"} <= meant["nsubj", "tired"]
    assert meant["obj", "wide"] == {"Straße", "Fluss", "Brücke"}
    assert not {why for role, why in meant if role == "nsubj"} & {why for role, why in meant if role == "obj"}


def test_contractions_change_english_alone() -> None:
    """What is contracted is the same sentence: undone by a table of contractions, nothing else differs."""
    full = {"won't": "will not", "can't": "cannot", "n't": " not", "'m": " am", "'re": " are", "'ve": " have"}
    full["'ll"] = " will"
    sampler, seen = Constructions(Random("contractions")), set()
    for _ in range(3000):
        sampler.mentions.clear()
        try:
            sentence = sampler.sentence()
        except Retry:
            continue
        sentence.contracted = False
        plain = annotate(sentence)
        sentence.contracted = True
        contracted = annotate(sentence)
        assert contracted.target == plain.target
        text = contracted.source
        for short, long in full.items():
            if short in text:
                seen.add(short)
                text = text.replace(short, long)
        if "'s" not in text:
            assert text == plain.source
    assert seen == {*full}
