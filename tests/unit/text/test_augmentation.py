"""Augmentation of sentence pairs: what each change does, how often, and that both sides agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from headwise.config import AugmentConfig
from headwise.text.augmentation import (
    AMOUNTS,
    LETTERS,
    MARKS,
    PLACEHOLDERS,
    SYMBOLS,
    augment,
    title_case,
    typo,
    without_diacritics,
)

SOURCE = "Die Mädchen gehen über die Straße, weil es regnet."
TARGET = "The girls cross the street because it's raining."


def changed(source: str = SOURCE, target: str = TARGET, seed: int = 0, **shares: float) -> tuple[str, str]:
    sides = augment([source], [target], AugmentConfig(**shares), np.random.default_rng(seed))
    return sides[0][0], sides[1][0]


def test_each_change_is_what_its_key_says() -> None:
    assert changed() == (SOURCE, TARGET)
    assert changed(capitals=1) == (SOURCE.upper(), TARGET.upper())
    assert changed(title=1)[1] == "The Girls Cross The Street Because It's Raining."
    assert changed(lower_case=1) == (SOURCE.lower(), TARGET)
    assert changed(first_letter=1) == ("d" + SOURCE[1:], TARGET)
    assert changed(no_diacritics=1) == (SOURCE.replace("ä", "a").replace("ü", "u"), TARGET)
    assert changed(no_punctuation=1) == (SOURCE[:-1], TARGET[:-1])
    assert changed(copied=1) == (TARGET, TARGET)
    assert changed(joined=1) == (f"{SOURCE} {SOURCE}", f"{TARGET} {TARGET}")
    source, target = changed(typos=1)
    assert target == TARGET
    assert len(source.split()) == len(SOURCE.split())
    assert sum(a != b for a, b in zip(source.split(), SOURCE.split(), strict=True)) == 1


def test_what_is_inserted_is_the_same_on_both_sides() -> None:
    """Around both, at the same end of both, or in place of a name that both have: a translation repeats it."""
    places = set()
    for seed in range(200):
        source, target = changed("Tom ist müde.", "I know Tom is tired.", seed=seed, inserted=1)
        before, stays, after = source.partition("Tom ist müde.")
        if (before, after) in MARKS:
            places.add("around")
            assert target == f"{before}I know Tom is tired.{after}"
        elif stays:
            places.add("in front" if before else "behind")
            assert (before + after).strip() in SYMBOLS + PLACEHOLDERS + AMOUNTS
            assert target == f"{before}I know Tom is tired.{after}"
        else:
            places.add("in place")
            inserted = source.removesuffix(" ist müde.")
            assert inserted in SYMBOLS + PLACEHOLDERS + AMOUNTS
            assert target == f"I know {inserted} is tired."
    assert places == {"around", "in front", "behind", "in place"}


@pytest.mark.parametrize(
    ("source", "scripts"),
    [("Der Mann war müde.", {"LATIN", "CYRILLIC", "GREEK"}), ("Мужчина устал.", {"LATIN", "GREEK"})],
)
def test_a_foreign_word_is_the_same_on_both_sides_and_of_no_script_that_is_translated(
    source: str, scripts: set[str]
) -> None:
    found = set()
    for seed in range(200):
        before, after = changed(source, "The man was tired.", seed=seed, foreign=1)
        word = before.replace(source, "").strip()
        assert after.replace("The man was tired.", "").strip() == word
        (script,) = {name for name, letters in LETTERS.items() if set(word.lower()) & set(letters)}
        found.add(script)
        assert word[1:].islower()
        assert 2 <= len(word) <= 7
    assert found == scripts


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Toms Hund schläft.", "Tom's dog sleeps."),  # not the whole word
        ("Tom mag Tom.", "Tom likes Tom."),  # which of them?
        ("Der Mann war müde.", "The man war tired."),  # no capital
        ("Tomaten mag Tom.", "Tom likes tomatoes."),  # inside another word
    ],
)
def test_only_a_name_that_each_side_has_once_is_replaced(source: str, target: str) -> None:
    for seed in range(50):
        inserted = changed(source, target, seed=seed, inserted=1)
        assert source in inserted[0]
        assert target in inserted[1]


def test_a_script_without_case_or_spaces_keeps_its_pair() -> None:
    assert changed("犬が好き。", "I like dogs.", capitals=1) == ("犬が好き。", "I like dogs.")
    assert changed("犬が好き。", "I like dogs.", no_diacritics=1) == ("犬が好き。", "I like dogs.")
    assert changed("犬が好き。", "I like dogs.", joined=1)[0] == "犬が好き。犬が好き。"
    assert changed("?!", "?!", no_punctuation=1) == ("?!", "?!")  # nothing would be left
    assert changed("a b", "c", typos=1) == ("a b", "c")


def test_changes_are_independent_and_have_their_shares() -> None:
    count = 4000
    shares = AugmentConfig(capitals=0.2, title=0.1, no_punctuation=0.3, copied=0.25)
    sources, targets = augment([SOURCE] * count, [TARGET] * count, shares, np.random.default_rng(1))
    capitals = np.array([text.isupper() for text in targets])
    ends = np.array([not text.endswith(".") for text in targets])
    copies = np.array([a == b for a, b in zip(sources, targets, strict=True)])
    titles = np.array([text.startswith("The Girls") for text in targets])
    for found, share in (
        (capitals, 0.2),
        (titles, 0.1),
        (ends, 0.3),
        (copies, 0.25),
        (capitals & copies, 0.05),
    ):
        assert abs(found.mean() - share) < 4 * np.sqrt(share * (1 - share) / count)


@given(
    st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=8),
    st.dictionaries(
        st.sampled_from([key for key in AugmentConfig.model_fields if key not in ("capitals", "title", "lower_case")]),
        st.floats(0, 1),
    ),
    st.integers(0, 100),
    st.integers(0, 1 << 32),
)
def test_any_text_gives_pairs_that_fit_and_follow_from_the_seed(
    pairs: list[tuple[str, str]], shares: dict[str, float], longest: int, seed: int
) -> None:
    sources, targets = map(list, zip(*pairs, strict=True))
    config = AugmentConfig(**shares, capitals=0.4, title=0.4, lower_case=0.2)
    first = augment(sources, targets, config, np.random.default_rng(seed), longest)
    assert first == augment(sources, targets, config, np.random.default_rng(seed), longest)
    for pair, before in zip(zip(*first, strict=True), pairs, strict=True):
        assert pair == before or not longest or max(len(text.encode()) for text in pair) <= longest


@given(st.from_regex(r"[a-zäöüA-Z]{2,12}", fullmatch=True), st.integers(0, 1 << 32))
def test_a_typing_error_is_one_of_four_kinds(word: str, seed: int) -> None:
    made = typo(word, np.random.default_rng(seed))
    assert made != word
    assert made[0] == word[0] or sorted(made) == sorted(word)  # exchanged with the second letter
    assert abs(len(made) - len(word)) <= 1
    if len(made) == len(word) and sorted(made) != sorted(word):
        assert sum(a != b for a, b in zip(made, word, strict=True)) == 1


def test_helpers_on_unusual_words() -> None:
    assert title_case("o'neill's ärger – 3rd l’été") == "O'neill's Ärger – 3rd L’été"
    assert without_diacritics("Crème brûlée, Ärger, Straße") == "Creme brulee, Arger, Straße"
    for text in ("हिन्दी में कुछ लिखो", "বাংলা ভাষা, café", "தமிழ்", "བོད་སྐད", "がぎぐ"):  # where marks are vowels
        assert without_diacritics(text) == text


def test_the_cases_exclude_each_other() -> None:
    with pytest.raises(ValidationError, match="at most 1 together"):
        AugmentConfig(capitals=0.6, title=0.6)
    with pytest.raises(ValidationError, match=r"found 0.6, 0.0 and 0.6"):
        AugmentConfig(capitals=0.6, lower_case=0.6)
