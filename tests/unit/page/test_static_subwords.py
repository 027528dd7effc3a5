"""The page's SentencePiece, in JavaScript, splits and joins as the library does."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from headwise.config import SubwordConfig
from headwise.text.tokens.subwords import train_model
from page_model import needs_node, split_and_join
from translator_run import ENGLISH, GERMAN

OTHER = ["日本語 テスト ﬁne Ⅷ ½ ｶﾞ e\u0301 ΑΒΓ ς naïve ŉ", "Ｆｕｌｌ　ｗｉｄｔｈ，①②③", "\ufeff a\ufeff"]
MODELS: dict[str, dict[str, Any]] = {
    "headwise": {"model_type": "bpe", "normalization_rule_name": "identity"},
    "bytes": {"model_type": "bpe", "byte_fallback": True, "character_coverage": 0.98, "vocab_size": 420},
    "nmt_nfkc": {"model_type": "unigram", "character_coverage": 0.98},
    "nmt_nfkc_cf": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc_cf"},
    "spaces kept": {"model_type": "unigram", "remove_extra_whitespaces": False},
    "joiners": {},  # learned by Headwise
    "no first space": {"model_type": "bpe", "add_dummy_prefix": False, "remove_extra_whitespaces": False},
}
# Characters on which normalizations, the split and UTF-8 have rules.
SPECIAL = (
    *"abcdeghnrst ABE   .,!", "\u2581", "\u00a0", "\u3000", "\t", "\u200b", "\ufeff", "\u0308", "e\u0301", "é", "ﬁ",
    *"Ⅷ½①ｶﾞ日本한ßẞİıςΣäö…“ﷺ", "\u1112", "\u1161", "\u11ab", "😀", "👩\u200d💻", "\0", "\x7f", "\x85", "\u2028",
    *'("-„ ￭', *("</s>", "<unk>", "<s>", "<0xE2>", "\U0001d400", "\ufffd", "\uffff"),
)  # fmt: skip


def strings() -> list[str]:
    draw = random.Random(1)
    mixed = ["".join(draw.choices(SPECIAL, k=draw.randint(1, 40))) for _ in range(800)]
    planes = (range(0x20, 0x3000), range(0x3000, 0xD800), range(0xE000, 0x110000))
    everything = ["".join(chr(draw.choice(draw.choice(planes))) for _ in range(20)) for _ in range(300)]
    return [*ENGLISH, *GERMAN, *OTHER, "", " ", "\u2581", "\u3000", " a  b ", *mixed, *everything]


@needs_node
@pytest.mark.parametrize("name", MODELS)
def test_splits_and_texts_are_the_librarys(name: str, tmp_path: Path) -> None:
    model = io.BytesIO()
    options = {
        "vocab_size": 160,
        "hard_vocab_limit": False,
        "pad_id": 0,
        "unk_id": 1,
        "bos_id": 2,
        "eos_id": 3,
        **MODELS[name],
    }
    if name == "joiners":
        marked = [f'({text} "{text}")' for text in ENGLISH]
        model.write(train_model([*ENGLISH, *GERMAN, *OTHER, *marked], SubwordConfig(size=160, joiners=True)))
    else:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([*ENGLISH, *GERMAN, *OTHER]),
            model_writer=model,
            minloglevel=2,
            num_threads=1,
            **options,
        )
    library = sentencepiece.SentencePieceProcessor()
    library.LoadFromSerializedProto(model.getvalue())
    file = tmp_path / "spm.model"
    file.write_bytes(model.getvalue())
    texts = strings()
    draw = random.Random(2)
    ids = [draw.choices(range(library.vocab_size()), k=draw.randint(0, 12)) for _ in range(800)]
    space = library.piece_to_id("▁")
    ids += [draw.choices([1, 2, space, space, *range(4, 40)], k=6) for _ in range(400)]
    found = split_and_join(file, texts, [library.id_to_piece(row) for row in ids])
    assert found["pieces"] == library.encode(texts, out_type=str)
    assert found["texts"] == library.decode(ids)


@needs_node
def test_a_model_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "spm.model"
    file.write_bytes(train_model([*ENGLISH, *GERMAN], SubwordConfig(size=100))[:-1])
    with pytest.raises(AssertionError, match="expected a SentencePiece model, found a damaged file"):
        split_and_join(file, ["a dog"], [])
