"""Hugging Face transformers: Marian, which is the paper's post-norm model, or Pegasus, the same model with pre-norm."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.systems.peer import Decoder, Decoding, Peer, Room, Setting, Trainee
from benchmarks.systems.workload import Workload
from headwise.text.tokens.subwords import BOS, EOS, PAD, UNK

if TYPE_CHECKING:
    from headwise.tasks.batches.pairs import Batch
    from headwise.training.parallel.world import World

_ACTIVATIONS = {"relu": "relu", "silu": "swish", "gelu": "gelu"}
_LIKE_OURS = {"architecture": "transformer", "positions": "sinusoidal", "share_embeddings": "all"}
_KINDS = ("fused", "reference", "memory_efficient")  # kinds that compute plain scaled dot-product attention
_NAMES = {
    "self_attention": "self_attn",
    "cross_attention": "encoder_attn",
    "around_attention.norm": "self_attn_layer_norm",
    "around_self_attention.norm": "self_attn_layer_norm",
    "around_cross_attention.norm": "encoder_attn_layer_norm",
    "around_feed_forward.norm": "final_layer_norm",
    "feed_forward.w1": "fc1",
    "feed_forward.w2": "fc2",
}
_ATTENTIONS = ("sdpa", "eager")
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}


class System(Peer):
    """Hugging Face's `generate` with its key/value cache; training in a plain loop with fused AdamW."""

    name = "huggingface"
    packages = ("transformers", "torch")

    def refuses(self, workload: Workload) -> str:
        model = workload.config.model
        for key, required in _LIKE_OURS.items():
            if (value := getattr(model, key)) != required:
                return f"huggingface: skipped, Marian has {key}={required}, and this model {value}"
        if model.attention not in _KINDS or model.key_value_heads or model.d_k or model.d_v:
            return "huggingface: skipped, Marian has plain attention of d_model/heads, and this model hasn't"
        return ""

    def load(self) -> None:
        transformers = _transformers()
        transformers.utils.logging.set_verbosity_error()
        # Triggers their lazy import.
        _ = transformers.MarianMTModel, transformers.PegasusForConditionalGeneration

    def training_settings(self, room: Room) -> list[Setting]:
        processes = [
            Setting(precision, 1, count, attention)
            for precision in room.precisions
            for count in room.process_counts
            for attention in _ATTENTIONS
        ]
        return _settings(room, room.precisions) + processes

    def decoding_settings(self, room: Room, job: Decoding) -> list[Setting]:
        return _settings(room, room.precisions if room.device == "cpu" else ("float16",))

    def open_training(self, workload: Workload, setting: Setting, device: str, world: World) -> Trainee:
        return _Trainee(workload, setting, device, world)

    def open_decoding(self, workload: Workload, setting: Setting, device: str) -> Decoder:
        import torch

        model: Any = build(workload, setting).to(device).to(getattr(torch, setting.precision)).eval()

        @torch.inference_mode()
        def run(sources: Sequence[list[int]], job: Decoding) -> list[list[int]]:
            outputs: list[list[int]] = [[] for _ in sources]
            order = sorted(range(len(sources)), key=lambda sentence: -len(sources[sentence]))
            for start in range(0, len(order), job.batch):
                sentences = order[start : start + job.batch]
                longest = len(sources[sentences[0]])
                padded = [[*sources[i], *[PAD] * (longest - len(sources[i]))] for i in sentences]
                ids = torch.tensor(padded, device=device)
                generated = model.generate(
                    input_ids=ids,
                    attention_mask=(ids != PAD).long(),
                    num_beams=job.beam,
                    do_sample=False,
                    use_cache=True,
                    length_penalty=0.0,
                    early_stopping=job.beam > 1,
                    min_new_tokens=job.length,
                    max_new_tokens=job.length or longest + 50,
                    suppress_tokens=[PAD, UNK, BOS] if job.strict else None,
                )
                for i, output in zip(sentences, generated[:, 1:].tolist(), strict=True):
                    outputs[i] = output[: output.index(EOS)] if EOS in output else output
            return outputs

        return run


def _transformers() -> Any:
    """Import the package without its types, which take pyright a quarter of its time."""
    return import_module("transformers")


def _settings(room: Room, precisions: Sequence[str]) -> list[Setting]:
    return [
        Setting(precision, threads, detail=attention)
        for precision in precisions
        for threads in room.thread_counts
        for attention in _ATTENTIONS
    ]


