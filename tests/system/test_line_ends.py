"""Line ends inside the texts of a JSONL corpus: two lines of input give two lines of output."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from headwise.text.tokens.subwords import Subwords
from program import Call

LINE_ENDS = [line[-1] for line in "".join(map(chr, range(sys.maxunicode + 1))).splitlines(keepends=True)[:-1]]
CONFIG = """
data: {{source: [{corpus}], dev_pairs: 4}}
model: {{encoder_layers: 1, decoder_layers: 1, d_model: 8, d_ff: 8, heads: 1}}
subwords: {{size: {size}}}
batch: {{tokens: 200}}
training: {{max_steps: 2, validate_bleu: false, precision: float32}}
"""


def test_two_lines_in_are_two_lines_out(program: Call, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    pairs = [(f"one{end}two {i}", f"eins{end}zwei {i}") for i in range(8) for end in LINE_ENDS]
    corpus.write_text("".join(json.dumps({"source": a, "target": b}) + "\n" for a, b in pairs))
    (tmp_path / "config.yaml").write_text(CONFIG.format(corpus=corpus, size=32))
    run = tmp_path / "run"
    program("train", "-c", tmp_path / "config.yaml", "-o", run).ok()
    subwords = Subwords.load(run)
    pieces = "".join(subwords.target_pieces(range(subwords.target_size)))
    assert not set(pieces) & set(LINE_ENDS)
    text = tmp_path / "text"
    text.write_bytes("one\u2028two\r\none\x85two\n".encode())
    for options in ((), ("--jsonl",), ("--n-best", "1", "--scores", "--alignments")):
        out = program("translate", run, text, "-s", "max_length=8", *options).out
        assert out.count("\n") == len(out.splitlines()) == 2
