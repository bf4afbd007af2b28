"""Edits of a `ModelGraph`: each checks everything before it changes anything.

A refused edit leaves nodes, inputs, outputs and constants as they were and raises
`InvalidArgumentError`: ``INVALID_ARGUMENT`` for an argument that it cannot take, and
``FAILED_PRECONDITION`` for a graph that it cannot edit now: a finalized one, one on which a
transform runs in another thread, one whose edit is calling a function. A constant that an edit
leaves without a reader goes with the edit.

The graph is functional, and writes in place are values of their own. So that an edit never changes
which bytes outside the graph a run writes, what is read by a write (or by a view that is written
to) may only be exchanged for another operator's result.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from .. import ops
from .._native import _graph
from .._native._core import Tensor, plain_op, tracing_scope
from ..errors import InvalidArgumentError
from ..ops.record import RANDOM
from .activations import IDENTITY, check_activation
from .opcode import AFTER, STRUCTURAL, OpCode
from .spec import TensorSpec
from .strides import restride

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from .._native._graph import GraphStore as _Base
    from .._native._graph import Node, Value
    from ..ops.record import Record
    from .combine import Rename
    from .model_graph import ModelGraph
else:
    _Base = object

PRECONDITION = "FAILED_PRECONDITION"


class Edits(_Base):
    """The edits of a `ModelGraph`. The examples ask this graph::

    def model(inputs):
        return [crt.relu(inputs[0]) + crt.neg(inputs[0])]

    graph = crt.trace(model, [crt.TensorSpec("x", crt.float32, [2, 3])], output_names=["y"]).graph
    x, relu, neg, add = graph.nodes()
    """

    _owner: int | None = None  # the thread of the transform that runs on the graph
    _transform: str = ""  # its name
    _calling: str = ""  # the edit whose function is being called
    _bound_names: Collection[str] = frozenset()  # names that a KV cache binds
    _writes: tuple[int, ...] = ()  # values that writes in place made, of the first `_scanned`
    _scanned: int = 0

    # ------------------------------------------------------------------ reads
    def replace_all_uses_with(self: Any, old_value: Value, replacement: Value) -> None:
        """Every read of ``old_value`` becomes one of ``replacement``, and so do the outputs of the
        graph that return it, which keep their names. Both have the same dtype and dims.

        >>> graph.replace_all_uses_with(neg.output(0), x.output(0))
        >>> [value.name for value in add.inputs]
        ['Relu_1_0', 'x']
        """
        call = "replace_all_uses_with"
        self._begin(call)
        old, new = self._value(old_value, call), self._value(replacement, call)
        if old == new:
            return
        self._check_move(call, old, new)
        with self._undoing():
            readers = self._move({old: new})
            self._drop_constant(old)
        restride(self, readers)

    def set_input(self: Any, node: Node, port: int, value: Value) -> None:
        """Input ``port`` of an operator reads ``value``, which has the dtype and dims of what it
        read.

        >>> graph.set_input(add, 1, relu.output(0))
        >>> [value.name for value in add.inputs]
        ['Relu_1_0', 'Relu_1_0']
        """
        self._begin("set_input")
        reader, port, old = self._port("set_input", node, port)
        new = self._value(value, "set_input")
        if old == new:
            return
        self._check_fits("set_input", old, new, [(reader, port)])
        self._check_cycle("set_input", new, [reader])
        with self._undoing():
            self.set_port(reader, port, new)
            self._drop_constant(old)
        restride(self, [reader])

    def set_constant_input(self: Any, node: Node, port: int, tensor: Tensor) -> None:
        """Input ``port`` of an operator reads a constant that holds ``tensor``: a handle to its
        bytes, no copy.

        >>> graph.set_constant_input(add, 1, crt.ones(2, 3))
        >>> add.input(1).is_constant(), len(graph.constants())
        (True, 1)
        """
        call = "set_constant_input"
        self._begin(call)
        reader, port, old = self._port(call, node, port)
        self._check_tensor(call, tensor)
        with self._undoing():
            new = self._tracer.captured(tensor)
            self._check_fits(call, old, new, [(reader, port)])
            if old != new:
                self.set_port(reader, port, new)
                self._drop_constant(old)
        restride(self, [reader])

    def add_constant(self: Any, tensor: Tensor) -> Value:
        """A constant that holds ``tensor``, without a copy, for other edits to wire in: the one
        that the graph has already, where it has one. `finalize` drops a constant that nothing
        reads.

        >>> half = graph.add_constant(crt.full((2, 3), 0.5))
        >>> graph.set_input(add, 1, half)
        """
        self._begin("add_constant")
        self._check_tensor("add_constant", tensor)
        with self._undoing():
            value = self._tracer.captured(tensor)
        found: Value = self.value_view(value)
        return found

    # ------------------------------------------------------------------ nodes
    def remove_node(self: Any, node: Node) -> None:
        """Removes an operator that nothing reads.

        >>> graph.set_input(add, 1, relu.output(0))
        >>> graph.remove_node(neg)
        >>> graph.node("Neg_2")
        """
        self._begin("remove_node")
        gone = self._operator("remove_node", node)
        self._check_unread("remove_node", gone, self.results(gone))
        with self._undoing():
            self._drop_operator(gone)

    def bypass_node(self: Any, node: Node, in_port: int = 0, out_port: int = 0) -> None:
        """What reads an operator's output reads the operator's input, and the operator goes. Both
        have the same dtype and dims.

        >>> graph.bypass_node(relu)
        >>> [value.producer().name for value in add.inputs]
        ['x', 'Neg_2']
        """
        call = "bypass_node"
        self._begin(call)
        gone, _, new = self._port(call, node, in_port)
        results = self.results(gone)
        if not isinstance(out_port, int) or not 0 <= out_port < len(results):
            raise InvalidArgumentError(
                f"{call}: '{self.node_name(gone)}' has no output port {out_port!r}; it has "
                f"{len(results)} output ports, from 0"
            )
        old = results[out_port]
        self._check_unread(call, gone, [value for value in results if value != old])
        self._check_move(call, old, new)
        with self._undoing():
            readers = self._move({old: new})
            self._drop_operator(gone)
        restride(self, readers)

    def rename_node(self: Any, node: Node, name: str) -> None:
        """Gives an operator another name; its outputs keep theirs. Views of the old name are gone.

        >>> graph.rename_node(add, "total")
        >>> graph.node("total").output(0).name
        'Add_3_0'
        """
        call = "rename_node"
        self._begin(call)
        found = self._node(node, call)
        old = self.node_name(found)
        if not self.op(found):
            raise InvalidArgumentError(
                f"{call}: '{old}' is a graph input; rename it with rename_input()"
            )
        self._check_name(call, name)
        self._check_unbound(call, old)
        if name == old:
            return
        self._check_free(call, name)
        with self._undoing():
            for value in self.results(found):
                label = self.value_name(value)
                if self.constant_id(label) < 0:
                    self.name_value(value, label)
            self.name_node(found, name)

    # ------------------------------------------------------------------ inputs and outputs
    def add_input(self: Any, spec: TensorSpec) -> Node:
        """A further input of the graph; a dynamic dim takes its size at the run. Gives its node.

        >>> bias = graph.add_input(crt.TensorSpec("bias", crt.float32, [2, 3]))
        >>> graph.set_input(add, 1, bias.output(0))
        >>> graph.input_names()
        ['x', 'bias']
        """
        self._begin("add_input")
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"add_input: takes a TensorSpec, got {type(spec).__name__}")
        self._check_free("add_input", spec.name)
        known = set(self._tracer.symbols())
        names: list[str | None] = []
        for dim, size in enumerate(spec.dims):
            label = spec.dim_names[dim]
            if size < 0 and label is None:  # a size of its own, also where an old name comes back
                base = label = f"{spec.name}_dim{dim}"
                taken = 0
                while label in known:
                    taken += 1
                    label = f"{base}_{taken}"
            names.append(label)
        spec = TensorSpec.exact(spec.name, spec.dtype, spec.dims, names)
        with self._undoing():
            value = self._add_input(spec)
        found: Node = self.node_view(self.producer_id(value)[0])
        return found

    def add_output(self: Any, value: Value, name: str) -> None:
        """Returns ``value`` as a further output.

        >>> graph.add_output(relu.output(0), "rectified")
        >>> graph.output_names()
        ['y', 'rectified']
        """
        self._begin("add_output")
        found = self._value(value, "add_output")
        self._check_name("add_output", name)
        if name in self.output_names():
            raise InvalidArgumentError(
                f"add_output: the graph has an output '{name}' already; choose another name"
            )
        if self.meta(found)[1]:
            raise InvalidArgumentError(
                f"add_output: '{self.value_name(found)}' is a packed weight; a graph returns dense "
                "tensors (see dequantize)"
            )
        with self._undoing():
            self.set_output_list([*self.output_list(), (name, found)])

    def remove_output(self: Any, name: str) -> None:
        """Stops returning an output; the node that computes it stays. A captured tensor that runs
        rewrite is rewritten all the same.

        >>> graph.remove_output("y")
        >>> graph.output_names(), graph.node("Add_3")
        ([], Node('Add_3', Add))
        """
        self._begin("remove_output")
        self._check_output("remove_output", name)
        self._check_unbound("remove_output", name)
        with self._undoing():
            self.set_output_list([pair for pair in self.output_list() if pair[0] != name])

    def rename_input(self: Any, name: str, new_name: str) -> None:
        """Gives an input another name. Views of the old name are gone.

        >>> graph.rename_input("x", "features")
        >>> graph.input_names()
        ['features']
        """
        call = "rename_input"
        self._begin(call)
        if name not in self.input_names():
            raise InvalidArgumentError(
                f"{call}: the graph has no input {name!r}; its inputs are {self.input_names()}"
            )
        self._check_name(call, new_name)
        self._check_unbound(call, name)
        if new_name == name:
            return
        self._check_free(call, new_name)
        with self._undoing():
            self.name_node(self.node_id(name), new_name)

    def rename_output(self: Any, name: str, new_name: str) -> None:
        """Gives an output another name.

        >>> graph.rename_output("y", "total")
        >>> graph.output_names()
        ['total']
        """
        call = "rename_output"
        self._begin(call)
        self._check_output(call, name)
        self._check_name(call, new_name)
        self._check_unbound(call, name)
        if new_name == name:
            return
        if new_name in self.output_names():
            raise InvalidArgumentError(
                f"{call}: the graph has an output '{new_name}' already; choose another name"
            )
        with self._undoing():
            self.set_output_list(
                [(new_name if item == name else item, value) for item, value in self.output_list()]
            )

    # ------------------------------------------------------------------ operators
    def add_node(
        self: Any,
        code: OpCode,
        inputs: Sequence[Value | float | None],
        attributes: Mapping[str, Any] | None = None,
    ) -> Node:
        """One operator, made as its public function makes it, whose output nothing reads yet.

        ``inputs`` are its tensors in the function's order, None for an optional one that is left
        out; a number may stand where the function takes one. ``attributes`` are its settings, under
        the names that ``Node.attributes`` has; what is left out takes the function's default.
        Raises `InvalidArgumentError` for an operator that no single call makes as one value
        (several outputs, a write in place), and what the function refuses.

        >>> sub = graph.add_node(OpCode.Sub, [relu.output(0), x.output(0)], add.attributes)
        >>> graph.replace_all_uses_with(add.output(0), sub.output(0))
        >>> graph.node("Sub_4").attribute("alpha")
        1
        """
        self._begin("add_node")
        record = self._record_of(code)
        settings = dict(attributes or {})
        activation = settings.pop("activation", IDENTITY)
        if activation != IDENTITY:
            check_activation(record.name, activation)
        known = [arg.name for arg in record.args]
        for name in settings:
            if name not in known:
                raise InvalidArgumentError(
                    f"add_node: {code.name} has no setting {name!r}; it takes {known}"
                )
        given = self._bound(code, record, inputs, settings)
        call = plain_op(record.name)
        if RANDOM in record.traits and "seed" not in given:
            call = getattr(ops, record.name)
        nodes = self.counts_of()[1]
        with self._undoing():
            self._tracer.forget_writes()
            with tracing_scope(self._tracer):
                made = call(**given)
            if not isinstance(made, Tensor) or self.counts_of()[1] != nodes + 1:
                raise InvalidArgumentError(
                    f"add_node: one call does not make one {code.name} node; use insert()"
                )
            if activation != IDENTITY:
                self._extras[nodes] = {"activation": activation}
        found: Node = self.node_view(nodes)
        return found

    def insert(
        self: Any,
        fn: Callable[[list[Tensor]], Tensor | Sequence[Tensor]],
        inputs: Sequence[Value],
    ) -> list[Value]:
        """The operators that ``fn`` calls on one traced tensor per input value. Gives the values it
        returns, which nothing reads yet.

        ``fn`` computes: it writes nothing in place and does not edit the graph. What it raises goes
        through, and the graph is as it was.

        >>> made, = graph.insert(lambda t: crt.sigmoid(t[0]) * t[0], [x.output(0)])
        >>> graph.replace_all_uses_with(relu.output(0), made)
        >>> [value.producer().name for value in add.inputs]
        ['Mul_5', 'Neg_2']
        """
        self._begin("insert")
        values = [self._value(item, "insert") for item in inputs]
        with self._undoing():
            made = self._traced("insert", fn, values)
        return [self.value_view(value) for value in made]

    def replace(
        self: Any,
        old_outputs: Sequence[Value],
        fn: Callable[[list[Tensor]], Tensor | Sequence[Tensor]],
        inputs: Sequence[Value],
    ) -> list[Value]:
        """`insert`, then every read of ``old_outputs[i]`` takes the new value i, outputs of the
        graph included, and the operators that computed the old outputs from the inputs go, with
        every producer that only they read. An operator that an input is computed from stays. Where
        an old output is an input too, the new operators go on reading it. Gives the new values.

        >>> inputs = [relu.output(0), x.output(0)]
        >>> made, = graph.replace([add.output(0)], lambda t: t[0] - t[1], inputs)
        >>> [node.name for node in graph.nodes()]
        ['x', 'Relu_1', 'Sub_4']
        """
        call = "replace"
        self._begin(call)
        olds = [self._value(item, call) for item in old_outputs]
        values = [self._value(item, call) for item in inputs]
        if not olds or len(set(olds)) != len(olds):
            raise InvalidArgumentError(f"{call}: takes one or more old outputs, each once")
        first = self.counts_of()[1]
        with self._undoing():
            made = self._traced(call, fn, values)
            if len(made) != len(olds):
                raise InvalidArgumentError(
                    f"{call}: the function returned {len(made)} tensors for {len(olds)} old outputs"
                )
            new_nodes = range(first, self.counts_of()[1])
            moves = {old: new for old, new in zip(olds, made, strict=True) if old != new}
            for old, new in moves.items():
                reads = [read for read in self.use_list(old) if read[0] not in new_nodes]
                self._check_fits(call, old, new, reads)
                self._check_state(call, old)
            readers = self._move(moves, new_nodes)
            if not self.is_acyclic():
                raise InvalidArgumentError(
                    f"{call}: an input is computed from an old output, so the new operators would "
                    "read themselves"
                )
            kept = {self.producer_id(value)[0] for value in values} | set(new_nodes)
            work = [self.producer_id(old)[0] for old in moves]
            while work:
                node = work.pop()
                if node < 0 or node in kept or not self.op(node) or not self.is_alive(node):
                    continue
                if any(self._is_read(value) for value in self.results(node)):
                    continue
                work.extend(self._drop_operator(node))
            for old in moves:
                self._drop_constant(old)
        restride(self, readers)
        return [self.value_view(value) for value in made]

    def merge(
        self: Any,
        second: ModelGraph,
        io_map: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    ) -> list[Rename]:
        """Takes the nodes of ``second`` into this graph and consumes it. Each pair of ``io_map``
        feeds an output of this graph into an input of ``second``; neither is the merged graph's any
        longer. This graph keeps its names; a name of ``second`` that is taken becomes the first
        free ``<name>_<n>``. Gives the names that changed, under the part "second".

        >>> spec = crt.TensorSpec("h", crt.float32, [2, 3])
        >>> other = crt.trace(lambda t: [crt.relu(t[0])], [spec])
        >>> [(rename.from_, rename.to) for rename in graph.merge(other.graph, [("y", "h")])]
        [('Relu_1', 'Relu_1_1')]
        """
        from .combine import merge_into

        self._begin("merge")
        return merge_into(self, second, io_map)

    # ------------------------------------------------------------------ state of the graph
    def _check_whole(self: Any, call: str) -> None:
        """Refuses a graph whose nodes a merge, a split or an extract took."""
        if self.consumed:
            raise InvalidArgumentError(
                f"{call}: the graph no longer exists (a merge, a split or an extract consumed it)"
            )

    def _check_idle(self: Any, call: str) -> None:
        """Refuses a call that must not come while a transform runs on the graph, or the function of
        an edit."""
        if self._owner is not None:
            raise InvalidArgumentError(
                f"{call}: the transform '{self._transform}' is running on this graph inside "
                f"optimize(); call {call}() after optimize() returns",
                PRECONDITION,
            )
        self._check_calling(call)

    def _check_calling(self: Any, call: str) -> None:
        if self._calling:
            raise InvalidArgumentError(
                f"{call}: {self._calling}() is calling its function on this graph, which must "
                f"leave the graph as it is; call {call}() after {self._calling}() returns",
                PRECONDITION,
            )

    def _begin(self: Any, call: str) -> None:
        """What every edit asks first."""
        self._check_editable(call)
        self._check_calling(call)
        if self._owner is not None and self._owner != threading.get_ident():
            raise InvalidArgumentError(
                f"{call}: the transform '{self._transform}' is running on this graph in another "
                "thread; edit the graph after optimize() returns",
                PRECONDITION,
            )

    def _check_recording(self: Any, op: str, inputs: Sequence[int]) -> None:
        """Refuses an operator that is called on traced tensors of a graph which takes no more
        nodes, or on tensors of an edit that was undone."""
        self._check_editable(op)
        for value in inputs:
            if value >= 0 and not self.value_is_alive(value):
                raise InvalidArgumentError(
                    f"{op}: the value of a traced tensor is no longer in its graph"
                )

    @contextlib.contextmanager
    def _undoing(self: Any) -> Iterator[None]:
        """All of the edits inside, or none."""
        mark = self.mark()
        operators = self._operators
        try:
            yield
        except BaseException:
            self.rollback(mark)
            self._operators = operators
            self._forget_dropped()
            raise
        self.commit()
        self._forget_dropped()

    def _forget_dropped(self: Any) -> None:
        """Lets go of the tensors of dropped constants, unless an undo may bring them back."""
        if self._owner is not None:
            return
        roots = set(self._states.values())
        gone = [
            value
            for value in self._constants
            if not self.value_is_alive(value) and value not in roots
        ]
        for value in gone:
            del self._constants[value]

    # ------------------------------------------------------------------ arguments
    def _node(self: Any, view: Any, call: str) -> int:
        try:
            return _graph.node_number(self, view, call)
        except InvalidArgumentError as error:
            raise _named(call, error) from None

    def _value(self: Any, view: Any, call: str) -> int:
        try:
            return _graph.value_number(self, view, call)
        except InvalidArgumentError as error:
            raise _named(call, error) from None

    def _operator(self: Any, call: str, view: Any) -> int:
        node: int = self._node(view, call)
        if not self.op(node):
            raise InvalidArgumentError(
                f"{call}: '{self.node_name(node)}' is a graph input; it takes an operator"
            )
        return node

    def _port(self: Any, call: str, view: Any, port: Any) -> tuple[int, int, int]:
        """(operator, port, the value that it reads)."""
        node = self._operator(call, view)
        reads = self.ports(node)
        if not isinstance(port, int) or not 0 <= port < len(reads) or reads[port] < 0:
            filled = [at for at, value in enumerate(reads) if value >= 0]
            raise InvalidArgumentError(
                f"{call}: '{self.node_name(node)}' reads nothing at input port {port!r}; it reads "
                f"at the ports {filled}"
            )
        return node, int(port), reads[port]

    def _check_tensor(self: Any, call: str, tensor: Any) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{call}: takes a Tensor, got {type(tensor).__name__}")
        if tensor.is_traced or tensor.device.type == "meta":
            raise InvalidArgumentError(
                f"{call}: the tensor has no bytes; a constant holds a tensor with values"
            )

    def _check_name(self: Any, call: str, name: Any) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{call}: a name is a str, got {type(name).__name__}")
        if not name:
            raise InvalidArgumentError(f"{call}: a name must not be empty")

    def _check_free(self: Any, call: str, name: str) -> None:
        """Inputs and operators share one space of names."""
        taken = self.node_id(name)
        if taken >= 0:
            what = "a node" if self.op(taken) else "an input"
            raise InvalidArgumentError(
                f"{call}: the graph has {what} '{name}' already; choose another name"
            )

    def _check_unbound(self: Any, call: str, name: str) -> None:
        if name in self._bound_names:
            raise InvalidArgumentError(
                f"{call}: a layer of the KV cache binds the name '{name}', which stays"
            )

    def _check_output(self: Any, call: str, name: Any) -> None:
        if name not in self.output_names():
            raise InvalidArgumentError(
                f"{call}: the graph has no output {name!r}; its outputs are {self.output_names()}"
            )

    def _is_read(self: Any, value: int) -> bool:
        return bool(self.use_count(value)) or self.is_output(value)

    def _check_unread(self: Any, call: str, node: int, values: Sequence[int]) -> None:
        for value in values:
            for reader, port in self.use_list(value):
                raise InvalidArgumentError(
                    f"{call}: '{self.node_name(reader)}' still reads '{self.node_name(node)}' at "
                    f"its input port {port}; rewire or remove it first"
                )
            for name, item in self.output_list():
                if item == value:
                    raise InvalidArgumentError(
                        f"{call}: the graph returns a value of '{self.node_name(node)}' as "
                        f"'{name}'; rewire or remove that output first"
                    )

    def _described(self: Any, value: int) -> str:
        spec = self._spec(value)
        dims = ", ".join(str(size) for size in self._shape(value))
        return f"'{self.value_name(value)}' ({spec.dtype.name} [{dims}])"

    def _check_fits(
        self: Any, call: str, old: int, new: int, reads: Sequence[tuple[int, int]]
    ) -> None:
        """Whether ``new`` can take the place of ``old`` in these reads."""
        dtype, scheme, device, shape, _, _ = self.meta(old)
        other = self.meta(new)
        if (other[0], other[3]) != (dtype, shape):
            raise InvalidArgumentError(
                f"{call}: {self._described(new)} cannot take the place of {self._described(old)}: "
                "dtype and dims must be the same"
            )
        if other[1] != scheme:
            raise InvalidArgumentError(
                f"{call}: '{self.value_name(new)}' and '{self.value_name(old)}' are not packed in "
                "the same scheme"
            )
        if other[2] != device and min(self.producer_id(old)[0], self.producer_id(new)[0]) >= 0:
            raise InvalidArgumentError(
                f"{call}: '{self.value_name(new)}' and '{self.value_name(old)}' sit on different "
                "devices"
            )
        if not self._has_writes():
            return
        for node, port in reads:
            writer = self._writer(node, port, old)
            if writer < 0:
                continue
            for value in (old, new):
                maker = self.producer_id(self.root_id(value))[0]
                if maker < 0 or not self.op(maker):
                    raise InvalidArgumentError(
                        f"{call}: '{self.node_name(writer)}' writes in place to what is read here, "
                        f"and '{self.value_name(value)}' is no result of an operator: a run would "
                        "write other bytes than the graph was recorded with"
                    )

    def _check_move(self: Any, call: str, old: int, new: int) -> None:
        """Whether every read of ``old`` can become one of ``new``."""
        reads = self.use_list(old)
        self._check_fits(call, old, new, reads)
        self._check_state(call, old)
        self._check_cycle(call, new, [node for node, _ in reads])

    def _check_state(self: Any, call: str, old: int) -> None:
        """Refuses to take the new value of a state from the output that stands for it."""
        names = [name for name, value in self.output_list() if value == old]
        if names and old in self._states:
            raise InvalidArgumentError(
                f"{call}: the output '{names[0]}' is the new value of a tensor that runs rewrite; "
                "only the operator that writes it can give it"
            )

    def _check_cycle(self: Any, call: str, value: int, readers: Sequence[int]) -> None:
        """Whether these nodes can read a value that is not computed from them."""
        maker = self.producer_id(value)[0]
        if maker < 0 or not self.op(maker):
            return
        source = self.node_view(maker)
        for reader in dict.fromkeys(readers):
            if reader == maker or self.would_create_cycle(source, self.node_view(reader)):
                raise InvalidArgumentError(
                    f"{call}: '{self.node_name(reader)}' would read '{self.value_name(value)}', "
                    "which is computed from it"
                )

    # ------------------------------------------------------------------ writes in place
    def _has_writes(self: Any) -> bool:
        count = self.counts_of()[0]
        found = [value for value in range(self._scanned, count) if self.meta(value)[5]]
        self._scanned = count
        self._writes += tuple(found)
        return any(self.value_is_alive(value) for value in self._writes)

    def _writer(self: Any, node: int, port: int, value: int) -> int:
        """The node that writes to what ``node`` reads at ``port``: itself, or one that writes to a
        view it makes. -1 without one."""
        work = [(node, value)]
        while work:
            reader, read = work.pop()
            for result in self.results(reader):
                _, _, _, _, alias, write = self.meta(result)
                if alias != read:
                    continue
                if write:
                    return reader
                work.extend((other, result) for other, _ in self.use_list(result))
        return -1

    def _check_current(self: Any, call: str, value: int) -> None:
        """Refuses to part a value from a write to its bytes that comes after it."""
        if not self._has_writes():
            return
        root = self.root_id
        later = {
            item for item in self._writes if self.value_is_alive(item) and root(item) == root(value)
        }
        at = value
        while at >= 0 and later:
            later.discard(at)
            maker = self.producer_id(at)[0]
            at = (
                self.ports(maker)[1] if maker >= 0 and self.op(maker) == AFTER else self.meta(at)[4]
            )
        for item in later:
            raise InvalidArgumentError(
                f"{call}: '{self.node_name(self.producer_id(item)[0])}' writes to the bytes of "
                f"'{self.value_name(value)}' after it; keep them together, or insert a copy"
            )

    # ------------------------------------------------------------------ changes
    def _move(self: Any, moves: Mapping[int, int], keep: Collection[int] = ()) -> list[int]:
        """Every read of a key and every output that returns it take its value, at once; nodes in
        ``keep`` go on reading the key. Gives the readers."""
        reads = [
            (node, port, new)
            for old, new in moves.items()
            for node, port in self.use_list(old)
            if node not in keep
        ]
        for node, port, new in reads:
            self.set_port(node, port, new)
        outputs = self.output_list()
        if any(value in moves for _, value in outputs):
            self.set_output_list([(name, moves.get(value, value)) for name, value in outputs])
        return [node for node, _, _ in reads]

    def _drop_operator(self: Any, node: int) -> list[int]:
        """Drops an operator, and constants that only it read; gives the makers of what it read."""
        reads = dict.fromkeys(value for value in self.ports(node) if value >= 0)
        self.drop_node(node)
        for value in reads:
            self._drop_constant(value)
        return [self.producer_id(value)[0] for value in reads]

    def _drop_constant(self: Any, value: int) -> None:
        """Drops a constant that nothing reads, returns, rewrites or shares bytes with."""
        if self.producer_id(value)[0] >= 0 or not self.value_is_alive(value):
            return
        if self._is_read(value) or value in self._states.values():
            return
        if any(
            self.value_is_alive(other) and self.meta(other)[4] == value for other in self._constants
        ):
            return
        self.drop_value(value)

    # ------------------------------------------------------------------ operators
    def _record_of(self: Any, code: Any) -> Record:
        """The record of an operator that `add_node` can make."""
        if not isinstance(code, OpCode):
            raise TypeError(f"add_node: takes an OpCode, got {type(code).__name__}")
        why = ""
        if code.value in STRUCTURAL:
            why = "is no operator of clika_runtime.ops"
        else:
            record = ops.record(code.value)
            if record.outputs != 1:
                why = "has several outputs"
            elif record.mutates:
                why = "writes in place"
        if why:
            raise InvalidArgumentError(
                f"add_node: {code.name} {why}; use insert() with the operators that compute it"
            )
        return record

    def _bound(
        self: Any, code: OpCode, record: Record, inputs: Sequence[Any], settings: dict[str, Any]
    ) -> dict[str, Any]:
        """The arguments of the operator's call by name."""
        given: dict[str, Any] = dict(settings)
        open_args = []
        for arg in record.tensors:
            if arg.name not in settings:
                if arg.sequence and arg.optional:
                    given[arg.name] = None  # a node cannot tell where one list of inputs ends
                    continue
                open_args.append(arg)
            elif not _is_operand(arg, settings[arg.name]):
                raise InvalidArgumentError(
                    f"add_node: {arg.name} of {code.name} is a tensor; give it among the inputs"
                )
        items = list(inputs)
        lists = sum(arg.sequence for arg in open_args)
        least = sum(not arg.optional and not arg.sequence for arg in open_args)
        if len(items) < least or len(items) > len(open_args) and not lists or lists > 1:
            names = [arg.name for arg in open_args]
            raise InvalidArgumentError(
                f"add_node: {code.name} takes the inputs {names}, got {len(items)}"
            )
        for place, arg in enumerate(open_args):
            if arg.sequence:
                rest = len(open_args) - place - 1
                taken, items = items[: len(items) - rest], items[len(items) - rest :]
                given[arg.name] = [
                    self._tracer.tensor(self._value(item, "add_node")) for item in taken
                ]
                continue
            item = items.pop(0) if items else None
            if item is None and not arg.optional:
                raise InvalidArgumentError(
                    f"add_node: {code.name} needs its input {arg.name!r}; only an optional one may "
                    "be None"
                )
            if item is None or _is_operand(arg, item):
                given[arg.name] = item
            else:
                given[arg.name] = self._tracer.tensor(self._value(item, "add_node"))
        return given

    def _traced(self: Any, call: str, fn: Any, values: Sequence[int]) -> list[int]:
        """Records what ``fn`` calls over these values; gives the values it returned."""
        if not callable(fn):
            raise TypeError(f"{call}: takes a function of a list of tensors, got {fn!r}")
        first = self.counts_of()[0]
        tracer = self._tracer
        tracer.forget_writes()
        self._calling = call
        try:
            with tracing_scope(tracer):
                found = fn([tracer.tensor(value) for value in values])
        finally:
            self._calling = ""
        results = [found] if isinstance(found, Tensor) else found
        if not isinstance(results, (list, tuple)) or not results:
            raise TypeError(
                f"{call}: the function must return a Tensor or a sequence of them, got {found!r}"
            )
        for value in range(first, self.counts_of()[0]):
            if self.meta(value)[5]:
                node = self.producer_id(value)[0]
                raise InvalidArgumentError(
                    f"{call}: the function writes in place ('{self.node_name(node)}'); it must "
                    "only compute values"
                )
        made = []
        for item in results:
            if not isinstance(item, Tensor):
                raise TypeError(
                    f"{call}: the function must return a Tensor or a sequence of them, got one of "
                    f"{type(item).__name__}"
                )
            value = tracer.captured(item)
            if not self.value_is_alive(value):
                raise InvalidArgumentError(
                    f"{call}: the function returned a tensor whose value is no longer in the graph"
                )
            made.append(value)
        return made


def _named(call: str, error: InvalidArgumentError) -> InvalidArgumentError:
    """The refusal of a view, with the call in front."""
    text = str(error)
    return error if text.startswith(call) else InvalidArgumentError(f"{call}: {text}")


def _is_operand(arg: Any, value: Any) -> bool:
    """Whether ``value`` stands in a tensor argument without being a tensor."""
    if value is None:
        return bool(arg.optional)
    return bool(arg.number) and isinstance(value, (bool, int, float))