def build(workload: Workload, setting: Setting) -> Any:
    """Build the Hugging Face model with the workload's configuration and weights."""
    import torch
    from safetensors.torch import load_file

    from headwise.nn.positions import sinusoids

    transformers = _transformers()

    torch.set_num_threads(setting.threads)
    ours = workload.config.model
    post = ours.norm == "post"
    kind = transformers.MarianConfig if post else transformers.PegasusConfig
    config = kind(
        vocab_size=workload.target_size,
        d_model=ours.d_model,
        encoder_layers=ours.encoder_layers,
        decoder_layers=ours.decoder_layers,
        encoder_attention_heads=ours.heads,
        decoder_attention_heads=ours.heads,
        encoder_ffn_dim=ours.d_ff,
        decoder_ffn_dim=ours.d_ff,
        max_position_embeddings=ours.max_length,
        activation_function=_ACTIVATIONS[ours.activation],
        dropout=ours.dropout,
        attention_dropout=ours.attention_dropout,
        activation_dropout=ours.activation_dropout,
        scale_embedding=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
        attn_implementation=setting.detail,
    )
    architecture = transformers.MarianMTModel if post else transformers.PegasusForConditionalGeneration
    model = architecture(config)
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, parameter in parameters.items():
            if name.endswith(("proj.bias", "fc1.bias", "fc2.bias")):
                parameter.zero_()  # Headwise's model may have no bias
        for name, tensor in load_file(workload.weights).items():
            parameters[their_name(name)].copy_(tensor)
        table = sinusoids(ours.max_length, ours.d_model)
        for stack in (model.model.encoder, model.model.decoder):
            stack.embed_positions.weight.copy_(table)
    return model


def their_name(name: str) -> str:
    """Return Hugging Face's name of a Headwise parameter."""
    if name == "source_embedding.weight":
        return "model.shared.weight"
    if name.startswith(("encoder_norm", "decoder_norm")):
        stack, rest = name.split("_norm.")
        return f"model.{stack}.layer_norm.{rest}"
    stack, index, rest = name.split(".", 2)
    for ours, theirs in _NAMES.items():
        if rest.startswith(f"{ours}."):
            rest = theirs + rest[len(ours) :]
            break
    parts = [_PROJECTIONS.get(part, part) for part in rest.split(".")]
    return f"model.{stack}.layers.{index}.{'.'.join(parts)}"


class _Trainee:
    """Training step with label-smoothed cross-entropy and fused AdamW; bfloat16 uses torch's autocast.

    Several ranks use DistributedDataParallel, as Hugging Face's Trainer does under `torchrun`.
    """

    def __init__(self, workload: Workload, setting: Setting, device: str, world: World) -> None:
        import torch

        config = workload.config
        self._device = device
        self._smoothing = config.training.label_smoothing
        self._model = self._trained = build(workload, setting).to(device)
        self._world = world
        if world.size > 1:
            self._trained = torch.nn.parallel.DistributedDataParallel(self._model)
        parameters = [p for p in self._model.parameters() if p.requires_grad]
        self._optimizer = torch.optim.AdamW(parameters, lr=1e-9, betas=(0.9, 0.98), eps=1e-9, fused=True)
        self._autocast = torch.autocast(
            torch.device(device).type, torch.bfloat16, enabled=setting.precision == "bfloat16"
        )

    def loss(self, batch: Batch) -> float:
        import torch

        self._model.eval()
        with torch.no_grad():
            return self._sum(self._model, batch).item() / batch.target_tokens

    def step(self, batch: Batch) -> None:
        self._model.train()
        with self._autocast:
            (tokens,) = self._world.sum(batch.target_tokens)
            # Times the number of ranks, because DDP takes the mean over ranks.
            loss = self._sum(self._trained, batch) * (self._world.size / tokens)
        loss.item()  # for logging, as in Headwise's training loop
        loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    def _sum(self, model: Any, batch: Batch) -> Any:
        from torch.nn.functional import cross_entropy

        logits = model(
            input_ids=batch.source.to(self._device),
            attention_mask=batch.source_mask.long().to(self._device),
            decoder_input_ids=batch.target_input.to(self._device),
            use_cache=False,
        ).logits
        return cross_entropy(
            logits.flatten(0, 1),
            batch.target_output.to(self._device).flatten(),
            ignore_index=PAD,
            label_smoothing=self._smoothing,
            reduction="sum",
        )
