"""`headwise export --to page`: the page as static files, with the model computed in the browser (docs/look-inside.md).

The folder holds the page, and in `run` the run's own files (weights, subwords), the
configuration of its model, and the responses that don't depend on a sentence. The browser's model is
`page/static/js/model`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from headwise.config import Config
from headwise.config.languages import base_code
from headwise.config.support import Support
from headwise.errors import ConfigError
from headwise.files import write_text
from headwise.interop import base
from headwise.interop.base import Trained
from headwise.page.evaluation_pairs import EvaluationPairs
from headwise.page.evidence import Evidence
from headwise.page.runs import PageRun
from headwise.page.views import TranslationView
from headwise.text.reading.dictionary import Dictionary
from headwise.text.tokens.pair_vocabulary import FILE as VOCABULARY
from headwise.text.tokens.sentencepiece_file import (
    BPE,
    ESCAPE_SPACES,
    MODEL_TYPE,
    NORMALIZER,
    SPACE_IS_SUFFIX,
    TRAINER,
    UNIGRAM,
    UNUSED,
    USER_DEFINED,
    piece_types,
    whole_numbers,
)
from headwise.text.tokens.source_words import SourceWords

PAGE = Path(__file__).parent / "static"
RUN = "run"  # the folder with the run's files
_WEIGHTS = "model.safetensors"
SUPPORTED = Support(
    *("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "d_k", "d_v", "key_value_heads"),
    *("norm", "final_norm", "normalization", "norm_epsilon", "activation", "gated", "feed_forward_bias"),
    *("attention_bias", "logit_bias", "max_length", "source_end", "share_embeddings", "scale_embeddings"),
    positions=(
        *("sinusoidal", "tensor2tensor", "fairseq", "learned", "none"),
        *("rotary", "alibi", "t5", "relative"),
    ),
)
_MODEL_KEYS = (
    *("encoder_layers", "decoder_layers", "d_model", "heads", "key_size", "value_size", "key_value_heads"),
    *("norm", "normalization", "norm_epsilon", "activation", "gated", "positions", "max_length"),
    *("source_end", "scale_embeddings"),
)
_ANSWERED = ("translate", "read", "products", "evidence", "metrics")  # what the page without a server can do
CHAPTERS = '<a class="chapters" href="learn/">Chapters</a>'  # they need a server
_LOADING = '<p class="muted">Loading…</p>'
_HINT = (
    '<p class="muted">Loading… (Opened as a file, the page stays so: browsers run its modules from a web server only, '
    "such as <code>python -m http.server</code>.)</p>"
)
# As the server's header; `frame-ancestors` isn't possible here, so the page can be embedded.
_POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'"
_HEAD = f"""<meta charset="utf-8" />
    <meta http-equiv="Content-Security-Policy" content="{_POLICY}" />
    <meta name="headwise-run" content="{RUN}/" />"""


class Exporter(base.Exporter):
    """Writer of the page without a server. The weights keep the precision in which the run stores them."""

    library = "the page without a server"
    precisions = ("stored",)

    def refuses(self, config: Config) -> str | None:  # noqa: D102
        problems = SUPPORTED.problems(config.model)
        return f"the browser's model has no {', '.join(problems)}" if problems else None

    def write(self, trained: Trained, folder: Path, precision: str) -> list[str]:  # noqa: D102
        _check_subwords(trained)
        run = PageRun(trained.run.resolve().name, trained.run, trained.config, "cpu")
        evidence = write_page(trained, run, folder, EvaluationPairs.of(run))
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        notes = [f"{size / 1e6:.1f} MB; any web server can serve them, such as `python -m http.server`"]
        if trained.config.decoding.recase:
            notes.append("text in one case is read as it is written: decoding.recase needs the server")
        if Dictionary.of_run(trained.run) is not None:
            notes.append("abbreviations are read as they are written: the dictionary needs the server")
        if SourceWords.of_run(trained.run) is not None:
            notes.append("words in an unusual spelling are read as they are written: words.txt needs the server")
        if evidence.status == "failed":
            notes.append(f"panel 7 (evidence) is left out: {evidence.about}")
        elif evidence.status != "measured":
            notes.append("panel 7 (evidence) is left out, as the run's development data isn't there any more")
        return notes


def write_page(trained: Trained, run: PageRun, folder: Path, corpus: EvaluationPairs | None) -> Evidence:
    """Write the page of a run into an empty directory, with what is measured on `corpus`; return that."""
    evidence = Evidence(corpus, run.translator)
    if corpus is not None:
        evidence.measure()
    curves = run.curves() | {"going_on": False}
    description = run.describe()
    available = {"evidence": evidence.status == "measured", "metrics": bool(curves["records"])}
    can = description["can"] | available
    description["can"] = {name: value and name in _ANSWERED for name, value in can.items()}
    description["checkpoints"] = []
    responses = {
        "runs.json": {"runs": [{"name": run.name, "task": run.config.task, "ready": True}]},
        "run.json": description,
        "evidence.json": evidence.to_json(),
        "metrics.json": curves,
        "model.json": _model_json(trained, run.view_as(TranslationView).model.longest),
    }
    _copy_page(folder)
    files = folder / RUN
    files.mkdir()
    for name, content in responses.items():
        write_text(files / name, json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n")
    for name in (_WEIGHTS, *trained.subwords.content()):
        shutil.copyfile(trained.run / name, files / name)
    return evidence


def _copy_page(folder: Path) -> None:
    """Copy the page's files; the index names the folder of the run, and has the security policy of the server."""
    shutil.copytree(PAGE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("tsconfig.json"))
    index = (PAGE / "index.html").read_text("utf-8")
    for old, new in (('<meta charset="utf-8" />', _HEAD), (_LOADING, _HINT), (CHAPTERS, "")):
        assert old in index
        index = index.replace(old, new, 1)
    write_text(folder / "index.html", index)


