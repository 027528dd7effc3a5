"""Headwise itself, with the same modules as `headwise train` and `headwise translate`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.systems.peer import Decoder, Decoding, Peer, Room, Setting, Trainee
from benchmarks.systems.workload import Workload
from headwise import __version__
from headwise.config import Config
from headwise.native.library import PRECISIONS, find_library

# Words in `Setting.detail`.
NATIVE = "native"  # decode with the native engine, or train with its matrix products
SHORTLIST = "shortlist"  # search with the workload's shortlist

if TYPE_CHECKING:
    from headwise.engine.base import Engine
    from headwise.engine.options import SearchOptions
    from headwise.engine.shortlist import Shortlist
    from headwise.models.base import Seq2Seq
    from headwise.tasks.batches.pairs import Batch
    from headwise.training.loss import LossSum
    from headwise.training.parallel.world import World


class System(Peer):
    """Training with the step of Headwise's `Trainer`; decoding with both engines, each in all of its precisions."""

    name = "headwise"
    packages = ("torch",)

    def versions(self) -> dict[str, str]:
        return {"headwise": __version__, **super().versions()}

    def training_settings(self, room: Room) -> list[Setting]:
        settings = self._in_one_process(room)
        settings += [Setting(p, 1, count) for p in room.precisions for count in room.process_counts]
        if room.device != "cpu" or isinstance(find_library(), str):
            return settings
        native = [replace(setting, detail=NATIVE) for setting in settings if setting.precision == "float32"]
        return settings + native

    def _in_one_process(self, room: Room) -> list[Setting]:
        return [Setting(precision, threads) for precision in room.precisions for threads in room.thread_counts]

    def decoding_settings(self, room: Room, job: Decoding) -> list[Setting]:
        pytorch = self._in_one_process(room)
        if room.device != "cpu" or isinstance(find_library(), str):
            return pytorch
        workers = [1] if job.batch == 1 else room.thread_counts
        return pytorch + [Setting(p, 1, count, NATIVE) for p in PRECISIONS for count in workers]

    def shortlisted(self, settings: Sequence[Setting]) -> list[Setting]:
        """Return the same settings with the workload's shortlist."""
        return [replace(setting, detail=f"{setting.detail} {SHORTLIST}".lstrip()) for setting in settings]

    def open_training(self, workload: Workload, setting: Setting, device: str, world: World) -> Trainee:
        return _Trainee(workload, setting, device, world)

    def open_decoding(self, workload: Workload, setting: Setting, device: str) -> Decoder:
        details = setting.detail.split()
        if NATIVE in details:
            engine: Engine = _native(workload, setting)
        else:
            from headwise.decoding.engine import PyTorchEngine

            engine = PyTorchEngine(load_model(workload, setting, device).eval())
        shortlist = workload.shortlist if SHORTLIST in details else None

        def run(sources: Sequence[list[int]], job: Decoding) -> list[list[int]]:
            return _search(engine, sources, job, shortlist)

        return run


def _search(
    engine: Engine, sources: Sequence[list[int]], job: Decoding, shortlist: Shortlist | None
) -> list[list[int]]:
    """Decode in batches of the job's size, longest sentences first.

    The native engine gets all sentences at once if the job has batches, and decodes that many at a time per worker.
    """
    from headwise.engine.base import SearchSentence
    from headwise.engine.native.engine import NativeEngine
    from headwise.engine.symbols import SYMBOLS

    options = search_options(job)
    native = engine if isinstance(engine, NativeEngine) else None
    outputs: list[list[int]] = [[] for _ in sources]
    order = sorted(range(len(sources)), key=lambda sentence: -len(sources[sentence]))
    size = len(order) if native is not None and job.batch > 1 else job.batch
    for start in range(0, len(order), size):
        sentences = order[start : start + size]
        batch = [
            SearchSentence(sources[i], options, None, None if shortlist is None else shortlist(sources[i]))
            for i in sentences
        ]
        if native is not None:
            results = native.search_at_once(batch, SYMBOLS, job.batch)
        else:
            batch_tokens = len(batch) * len(batch[0].source) * options.rows  # so that they are one batch
            results = engine.search(batch, SYMBOLS, batch_tokens=batch_tokens)
        for i, hypotheses in zip(sentences, results, strict=True):
            outputs[i] = list(hypotheses[0].tokens)
    return outputs


