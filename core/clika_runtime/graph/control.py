"""Subgraphs: `cond`, `loop` and `scan` become the nodes If, Loop and Scan of a traced graph.

A body is a graph of its own. Tensors that it finds around it are inputs of the node, so every query
counts them as what the node reads. Outside of a trace the functions run their bodies eagerly, with
the same results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import dtypes, ops
from .._native._core import SymInt, Tensor, Tracer, active_tracer, device_number, tracing_scope
from ..errors import InvalidArgumentError, UnsupportedError
from .opcode import IF, LOOP, SCAN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .model_graph import ModelGraph


class _Body:
    """A body under way: its graph, and which values of the outer graph it reads."""

    def __init__(self, outer: ModelGraph, name: str) -> None:
        from .model_graph import ModelGraph

        self.outer = outer
        self.graph = ModelGraph(name)
        self.graph._tracer.share_sizes(outer._tracer)
        self.captured: list[int] = []  # values of the outer graph
        self._inner: dict[int, int] = {}
        self.graph._tracer.captures(self._capture)

    def parameter(self, name: str, like: tuple[Any, ...]) -> Any:
        """A traced input with the dtype, shape and device of ``like``."""
        dtype, shape, device = like
        value = self.graph.add_value(dtype, 0, device, shape)
        self.graph.make_node("", name, [], [value])
        return self.graph._tracer.tensor(value)

    def _capture(self, tensor: Any) -> int:
        """The body's value for a tensor of the outer graph, traced or concrete."""
        outer = self.outer._tracer.value(tensor)
        found = self._inner.get(outer)
        if found is None:
            dtype, scheme, device, shape, _, _ = self.outer.meta(outer)
            if scheme:
                return -1  # a packed weight is a constant of the body
            found = self.graph.add_value(dtype, 0, device, shape)
            self.graph.make_node("", f"outer_{len(self.captured)}", [], [found])
            self.captured.append(outer)
            self._inner[outer] = found
        return found

    def close(self, results: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Sets the outputs; gives (dtype, shape, device) of each."""
        tracer = self.graph._tracer
        values = [tracer.value(result) for result in results]
        written = [root for root, _ in tracer.written_roots() if root in self.graph._constants]
        reads = {self.graph.results(node)[0] for node in self.graph.input_ids()}
        if written or any(root in reads for root, _ in tracer.written_roots()):
            raise InvalidArgumentError(
                f"{self.graph.name}: the body writes in place to a tensor from outside; return the "
                "new value instead"
            )
        self.graph.set_output_list([(f"output_{i}", value) for i, value in enumerate(values)])
        metas = [self.graph.meta(value) for value in values]
        return [(meta[0], meta[3], meta[2]) for meta in metas]


def _outer(operands: Sequence[Any]) -> ModelGraph | None:
    """The graph that is traced here, or None."""
    tracer = active_tracer()
    for operand in operands:
        if isinstance(operand, Tensor) and operand.is_traced:
            tracer = operand.recording
    if not isinstance(tracer, Tracer):
        return None
    graph: ModelGraph = tracer.graph_of()
    return graph


def _scalar(what: str, value: Any, python: type, dtype: Any) -> Any:
    """A number or a tensor that has to be one value of ``dtype``, as a tensor."""
    if isinstance(value, python):
        return ops.full((), value, dtype=dtype)
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{what} must be a tensor or a {python.__name__}, got {type(value).__name__}"
        )
    if value.dtype != dtype or len(value.shape):
        raise InvalidArgumentError(
            f"{what} must be one {dtype.name}, got {value.dtype.name} of shape {list(value.shape)}"
        )
    return value


def _like(graph: ModelGraph, tensor: Any) -> tuple[Any, ...]:
    meta = graph.meta(graph._tracer.value(tensor))
    if meta[1]:
        raise UnsupportedError(
            "what a body takes is dense, got a packed weight; use it within the body as a captured "
            "tensor"
        )
    return (meta[0], meta[3], meta[2])


def _run(body: _Body, fn: Callable[..., Any], arguments: Sequence[Any], call: str) -> list[Any]:
    with tracing_scope(body.graph._tracer):
        found = fn(*arguments)
    return _listed(found, call)


def _listed(found: Any, call: str) -> list[Any]:
    items = list(found) if isinstance(found, (list, tuple)) else [found]
    for item in items:
        if not isinstance(item, Tensor):
            raise TypeError(f"{call}: a body returns tensors, got {type(item).__name__}")
    return items


def _node(
    graph: ModelGraph,
    op: str,
    given: list[Any],
    bodies: list[_Body],
    metas: Sequence[tuple[Any, ...]],
    **facts: int,
) -> list[Any]:
    """Adds the node; what any body captured is read by every body, in one order."""
    outside: list[int] = []
    for body in bodies:
        outside += [value for value in body.captured if value not in outside]
    for body in bodies:
        order = body.graph.input_ids()
        own = len(order) - len(body.captured)
        by_value = dict(zip(body.captured, order[own:], strict=True))
        for value in outside:
            if value not in by_value:
                dtype, _, device, shape, _, _ = graph.meta(value)
                made = body.graph.add_value(dtype, 0, device, shape)
                by_value[value] = body.graph.make_node(
                    "", body.graph.free_name(f"outer_{len(by_value)}"), [], [made]
                )
        body.graph.order_inputs([*order[:own], *(by_value[value] for value in outside)])
    from .._native._core import Port

    inputs: list[int] = []
    call: list[Any] = []
    for item in given:
        if item is None:
            call.append(None)
        else:
            call.append(Port(len(inputs)))
            inputs.append(graph._tracer.value(item))
    for value in outside:
        call.append(Port(len(inputs)))
        inputs.append(value)
    values = graph._add_operator(
        op, call, inputs, [(dtype, 0, device, shape) for dtype, shape, device in metas]
    )
    node = graph.producer_id(values[0])[0]
    graph._bodies[node] = tuple(body.graph for body in bodies)
    graph._extras[node] = dict(facts)
    return [graph._tracer.tensor(value) for value in values]


def cond(
    pred: Any,
    then_fn: Callable[..., Any],
    else_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> list[Any]:
    """``then_fn(*operands)`` where the bool tensor ``pred`` is true, else ``else_fn(*operands)``.

    In a trace both are recorded, as the bodies of one If node, and a run takes one of them; they
    give as many tensors, of the same dtypes and shapes. Gives a list.

    >>> import clika_runtime as crt
    >>> x = crt.tensor([1.0, 2.0])
    >>> crt.graph.cond(x.sum() > 0, lambda a: a * 2.0, lambda a: -a, [x])[0].tolist()
    [2.0, 4.0]
    """
    pred = _scalar("cond: pred", pred, bool, dtypes.bool)
    graph = _outer([pred, *operands])
    if graph is None:
        return _listed((then_fn if pred.item() else else_fn)(*operands), "cond")
    bodies, found = [], []
    for name, fn in (("then", then_fn), ("else", else_fn)):
        body = _Body(graph, f"{graph.name}.{name}")
        arguments = [
            body.parameter(f"input_{i}", _like(graph, item)) for i, item in enumerate(operands)
        ]
        found.append(body.close(_run(body, fn, arguments, "cond")))
        bodies.append(body)
    if found[0] != found[1]:
        raise InvalidArgumentError(
            "cond: the bodies must give tensors of the same dtypes and shapes, got "
            f"{_text(graph, found[0])} and {_text(graph, found[1])}"
        )
    return _node(graph, IF, [pred, *operands], bodies, found[0])


def loop(
    trips: Any,
    cond: Any,
    body_fn: Callable[..., Any],
    carried: Sequence[Any] = (),
) -> list[Any]:
    """Runs ``body_fn(iteration, condition, *carried)`` up to ``trips`` times, as long as the
    condition holds, as ONNX's Loop: the body gives (condition, new carried values..., results...),
    and each result is stacked over the iterations along a new first dim.

    ``trips`` is an int, an int64 tensor or None (no limit), ``cond`` a bool tensor, True or None.
    In a trace carried values keep dtype and shape, and stacked results need an int for ``trips``
    and all of its iterations. Gives the carried values, then the stacked results.

    >>> import clika_runtime as crt
    >>> total, seen = crt.graph.loop(
    ...     3, None, lambda i, go, total: (go, total + i, total), [crt.tensor(0)]
    ... )
    >>> total.item(), seen.tolist()
    (3, [0, 0, 1])
    """
    if cond is not None:
        cond = _scalar("loop: cond", cond, bool, dtypes.bool)
    if isinstance(trips, int):
        trips = int(trips)
        if trips >= 1 << 63:
            raise InvalidArgumentError(f"loop: trips must be less than 2**63, got {trips}")
    elif trips is not None:
        trips = _scalar("loop: trips", trips, int, dtypes.int64)
    graph = _outer([trips, cond, *carried])
    if graph is None:
        return _eager_loop(trips, cond, body_fn, carried)
    body = _Body(graph, f"{graph.name}.loop")
    host = device_number(None)
    arguments = [
        body.parameter("iteration", (dtypes.int64.code, (), host)),
        body.parameter("condition", (dtypes.bool.code, (), host)),
        *(body.parameter(f"carried_{i}", _like(graph, item)) for i, item in enumerate(carried)),
    ]
    metas = body.close(_run(body, body_fn, arguments, "loop"))
    wanted = [_like(graph, item) for item in carried]
    if not metas or metas[0][:2] != (dtypes.bool.code, ()):
        raise InvalidArgumentError("loop: the body must give a bool of shape [] first")
    if metas[1 : 1 + len(carried)] != wanted:
        raise InvalidArgumentError(
            "loop: the body must give carried values as it takes them, "
            f"{_text(graph, wanted)}, got {_text(graph, metas[1 : 1 + len(carried)])}"
        )
    stacked = metas[1 + len(carried) :]
    if stacked and not isinstance(trips, int):
        raise InvalidArgumentError(
            "loop: stacked results in a trace need an int for trips: their size is not known "
            "before the run otherwise"
        )
    count = max(trips, 0) if isinstance(trips, int) else 0
    results = [*wanted, *((dtype, (count, *shape), device) for dtype, shape, device in stacked)]
    limit = ops.full((), max(trips, 0), dtype=dtypes.int64) if isinstance(trips, int) else trips
    return _node(
        graph, LOOP, [limit, cond, *carried], [body], results, carried=len(carried), scanned=0
    )


def scan(body_fn: Callable[..., Any], states: Sequence[Any], scanned: Sequence[Any]) -> list[Any]:
    """Runs ``body_fn(*states, *slices)`` over the slices of ``scanned`` along their first dim, as
    ONNX's Scan: the body gives (new states..., results...), and each result is stacked along a new
    first dim. States keep dtype and shape. Gives the last states, then the stacked results.

    >>> import clika_runtime as crt
    >>> last, sums = crt.graph.scan(
    ...     lambda total, x: (total + x, total + x), [crt.tensor(0.0)], [crt.tensor([1.0, 2.0])]
    ... )
    >>> last.item(), sums.tolist()
    (3.0, [1.0, 3.0])
    """
    if not scanned:
        raise InvalidArgumentError("scan: nothing to scan; use loop()")
    sizes = [item.shape[0] for item in scanned if len(item.shape)]
    if len(sizes) != len(scanned) or any(size != sizes[0] for size in sizes):
        raise InvalidArgumentError(
            f"scan: the scanned tensors need one first dim, got {[list(x.shape) for x in scanned]}"
        )
    graph = _outer([*states, *scanned])
    if graph is None:
        return _eager_scan(body_fn, list(states), scanned, int(sizes[0]))
    body = _Body(graph, f"{graph.name}.scan")
    arguments = [body.parameter(f"state_{i}", _like(graph, item)) for i, item in enumerate(states)]
    for i, item in enumerate(scanned):
        dtype, shape, device = _like(graph, item)
        arguments.append(body.parameter(f"slice_{i}", (dtype, shape[1:], device)))
    metas = body.close(_run(body, body_fn, arguments, "scan"))
    wanted = [_like(graph, item) for item in states]
    if metas[: len(states)] != wanted:
        raise InvalidArgumentError(
            f"scan: the body must give states as it takes them, {_text(graph, wanted)}, got "
            f"{_text(graph, metas[: len(states)])}"
        )
    count = graph._tracer.encoded(sizes[0])
    results = [
        *wanted,
        *((dtype, (count, *shape), device) for dtype, shape, device in metas[len(states) :]),
    ]
    return _node(
        graph,
        SCAN,
        [*states, *scanned],
        [body],
        results,
        carried=len(states),
        scanned=len(scanned),
    )


def _eager_loop(
    trips: Any, going: Any, body_fn: Callable[..., Any], carried: Sequence[Any]
) -> list[Any]:
    state = list(carried)
    stacked: list[list[Any]] = []
    limit = trips.item() if isinstance(trips, Tensor) else trips
    go = going if going is not None else ops.full((), True, dtype=dtypes.bool)
    done = 0
    while (limit is None or done < limit) and go.item():
        found = _listed(body_fn(ops.full((), done, dtype=dtypes.int64), go, *state), "loop")
        _check_count("loop", found, 1 + len(state), stacked)
        go, state = found[0], found[1 : 1 + len(state)]
        stacked.append(found[1 + len(state) :])
        done += 1
    return [*state, *(ops.stack(list(items)) for items in zip(*stacked, strict=True))]


def _check_count(call: str, found: list[Any], least: int, stacked: list[list[Any]]) -> None:
    """Every iteration gives all that is carried, and as many results as the first did."""
    wanted = least + len(stacked[0]) if stacked else least
    if len(found) < least or stacked and len(found) != wanted:
        raise InvalidArgumentError(
            f"{call}: the body gave {len(found)} tensors where it has to give {wanted}"
        )


def _eager_scan(
    body_fn: Callable[..., Any], state: list[Any], scanned: Sequence[Any], count: int
) -> list[Any]:
    stacked: list[list[Any]] = []
    for at in range(count):
        found = _listed(body_fn(*state, *(item[at] for item in scanned)), "scan")
        _check_count("scan", found, len(state), stacked)
        state = found[: len(state)]
        stacked.append(found[len(state) :])
    return [*state, *(ops.stack(list(items)) for items in zip(*stacked, strict=True))]


def _text(graph: ModelGraph, metas: Sequence[tuple[Any, ...]]) -> str:
    shapes = (
        (dtypes.by_code(meta[0]).name, [graph._tracer.size(size) for size in meta[1]])
        for meta in metas
    )
    return ", ".join(
        f"{name}[{', '.join(repr(s) if isinstance(s, SymInt) else str(s) for s in shape)}]"
        for name, shape in shapes
    )
