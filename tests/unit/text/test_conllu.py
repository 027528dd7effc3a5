"""Reading dependency trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwise.errors import DataError
from headwise.text.reading.conllu import read_trees

CONLLU = """# sent_id = 1
# text = Er geht zum Haus.
1\tEr\ter\tPRON\t_\t_\t2\tnsubj\t_\tAntecedent=5
2\tgeht\tgehen\tVERB\t_\t_\t0\troot\t_\t_
3-4\tzum\t_\t_\t_\t_\t_\t_\t_\t_
3\tzu\tzu\tADP\t_\t_\t5\tcase\t_\t_
4\tdem\tder\tDET\t_\t_\t5\tdet\t_\t_
5\tHaus\tHaus\tNOUN\t_\t_\t2\tobl\t_\tSpaceAfter=No
5.1\tleer\t_\t_\t_\t_\t_\t_\t_\t_
6\t.\t.\tPUNCT\t_\t_\t2\tpunct\t_\t_
"""

WORD = "{}\tEr\ter\tPRON\t_\t_\t0\troot\t_\t_\n"


def test_trees_are_over_words_as_written(tmp_path: Path) -> None:
    file = tmp_path / "a.conllu"
    file.write_text(CONLLU, encoding="utf-8-sig")  # with a byte-order mark
    (tree,) = read_trees(file)
    assert tree.text == "Er geht zum Haus."
    assert tree.words == ("Er", "geht", "zum", "Haus", ".")
    assert tree.edges == ((0, 1, "nsubj"), (2, 3, "case"), (2, 3, "det"), (3, 1, "obl"), (4, 1, "punct"))
    assert tree.tags == ("PRON", "VERB", "ADP", "NOUN", "PUNCT")
    assert tree.coreference == ((0, 3),)


def test_comments_alone_are_no_sentence(tmp_path: Path) -> None:
    file = tmp_path / "a.conllu"
    file.write_text(f"# a license\n\n{WORD.format(1)}\n# the end\n")
    assert [tree.text for tree in read_trees(file)] == ["Er"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\tEr\n", "line 1: expected a CoNLL-U word"),
        ("", "found none"),
        ("# a license\n", "found none"),
        (WORD.format("0"), "line 1: expected word 1 of its sentence, which a blank line ends, found 0"),
        (WORD.format("1") * 2, "line 2: expected word 2 of its sentence, which a blank line ends, found 1"),
        (WORD.format("²"), "line 1: expected a CoNLL-U word"),
        (WORD.format("1-999999999"), "line 1: expected word 1 of its sentence, .* found 1-999999999"),
    ],
)
def test_what_is_no_conllu_is_said(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "a.conllu"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_trees(file)
