"""The encoder and the decoding step of `headwise.models.transformer` as ONNX graphs.

Shape legend: sentences of a batch, source = their length in tokens; rows = sentences × beams; past = tokens decoded so
far; heads = key/value heads. N is the number of a decoder layer.

Encoder: from source (sentences, source) and mask (sentences, source), True = real token, to memory.N.keys (sentences,
heads, source, d_k) and memory.N.values (sentences, heads, source, d_v), which cross-attention attends to.

Decoder: from token (rows,), the newest of each hypothesis; parent (rows,), the row of the previous step that it
continues; past.N.keys (previous rows, heads, past, d_k) and past.N.values, empty at first; mask; and the memory. It
returns log_probabilities (rows, target_size) of the next token, and the past of the next step as present.N.keys and
present.N.values.
"""

from __future__ import annotations

import onnx

from headwise.interop.onnx.graph import Graph
from headwise.interop.onnx.network import Network, Past
from headwise.models.transformer import DecoderLayer, EncoderLayer, Transformer
from headwise.nn.multihead import MultiHeadAttention

EMBEDDING = "embedding"  # name of the table of embeddings


def encoder_graph(model: Transformer) -> onnx.ModelProto:
    """Return the encoder, with the keys and values of every decoder layer's cross-attention as its outputs."""
    graph = Graph("encoder")
    source = graph.input("source", "INT64", ("sentences", "source"))
    mask = graph.input("mask", "BOOL", ("sentences", "source"))
    length = graph.op("Squeeze", graph.op("Shape", source, start=1))
    net = Network(graph, model, graph.op("Range", 0, length, 1))
    padding = net.padding(mask)
    x = net.embed(graph.constant(model.source_embedding.weight, EMBEDDING), source)
    for layer in model.encoder:
        attention, feed_forward = _attention(layer), layer.feed_forward
        x = net.residual(layer.around_attention, x, lambda y, a=attention: net.self_attention(a, y, padding))
        x = net.residual(layer.around_feed_forward, x, lambda y, f=feed_forward: net.feed_forward(f, y))
    x = net.norm(model.encoder_norm, x)
    for number, layer in enumerate(model.decoder):
        cross = layer.cross_attention
        memory = net.project(cross, x, cross.key, cross.value)
        for value, (name, shape) in zip(memory, _memory(number, cross), strict=True):
            graph.output(value, name, shape)
    return graph.model("Source tokens to keys and values of the decoder layers' cross-attention")


def decoder_graph(model: Transformer) -> onnx.ModelProto:
    """Return one step of the decoder, with a cache of keys and values."""
    graph = Graph("decoder")
    token = graph.input("token", "INT64", ("rows",))
    parent = graph.input("parent", "INT64", ("rows",))
    padding_mask = graph.input("mask", "BOOL", ("sentences", "source"))
    net = Network(graph, model, graph.op("Shape", "past.0.keys", start=2, end=3))
    padding = net.padding(padding_mask)
    memories = [
        [graph.input(name, "FLOAT", shape) for name, shape in _memory(number, layer.cross_attention)]
        for number, layer in enumerate(model.decoder)
    ]
    embeddings = graph.constant(model.target_embedding.weight, EMBEDDING)
    x = net.embed(embeddings, graph.op("Unsqueeze", token, [1]))  # (rows, 1, d_model)
    for number, layer in enumerate(model.decoder):
        attention, cross, feed_forward = _attention(layer), layer.cross_attention, layer.feed_forward
        past, memory = Past(graph, number, parent), memories[number]
        x = net.residual(
            layer.around_self_attention, x, lambda y, a=attention, p=past: net.self_attention(a, y, past=p)
        )
        x = net.residual(
            layer.around_cross_attention,
            x,
            lambda y, a=cross, m=memory: net.cross_attention(a, y, m, padding),
        )
        x = net.residual(layer.around_feed_forward, x, lambda y, f=feed_forward: net.feed_forward(f, y))
    hidden = graph.op("Squeeze", net.norm(model.decoder_norm, x), [1])  # (rows, d_model)
    tied = model.output_weight is model.target_embedding.weight
    logits = net.logits(hidden, embeddings if tied else graph.constant(model.output_weight))
    log_probabilities = graph.op("LogSoftmax", logits, axis=-1)
    graph.output(log_probabilities, "log_probabilities", ("rows", model.target_size))
    return graph.model("The newest tokens of hypotheses to the log-probabilities of the next ones")


def _memory(number: int, cross: MultiHeadAttention) -> list[tuple[str, tuple[str | int, ...]]]:
    """Return the names and shapes of the keys and values of a layer's cross-attention."""
    sizes = {"keys": cross.key_size, "values": cross.value_size}
    return [
        (f"memory.{number}.{name}", ("sentences", cross.key_value_heads, "source", size))
        for name, size in sizes.items()
    ]


def _attention(layer: EncoderLayer | DecoderLayer) -> MultiHeadAttention:
    attention = layer.self_attention
    assert isinstance(attention, MultiHeadAttention)
    return attention
