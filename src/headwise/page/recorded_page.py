"""`headwise explain -o X.html`: the page with the recording of one text, in a file that loads nothing else.

The page's style sheets and modules stand in the file, and so do the responses to the requests that it sends for the
text. Panels that would need many more requests, such as the microscope's, are left out.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any
from urllib.parse import urlencode

from headwise.analysis.json_arrays import as_json, packed
from headwise.analysis.language_models import LanguageModelTracer
from headwise.analysis.stepwise import step_by_step
from headwise.analysis.trace import Trace
from headwise.analysis.tracer import Tracer
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.config import Config
from headwise.page.evidence import Evidence
from headwise.page.requests import TextRequest
from headwise.page.runs import PageRun
from headwise.page.static_page import CHAPTERS, PAGE
from headwise.page.views import VIEWS
from headwise.page.views.language_model import next_json

_ANSWERED = ("translate", "read", "steps", "language_model")  # what the page can do with a recording
_POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; base-uri 'none'"
_META = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}" />'
_MAIN = "js/main.js"
_LINK = re.compile(r' *<link rel="(?:icon|stylesheet)" href="([^"]+)"[^>]*>\n')
_IMPORT = re.compile(r'^((?:import|export)\b[^"\n;]*?(?:\{[^}]*\}[^"\n;]*?)?)"(\.[^"]+)"', re.MULTILINE)


def recorded_page(tracer: Tracer, config: Config, path: Path | None, text: str, trace: Trace, plain: Trace) -> str:
    """Return the page with a trace of a text, and what the page asks for beside it, such as other hypotheses.

    `path` is the run's directory, None for a model that has none. `plain` is the trace without interventions.
    """
    path = Path("model") if path is None else path
    run = PageRun(path.resolve().name, path, config, _loaded=VIEWS[config.task](tracer, config))
    recording = {
        "state": urlencode([("changes", str(change)) for change in trace.interventions]),
        "answers": [*_about_run(run, text, trace), *_about_text(run, tracer, text, trace, plain)],
    }
    return page(recording)


def page(recording: dict[str, Any]) -> str:
    """Return the page with a recording; its `<` are escaped, so that no text in it ends the script element."""
    data = json.dumps(recording, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    index = (PAGE / "index.html").read_text("utf-8")
    styles = "".join((PAGE / name).read_text("utf-8") for name in _LINK.findall(index) if name.endswith(".css"))
    scripts = (
        f'<style>\n{styles}</style>\n    <script type="application/json" id="recording">{data}</script>\n'
        f'    <script type="importmap">{json.dumps({"imports": _modules()})}</script>\n'
        f'    <script type="module">import "{_MAIN}";</script>'
    )
    index = _LINK.sub("", index)
    for old, new in (
        ('<meta charset="utf-8" />', f'<meta charset="utf-8" />\n    {_META}'),
        (f'<script type="module" src="{_MAIN}"></script>', scripts),
        (CHAPTERS, ""),
    ):
        before, found, after = index.partition(old)
        assert found
        index = before + new + after
    return index


def _modules() -> dict[str, str]:
    """Return the modules that the page needs, as an import map: their paths, and URLs that hold them."""
    found: dict[str, str] = {}
    open_names = [_MAIN]
    while open_names:
        name = open_names.pop()
        if name in found:
            continue
        source = (PAGE / name).read_text("utf-8")

        def named(match: re.Match[str], folder: str = dirname(name)) -> str:
            open_names.append(normpath(join(folder, match[2])))
            return f'{match[1]}"{open_names[-1]}"'

        content = _IMPORT.sub(named, source)
        found[name] = "data:text/javascript;base64," + base64.b64encode(content.encode()).decode("ascii")
    return found


def _about_run(run: PageRun, text: str, trace: Trace) -> Iterator[dict[str, Any]]:
    """Yield what the page asks for about the run: its name and description, and that nothing else is known."""
    description = run.describe()
    description["can"] = {name: value and name in _ANSWERED for name, value in description["can"].items()}
    description |= {"recorded": True, "samples": [text], "checkpoints": []}
    if "beam" in description:
        description |= {"beam": trace.beam, "alpha": trace.alpha}
    yield _answer("runs", {}, {"runs": [{"name": run.name, "task": run.config.task, "ready": True}]})
    yield _answer("run", {}, description)
    yield _answer("metrics", {}, {"records": [], "going_on": False})
    yield _answer("evidence", {}, Evidence(None, run.translator).to_json())


def _about_text(run: PageRun, tracer: Tracer, text: str, trace: Trace, plain: Trace) -> Iterator[dict[str, Any]]:
    """Yield the trace, its hypotheses read and decoded step by step, and the trace without interventions (`plain`)."""
    changes = [str(change) for change in trace.interventions]
    searched = {"text": text, "beam": None, "alpha": None}
    yield _answer("trace", {**searched, "interventions": changes}, trace.to_json(packed))
    targets = [trace.path(hypothesis.node) for hypothesis in trace.hypotheses] if trace.tree else []
    if trace.interventions:
        yield _answer("trace", {**searched, "interventions": []}, plain.to_json(packed))
        if plain.forced is not None:
            targets.append(plain.forced.target.ids)
    if trace.forced is not None:
        targets.append(trace.forced.target.ids)
    for target in dict.fromkeys(targets):
        asked = {"text": text, "interventions": changes, "target": target}
        forced = tracer.force(trace.source, target, trace.interventions, alpha=trace.alpha)
        yield _answer("force", asked, as_json(forced, packed))
        if isinstance(tracer, TranslationTracer):
            stepwise = step_by_step(tracer, trace.source, target, trace.interventions)
            yield _answer("steps", asked, stepwise.to_json(packed))
    if isinstance(tracer, LanguageModelTracer):
        request = TextRequest(run=run.name, text=text)
        asked = request.model_dump(include={"text", "temperature", "top_k", "top_p"})
        yield _answer("next", asked, next_json(tracer.generator, request))


def _answer(path: str, question: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    return {"path": path, "question": question, "answer": answer}
