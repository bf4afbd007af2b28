"""Making a graph runnable: an order that keeps every read before later writes of the same bytes,
the operators called again for the device at hand (kernels chosen, composed forms taken apart,
constants folded), and a native program made of that."""

from __future__ import annotations

import heapq
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from .. import dtypes
from .._native._core import (
    GraphRecorder,
    Port,
    Stream,
    SymInt,
    device_number,
    device_of,
    device_scope,
    plain_op,
    tracing_scope,
)
from ..device import Device
from ..errors import InvalidArgumentError
from .activations import ACTIVATIONS, IDENTITY
from .opcode import AFTER, IF, LOOP, MOVE, SCAN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .._native._graph import GraphStore as _Base
    from .model_graph import ModelGraph
else:
    _Base = object


class Program:
    """A finalized graph: the native plan and what it takes and gives."""

    def __init__(
        self,
        plan: Any,
        inputs: list[str],
        spans: dict[int, tuple[int, int]],
        bodies: dict[int, list[Program]],
    ) -> None:
        self.plan = plan
        self.inputs = inputs
        self.spans = spans  # node -> which nodes of the recording it became, [begin, end)
        self.bodies = bodies  # node -> the programs of its subgraphs

    def run(self, given: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
        if isinstance(given, dict):
            if given.keys() != set(self.inputs):
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
    _flights: list[None]

    def finalize(self: Any) -> None:
        """Makes the graph runnable: places it on its device, folds constants, drops what nothing
        reads, plans order and memory. A second call changes nothing.

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
        if self._flights:
            raise InvalidArgumentError(
                "to: a run is in flight; call to() after it returned", "FAILED_PRECONDITION"
            )
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
        self._flights.append(None)  # appending and popping are whole steps for every thread
        try:
            found: list[Any] = program.run(inputs)
        finally:
            self._flights.pop()
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


class Schedule:
    """An order of the nodes in which each comes after what it reads, and every read of bytes before
    a later write to them. Where no order does both, ``kept[node]`` are the states of bytes that
    have to be copied before the node writes."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.order: list[int] = graph.node_ids()
        self.kept: dict[int, list[int]] = {}
        self._states: dict[int, int] = {}
        writers = {
            node: [value for value in graph.results(node) if graph.meta(value)[5]]
            for node in self.order
        }
        writers = {node: values for node, values in writers.items() if values}
        if writers:
            self._arrange(writers)

    def state(self, value: int) -> int:
        """What the bytes of a value hold: the value of the last write that it has seen, or the
        value that they were made as."""
        graph = self.graph
        path = []
        while value not in self._states:
            path.append(value)
            alias, write = graph.meta(value)[4:6]
            if write or alias < 0:
                self._states[value] = value
                break
            node = graph.producer_id(value)[0]
            value = graph.ports(node)[1] if node >= 0 and graph.op(node) == AFTER else alias
        for item in path:
            self._states[item] = self._states[value]
        return self._states[value]

    def _arrange(self, writers: dict[int, list[int]]) -> None:
        graph, ids = self.graph, self.order
        place = {node: at for at, node in enumerate(ids)}
        needs: dict[int, set[int]] = {}
        readers: dict[int, set[int]] = {}
        for node in ids:
            producers = (graph.producer_id(value)[0] for value in graph.ports(node))
            needs[node] = {producer for producer in producers if producer >= 0}
            if graph.op(node) != AFTER:
                for value in graph.ports(node):
                    readers.setdefault(self.state(value), set()).add(node)
        returned = {self.state(value) for _, value in graph.output_list()}
        waits: dict[int, set[int]] = {}
        for node, values in writers.items():
            for value in values:
                before = self.state(graph.meta(value)[4])
                waits.setdefault(node, set()).update(readers.get(before, set()) - {node})
                if before in returned:  # what an edit made: the run gives it after the write
                    self.kept.setdefault(node, []).append(before)
        left = {node: len(needs[node] | waits.get(node, set())) for node in ids}
        blocks: dict[int, list[int]] = {}
        for node in ids:
            for other in needs[node] | waits.get(node, set()):
                blocks.setdefault(other, []).append(node)
        ready = [place[node] for node in ids if not left[node]]
        heapq.heapify(ready)
        order: list[int] = []
        done: set[int] = set()
        while len(order) < len(ids):
            if not ready:
                # Only reads of older bytes hold a writer back: it goes on, and they get a copy.
                node = next(n for n in ids if n in writers and n not in done and needs[n] <= done)
                self.kept.setdefault(node, []).extend(
                    self.state(graph.meta(value)[4]) for value in writers[node]
                )
                heapq.heappush(ready, place[node])
            node = ids[heapq.heappop(ready)]
            if node in done:
                continue
            done.add(node)
            order.append(node)
            for other in blocks.get(node, ()):
                left[other] -= 1
                if left[other] == 0 and other not in done:
                    heapq.heappush(ready, place[other])
        self.order = order


class _Lowering:
    """Calls the operators of a graph again, on a recorder that binds kernels."""

    def __init__(self, graph: ModelGraph, body: bool = False) -> None:
        self.graph = graph
        self.body = body
        self.recorder: Any = GraphRecorder()
        self.recorder.share_sizes(graph._tracer)
        self.device = graph._placed
        self.values: dict[int, Any] = {}  # value -> tensor of the recorder, or a concrete one
        self.bodies: dict[int, list[Program]] = {}

    def place(self, number: int) -> Any:
        """The device of a value, unless the graph is placed as a whole."""
        found = self.device if self.device is not None else device_of(number)
        if device_number(found) < 0:
            raise InvalidArgumentError(
                f"finalize: a graph does not run on device {found}; name another one with to()"
            )
        return found

    def constant(self, value: int) -> Any:
        tensor = self.graph._constants[value]
        if self.graph.root_id(value) in self.written:
            return self.recorder.state(tensor)
        return tensor.to(self.place(self.graph.meta(value)[2]))

    def run(self) -> Program:
        graph = self.graph
        self.schedule = Schedule(graph)
        self.needed = _needed(graph)
        self.written = _written_roots(graph)
        names = []
        spans: dict[int, tuple[int, int]] = {}
        for node in graph.input_ids():
            (value,) = graph.results(node)
            dtype, _, device, shape, _, _ = graph.meta(value)
            names.append(graph.node_name(node))
            self.values[value] = self.recorder.input(
                names[-1],
                tuple(self.recorder.size(size) for size in shape),
                dtypes.by_code(dtype),
                self.place(device),
            )
        # Factories make their tensors on the graph's device.
        with device_scope(self.device) if self.device else nullcontext():
            for node in self.schedule.order:
                if graph.op(node) and node in self.needed:
                    begin = self.recorder.node_count()
                    self.node(node)
                    spans[node] = (begin, self.recorder.node_count())
        plan = self.recorder.compile([self.returned(value) for _, value in graph.output_list()])
        return Program(plan, names, spans, self.bodies)

    def keep(self, states: list[int]) -> None:
        """Copies what older versions show before a write goes over it: their later readers get
        the copies."""
        for value in self.graph.alive_values():
            if self.schedule.state(value) not in states:
                continue
            if value in self.values or value in self.graph._constants:
                self.values[value] = self.recorder.apply(
                    plain_op("copy"), [self.traced(self.of(value))]
                )

    def of(self, value: int) -> Any:
        found = self.values.get(value)
        if found is None:
            found = self.values[value] = self.constant(value)
        return found

    def returned(self, value: int) -> Any:
        """A value as an output. What was computed here, once, each run gives bytes of its own; a
        body gives what has no gaps."""
        found = self.of(value)
        folded = not found.is_traced and self.graph.root_id(value) not in self.graph._constants
        if folded or self.body and not found.is_contiguous():
            found = self.recorder.apply(plain_op("copy"), [self.traced(found)])
            self.values[value] = found
        return found

    def node(self, node: int) -> None:
        graph = self.graph
        op = graph.op(node)
        inputs = [self.of(value) for value in graph.ports(node)]
        if node in self.schedule.kept:
            self.keep(self.schedule.kept[node])
        if op == AFTER:
            self.values[graph.results(node)[0]] = inputs[0]
            return
        if op == MOVE:
            (value,) = graph.results(node)
            self.values[value] = self.recorder.move(inputs[0], self.place(graph.meta(value)[2]))
            return
        if op in (IF, LOOP, SCAN):
            self.control(node, op, inputs)
            return
        arguments = [self.argument(value, inputs) for value in graph._calls[node]]
        fold = not any(graph.root_id(value) in self.written for value in graph.results(node))
        made = self.recorder.apply(plain_op(op), arguments, fold)
        made = made if isinstance(made, tuple) else (made,)
        if node in graph._extras:
            made = (self.finished(made[0], graph._extras[node], inputs), *made[1:])
        for value, result in zip(graph.results(node), made, strict=True):
            self.values[value] = result

    def finished(self, result: Any, extras: dict[str, Any], inputs: list[Any]) -> Any:
        """A node's result with the bias and the activation that it carries."""
        if "bias" in extras:
            add = [result, inputs[extras["bias"]], 1]
            result = self.recorder.apply(plain_op("add"), add)
        name = extras.get("activation", IDENTITY)
        if name != IDENTITY:
            op, settings = ACTIVATIONS[name]
            result = self.recorder.apply(plain_op(op), [result, *settings.values()])
        return result

    def control(self, node: int, op: str, inputs: list[Any]) -> None:
        """If, Loop, Scan: the bodies become programs that run inside this one."""
        graph = self.graph
        facts = graph._extras[node]
        given: list[Any] = [
            None if port is None else self.traced(inputs[port]) for port in graph._calls[node]
        ]
        bodies = self.bodies[node] = []
        for body in graph._bodies[node]:
            if self.device is not None:
                body._placed = self.device
            bodies.append(_Lowering(body, body=True).run())
        metas = [graph.meta(value) for value in graph.results(node)]
        made = self.recorder.control(
            op,
            given,
            [body.plan for body in bodies],
            facts.get("carried", 0),
            facts.get("scanned", 0),
            [
                (
                    dtypes.by_code(meta[0]),
                    tuple(self.recorder.size(size) for size in meta[3]),
                    self.place(meta[2]),
                )
                for meta in metas
            ],
        )
        for value, result in zip(graph.results(node), made, strict=True):
            self.values[value] = result

    def traced(self, tensor: Any) -> Any:
        """A concrete tensor as a constant of the recording."""
        return tensor if tensor.is_traced else self.recorder.constant(tensor)

    def argument(self, value: Any, inputs: list[Any]) -> Any:
        if isinstance(value, Port):
            return inputs[value]
        if isinstance(value, SymInt):
            return self.recorder.size(self.graph._tracer.encoded(value))
        if isinstance(value, (list, tuple)):
            return type(value)([self.argument(item, inputs) for item in value])
        return value


def _needed(graph: Any) -> set[int]:
    """Nodes that the outputs need, and writes to what was there before the run."""
    work = [graph.producer_id(value)[0] for _, value in graph.output_list()]
    for node in graph.node_ids():
        for value in graph.results(node):
            if graph.meta(value)[5]:
                root = graph.root_id(value)
                producer = graph.producer_id(root)[0]
                if producer < 0 or not graph.op(producer):
                    work.append(node)
    return _behind(graph, work)


def _behind(graph: Any, work: list[int]) -> set[int]:
    """These nodes and all that they depend on; -1, the producer of a constant, is none."""
    needed: set[int] = set()
    while work:
        node = work.pop()
        if node >= 0 and node not in needed:
            needed.add(node)
            work.extend(graph.producer_id(value)[0] for value in graph.ports(node))
    return needed


def _written_roots(graph: Any) -> set[int]:
    """Values whose bytes a node writes, also through a view."""
    results = (value for node in graph.node_ids() for value in graph.results(node))
    return {graph.root_id(value) for value in results if graph.meta(value)[5]}


def evaluate(graph: Any, values: list[int]) -> list[Any]:
    """The tensors of values that depend on no input."""
    needed = _behind(graph, [graph.producer_id(value)[0] for value in values])
    with tracing_scope(None):
        lowering = _Lowering(graph)
        lowering.schedule, lowering.written = Schedule(graph), set()
        for node in lowering.schedule.order:
            if node in needed:
                lowering.node(node)
        return [lowering.of(value) for value in values]


def compile_graph(graph: ModelGraph) -> Program:
    """The program of a graph as it stands."""
    with tracing_scope(None):
        return _Lowering(graph).run()