def _model_json(trained: Trained, longest: int) -> dict[str, Any]:
    """Return what `js/model/answers.js` reads about the model: its configuration and its files."""
    config, names = trained.config, list(trained.subwords.content())
    language = config.data.languages[0]
    models = [name for name in names if name != VOCABULARY]
    options = config.model.position_options.model_dump()
    return {
        "model": {key: getattr(config.model, key) for key in _MODEL_KEYS} | {"position_options": options},
        "decoding": config.decoding.model_dump(include={"beam", "alpha", "extra_length"}),
        "longest": longest,
        "language": None if language is None else base_code(language),
        "files": {
            "weights": _WEIGHTS,
            "source": models[0],
            "target": models[-1],
            "numbering": VOCABULARY if VOCABULARY in names else None,
        },
    }


def _check_subwords(trained: Trained) -> None:
    """Raise `ConfigError` for subwords that the browser's model doesn't implement."""
    run, vocabulary = trained.run, trained.subwords.vocabulary
    if vocabulary is not None:
        for key, other in (("symbols", vocabulary.symbols), ("language", vocabulary.language)):
            if other:
                raise ConfigError(f"{run / VOCABULARY}: {key}: expected none for the page without a server, found one")
    for model in trained.sentencepiece():
        if problem := _unsupported(model):
            raise ConfigError(
                f"{run}: expected SentencePiece with byte pairs or a unigram model for the page without a server, "
                f"found {problem}"
            )


def _unsupported(model: bytes) -> str | None:
    """Return what a SentencePiece model has that the browser's doesn't implement."""
    options, types = whole_numbers(model, TRAINER), piece_types(model)
    if options.get(MODEL_TYPE, UNIGRAM) not in (BPE, UNIGRAM):
        return "a model of words or characters"
    if options.get(SPACE_IS_SUFFIX):
        return "spaces at the ends of words (treat_whitespace_as_suffix)"
    if not whole_numbers(model, NORMALIZER).get(ESCAPE_SPACES, 1):
        return "spaces that aren't escaped (escape_whitespaces)"
    if USER_DEFINED in types:
        return "user-defined symbols"
    if UNUSED in types:
        return "pieces that aren't used"
    return None
