"""The recurrent model against torch's layers with copied weights, and against the papers' formulas in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from headwise.config import ModelConfig
from headwise.models.recurrent import RecurrentMemory, RecurrentSeq2Seq
from headwise.nn.recording import recording
from headwise.nn.recurrent import AdditiveAttention, MultiplicativeAttention

Array = NDArray[np.float64]
VOCABULARY = 31
LENGTHS = [4, 7, 1, 5]


def model_of(layers: int, dtype: torch.dtype = torch.float32, **options: Any) -> RecurrentSeq2Seq:
    shape = {"encoder_layers": layers, "decoder_layers": layers, "d_model": 10, "heads": 2}
    torch.manual_seed(0)
    config = ModelConfig.model_validate({**shape, "dropout": 0.3, "recurrent": {"size": 12, **options}})
    model = RecurrentSeq2Seq(config, VOCABULARY, VOCABULARY).eval().to(dtype)
    model.compute_dtype = dtype
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 3
    return model


def batch() -> tuple[Tensor, Tensor]:
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    source = torch.randint(4, VOCABULARY, mask.shape, generator=torch.Generator().manual_seed(1))
    return source * mask, mask


def torch_encoder(model: RecurrentSeq2Seq, cell: str, layers: int, both: bool) -> nn.LSTM | nn.GRU:
    """Return a torch module of several layers with the weights of our single-layer modules."""
    kind = {"lstm": nn.LSTM, "gru": nn.GRU}[cell]
    theirs = kind(10, 12, num_layers=layers, bidirectional=both, batch_first=True)
    renamed = {
        name.replace("rnn.", "").split(".", 1)[1].replace("l0", f"l{name.split('.')[0]}"): tensor
        for name, tensor in model.encoder.state_dict().items()
    }
    theirs.load_state_dict(renamed)
    return theirs


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("reading", ["both", "forward", "backward"])
def test_encoder_equals_torch_with_copied_weights(cell: str, layers: int, reading: str) -> None:
    """Outputs, final states and gradients; a backward encoder is a forward one on reversed sentences."""
    model = model_of(layers, cell=cell, reading=reading)
    theirs = torch_encoder(model, cell, layers, reading == "both")
    source, mask = batch()
    memory = model.encode(source, mask)

    order = [list(range(n)) + list(range(n, max(LENGTHS))) for n in LENGTHS]
    if reading == "backward":
        order = [list(reversed(range(n))) + list(range(n, max(LENGTHS))) for n in LENGTHS]
    index = torch.tensor(order)
    embedded = model.source_embedding.weight.detach()[source.gather(1, index)]
    packed = pack_padded_sequence(embedded, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False)
    out, final = theirs(packed)
    states = pad_packed_sequence(out, batch_first=True)[0]
    states = states.gather(1, index[:, :, None].expand_as(states))
    assert_close(memory.states, states)
    parts = final if cell == "lstm" else (final,)
    directions = 2 if reading == "both" else 1
    for place, part in enumerate(parts):  # (layers * directions, batch, size)
        expected = part.unflatten(0, (layers, directions)).transpose(1, 2)
        assert_close(torch.stack([state[place] for state in memory.final]), expected)

    weights = torch.randn(states.shape, generator=torch.Generator().manual_seed(2))
    (memory.states * weights).sum().backward()
    (states * weights).sum().backward()
    for number in range(layers):
        ours = model.get_submodule(f"encoder.{number}.rnn")
        for name, parameter in ours.named_parameters():
            assert_close(parameter.grad, theirs.get_parameter(name.replace("l0", f"l{number}")).grad)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_the_bottleneck_s_decoder_is_torch_s_from_the_final_state(cell: str) -> None:
    model = model_of(2, cell=cell, reading="forward", attention="none", readout="state")
    kind = {"lstm": nn.LSTM, "gru": nn.GRU}[cell]
    theirs = kind(10, 12, num_layers=2, batch_first=True)
    theirs.load_state_dict(
        {
            name.replace("rnn.", "").split(".", 1)[1].replace("l0", f"l{name.split('.')[0]}"): tensor
            for name, tensor in model.decoder.state_dict().items()
        }
    )
    source, mask = batch()
    memory = model.encode(source, mask)
    target = torch.randint(4, VOCABULARY, (4, 6), generator=torch.Generator().manual_seed(3))
    parts = [torch.stack([state[place][:, 0] for state in memory.final]) for place in range(len(memory.final[0]))]
    start = (parts[0], parts[1]) if cell == "lstm" else parts[0]
    out, _ = theirs(model.target_embedding(target), start)
    assert_close(model.decode(memory, target), out @ model.get_parameter("readout.map.weight").T)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def lstm(x: Array, h: Array, c: Array, p: dict[str, Array]) -> tuple[Array, Array]:
    """LSTM cell (Hochreiter & Schmidhuber 1997, with forget gates) of one vector; gates in torch's order i, f, g, o."""
    gates = p["weight_ih_l0"] @ x + p["bias_ih_l0"] + p["weight_hh_l0"] @ h + p["bias_hh_l0"]
    i, f, g, o = np.split(gates, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru(x: Array, h: Array, p: dict[str, Array]) -> Array:
    """GRU cell (Cho et al. 2014) in torch's form, whose reset gate multiplies the product with the state."""
    (ri, zi, ni), (rh, zh, nh) = (
        np.split(p[f"weight_{side}_l0"] @ value + p[f"bias_{side}_l0"], 3) for side, value in (("ih", x), ("hh", h))
    )
    z = sigmoid(zi + zh)
    return (1 - z) * np.tanh(ni + sigmoid(ri + rh) * nh) + z * h


def parameters(model: nn.Module, prefix: str) -> dict[str, Array]:
    found = {name: p.detach().numpy() for name, p in model.named_parameters() if name.startswith(prefix)}
    return {name.removeprefix(prefix): array for name, array in found.items()}


def decoded(model: RecurrentSeq2Seq) -> tuple[RecurrentMemory, Tensor, Array, Array]:
    """Encode the batch and decode a target; return memory, target, hidden states and attention weights."""
    source, mask = batch()
    target = torch.randint(4, VOCABULARY, (4, 6), generator=torch.Generator().manual_seed(3))
    with recording(model) as records:
        memory = model.encode(source, mask)
        hidden = model.decode(memory, target)
    (weights,) = records.weights["cross_attention"]
    return memory, target, hidden.detach().numpy(), weights.numpy()


def test_bahdanau_s_decoder_equals_its_formulas() -> None:
    """Appendix A, sentence by sentence and step by step in float64, without padding."""
    model = model_of(1, torch.float64)
    memory, target, hidden, recorded = decoded(model)
    cell, all_of = parameters(model, "decoder.0.rnn."), parameters(model, "")
    for row, length in enumerate(LENGTHS):
        h = memory.states[row, :length].detach().numpy()  # annotations [forward; backward]
        # s_0 = tanh(W_s h←_1)
        s = np.tanh(all_of["bridges.0.maps.0.weight"] @ h[0, 12:] + all_of["bridges.0.maps.0.bias"])
        for i, token in enumerate(target[row].tolist()):
            y = all_of["source_embedding.weight"][token]
            hidden_layer = np.tanh(
                all_of["cross_attention.query.weight"] @ s + h @ all_of["cross_attention.key.weight"].T
            )
            a = softmax(hidden_layer @ all_of["cross_attention.score.weight"][0])
            c = a @ h
            s = gru(np.concatenate([y, c]), s, cell)
            t = all_of["readout.map.weight"] @ np.concatenate([s, y, c]) + all_of["readout.map.bias"]
            expected = np.array([max(t[2 * k], t[2 * k + 1]) for k in range(10)])
            np.testing.assert_allclose(recorded[row, 0, i, :length], a, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(hidden[row, i], expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("input_feeding", [True, False])
def test_luong_s_decoder_equals_its_formulas(input_feeding: bool) -> None:
    """Section 3 with the score "general", two layers, one direction, in float64."""
    options = {"attention": "multiplicative", "query": "current", "readout": "tanh", "reading": "forward"}
    model = model_of(2, torch.float64, cell="lstm", input_feeding=input_feeding, **options)
    memory, target, hidden, recorded = decoded(model)
    cells = [parameters(model, f"decoder.{number}.rnn.") for number in range(2)]
    all_of = parameters(model, "")
    for row, length in enumerate(LENGTHS):
        source = memory.states[row, :length].detach().numpy()
        states = [tuple(part[row, 0].detach().numpy() for part in parts) for parts in memory.final]
        fed = np.zeros(10)
        for i, token in enumerate(target[row].tolist()):
            x = all_of["source_embedding.weight"][token]
            x = np.concatenate([x, fed]) if input_feeding else x
            for number in range(2):
                states[number] = lstm(x, *states[number], cells[number])
                x = states[number][0]
            a = softmax(np.array([x @ all_of["cross_attention.key.weight"] @ h for h in source]))
            fed = np.tanh(all_of["readout.map.weight"] @ np.concatenate([a @ source, x]))
            np.testing.assert_allclose(recorded[row, 0, i, :length], a, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(hidden[row, i], fed, rtol=1e-9, atol=1e-10)


def test_gnmt_equals_its_formulas() -> None:
    """Section 3 and figure 1: four layers, the first bidirectional, residual from the third, context in all layers."""
    model = model_of(4, torch.float64, cell="lstm", reading="both-first", residual=True, readout="state")
    source, mask = batch()
    memory, target, hidden, _ = decoded(model)
    cells = [parameters(model, f"decoder.{number}.rnn.") for number in range(4)]
    encoder = [parameters(model, f"encoder.{number}.rnn.") for number in range(4)]
    all_of = parameters(model, "")
    for row, length in enumerate(LENGTHS):
        x = all_of["source_embedding.weight"][source[row, :length].numpy()]
        states = []
        for number, p in enumerate(encoder):
            out, last = run_lstm(x, p)
            if number == 0:
                back, last = run_lstm(x[::-1], {k.removesuffix("_reverse"): v for k, v in p.items() if "reverse" in k})
                out = np.concatenate([out, back[::-1]], axis=1)
                maps = [(all_of[f"bridges.0.maps.{k}.weight"], all_of[f"bridges.0.maps.{k}.bias"]) for k in (0, 1)]
                last = (np.tanh(maps[0][0] @ last[0] + maps[0][1]), maps[1][0] @ last[1] + maps[1][1])
            states.append(last)
            x = out + x if number >= 2 else out
        np.testing.assert_allclose(memory.states[row, :length].detach().numpy(), x, rtol=1e-9, atol=1e-10)
        for i, token in enumerate(target[row].tolist()):
            keys = x @ all_of["cross_attention.key.weight"].T
            query = all_of["cross_attention.query.weight"] @ states[0][0]  # previous state of the bottom layer
            a = softmax(np.tanh(query + keys) @ all_of["cross_attention.score.weight"][0])
            below = all_of["source_embedding.weight"][token]
            for number in range(4):
                states[number] = lstm(np.concatenate([below, a @ x]), *states[number], cells[number])
                below = states[number][0] + below if number >= 2 else states[number][0]
            expected = all_of["readout.map.weight"] @ below
            np.testing.assert_allclose(hidden[row, i], expected, rtol=1e-9, atol=1e-10)
    assert not mask.all()


def run_lstm(x: Array, p: dict[str, Array]) -> tuple[Array, tuple[Array, Array]]:
    h = c = np.zeros(12)
    out = []
    for vector in x:
        h, c = lstm(vector, h, c, p)
        out.append(h)
    return np.stack(out), (h, c)


@pytest.mark.parametrize("kind", ["additive", "multiplicative"])
def test_scores_equal_their_formula_in_float64(kind: str) -> None:
    torch.manual_seed(0)
    attention = {"additive": AdditiveAttention, "multiplicative": MultiplicativeAttention}[kind](6, 9).double()
    query, states = torch.randn(2, 3, 6).double(), torch.randn(2, 5, 9).double()
    mask = torch.tensor([[True] * 5, [True, False, True, False, False]])
    found = attention(query, attention.project_memory(states), states, mask).detach().numpy()
    p = parameters(attention, "")
    for b, i in np.ndindex(2, 3):
        s, seen = query[b, i].numpy(), states[b, mask[b]].numpy()
        if kind == "additive":
            scores = [p["score.weight"][0] @ np.tanh(p["query.weight"] @ s + p["key.weight"] @ h) for h in seen]
        else:
            scores = [s @ p["key.weight"] @ h for h in seen]
        np.testing.assert_allclose(found[b, i], softmax(np.array(scores)) @ seen, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", [AdditiveAttention, MultiplicativeAttention])
def test_nothing_to_attend_to_gives_zeros(kind: type[AdditiveAttention | MultiplicativeAttention]) -> None:
    attention = kind(6, 9)
    query, states = torch.randn(2, 3, 6), torch.randn(2, 5, 9)
    mask = torch.tensor([[True] * 5, [False] * 5])
    found = attention(query, attention.project_memory(states), states, mask)
    assert found[1].eq(0).all()
    assert found[0].ne(0).all()
