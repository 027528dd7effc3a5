"""Texts are split into sentences and put together again, whatever they hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("sentencex", reason="needs pip install 'headwise[documents]'")

import sentencex

from headwise.documents.segments import Mode, segment

WHITE = st.sampled_from([" ", "  ", "\n", "\r\n", "\n\n", "\t", "\u2028", "\n- ", "\n  * ", "\n1. ", "\n2) ", ""])
SENTENCE = st.sampled_from(
    [
        "A dog sleeps.",
        "Dr. Smith left at 5 p.m. today!",
        "これはペンです。",
        "42",
        "—",
        "- no",
        "Ça va ?",
        "…",
        "😀",
    ]
)


@given(
    st.lists(st.tuples(WHITE, SENTENCE | st.text(max_size=20))),
    st.sampled_from(["all", "punctuation", "none"]),
)
def test_a_text_is_reassembled_exactly(parts: list[tuple[str, str]], mode: Mode) -> None:
    text = "".join(white + sentence for white, sentence in parts)
    segments = segment(text, "en", mode)
    assert len(segments.between) == len(segments.sentences) + 1
    whole = segments.between[0] + "".join(
        one + after for one, after in zip(segments.sentences, segments.between[1:], strict=True)
    )
    assert whole == text
    for sentence in segments.sentences:
        assert sentence == sentence.strip()
        assert any(map(str.isalpha, sentence))


@pytest.mark.parametrize(
    ("language", "text", "sentences"),
    [
        ("en", "Dr. Smith left. He slept!", ["Dr. Smith left.", "He slept!"]),
        (
            "de",
            "Das kostet z. B. 3 Euro. Am 1. Mai ist frei.",
            ["Das kostet z. B. 3 Euro.", "Am 1. Mai ist frei."],
        ),
        ("fr", "Ça va ? Oui.", ["Ça va ?", "Oui."]),
        (
            "en",
            "Use @/./+/-/_ only. It is for .NET, Node.JS and OpenOffice.Org, see ../odf. See the net.Socket class.",
            [
                "Use @/./+/-/_ only.",
                "It is for .NET, Node.JS and OpenOffice.Org, see ../odf.",
                "See the net.Socket class.",
            ],
        ),
        (
            "en",
            "Hello.It rained.We left...But why?It's late.",
            ["Hello.", "It rained.", "We left...", "But why?", "It's late."],
        ),
        ("zh", "你好!再见.好", ["你好!", "再见.", "好"]),
        ("ja", "これはペンです。それは本です。", ["これはペンです。", "それは本です。"]),
        ("hi", "यह एक घर है। वह सोता है।", ["यह एक घर है।", "वह सोता है।"]),
        ("xx", "One. Two.", ["One.", "Two."]),
        ("fr", "Il dort. Le plan B\u00a0.", ["Il dort.", "Le plan B\u00a0."]),
        ("ja", "これはプランB\u3000.", ["これはプランB\u3000."]),
        ("pt-BR", "Um. Dois.", ["Um.", "Dois."]),
        (
            "en",
            "Watch it at 7 p.m. ET on TV. We met at 7 p.m. He left.",
            ["Watch it at 7 p.m. ET on TV.", "We met at 7 p.m.", "He left."],
        ),
        (
            "en",
            "It weighs approx. 5 kg, max. 7 kg. See vol. 3. It is long.",
            ["It weighs approx. 5 kg, max. 7 kg.", "See vol. 3.", "It is long."],
        ),
        (
            "en",
            "Max. 5 kg incl. packaging. Here is Max. 5 dogs bark.",
            ["Max. 5 kg incl. packaging.", "Here is Max.", "5 dogs bark."],
        ),
        (
            "en",
            "Qty. 5, est. 30 minutes, 3rd ed. 2020. He left.",
            ["Qty. 5, est. 30 minutes, 3rd ed. 2020.", "He left."],
        ),
        (
            "de",
            "Siehe Bd. 2, S. 5 und Nr. 3. Ca. 5 bis max. 7.",
            ["Siehe Bd. 2, S. 5 und Nr. 3.", "Ca. 5 bis max. 7."],
        ),
        (
            "de",
            "Im 19. Jahrhundert war die 2. Auflage inkl. Versand da. Wir kommen am 5. Er hat 3. Sie kam.",
            [
                "Im 19. Jahrhundert war die 2. Auflage inkl. Versand da.",
                "Wir kommen am 5.",
                "Er hat 3.",
                "Sie kam.",
            ],
        ),
        ("fr", "Il pèse env. 5 kg, max. 7 kg. Il dort.", ["Il pèse env. 5 kg, max. 7 kg.", "Il dort."]),
    ],
)
def test_sentences_of_many_languages(language: str, text: str, sentences: list[str]) -> None:
    assert list(segment(text, language).sentences) == sentences


def test_a_long_paragraph_is_split_in_parts_that_end_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    split, lengths = sentencex.segment, []

    def counting(language: str, text: str) -> list[str]:
        lengths.append(len(text))
        return split(language, text)

    monkeypatch.setattr(sentencex, "segment", counting)
    sentences = [f"Sentence {number} of a long paragraph." for number in range(1_000)]
    assert list(segment(" ".join(sentences), "en").sentences) == sentences
    hostile = "''' a" * 20_000
    segments = segment(hostile, "en")
    assert segments.join(segments.sentences) == hostile
    assert max(lengths) <= 5_000  # its time grows with the square of such a text


def test_lists_keep_their_markers() -> None:
    text = "To buy:\n\n  - bread\n  - two eggs\n1. First.\n2. Second.\n\n***\nEnd."
    segments = segment(text, "en")
    assert segments.sentences == ("To buy:", "bread", "two eggs", "First.", "Second.", "End.")
    assert segments.join([s.upper() for s in segments.sentences]) == text.upper()
    assert segment("1. Mai ist frei.", "de").sentences == ("1. Mai ist frei.",)  # no list


def test_a_marker_with_letters_is_no_sentence() -> None:
    text = "a) Eggs\n\t(iv) Milk\n- [x] Done\n✓ Bread"
    assert segment(text, "en").sentences == ("Eggs", "Milk", "Done", "Bread")
    assert segment("a. Eggs\n2. Milk", "en").sentences == ("Eggs", "Milk")
    assert segment("2. Mai", "de").sentences == ("2. Mai",)


def test_columns_stay() -> None:
    text = "  -h        This help.  Or   that\nName:\tA value"
    segments = segment(text, "en")
    assert segments.sentences == ("-h", "This help.", "Or   that", "Name:", "A value")
    assert segments.join([s.upper() for s in segments.sentences]) == text.upper()


def test_a_text_without_spaces_gets_some_in_another_script() -> None:
    assert segment("これはペンです。それは本です。", "ja").join(["A pen.", "A book."]) == "A pen. A book."
    assert segment("これはペンです。それは本です。", "ja").join(["笔。", "书。"]) == "笔。书。"


@pytest.mark.parametrize("text", ["", " \n ", "42", "---\n\n1.\n"])
def test_nothing_to_translate(text: str) -> None:
    segments = segment(text, "en")
    assert segments.sentences == ()
    assert segments.join([]) == text