def _native(workload: Workload, setting: Setting) -> Engine:
    """Load the workload's weights into the native engine."""
    from headwise.engine.native.engine import NativeEngine
    from headwise.engine.native.packing import PackedModel
    from headwise.native.library import Library
    from headwise.weights import Weights

    def open_pytorch() -> Any:
        from headwise.decoding.engine import PyTorchEngine  # a job of the benchmark needs none of it

        return PyTorchEngine(load_model(workload, replace(setting, precision="float32"), "cpu"))

    library = find_library()
    assert isinstance(library, Library)
    packed = PackedModel(
        workload.config.model,
        workload.source_size,
        workload.target_size,
        Weights(workload.weights).get,
        library=library,
        precision=setting.precision,
    )
    return NativeEngine(
        [packed],
        open_pytorch=open_pytorch,
        workers=setting.workers,
    )


def search_options(job: Decoding) -> SearchOptions:
    """Return the search options of a job; its forced length includes EOS, and there is no length penalty."""
    from headwise.engine.options import SearchOptions

    if job.length is None:
        return SearchOptions(beam=job.beam, alpha=0.0)
    return SearchOptions(beam=job.beam, alpha=0.0, min_length=job.length - 1, max_length=job.length - 1)


def load_model(workload: Workload, setting: Setting, device: str) -> Seq2Seq:
    """Build the workload's model on the device, in the setting's precision."""
    import torch

    from headwise.models.build import build_model, load_filled
    from headwise.nn import device as devices

    torch.set_num_threads(setting.threads)
    config, sizes = workload.config.model, (workload.source_size, workload.target_size)
    model = load_filled(lambda: build_model(config, *sizes), workload.weights)
    model.compute_dtype = devices.PRECISIONS[setting.precision]
    return model.to(device)


class _Trainee:
    def __init__(self, workload: Workload, setting: Setting, device: str, world: World) -> None:
        import torch

        from headwise.training.loop import Trainer

        self._device = torch.device(device)
        # With such a long warm-up, the parameters hardly change.
        products = NATIVE if NATIVE in setting.detail.split() else "torch"
        self._config = workload.config.with_overrides(["schedule.warmup=100000", f"training.products={products}"])
        self._task = _Task(self._config, load_model(workload, setting, device))
        self._run = tempfile.TemporaryDirectory()  # an empty run directory, without checkpoints
        self._trainer = Trainer(
            self._task, self._config, Path(self._run.name), device=self._device, world=world, quiet=True
        )

    def loss(self, batch: Batch) -> float:
        import torch

        model = self._task.model.eval()
        precision, model.compute_dtype = model.compute_dtype, torch.float32
        with torch.no_grad():
            loss = self._task.loss(batch)
        model.compute_dtype = precision
        return loss.total.item() / loss.count

    def step(self, batch: Batch) -> None:
        self._trainer.step(iter([batch]))


class _NoBatches:
    def share(self, rank: int, size: int, *, whole: bool = False) -> None:
        """Do nothing, because the batches passed to the trainer's step are a rank's share already."""


class _Task:
    """Training task whose batches are passed to the trainer's step one by one."""

    def __init__(self, config: Config, model: Seq2Seq) -> None:
        self.config, self._model = config, model

    @property
    def model(self) -> Any:
        return self._model

    @property
    def d_model(self) -> int:
        return self.config.model.d_model

    @property
    def dev_tokens(self) -> int:
        return 0

    def batches(self) -> Any:
        return _NoBatches()

    def with_model(self, model: Any) -> _Task:
        return _Task(self.config, model)

    def loss(self, batch: Batch) -> LossSum:
        from headwise.tasks.translation import translation_loss

        return translation_loss(self._model, batch, self.config.training)

    def validate(self, *, final: bool = False) -> dict[str, float]:
        return {}

    def measured(self) -> dict[str, Any]:
        return {}

    def locate(self, batch: Batch) -> str:
        return f"rows {batch.rows}"

    def identity(self) -> dict[str, str]:
        return {}
