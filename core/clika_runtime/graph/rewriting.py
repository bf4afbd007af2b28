"""What the runtime's transforms are made of: rewrites of a graph by the numbers of its nodes and
values, each of which keeps the graph legal (`legal`), and the questions they ask first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import ops
from .._native._core import Port
from ..errors import NotFoundError
from ..ops.record import ELEMENTWISE
from .activations import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..ops.record import Record
    from .model_graph import ModelGraph
    from .optimize import DefaultsOptions

# Products, whose order of addition is one whatever the strides are, and what moves elements.
_STRIDE_BLIND = frozenset(
    "matmul linear conv1d conv2d conv_transpose1d conv_transpose2d max_pool1d max_pool2d cat stack "
    "copy pad".split()
)


class Rewriter:
    """One transform at work on one graph. ``memory`` is the transform's own, from one iteration to
    the next; ``written`` are the roots of bytes that some node writes: no rewrite moves a read or a
    result across them."""

    def __init__(
        self,
        graph: ModelGraph,
        writers: set[int],
        options: DefaultsOptions,
        converted: set[str | int],
        memory: dict[Any, Any],
    ) -> None:
        self.memory = memory
        self.graph = graph
        self.options = options
        self.converted = converted
        self._shared: set[int] | None = None  # constants over whose bytes there are others
        self.written = {
            self.root(value)
            for node in writers
            if graph.is_alive(node)
            for value in graph.results(node)
            if graph.meta(value)[5]
        }

    # ---------------------------------------------------------- questions
    def record(self, node: int) -> Record | None:
        """The record of a node's operator; None for inputs and nodes that are no operator."""
        op = self.graph.op(node)
        if not op or node not in self.graph._calls or node in self.graph._bodies:
            return None
        try:
            return ops.record(op)
        except NotFoundError:
            return None

    def has(self, node: int, trait: str) -> bool:
        """Whether the record of the node's operator has a trait."""
        found = self.record(node)
        return found is not None and trait in found.traits

    def producer(self, value: int) -> int:
        """The node that makes a value, -1 for a constant or an absent one."""
        return self.graph.producer_id(value)[0] if value >= 0 else -1

    def op(self, node: int) -> str:
        """The operator, "" for no node and for an input."""
        return self.graph.op(node) if node >= 0 else ""

    def is_plain(self, node: int) -> bool:
        """Whether the node computes its operator and nothing else."""
        extras = self.graph._extras.get(node)
        return not extras or all(value == IDENTITY for value in extras.values())

    def arguments(self, node: int) -> dict[str, Any]:
        """The operator's arguments by name; tensors as `Port`s, left-out modes as their default."""
        found = self.record(node)
        assert found is not None
        given = dict(zip((arg.name for arg in found.args), self.graph._calls[node], strict=True))
        for arg in found.args:
            if arg.modes and given[arg.name] is None:
                given[arg.name] = arg.default
        return given

    def read(self, node: int, argument: Any) -> int:
        """The value an argument stands for, -1 where it is no single tensor."""
        return self.graph.ports(node)[argument] if isinstance(argument, Port) else -1

    def number(self, node: int, argument: Any) -> float | int | bool | None:
        """The number that an argument is, or that a constant of one element holds."""
        if isinstance(argument, (bool, int, float)) and not isinstance(argument, Port):
            return argument
        value = self.read(node, argument)
        if value < 0 or self.producer(value) >= 0 or self.is_written(value):
            return None
        tensor = self.graph._constants[value]
        if tensor.numel() != 1 or self.graph.meta(value)[1]:
            return None
        found: float | int | bool = tensor.item()
        return found

    def root(self, value: int) -> int:
        """The value whose bytes a value shows."""
        alias = self.graph.meta(value)[4]
        while alias >= 0:
            value = alias
            alias = self.graph.meta(value)[4]
        return value

    def is_written(self, value: int) -> bool:
        """Whether some node writes the bytes of a value."""
        return bool(self.written) and self.root(value) in self.written

    def writes_outside(self, value: int) -> bool:
        """Whether a value is a write to the bytes of an input or a constant."""
        if not self.graph.meta(value)[5]:
            return False
        maker = self.producer(self.root(value))
        return maker < 0 or not self.graph.op(maker)

    def is_compact(self, value: int) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        return bool(self.graph._tracer.tensor(value).is_contiguous())

    def steps(self, value: int) -> tuple[Any, ...]:
        """The strides of a value, in elements."""
        return tuple(self.graph._tracer.tensor(value).stride())

    def ignores_strides(self, node: int) -> bool:
        """Whether a node gives the same bits, and no view, whatever the strides of its inputs are.
        A sum, say, does not: it adds in the order in which elements lie."""
        return self.has(node, ELEMENTWISE) or self.op(node) in _STRIDE_BLIND

    def is_output(self, value: int) -> bool:
        """Whether the graph returns a value."""
        return self.graph.is_output(value)

    def only_use(self, value: int) -> int:
        """The node that has the one read of a value; -1 where there are more, or it is returned."""
        if self.graph.use_count(value) != 1 or self.is_output(value):
            return -1
        return self.graph.use_list(value)[0][0]

    def same_kind(self, a: int, b: int) -> bool:
        """Whether two values have one dtype, scheme, device and shape."""
        return self.graph.meta(a)[:4] == self.graph.meta(b)[:4]

    def readers(self, node: int) -> Iterator[int]:
        """The nodes that read a node's results."""
        for value in self.graph.results(node):
            for reader, _ in self.graph.use_list(value):
                yield reader

    def may_stand_for(self, new: int, old: int) -> bool:
        """Whether ``new``, whose elements are those of ``old``, can be read in its place.

        Bytes that are written keep their reads. What the graph returns stays bytes of its own, that
        no input, constant or other output shares, unless it shared them before. Where their strides
        differ, nothing may depend on them: no output, and no reader but those of `ignores_strides`.
        """
        if not self.same_kind(new, old):
            return False
        if self.root(new) != self.root(old):
            if self.is_written(new) or self.is_written(old):
                return False
            returned = {self.root(value) for _, value in self.graph.output_list()}
            if self.root(old) in returned:
                root = self.root(new)
                maker = self.producer(root)
                if root in returned or maker < 0 or not self.graph.op(maker):
                    return False
        if self.steps(new) != self.steps(old):
            if self.is_output(old):
                return False
            if not all(self.ignores_strides(node) for node, _ in self.graph.use_list(old)):
                return False
        return True

    # ---------------------------------------------------------- rewrites
    def redirect(self, old: int, new: int) -> None:
        """Every read of ``old`` and every output that returns it take ``new``; then what only
        ``old`` needed goes."""
        self.move_uses(old, new)
        self.sweep(self.producer(old))

    def move_uses(self, old: int, new: int) -> None:
        """Every read of ``old`` and every output that returns it take ``new``."""
        graph = self.graph
        for node, port in graph.use_list(old):
            graph.set_port(node, port, new)
        if self.is_output(old):
            graph.set_output_list(
                (name, new if value == old else value) for name, value in graph.output_list()
            )

    def sweep(self, node: int) -> bool:
        """Drops an operator that nothing reads, and then each producer and constant that only it
        read. Inputs of the graph stay, and writes to what a run finds there. Says whether anything
        went."""
        graph = self.graph
        work = [node]
        dropped = False
        while work:
            node = work.pop()
            if node < 0 or not graph.is_alive(node) or not graph.op(node):
                continue
            if any(
                graph.use_count(value) or self.is_output(value) for value in graph.results(node)
            ):
                continue
            if any(self.writes_outside(value) for value in graph.results(node)):
                continue
            reads = [value for value in graph.ports(node) if value >= 0]
            graph.drop_node(node)
            dropped = True
            for value in reads:
                if self.producer(value) >= 0:
                    work.append(self.producer(value))
                else:
                    self.drop_constant(value)
        return dropped

    def drop_constant(self, value: int) -> bool:
        """Drops a constant that nothing reads, returns or shares bytes with."""
        graph = self.graph
        if not graph.value_is_alive(value) or graph.use_count(value) or self.is_output(value):
            return False
        if self._shared is None:
            self._shared = {
                graph.meta(other)[4] for other in graph._constants if graph.value_is_alive(other)
            } | set(graph._states.values())
        if value in self._shared:
            return False
        graph.drop_value(value)
        return True

    def remake(
        self,
        node: int,
        op: str,
        call: Sequence[Any],
        ports: Sequence[int],
        *,
        extras: dict[str, Any] | None = None,
        result_of: int | None = None,
        metas: Sequence[tuple[Any, ...]] | None = None,
        steps: Sequence[Sequence[int] | None] | None = None,
    ) -> int:
        """A node that takes the place and the name of ``node``: its results are those of
        ``result_of`` (the node itself by default), with other ``metas`` and ``steps`` (strides)
        where given. A view's result shares the bytes of its first port."""
        graph = self.graph
        name = graph.node_name(node)
        source = node if result_of is None else result_of
        reads = graph.ports(source)
        names = {}
        values = []
        for at, old in enumerate(graph.results(source)):
            dtype, scheme, device, shape, alias, write = graph.meta(old)
            if metas is not None:
                dtype, scheme, device, shape = metas[at]
            if alias >= 0:
                alias = ports[reads.index(alias)]
            value = graph.add_value(dtype, scheme, device, shape, alias, write)
            found = graph._tracer.steps(old) if steps is None else steps[at]
            graph._tracer.adopt(value, old, found)
            values.append(value)
            if graph.constant_id(graph.value_name(old)) == old:  # an edit named it
                names[value] = graph.value_name(old)
        made = graph.make_node(op, graph.free_name(name), list(ports), values)
        graph._calls[made] = list(call)
        if extras:
            graph._extras[made] = dict(extras)
        for old, new in zip(graph.results(source), values, strict=True):
            self.move_uses(old, new)
        self.sweep(source)
        if graph.is_alive(node):
            self.sweep(node)
        graph.name_node(made, name)
        for value, label in names.items():
            graph.name_value(value, label)
        return made
