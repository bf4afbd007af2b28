"""`ModelGraph`: a traced or compiled model as a graph of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from .. import dtypes, ops
from .._native import _graph
from .._native._core import Port, SymInt, Tensor, Tracer, device_number, device_of
from ..device import Device
from ..errors import InvalidArgumentError
from .activations import CARRIERS, IDENTITY
from .drawing import Drawing, table
from .edits import Edits
from .lowering import Finalizing, evaluate
from .opcode import NodeKind, op_code, spelled
from .optimize import Optimizing
from .profiling import Profiling
from .queries import Queries
from .saving import Saving
from .spec import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_graph.set_enumerations(op_code, (NodeKind.Input, NodeKind.Operator))


class ModelGraph(
    Queries, Edits, Optimizing, Finalizing, Saving, Drawing, Profiling, _graph.GraphStore
):
    """A graph of operators: read it with queries, change it with edits and `optimize`, make it
    runnable with `finalize`, run it with `run`.

    `clika_runtime.trace` and the readers of model files make one. It comes as it was recorded:
    every operator as written, nothing optimized, placed or finalized.

    >>> import clika_runtime as crt
    >>> graph = crt.trace(lambda x: [crt.relu(x[0])], [crt.TensorSpec("x", crt.float32, [2])]).graph
    >>> [node.name for node in graph.nodes()]
    ['x', 'Relu_1']
    """

    def __init__(self, name: str = "graph") -> None:
        if hasattr(self, "_tracer"):
            raise TypeError("ModelGraph: the graph is made; make another one")
        super().__init__()
        self.name = name
        self._tracer: Any = Tracer(self)
        self._calls: dict[int, list[Any]] = {}  # node -> the operator's arguments
        self._constants: dict[int, Tensor] = {}  # value -> its tensor
        self._bodies: dict[int, tuple[ModelGraph, ...]] = {}  # node -> subgraphs
        self._extras: dict[int, dict[str, Any]] = {}  # node -> attributes beside the operator's
        self._pinned: dict[str, int] = {}  # symbol -> the size it was traced or read with
        self._states: dict[int, int] = {}  # value of an output -> constant that runs rewrite
        self._operators = 0  # ever made: the number in the next name
        self._placed: Any = None  # where `to` wants it
        self._program: Any = None  # once finalized
        self._flights: list[None] = []  # one entry per run under way

    # ---------------------------------------------------------- facts
    def input_names(self) -> list[str]:
        """The names of the inputs, in the order `run` takes them."""
        return [self.node_name(node) for node in self.input_ids()]

    def output_names(self) -> list[str]:
        """The names of the outputs, in the order `run` gives them."""
        return [name for name, _ in self.output_list()]

    def inputs(self) -> list[tuple[str, Any, list[int]]]:
        """(name, dtype, dims) of each input; a dynamic dim is -1."""
        return [
            (spec.name, spec.dtype, list(spec.dims))
            for spec in (self._spec(self.results(node)[0]) for node in self.input_ids())
        ]

    def outputs(self) -> list[tuple[str, Any, list[int]]]:
        """(name, dtype, dims) of each output; a dynamic dim is -1."""
        found = []
        for name, value in self.output_list():
            spec = self._spec(value)
            found.append((name, spec.dtype, list(spec.dims)))
        return found

    def constants(self) -> list[Any]:
        """The values that hold tensors of the graph's own: weights, buffers, numbers."""
        return [self.value_view(value) for value in self._constants if self.value_is_alive(value)]

    def is_finalized(self) -> bool:
        """Whether `finalize` has made it runnable."""
        return self._program is not None

    @property
    def device(self) -> Device:
        """Where it serves: what `to` named, else where its operators sit."""
        if self._placed is not None:
            return Device(self._placed)
        for node in self.node_ids():
            for value in self.results(node):
                return Device(device_of(self.meta(value)[2]))
        return Device("cpu")

    def __repr__(self) -> str:
        return table(self)

    # ---------------------------------------------------------- what views ask
    def _attributes(self, node: int) -> dict[str, Any]:
        """Every argument of the operator that is no tensor of the graph, and the graph's own."""
        found: dict[str, Any] = {}
        if node in self._calls and self.op(node) in ops.RECORDS:
            for arg, value in zip(ops.record(self.op(node)).args, self._calls[node], strict=True):
                if isinstance(value, Port) or isinstance(value, list) and _ports(value):
                    continue
                if arg.kind == "tensor" and value is None:
                    continue
                if arg.type == "str" and arg.modes and value is None:
                    value = arg.default
                found[arg.name] = value
        if self.op(node) in CARRIERS:
            found["activation"] = IDENTITY
        extras = self._extras.get(node, {})
        found.update((name, value) for name, value in extras.items() if type(value) is not Port)
        return found

    def _shape(self, value: int) -> tuple[Any, ...]:
        return tuple(self._tracer.size(size) for size in self.meta(value)[3])

    def _spec(self, value: int) -> TensorSpec:
        dtype, _, _, _, _, _ = self.meta(value)
        dims = self._shape(value)
        return TensorSpec.exact(
            self.value_name(value),
            dtypes.by_code(dtype),
            [-1 if isinstance(size, SymInt) else size for size in dims],
            [repr(size) if isinstance(size, SymInt) else None for size in dims],
        )

    # ---------------------------------------------------------- what the tracer asks
    def _add_operator(
        self, op: str, call: list[Any], inputs: Sequence[int], results: Sequence[tuple[Any, ...]]
    ) -> list[int]:
        """A node under the next name; gives its values."""
        self._check_recording(op, inputs)
        self._operators += 1
        name = f"{spelled(op)}_{self._operators}"
        if self.node_id(name) >= 0:
            name = self.free_name(name)
        values = [self.add_value(*result) for result in results]
        self._calls[self.make_node(op, name, list(inputs), values)] = call
        return values

    def _add_constant(self, tensor: Tensor, shared: int = -1) -> int:
        """A value that holds a tensor; ``shared`` is an earlier constant over the same bytes."""
        number = len(self._constants) + 1
        while self.constant_id(f"constant_{number}") >= 0:
            number += 1
        value: int = self.add_value(
            tensor.dtype.code,
            tensor.scheme,
            device_number(tensor.device),
            tuple(tensor.shape),
            shared,
            False,
            f"constant_{number}",
        )
        self._constants[value] = tensor
        return value

    def _add_input(
        self,
        spec: TensorSpec,
        device: Any = None,
        bounds: Mapping[str, tuple[int, int]] | None = None,
    ) -> int:
        """An input node; gives its value."""
        shape = [self._tracer.encoded(size) for size in spec.symbolic(self._tracer, bounds)]
        value: int = self.add_value(spec.dtype.code, 0, device_number(device), tuple(shape))
        self.make_node("", spec.name, [], [value])
        return value

    def _evaluate(self, values: list[int]) -> list[Tensor]:
        """The tensors of values that depend on no input."""
        return evaluate(self, values)

    # ---------------------------------------------------------- states of the graph
    def _check_editable(self, call: str) -> None:
        """Edits need a graph that is whole and not finalized."""
        self._check_whole(call)
        if self._program is not None:
            self._refuse_finalized(call)

    def _refuse_finalized(self, call: str) -> NoReturn:
        if call == "optimize":
            raise InvalidArgumentError(
                "optimize: the graph is finalized; optimize() runs before finalize(), so compile "
                "or trace the model again to optimize it",
                "FAILED_PRECONDITION",
            )
        raise InvalidArgumentError(
            f"{call}: the graph is finalized; edits run before finalize(), so compile or trace "
            "the model again to edit it",
            "FAILED_PRECONDITION",
        )


def _ports(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(item, Port) for item in value)
