"""Markdown against the parser that others read it with."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("sentencex", reason="needs pip install 'headwise[documents]'")
pytest.importorskip("markdown_it", reason="needs pip install 'headwise[documents]'")

from markdown_it import MarkdownIt

from document_translation import of_document, of_file
from headwise.documents.formats import read_file
from headwise.errors import DataError

SOURCE = """---
title: x
---
# A *title* here

Some **bold text** and `code x` with [a link](http://a.b/c "t") and ![alt](x.png). Second
sentence here \\* and <b>html</b> <br/> go. See [ref] and [text][ref] [not].

> Quoted text
> goes on.
>
> - item one
>   more
> - [ ] todo

| a head | b |
|---|---|
| cell one | `x` |
| no \\| yes, one `a \\| b` | o |

- **`code`** (a name) runs
- Use *`code`* and [`run`](x.y), or **<http://a.example/>**. **😀** is (**`two`**).

```
code here
```

    indented

<div>
html
</div>

hard break\x20\x20
next snake_case_name 2 * 3 * 4 <http://a.example/>

[ref]: http://x.y
"""


def translated(source: str) -> str:
    return of_file("a.md", source).decode()


def shape(tokens: list[Any], change) -> list[Any]:
    """What a parser finds, with the words of its texts changed."""
    found: list[Any] = []
    for token in tokens:
        if token.type == "text":
            found += change(token.content).split()
        elif token.type == "inline":
            found += shape(token.children, change)
        elif token.type != "softbreak":
            found.append((token.type, token.tag, token.attrs.get("href"), token.markup))
            found += [token.content] if token.type.startswith(("code", "fence", "html")) else []
    return found


def test_nothing_but_text_changes() -> None:
    parser = MarkdownIt("commonmark").enable("table")
    result = translated(SOURCE)
    before, after = shape(parser.parse(SOURCE), str.upper), shape(parser.parse(result), str.upper)
    assert before == after
    for kept in (
        '](http://a.b/c "t")',
        "`code x`",
        "\\*",
        "<br/>",
        "[ref]",
        "title: x",
        "\n    indented\n",
        "|---|---|",
    ):
        assert kept in result
    for text in (
        "# A *TITLE* HERE",
        "> QUOTED TEXT GOES ON.\n>\n> - ITEM ONE MORE\n> - [ ] TODO",
        "HARD BREAK  \nNEXT",
    ):
        assert text in result
    assert translated(result) == result


# What CommonMark takes for paragraphs: GitHub's, MkDocs', Pandoc's, kramdown's, VitePress', Docusaurus' and Hugo's.
DIALECTS = """+++
title = "x"
+++

# HEADING {#heading-id}

## HEADING <!-- omit in toc -->

[TOC]

> [!NOTE]
> ONE LINE.

> [!tip]- OWN TITLE
> ONE LINE.

:::warning
ONE LINE.
:::

::: tip OWN TITLE
ONE LINE.
:::

:::note[label]
ONE LINE.
:::

{{< note >}}
ONE LINE.
{{< /note >}}

{% raw %}
ONE LINE.
{% endraw %}

!!! note "title"
    ONE LINE.

NOTE[^a] AND [[page|alias]], {doc}`page`, :material-check: AND <!-- comment --> AND [LINK](a.html){:target="_blank"}.

[^a]: ONE LINE.
[^b]: ONE LINE.

- [ ] TASK
- [x] TASK

TERM
: ONE MEANING.
: ANOTHER *MEANING*.
{: .class}

| CELL<br>NEXT LINE | <ul><li>ITEM</li><li>ITEM *TWO*</li></ul> |
|---|---|
| [ONE][TWO][THREE] | CELL |
"""


def test_what_other_programs_read_in_markdown_stays() -> None:
    """All but the text is in small letters."""
    sought: list[str] = []
    written = of_file("a.md", DIALECTS, lambda sentence: sought.append(sentence) or sentence.upper())
    assert written.decode() == DIALECTS
    assert sought.count("ONE LINE.") == 10
    assert {"HEADING", "OWN TITLE", "TASK", "TERM", "ONE MEANING.", "CELL", "NEXT LINE", "ITEM"} <= {*sought}


def test_each_picture_of_a_line_is_a_text() -> None:
    source = (
        "[![build status](a.svg)](b) [![npm][c]][d]\\\n![license](e.png 'f')\n\n"
        "Text ![one](g)\n![two](h)\n[![three](i)](j)  \nand text.\n\n[c]: k\n[d]: l\n"
    )
    file = read_file("a.md", source.encode())
    texts = [[one.text for one in text.prepare("en").all_sentences] for text in file.texts]
    assert texts == [["build status"], ["npm"], ["license"], ["Text one"], ["two"], ["three"], ["and text."]]
    assert file.write([of_document(text, str) for text in file.texts]).decode() == source


def test_long_code_stays() -> None:
    code = f"`apt install {'package ' * 1000}`"
    assert translated(f"Use {code} here and `x\n") == f"USE {code} HERE AND `X\n"


def test_escapes_are_read_as_the_characters() -> None:
    source = "It doesn\\'t use snake\\_case\\_names\\. It has \\*.txt, v\\*.x and a\\-b\\! R\\&D [not][a]\n"
    read = [text.prepare("en").all_sentences for text in read_file("a.md", source.encode()).texts]
    assert [one.text for one in read[0]] == [
        "It doesn't use snake_case_names.",
        "It has *.txt, v*.x and a-b!",
        "R&D [not][a]",
    ]
    result = translated(source)
    assert "snake\\_case\\_names" in result
    assert all(word in result for word in ("\\*.txt", "v\\*.x"))
    parser = MarkdownIt("commonmark")
    before, after = parser.render(source), parser.render(result)
    assert before.upper() == after.upper()


def test_a_carriage_return_ends_a_line() -> None:
    source = "one\rtwo\n\n| a | b |\r\n|---|---|\r| a b | b |\r\rthree\r"
    assert translated(source) == source.upper().replace("ONE\rTWO", "ONE TWO")


@pytest.mark.parametrize(
    "source",
    ["a &lt; b", "a *b", "a ] b [ c", "**a*", "`a", "a <b", "![a](", "[a][]", "_a_b_ c", "\\", "| a |\n|--|"],
)
def test_what_is_no_markup_is_text(source: str) -> None:
    assert translated(source).upper() == source.upper()


def test_a_long_file_is_refused() -> None:
    with pytest.raises(DataError, match="file: expected Markdown of at most 1,048,576 bytes, found more"):
        read_file("a.md", b"a" * (2**20 + 1))


def test_a_text_that_begins_with_a_number_becomes_no_list() -> None:
    source = "May 5\n\n5\\. of May\n\n# 1. of May\n\n1. May 5\n"
    german = {"May 5": "5. Mai", "of May": "Mai"}
    result = of_file("a.md", source, lambda text: german[text]).decode()
    assert result == "5\\. Mai\n\n5\\. Mai\n\n# 1. Mai\n\n1. 5\\. Mai\n"
