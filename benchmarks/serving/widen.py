"""A model of the paper's base size that translates as a trained small one does: for speed with real output lengths.

    python benchmarks/serving/widen.py RUN OUT

Every feature of RUN's Transformer is repeated until d_model is 512, d_ff 2,048, and 8 heads have 64 dimensions each
(Chen et al. 2016, Net2Net); its sinusoids become a table of positions, and layers that add next to nothing fill up
6+6. RUN has d_model 128, 4 heads, pre-norm, ReLU, sinusoidal positions and shared embeddings, as the default recipe.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from headwise.config import Config
from headwise.nn.positions import sinusoids

LAYERS, WIDTH, HEADS, INNER = 6, 512, 8, 2048
NEXT_TO_NOTHING = 1e-6  # standard deviation of what an added layer writes


def main() -> None:
    source, out = (Path(argument) for argument in sys.argv[1:])
    config = Config.of_run(source, "translation")
    with safe_open(source / "model.safetensors", "pt") as file:
        metadata = file.metadata()
    old = {name: tensor.float() for name, tensor in load_file(source / "model.safetensors").items()}
    model, old_width = config.model, config.model.d_model
    table = sinusoids(model.max_length, old_width)
    new = {
        name: widened(name, tensor, model.heads) for name, tensor in old.items() if "embedding" not in name
    }
    for stack, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        for name in [name for name in new if name.startswith(f"{stack}.0.")]:
            for layer in range(layers, LAYERS):
                added = new[name].clone()
                if name.endswith((".output.weight", ".w2.weight", ".w2.bias")):
                    added.normal_(std=NEXT_TO_NOTHING)
                new[name.replace(".0.", f".{layer}.", 1)] = added
    copies = WIDTH // old_width
    embedding = old["source_embedding.weight"].repeat(1, copies)
    new["source_embedding.weight"] = new["target_embedding.weight"] = embedding * (old_width / WIDTH) ** 0.5
    new["target_embedding.weight"] = new["target_embedding.weight"].clone()
    new["output_projection.weight"] = embedding / copies
    new["positions.table"] = table.repeat(1, copies)
    model.encoder_layers = model.decoder_layers = LAYERS
    model.d_model, model.d_ff, model.heads = WIDTH, INNER, HEADS
    model.positions, model.share_embeddings = "learned", "none"
    out.mkdir(parents=True)
    (out / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
    shutil.copy(source / "spm.model", out)
    save_file(new, out / "model.safetensors", metadata)


def widened(name: str, tensor: Tensor, heads: int) -> Tensor:
    """Repeat the features of a parameter so that each sub-layer's output is repeated `WIDTH` / d_model times."""
    if tensor.dim() == 1:  # of a normalization or a bias
        return tensor.repeat((INNER if name.endswith("w1.bias") else WIDTH) // len(tensor))
    rows, columns = tensor.shape
    if name.endswith((".query.weight", ".key.weight", ".value.weight")):
        old_size, size = rows // heads, WIDTH // HEADS
        tensor = tensor.view(heads, old_size, columns).repeat_interleave(HEADS // heads, 0)
        tensor = tensor.repeat(1, size // old_size, 1).view(WIDTH, columns)
        if name.endswith(".query.weight"):  # products are of repeated features, and divided by another √d_k
            tensor = tensor * (old_size / size) ** 0.5
    elif name.endswith(".output.weight"):
        old_size, size = columns // heads, WIDTH // HEADS
        tensor = tensor.view(rows, heads, old_size).repeat_interleave(HEADS // heads, 1)
        tensor = tensor.repeat(1, 1, size // old_size).view(rows, WIDTH) * (columns / WIDTH)
        return tensor.repeat(WIDTH // rows, 1)
    else:
        tensor = tensor.repeat((INNER if name.endswith("w1.weight") else WIDTH) // rows, 1)
    wide = INNER if name.endswith("w2.weight") else WIDTH
    return tensor.repeat(1, wide // columns) * (columns / wide)


if __name__ == "__main__":
    main()
