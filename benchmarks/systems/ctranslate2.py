"""CTranslate2, with the workload's weights converted to its format, so that every system decodes the same model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.systems.peer import Decoder, Decoding, Peer, Room, Setting
from benchmarks.systems.workload import Workload
from headwise.interop.ctranslate2.layout import unsupported
from headwise.text.tokens.pair_vocabulary import SPECIAL_PIECES


class System(Peer):
    """CTranslate2's `Translator.translate_batch` with int8 and floating-point weights, workers x threads."""

    name = "ctranslate2"
    packages = ("ctranslate2",)

    def refuses(self, workload: Workload) -> str:
        reason = unsupported(workload.config.model)
        return f"ctranslate2: skipped, {reason}" if reason else ""

    def load(self) -> None:
        # CTranslate2's converters import torch and transformers if they are installed. Decoding needs neither, and
        # uses less memory without them.
        for name in ("torch", "transformers"):
            sys.modules.setdefault(name, None)  # type: ignore[arg-type]
        super().load()

    def prepare(self, workload: Workload, folder: Path) -> None:
        from headwise.interop.ctranslate2.exporter import convert
        from headwise.weights import Weights

        vocabularies = _id_tokens(workload.source_size), _id_tokens(workload.target_size)
        for name, precision in (("float", "float32"), ("int8", "int8")):
            written = folder / f"ctranslate2-{name}"
            written.mkdir()
            weights = Weights(workload.weights)
            convert(workload.config.model, weights.get, vocabularies, written, precision=precision)

    def training_settings(self, room: Room) -> list[Setting]:
        return []

    def decoding_settings(self, room: Room, job: Decoding) -> list[Setting]:
        if room.device != "cpu":
            return [Setting(precision, 1) for precision in ("float16", "int8_float16")]
        shapes = {(1, room.threads), (1, 1)}
        if job.batch > 1:
            shapes |= {(room.threads, 1)}
        return [
            Setting(precision, threads, workers)
            for precision in ("float32", "int8")
            for workers, threads in sorted(shapes)
        ]

    def open_decoding(self, workload: Workload, setting: Setting, device: str) -> Decoder:
        import ctranslate2

        kind = "int8" if setting.precision.startswith("int8") else "float"
        translator = ctranslate2.Translator(
            str(workload.folder / f"ctranslate2-{kind}"),
            device=device,
            compute_type=setting.precision,
            inter_threads=setting.workers,
            intra_threads=setting.threads,
        )
        tokens = _id_tokens(workload.source_size)

        def run(sources: Sequence[list[int]], job: Decoding) -> list[list[int]]:
            results: Any = translator.translate_batch(
                [[tokens[i] for i in ids] for ids in sources],
                max_batch_size=job.batch,
                beam_size=job.beam,
                length_penalty=0,
                min_decoding_length=job.length or 1,
                max_decoding_length=job.length or max(map(len, sources)) + 50,
                disable_unk=job.strict,
                suppress_sequences=[["<pad>"], ["<s>"]] if job.strict else None,
            )
            return [[_token_id(token) for token in result.hypotheses[0]] for result in results]

        return run


def _id_tokens(size: int) -> list[str]:
    """Return a vocabulary of ids as text, with the names of the special symbols for the ids 0 to 3."""
    return [*SPECIAL_PIECES, *(str(i) for i in range(len(SPECIAL_PIECES), size))]


def _token_id(token: str) -> int:
    """Return the id of a token of `_id_tokens`."""
    return SPECIAL_PIECES.index(token) if token in SPECIAL_PIECES else int(token)
