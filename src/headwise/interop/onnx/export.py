"""Export to ONNX Runtime: an encoder, a decoding step with a key/value cache, subwords, and search options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.quant_utils import add_pre_process_metadata

from headwise.config import Config
from headwise.config.support import Support
from headwise.files import write_text
from headwise.interop import base
from headwise.interop.base import Trained
from headwise.interop.onnx.positions import EXPRESSIBLE as POSITIONS
from headwise.interop.onnx.transformer import EMBEDDING, decoder_graph, encoder_graph
from headwise.interop.pieces import symbol_notes
from headwise.models.build import load_model
from headwise.models.transformer import Transformer
from headwise.text.tokens.pair_vocabulary import FILE as VOCABULARY
from headwise.text.tokens.pair_vocabulary import PairVocabulary
from headwise.text.tokens.subwords import BOS, EOS, PAD, UNK, Subwords

SUPPORTED = Support(
    *("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "d_k", "d_v", "key_value_heads"),
    *("norm", "final_norm", "normalization", "norm_epsilon", "activation", "gated", "feed_forward_bias"),
    *("attention_bias", "logit_bias", "max_length", "share_embeddings", "scale_embeddings"),
    positions=POSITIONS,
)
# Protobuf's limit, less room for the nodes; larger tensors are in a file beside it.
_MOST_BYTES = 2**31 - 2**20
_SETTINGS = "headwise.json"


class Exporter(base.Exporter):
    """Writer of ONNX models."""

    library = "ONNX Runtime"
    precisions = ("float32", "int8")

    def refuses(self, config: Config) -> str | None:  # noqa: D102
        problems = SUPPORTED.problems(config.model)
        return f"the export has no {', '.join(problems)}" if problems else None

    def write(self, trained: Trained, folder: Path, precision: str) -> list[str]:  # noqa: D102
        trained.check_untagged()
        trained.sentencepiece()  # with other tokenizers, the example couldn't split texts
        sizes = trained.subwords.source_size, trained.subwords.target_size
        model = load_model(trained.run, *sizes, trained.config)
        assert isinstance(model, Transformer)
        for name, graph in (("encoder", encoder_graph), ("decoder", decoder_graph)):
            _write(graph(model), folder / f"{name}.onnx", precision)
        _write_text(trained.subwords, folder)
        found = _settings(trained, precision)
        settings = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in found.items()]
        write_text(folder / _SETTINGS, "{\n" + ",\n".join(settings) + "\n}\n")
        notes = ["examples/onnx_translate.py translates with it; it needs onnxruntime, sentencepiece and numpy"]
        if trained.subwords.vocabulary is not None and trained.subwords.vocabulary.codes:
            notes.append(
                "a language code such as >>deu<< is one piece, which examples/onnx_translate.py doesn't split off"
            )
        return notes + symbol_notes(trained.subwords)


def _write(model: onnx.ModelProto, file: Path, precision: str) -> None:
    """Write a model; in int8, matrices and embeddings are stored in 8 bits, and activations quantized as they come."""
    large = sum(len(tensor.raw_data) for tensor in model.graph.initializer) > _MOST_BYTES
    if precision == "float32":
        onnx.save_model(model, file, save_as_external_data=large, location=f"{file.name}.data" if large else None)
        return
    add_pre_process_metadata(model)  # it is as small as preprocessing would make it
    others = [node.name for node in model.graph.node if node.op_type == "Gather" and node.input[0] != EMBEDDING]
    quantize_dynamic(
        model,
        file,
        op_types_to_quantize=["MatMul", "Gather"],
        per_channel=True,
        reduce_range=True,  # 7 bits: x86 processors without VNNI saturate the sums of 8-bit products
        weight_type=QuantType.QInt8,
        nodes_to_exclude=others,
        use_external_data_format=large,
    )


def _write_text(subwords: Subwords, folder: Path) -> None:
    """Write the SentencePiece models, and the pieces in the order of their ids."""
    subwords.save(folder)
    if subwords.vocabulary is None:
        source, target = map(tuple, subwords.lists())
        vocabulary = PairVocabulary(source, None if subwords.joint else target)
        (folder / VOCABULARY).write_bytes(vocabulary.content())


def _settings(trained: Trained, precision: str) -> dict[str, Any]:
    """Return special ids, the ids that no translation contains, the files of the subwords, and search options.

    "letterless" has the ids without a letter or a digit, which aren't a translation of a text with one by themselves.
    "cache" has heads and size of each of the decoder's inputs past.N.keys and past.N.values, in their order.
    """
    decoding, model = trained.config.decoding, trained.config.model
    names = [name for name in trained.subwords.content() if name != VOCABULARY]
    return {
        "precision": precision,
        "pad": PAD,
        "unknown": UNK,
        "begin": BOS,
        "end": EOS,
        "never": [PAD, UNK, BOS],
        "letterless": [number for number, found in enumerate(trained.subwords.lettered()) if not found],
        "subwords": [names[0], names[-1]],
        "beam": decoding.beam,
        "alpha": decoding.alpha,
        "extra_length": decoding.extra_length,
        "max_length": model.max_length,
        "cache": [[model.groups, model.key_size], [model.groups, model.value_size]] * model.decoder_layers,
    }
