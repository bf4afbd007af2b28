"""Making a graph runnable: an order that keeps every read before later writes of the same bytes,
the operators called again for the device at hand (kernels chosen, composed forms taken apart,
constants folded), and a native program made of that."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from .._native._core import GraphRecorder, Port, Stream, SymInt, Tensor, tracing_scope
from ..device import Device
from ..errors import InvalidArgumentError, UnsupportedError
from .opcode import AFTER, CUSTOM, IF, LOOP, MOVE, SCAN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .._native._graph import GraphStore as _Base
    from .model_graph import ModelGraph
else:
    _Base = object

# A constant result is kept where it needs not much more room than what it is made of.
FOLD_BYTES = 1 << 20


class Program:
    """A finalized graph: the native plan and what it takes and gives."""

    def __init__(
        self, graph: ModelGraph, plan: Any, inputs: list[str], devices: list[Device]
    ) -> None:
        self.plan = plan
        self.inputs = inputs
        self.devices = devices
        self.outputs = graph.output_names()

    def run(self, given: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
        if isinstance(given, dict):
            missing = [name for name in self.inputs if name not in given]
            unknown = [name for name in given if name not in self.inputs]
            if missing or unknown:
                raise InvalidArgumentError(
                    f"run: the graph's inputs are {self.inputs}, got {list(given)}"
                )
            given = [given[name] for name in self.inputs]
        if not isinstance(given, (list, tuple)):
            raise TypeError(
                f"run: takes a list of tensors or a dict by input name, got {type(given).__name__}"
            )
        if len(given) != len(self.inputs):
            raise InvalidArgumentError(
                f"run: the graph takes {len(self.inputs)} inputs {self.inputs}, got {len(given)}"
            )
        result: list[Any] = self.plan.run(given)
        return result


class Finalizing(_Base):
    """`finalize`, `to` and `run` of a `ModelGraph`."""

    name: str
    _program: Any
    _placed: Any
    _running: int

    def finalize(self: Any) -> None:
        """Makes the graph runnable: places it on its device, packs weights, folds constants, drops
        what nothing reads, plans order and memory. A second call changes nothing.

        Raises `InvalidArgumentError` (``FAILED_PRECONDITION``) inside a transform, and what an
        operator without a kernel on the device is refused with.
        """
        self._check_whole("finalize")
        if self._program is None:
            self._check_idle("finalize")
            self._program = compile_graph(self)

    def to(self: Any, where: Any) -> Any:
        """Places the graph on a device or a stream: at `finalize`, or at once when it is finalized.
        Gives the graph."""
        self._check_whole("to")
        self._check_idle("to")
        device = where.device if isinstance(where, Stream) else Device(where)
        if self._placed == device:
            return self
        before = self._placed
        self._placed = device
        if self._program is not None:
            try:
                self._program = compile_graph(self)
            except BaseException:
                self._placed = before
                raise
        return self

    def run(self: Any, inputs: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
        """Runs the graph over ``inputs``: a list in the order of `input_names`, or a dict by name.
        Gives the outputs in the order of `output_names`.

        Raises `InvalidArgumentError` (``FAILED_PRECONDITION``) before `finalize`.
        """
        program = self._program
        if program is None:
            self._check_whole("run")
            raise InvalidArgumentError(
                "run: the graph is not finalized; call finalize() first", "FAILED_PRECONDITION"
            )
        found: list[Any] = program.run(inputs)
        return found

    def stats(self: Any) -> dict[str, int]:
        """Facts of the finalized program: instructions, bytes of its arena and their lower bound,
        runs, changes of sizes."""
        if self._program is None:
            raise InvalidArgumentError(
                "stats: the graph is not finalized; call finalize() first", "FAILED_PRECONDITION"
            )
        found: dict[str, int] = self._program.plan.stats()
        return found


def schedule(graph: Any) -> tuple[list[int], dict[int, list[int]]]:
    """An order of the nodes in which each comes after what it reads, and every read of bytes before
    a later write to them. Where no order does both, bytes are kept aside: ``kept[node]`` are roots
    to copy before the node writes."""
    ids = graph.node_ids()
    writers = [node for node in ids if any(graph.meta(value)[5] for value in graph.results(node))]
    if not writers:
        return ids, {}
    place = {node: at for at, node in enumerate(ids)}

    # The bytes a value stands for: (root, the last write that it has seen).
    seen: dict[int, tuple[int, int]] = {}

    def token(value: int) -> tuple[int, int]:
        path = []
        while value not in seen:
            path.append(value)
            alias, write = graph.meta(value)[4:6]
            if write or alias < 0:
                root = value
                while graph.meta(root)[4] >= 0:
                    root = graph.meta(root)[4]
                seen[value] = (root, value if write else root)
                break
            node = graph.producer_id(value)[0]
            if node >= 0 and graph.op(node) == AFTER:
                seen[value] = token(graph.ports(node)[1])
                break
            value = alias
        for item in path:
            seen[item] = seen[value]
        return seen[path[-1]] if path else seen[value]

    readers: dict[tuple[int, int], list[int]] = {}
    for node in ids:
        for value in graph.ports(node):
            readers.setdefault(token(value), []).append(node)
    waits: dict[int, set[int]] = {node: set() for node in ids}
    needs: dict[int, set[int]] = {node: set() for node in ids}
    for node in ids:
        for value in graph.ports(node):
            producer = graph.producer_id(value)[0]
            if producer >= 0:
                needs[node].add(producer)
    overwrites: dict[int, list[tuple[int, int]]] = {}
    for node in writers:
        for value in graph.results(node):
            alias, write = graph.meta(value)[4:6]
            if write:
                before = token(alias)
                overwrites.setdefault(node, []).append(before)
                waits[node].update(
                    reader
                    for reader in readers.get(before, ())
                    if reader != node and graph.op(reader) != AFTER
                )
    order: list[int] = []
    done: set[int] = set()
    kept: dict[int, list[int]] = {}
    blocks: dict[int, list[int]] = {}
    left = {}
    for node in ids:
        pending = needs[node] | waits[node]
        left[node] = len(pending)
        for other in pending:
            blocks.setdefault(other, []).append(node)
    ready = [place[node] for node in ids if not left[node]]
    heapq.heapify(ready)
    while len(order) < len(ids):
        if not ready:
            # Only reads of older bytes hold a writer back: it goes on, and they get a copy.
            node = next(
                node for node in ids if node not in done and not needs[node] - done and waits[node]
            )
            for before in overwrites[node]:
                kept.setdefault(node, []).append(before[1])
            heapq.heappush(ready, place[node])
            left[node] = 0
        node = ids[heapq.heappop(ready)]
        if node in done:
            continue
        done.add(node)
        order.append(node)
        for other in blocks.get(node, ()):
            left[other] -= 1
            if left[other] == 0 and other not in done:
                heapq.heappush(ready, place[other])
    return order, kept


class _Lowering:
    """Calls the operators of a graph again, on a recorder that binds kernels."""

    def __init__(self, graph: ModelGraph) -> None:
        self.graph = graph
        self.recorder: Any = GraphRecorder()
        self.recorder.share_sizes(graph._tracer)
        self.device = graph._placed
        self.values: dict[int, Any] = {}  # value -> tensor of the recorder, or a concrete one
        self.states = set(graph._states.values())

    def place(self, number: int) -> Any:
        """The device of a value, unless the graph is placed as a whole."""
        from .model_graph import _device

        return self.device if self.device is not None else _device(number)

    def constant(self, value: int) -> Any:
        tensor = self.graph._constants[value]
        if value in self.written:
            return self.recorder.state(tensor)
        return (
            tensor
            if tensor.device == self.place(self.graph.meta(value)[2])
            else tensor.to(self.place(self.graph.meta(value)[2]))
        )

    def run(self) -> Program:
        graph = self.graph
        order, kept = schedule(graph)
        self.needed = _needed(graph)
        self.written = _written_constants(graph)
        names, devices = [], []
        for node in graph.input_ids():
            (value,) = graph.results(node)
            dtype, _, device, shape, _, _ = graph.meta(value)
            from .model_graph import _DTYPES

            names.append(graph.node_name(node))
            devices.append(self.place(device))
            self.values[value] = self.recorder.input(
                names[-1],
                tuple(self.recorder.size(size) for size in shape),
                _DTYPES[dtype],
                devices[-1],
            )
        for node in order:
            if graph.op(node) and node in self.needed:
                for value in kept.get(node, ()):
                    raise UnsupportedError(
                        f"finalize: '{graph.node_name(node)}' writes to bytes of "
                        f"'{graph.value_name(value)}' that are read afterwards"
                    )
                self.node(node)
        results = []
        for name, value in graph.output_list():
            results.append(self.of(value))
            del name
        plan = self.recorder.compile(results)
        return Program(graph, plan, names, devices)

    def of(self, value: int) -> Any:
        found = self.values.get(value)
        if found is None:
            found = self.values[value] = self.constant(value)
        return found

    def node(self, node: int) -> None:
        graph = self.graph
        op = graph.op(node)
        inputs = [self.of(value) for value in graph.ports(node)]
        if op == AFTER:
            self.values[graph.results(node)[0]] = inputs[0]
            return
        if op == MOVE:
            raise UnsupportedError("finalize: a graph on several devices cannot run yet")
        if op in (IF, LOOP, SCAN, CUSTOM):
            raise UnsupportedError(f"finalize: '{graph.node_name(node)}' cannot run yet")
        arguments = [self.argument(value, inputs) for value in graph._calls[node]]
        made = self.recorder.apply(getattr_op(op), arguments)
        made = made if isinstance(made, tuple) else (made,)
        for value, result in zip(graph.results(node), made, strict=True):
            self.values[value] = result

    def argument(self, value: Any, inputs: list[Any]) -> Any:
        if isinstance(value, Port):
            return inputs[value]
        if isinstance(value, SymInt):
            return self.recorder.size(self.graph._tracer.encoded(value))
        if isinstance(value, (list, tuple)):
            return type(value)([self.argument(item, inputs) for item in value])
        return value


def getattr_op(name: str) -> Any:
    """The plain callable of a record, without what stands before it."""
    from .._native._core import plain_op

    return plain_op(name)


def _needed(graph: Any) -> set[int]:
    """Nodes that the outputs or writes to captured tensors need."""
    work = [graph.producer_id(value)[0] for _, value in graph.output_list()]
    needed: set[int] = set()
    while work:
        node = work.pop()
        if node < 0 or node in needed:
            continue
        needed.add(node)
        work.extend(graph.producer_id(value)[0] for value in graph.ports(node))
    return needed


def _written_constants(graph: Any) -> set[int]:
    """Constants whose bytes a node writes, and constants that share those bytes."""
    roots = set()
    for node in graph.node_ids():
        for value in graph.results(node):
            if graph.meta(value)[5]:
                root = value
                while graph.meta(root)[4] >= 0:
                    root = graph.meta(root)[4]
                roots.add(root)
    found = set()
    for value in graph._constants:
        root = value
        while graph.meta(root)[4] >= 0:
            root = graph.meta(root)[4]
        if root in roots:
            found.add(value)
    return found


def compile_graph(graph: ModelGraph) -> Program:
    """The program of a graph as it stands."""
    with tracing_scope(None):
        return _Lowering(graph).run()


def is_concrete(value: Any) -> bool:
    """A tensor with bytes: what is made of nothing else is folded."""
    return isinstance(value, Tensor) and not value.is_traced
