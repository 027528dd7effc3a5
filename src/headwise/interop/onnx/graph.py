"""Construction of an ONNX graph, node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from headwise import __version__

# ONNX Runtime 1.17 and newer read these versions; operator set 20 is the first that has Gelu.
_OPERATOR_SET = 20
_FORMAT = 9

# The name of a value, or a constant: a scalar, a vector of whole numbers, or a tensor.
Value: TypeAlias = str | int | float | Sequence[int] | Tensor


class Graph:
    """A graph under construction; a value is named by a string."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, dtype: str, shape: Sequence[int | str]) -> str:
        """Declare an input, with `dtype` such as INT64 and names for the sizes that vary."""
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.DataType.Value(dtype), shape))
        return name

    def output(self, value: str, name: str, shape: Sequence[int | str]) -> str:
        """Make a value in float32, which no node has used yet, an output of this name; return the name."""
        assert not any(value in node.input for node in self._nodes), value
        producer = next(node for node in self._nodes if value in node.output)
        producer.output[list(producer.output).index(value)] = name
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def constant(self, value: int | float | Sequence[int] | Tensor, name: str | None = None) -> str:
        """Store a constant; equal numbers and vectors are stored once, a tensor each time."""
        if isinstance(value, Tensor):
            name = name or f"tensor_{len(self._constants)}"
            array = value.detach().contiguous().numpy()
        else:
            name = f"{type(value).__name__}_{value}".replace(" ", "")
            array = np.asarray(value, np.float32 if isinstance(value, float) else np.int64)
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(array, name)
        return name

    def op(self, kind: str, *inputs: Value, **attributes: Any) -> str:
        """Add a node with one output, and return its name."""
        return self.ops(kind, 1, *inputs, **attributes)[0]

    def ops(self, kind: str, outputs: int, *inputs: Value, **attributes: Any) -> list[str]:
        """Add a node with several outputs, and return their names."""
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        node = f"{kind}_{len(self._nodes)}"
        results = [node] if outputs == 1 else [f"{node}.{number}" for number in range(outputs)]
        self._nodes.append(helper.make_node(kind, names, results, node, **attributes))
        return results

    def model(self, description: str) -> onnx.ModelProto:
        """Return the graph as a model."""
        graph = helper.make_graph(
            self._nodes, self._name, self._inputs, self._outputs, [*self._constants.values()], description
        )
        imports = [helper.make_operatorsetid("", _OPERATOR_SET)]
        return helper.make_model(
            graph,
            opset_imports=imports,
            ir_version=_FORMAT,
            producer_name="headwise",
            producer_version=__version__,
        )
