"""A translation run with random weights, whose vocabulary has codes of several target languages."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file

from headwise.config import Config
from headwise.models.build import build_model
from headwise.text.tokens.pair_vocabulary import PairVocabulary, Side
from headwise.text.tokens.subwords import Subwords
from translator_run import make_run

CODES = (">>deu<<", ">>fra<<", ">>por_BR<<", ">>not a language<<")


def make_multilingual(folder: Path, tagged: Side, language: str = ">>fra<<") -> Path:
    """Write a run whose texts on one side begin with a language's code; `language` is the chosen one."""
    run = make_run(folder / "en-many")
    learned = Subwords.load(run)
    pieces = [learned.source_processor.id_to_piece(number) for number in range(learned.source_size)]
    vocabulary = PairVocabulary((*pieces, *CODES), codes=True, language=language, tagged=tagged)
    (run / "spm.model").unlink()
    subwords = Subwords(*learned.models, vocabulary)
    subwords.save(run)
    config = Config.load(run / "config.yaml")
    config.subwords.kind = "imported"
    config.data.source_language = "en"
    (run / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
    torch.manual_seed(3)
    network = build_model(config.model, subwords.source_size, subwords.target_size)
    save_file(dict(network.named_parameters()), run / "model.safetensors")
    return run
