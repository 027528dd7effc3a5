"""The runs that translate a corpus, and how they translate."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from headwise.config import Config
from headwise.data.prepared import files_checksum
from headwise.engine.options import SearchOptions, changed_options
from headwise.engine.translator import Translator
from headwise.plugins import import_modules, imported
from headwise.text.tokens.subwords import Subwords
from headwise.weights import model_file

RAY = "ray"  # the engine that translates on a cluster
_WORKERS = re.compile(r", \d+ workers?\b")  # in the description of an engine
_ALWAYS = ("beam", "alpha", "extra_length")  # search options that are recorded even with their default values


@dataclass(frozen=True)
class Runs:
    """A run or an ensemble, and how it translates; it can be sent to other processes, which load it themselves.

    Attributes:
        runs: run directories; several are an ensemble, whose first run gives the default search options.
        search: search options that differ from those of the first run.
        engine: keyword arguments of `Translator.load`, among them the language to translate to; with the engine `ray`,
            every process of a cluster loads the runs into the fastest engine, which uses `workers` threads (0: one).
        batch_tokens: source subwords of a batch, times the beam; None: the run's.
        imports: modules to import before.
    """

    runs: Sequence[Path]
    search: Mapping[str, Any] = field(default_factory=dict)
    engine: Mapping[str, Any] = field(default_factory=dict)
    batch_tokens: int | None = None
    imports: Sequence[str] = ()

    @property
    def on_cluster(self) -> bool:
        """Whether the engine is `ray`."""
        return self.engine.get("engine") == RAY

    @property
    def threads(self) -> int:
        """Threads of a process of a cluster."""
        return int(self.engine.get("workers") or 1)

    @cached_property
    def configs(self) -> list[Config]:
        """The configurations of the runs, read once; raises `CheckpointError` without a run."""
        return [Config.of_run(run, "translation") for run in self.runs]

    def options(self) -> SearchOptions:
        """Return the search options; raises `ConfigError` for one out of range, `CheckpointError` without a run."""
        decoding = self.configs[0].decoding
        return changed_options(SearchOptions(**decoding.search), self.search)

    def request(self) -> dict[str, Any]:
        """Return the search options that translations depend on, as JSON values; raises as `options` does."""
        defaults, options = SearchOptions.defaults(), vars(self.options())
        return {name: value for name, value in options.items() if name in _ALWAYS or value != defaults[name]}

    def digest(self) -> str:
        """Return 12 hexadecimal digits that identify the weights, subwords and architecture of all runs.

        Raises `CheckpointError` if a run is missing or has no checkpoint yet.
        """
        digest = hashlib.sha256()
        for run, config in zip(self.runs, self.configs, strict=True):
            subwords, language = Subwords.load(run, config.subwords), self.engine.get("language")
            parts = [
                files_checksum([model_file(run)]),
                (subwords if language is None else subwords.with_language(language)).digest(),
                json.dumps(config.model.model_dump(mode="json", exclude_defaults=True), sort_keys=True),
            ]
            digest.update("\n".join(parts).encode())
        return digest.hexdigest()[:12]

    def load(self) -> Translator:
        """Load the runs in this process; raises as `Translator.load` does."""
        import_modules(self.imports)
        engine = dict(self.engine)
        if self.on_cluster:
            engine |= {"engine": "auto", "workers": self.threads}
        translator = Translator.load(list(self.runs), configs=self.configs, **engine)
        if self.batch_tokens is not None:
            translator.batch_tokens = self.batch_tokens
        return translator

    def elsewhere(self) -> Runs:
        """Return the same runs with absolute paths and all imports, for processes with another working directory."""
        return replace(self, runs=[run.resolve() for run in self.runs], imports=imported())


def engine_of(translator: Translator) -> str:
    """Return the description of a translator's engine without its threads, which don't change the translations."""
    return _WORKERS.sub("", translator.description)
