"""A trained model and what it does: `headwise.load` and `headwise.train` return a `Run`."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.api.arguments import several, with_arguments
from headwise.config import Config, ModelConfig
from headwise.engine.outputs import Output, Translation
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from headwise.plugins import import_modules
from headwise.shipped.runs import find_run

if TYPE_CHECKING:
    from torch import nn

    from headwise.analysis.tracer import Tracer
    from headwise.api.explaining import Explanation
    from headwise.evaluation.translation import TranslationScores
    from headwise.models.base import Seq2Seq
    from headwise.tasks.base import Prediction
    from headwise.text.reading.glossary import Glossary
    from headwise.text.tokens.subwords import Subwords

StrPath = str | os.PathLike[str]


class Run:
    """A trained model, of a run directory or of one's own loop; several runs with the same subwords are an ensemble.

    Nothing is loaded before it is needed. The methods may be called by any thread.

    Attributes:
        path: the run directory; None for a model of one's own that isn't saved.
        config: its configuration.
    """

    def __init__(self, path: StrPath, *more: StrPath, **options: Any) -> None:
        """Use a run directory, or a run by name such as `demo`; options and errors as for `headwise.load`."""
        self._paths = [find_run(os.fspath(each)) for each in (path, *more)]
        self._options = options
        self._device = str(options.get("device", "auto"))
        self.path: Path | None = self._paths[0]
        self.config = Config.of_run(self._paths[0], *(["translation"] if more else []))

    @classmethod
    @with_arguments
    def from_model(cls, model: Seq2Seq, subwords: Subwords, config: Config | None = None) -> Run:
        """Return the run of a translation model that was trained by one's own loop, with a copy of the model as it is.

        `config` is what the run records beside the model's own shape, as given to `headwise.build`. Raises
        `ConfigError` where the sizes of the vocabularies aren't the model's.
        """
        from headwise.decoding.engine import fastest_engine

        config = (config or Config()).model_copy(deep=True)
        model = copy.deepcopy(model).eval()
        own = getattr(model, "config", None)  # an architecture of one's own may lack it
        if isinstance(own, ModelConfig):
            config.model = own.model_copy(deep=True)
        sizes = model.source_size, model.target_size
        expected = subwords.source_size, subwords.target_size
        if sizes != expected:
            raise ConfigError(
                f"model: expected vocabularies of {expected[0]} and {expected[1]} subwords, as `subwords` has, found "
                f"{sizes[0]} and {sizes[1]}"
            )
        config.subwords = config.subwords.model_copy(update={"size": subwords.target_size, **subwords.options})
        run = cls.__new__(cls)
        run.path, run.config, run._paths, run._options, run._device = None, config, [], {}, "auto"
        run.translator = Translator(fastest_engine(model, config.model, subwords), subwords, config.decoding)
        return run

    def __repr__(self) -> str:
        what = ", ".join(map(str, self._paths)) or "a model in memory"
        return f"<headwise.Run {what}: {self.config.task}>"

    @cached_property
    def translator(self) -> Translator:
        """The loaded translator, with all of its options; raises as `headwise.load`."""
        if self.config.task != "translation":
            raise ConfigError(f"{self.path}: expected a run of task translation, found {self.config.task}")
        more = [Config.of_run(path, "translation") for path in self._paths[1:]]
        return Translator.load(self._paths, configs=[self.config, *more], **self._options)

    @with_arguments
    def translate(self, texts: Sequence[str], **options: Any) -> list[Translation]:
        """Translate sentences; the results, each with `.text`, are in their order.

        Options are those of the search (`beam=4`, `alpha=0.6`, `sample=True`, …), and `prefixes`, `glossary`,
        `split` and `alignments` (see `headwise.engine.translator.Translator.translate`). Raises `ConfigError` for an
        option that is unknown or out of range.
        """
        return self.translator.translate(texts, **options)

    def translate_lines(self, lines: Iterable[str], **options: Any) -> Iterator[Translation]:
        """Translate a stream of lines in order, with a thousand of them in memory; options as for `translate`."""
        return self.translator.translate_lines(lines, **options)

    @with_arguments
    def translate_file(
        self,
        file: StrPath,
        out: StrPath,
        *,
        glossary: Glossary | None = None,
        split: bool = False,
        **search: Any,
    ) -> list[str]:
        """Translate a file into another, as `headwise translate FILE -o OUT` does, and return warnings.

        A file of lines or records resumes after an interruption; a document (.html, .docx, .srt, …) keeps all but its
        sentences. `search` are options of the search. Raises a `HeadwiseError` for a file that can't be read.
        """
        from headwise.api.translating import translate_any
        from headwise.engine.corpus.runs import Runs

        if self.path is None:
            raise ConfigError("translate_file: expected a run that is saved, found a model in memory")
        runs = Runs(self._paths, search, self._options)
        return translate_any(runs, Path(file), Path(out), glossary=glossary, split=split)

    @with_arguments
    def score(self, sources: Sequence[str], targets: Sequence[str], **options: Any) -> list[Output]:
        """Return the log-probabilities of given translations, by forced decoding; `alpha` is an option.

        Raises `DataError` for other numbers of sources and targets, and for a target that is too long.
        """
        return self.translator.score(sources, targets, **options)

    @with_arguments
    def evaluate(
        self,
        sources: Sequence[str],
        references: Sequence[str],
        *,
        tokenize: str = "13a",
        lowercase: bool = False,
        **options: Any,
    ) -> TranslationScores:
        """Translate and score a test set: sacreBLEU, chrF2, tokenized BLEU with their signatures, and perplexity.

        `tokenize` is sacreBLEU's tokenizer; `lowercase` applies to tokenized BLEU. Other options are those of
        `translate`. Raises `DataError` where the numbers of lines differ.
        """
        from headwise.api.evaluating import score_translator

        scores, _ = score_translator(
            self.translator, sources, references, options, tokenize=tokenize, lowercase=lowercase
        )
        return scores

    @with_arguments
    def predict(self, texts: Sequence[str], *, precision: str = "float32") -> list[Prediction]:
        """Return the label, tags, answer, filled masks or continuation of each text, by the run's task.

        Raises `ConfigError` for a task that predicts nothing of the kind.
        """
        from headwise.tasks.registry import find_task

        several("texts", texts)
        if self.path is None or self.config.task == "translation":
            raise ConfigError("predict: expected a run of another task than translation, found one of it")
        kind = find_task(self.config.task)
        predict = kind.predictor(self.path, self.config, device=self._device, precision=precision)
        return predict([(text, f"text {number}") for number, text in enumerate(texts, start=1)])

    @with_arguments
    def explain(self, text: str, *, do: str | Sequence[str] = (), **options: Any) -> Explanation:
        """Translate or complete a text and record every head's attention, the probabilities and the beam tree.

        `do` is an intervention, or several, such as `"silence:cross.2.3"`. A translator's options are those of the
        search, `target` (look at this translation) and `hypothesis` (or at that of this rank, from 0). Raises
        `ConfigError`.
        """
        from headwise.api.explaining import explain

        return explain(self.tracer, self.config, text, do, self.path, **options)

    @cached_property
    def tracer(self) -> Tracer:
        """The tracer, which records the model's forward passes."""
        from headwise.analysis.interventions.history import History
        from headwise.analysis.language_models import open_tracer
        from headwise.analysis.translation_tracer import TranslationTracer

        if self.path is not None and self.config.task != "translation":
            return open_tracer(self.path, self._device)
        return TranslationTracer(self.translator, None if self.path is None else History(self.path))

    @property
    def model(self) -> nn.Module:
        """The PyTorch model, whose parameters may be read; it is in evaluation mode."""
        return self.tracer.trained

    @with_arguments
    def save(self, path: StrPath) -> Run:
        """Write a new run directory with what inference needs; return its run.

        Raises `CheckpointError` if something is there, and `ConfigError` for an ensemble.
        """
        from headwise.api.exporting import save_model
        from headwise.api.other_run import write_other_run

        self._check_single("save")
        if self.path is None:
            save_model(self.translator, self.config, Path(path))
        else:
            write_other_run(self.path, Path(path))
        return Run(path)

    @with_arguments
    def export(
        self,
        path: StrPath,
        *,
        to: str,
        precision: str | None = None,
        average: int | None = None,
        shortlist: bool = False,
        others: Sequence[StrPath] = (),
        languages: tuple[str | None, str | None] = (None, None),
    ) -> list[str]:
        """Write the model for another toolkit, as `headwise export` does; return notes.

        `to` is huggingface, ctranslate2, argos, onnx, marian, page, or run; `average`, `shortlist` and `others` (runs
        with whose models this one's is averaged) are those of a `run`. Raises `ConfigError` for a model that the
        toolkit can't express and for an ensemble, and `CheckpointError` if something is at `path`.
        """
        from headwise.api.exporting import export

        self._check_single("export")
        runs = [find_run(os.fspath(other)) for other in several("others", others)]
        with self._saved() as run:
            return export(run, Path(path), to, precision, average, languages, shortlist=shortlist, others=runs)

    def _check_single(self, what: str) -> None:
        if len(self._paths) > 1:
            raise ConfigError(f"{what}: expected one run, found an ensemble of {len(self._paths)}")

    @contextmanager
    def _saved(self) -> Iterator[Path]:
        """Context manager that gives the run directory, which is temporary for a model that isn't saved."""
        if self.path is not None:
            yield self.path
            return
        with tempfile.TemporaryDirectory() as folder:
            self.save(path := Path(folder) / "model")
            yield path


@with_arguments
def load(
    run: StrPath,
    *more: StrPath,
    device: str = "auto",
    precision: str | None = None,
    engine: str = "auto",
    workers: int = 0,
    shortlist: bool = False,
    language: str | None = None,
    imports: Sequence[str] = (),
) -> Run:
    """Load a trained model from its run directory; several runs with the same subwords form an ensemble.

    `demo` is the model in the package, which `headwise demo` has trained.
    `precision` is float32, bfloat16, int8, auto for the fastest, or None for the precision the run is stored in;
    `engine` is native, pytorch or auto; `workers` is the number of search threads, 0 for one per processor;
    `shortlist` enables the lexical shortlist of `headwise export --shortlist`; `language` is a target language of an
    imported model for several. `imports` are modules of your own whose parts the run uses, unless they are imported
    already: a run imports no code by itself. All but `device` and `imports` are for translation.

    Raises `CheckpointError` if a run is missing or damaged, and `ConfigError` or `DeviceError` if it can't be decoded
    with these options.
    """
    import_modules(several("imports", imports))
    decoding = {
        "precision": precision,
        "engine": engine,
        "workers": workers,
        "shortlist": shortlist,
        "language": language,
    }
    loaded = Run(run, *more, device=device, **decoding)
    if loaded.config.task == "translation":
        _ = loaded.translator  # raises now
        return loaded
    for name, value in decoding.items():
        if value not in (None, "auto", 0):
            raise ConfigError(f"{name}: expected a translation run beside it, found task {loaded.config.task}")
    return loaded
