"""`ModelGraph.optimize`: a list of transforms, run in order until an iteration changes nothing."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import ClikaRTError, InvalidArgumentError, Status
from .rewriting import Rewriter
from .strides import restride

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .._native._graph import GraphStore as _Base
    from .model_graph import ModelGraph
else:
    _Base = object

_log = logging.getLogger("clika_runtime.graph")
MOST_ITERATIONS = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class DefaultsOptions:
    """Choices that the runtime's transforms read; with each of them off a graph keeps its inputs,
    its outputs and every shape that it admits.

    ``shape_fixation`` fixes a traced graph to the shapes it was traced with, ``specialize`` a graph
    read from a file to the input shapes it was read with. ``channels_last_inputs`` and
    ``channels_last_outputs`` leave out the conversions at the border, so that those inputs and
    outputs are ``[N, spatial..., C]``.
    """

    shape_fixation: bool = False
    specialize: bool = False
    channels_last_inputs: bool = False
    channels_last_outputs: bool = False


class Transform:
    """A named rewrite of a graph: an entry of the list that `optimize` runs.

    ``fn`` gets the graph and edits it. ``runs_after`` are transforms that come earlier in every
    list that holds them too. The name is not empty and none of the runtime's.

    >>> Transform("look", lambda graph: None).name
    'look'
    """

    __slots__ = ("_fn", "_name", "_runs_after")

    def __init__(
        self,
        name: str,
        fn: Callable[[ModelGraph], object],
        runs_after: Iterable[Transform] = (),
    ) -> None:
        from .transforms import is_own

        if not isinstance(name, str):
            raise TypeError(f"Transform: the name must be a str, got {type(name).__name__}")
        if not name:
            raise InvalidArgumentError("Transform: the name must not be empty")
        if is_own(name):
            raise InvalidArgumentError(
                f"Transform: '{name}' is the name of one of the runtime's transforms; choose "
                "another one"
            )
        if not callable(fn):
            raise TypeError(f"Transform: fn must be callable, got {type(fn).__name__}")
        self._set(name, fn, runs_after)

    def _set(
        self, name: str, fn: Callable[[ModelGraph], object], runs_after: Iterable[Transform]
    ) -> None:
        after = tuple(runs_after)
        for item in after:
            if not isinstance(item, Transform):
                raise TypeError(
                    f"Transform: runs_after holds transforms, got {type(item).__name__}"
                )
        self._name = name
        self._fn = fn
        self._runs_after = after

    @property
    def name(self) -> str:
        """How the transform reads in reports and errors."""
        return self._name

    @property
    def runs_after(self) -> tuple[Transform, ...]:
        """The transforms that it must follow."""
        return self._runs_after

    def __repr__(self) -> str:
        return f"Transform({self._name!r})"


class OwnTransform(Transform):
    """One of the runtime's. ``visit(rewriter, node)`` is called for each node of the operators
    ``ops`` (None: of all) that may have changed since the transform last ran; ``whole(rewriter)``
    once per iteration in its place. ``gate(options)`` says what keeps it from running."""

    __slots__ = ("gate", "ops", "visit", "whole")

    def __init__(
        self,
        name: str,
        *,
        visit: Callable[[Rewriter, int], object] | None = None,
        whole: Callable[[Rewriter], object] | None = None,
        ops: frozenset[str] | None = None,
        gate: Callable[[DefaultsOptions, bool], str] | None = None,
        runs_after: Iterable[Transform] = (),
    ) -> None:
        self._set(name, _never, runs_after)
        self.visit = visit
        self.whole = whole
        self.ops = ops
        self.gate = gate


def _never(graph: ModelGraph) -> None:
    raise AssertionError("the runtime's transforms are run by visit or whole")


@dataclass
class TransformReport:
    """A list entry's row: ``applications`` counts the iterations in which the transform changed the
    graph, ``firing_at_cap`` says that the last one allowed was among them. A transform of the
    runtime's that ``failed`` was undone and skipped from then on."""

    transform: Transform
    applications: int = 0
    firing_at_cap: bool = False
    failed: bool = False
    failure_code: str = ""
    failure_message: str = ""


@dataclass
class OptimizeReport:
    """What `optimize` did. ``converged``: it stopped because an iteration changed nothing."""

    iterations: int = 0
    converged: bool = False
    changed: bool = False
    transforms: list[TransformReport] = field(default_factory=list)


class Optimizing(_Base):
    """`optimize` of a `ModelGraph`."""

    _owner: int | None  # the thread of the run, while there is one
    _transform: str  # the name of the transform that runs
    # Inputs (nodes) and outputs (names) that are channels-last by choice: that happens once.
    _converted: frozenset[str | int] = frozenset()
    _from_file = False  # read from a file: its shapes are fixed by `specialize`

    def default_transforms(self: Any, defaults: DefaultsOptions | None = None) -> list[Transform]:
        """The list that `optimize` runs on this graph under these choices, in order.

        >>> import clika_runtime as crt
        >>> spec = crt.TensorSpec("x", crt.float32, [2])
        >>> graph = crt.trace(lambda x: [x[0] + 1], [spec]).graph
        >>> graph.default_transforms()[0].name
        'cleanup_graph'
        """
        from .transforms import default_list

        return default_list(_options(defaults), self._from_file)

    def optimize(
        self: Any,
        transforms: Sequence[Transform] | None = None,
        *,
        max_num_iterations: int = 100,
        defaults: DefaultsOptions | None = None,
    ) -> OptimizeReport:
        """Runs ``transforms`` (by default `default_transforms`) in order, iteration by iteration,
        until one changes nothing; at last drops the nodes that nothing reads. Then the runtime's
        transforms among them run on the bodies of If, Loop and Scan.

        A transform of the runtime's that fails is undone and skipped. One of the caller's ends the
        run: the graph is as it was, and what it raised is raised.

        Raises `InvalidArgumentError`, before anything runs, for a list in the wrong order or with a
        transform that the choices switch off, and for ``max_num_iterations`` out of range;
        ``FAILED_PRECONDITION`` for a finalized graph and inside a transform.

        >>> import clika_runtime as crt
        >>> spec = crt.TensorSpec("x", crt.float32, [2])
        >>> graph = crt.trace(lambda x: [crt.relu(crt.neg(crt.neg(x[0])))], [spec]).graph
        >>> report = graph.optimize()
        >>> report.iterations, [node.name for node in graph.nodes()]
        (2, ['x', 'Relu_3'])
        """
        self._check_idle("optimize")
        self._check_editable("optimize")
        options = _options(defaults)
        if isinstance(max_num_iterations, bool) or not isinstance(max_num_iterations, int):
            raise TypeError(
                "optimize: max_num_iterations must be an int, got "
                f"{type(max_num_iterations).__name__}"
            )
        if not 1 <= max_num_iterations <= MOST_ITERATIONS:
            raise InvalidArgumentError(
                f"optimize: max_num_iterations must be between 1 and {MOST_ITERATIONS}, got "
                f"{max_num_iterations}"
            )
        listed = self.default_transforms(options) if transforms is None else list(transforms)
        _check_list(listed, options, self._from_file)
        self._owner = threading.get_ident()
        try:
            return _Run(self, options).go(listed, max_num_iterations)
        finally:
            self._owner = None
            self._transform = ""
            _forget(self)


def _options(defaults: DefaultsOptions | None) -> DefaultsOptions:
    if defaults is None:
        return DefaultsOptions()
    if not isinstance(defaults, DefaultsOptions):
        raise TypeError(f"defaults must be DefaultsOptions, got {type(defaults).__name__}")
    return defaults


def _check_list(listed: list[Transform], options: DefaultsOptions, from_file: bool) -> None:
    """Refuses a list before anything of it runs."""
    for at, item in enumerate(listed):
        if not isinstance(item, Transform):
            raise TypeError(
                f"optimize: transforms[{at}] must be a Transform, got {type(item).__name__}"
            )
    for at, item in enumerate(listed):
        if isinstance(item, OwnTransform) and item.gate is not None:
            refusal = item.gate(options, from_file)
            if refusal:
                raise InvalidArgumentError(f"optimize: transforms[{at}] ({item.name}) {refusal}")
        for earlier in item.runs_after:
            places = [place for place, other in enumerate(listed) if other is earlier]
            if places and places[0] > at:
                raise InvalidArgumentError(
                    f"optimize: transforms[{at}] ({item.name}) must run after {earlier.name}, "
                    f"which the list places later, at transforms[{places[0]}]; list "
                    f"{earlier.name} ahead of it"
                )


class _Run:
    """One call of `optimize`: what its transforms have seen of each other's changes."""

    def __init__(self, graph: Any, options: DefaultsOptions) -> None:
        self.graph = graph
        self.options = options
        self.touched: list[int] = []  # nodes that edits touched, in order
        self.seen: list[int | None] = []  # per entry how much of `touched` it has looked at
        self.memories: list[dict[Any, Any]] = []  # per entry what it remembers
        self.writers: set[int] = set()
        self.converted: set[str | int] = set(graph._converted)

    def go(self, listed: list[Transform], most: int) -> OptimizeReport:
        graph = self.graph
        graph.take_dirty()
        self.writers = {node for node in graph.node_ids() if self._writes(node)}
        self.seen = [None] * len(listed)
        self.memories = [{} for _ in listed]
        report = OptimizeReport(transforms=[TransformReport(item) for item in listed])
        start, operators = graph.mark(), graph._operators
        firing: list[TransformReport] = []
        try:
            restride(graph, graph.node_ids())
            while report.iterations < most:
                report.iterations += 1
                firing = [row for at, row in enumerate(report.transforms) if self._apply(at, row)]
                report.changed = report.changed or bool(firing)
                if not firing:
                    report.converged = True
                    break
            if self._cleanup():
                report.changed = True
        except BaseException:
            graph.rollback(start)
            graph._operators = operators
            restride(graph, graph.node_ids())
            raise
        graph.commit()
        graph._converted = frozenset(self.converted)
        report.changed = self._bodies(listed, most) or report.changed
        if not report.converged:
            for row in firing:
                row.firing_at_cap = True
            _log.warning(
                "optimize: %d iterations were allowed, and transforms still changed the graph in "
                "the last one: %s",
                most,
                ", ".join(row.transform.name for row in firing),
            )
        return report

    def _bodies(self, listed: list[Transform], most: int) -> bool:
        """Runs the runtime's transforms of the list on the bodies of If, Loop and Scan. Inputs and
        outputs of a body stay as they are."""
        own = [item for item in listed if isinstance(item, OwnTransform) and item.gate is None]
        changed = False
        for node, bodies in self.graph._bodies.items():
            for body in bodies if self.graph.is_alive(node) else ():
                changed = body.optimize(own, max_num_iterations=most).changed or changed
        return changed

    def _apply(self, at: int, row: TransformReport) -> bool:
        """Runs one entry; whether it changed the graph."""
        if row.failed:
            return False
        graph = self.graph
        transform = row.transform
        before, converted = graph.mark(), set(self.converted)
        graph._transform = transform.name
        try:
            if isinstance(transform, OwnTransform):
                self._own(at, transform)
            else:
                transform._fn(graph)
        except BaseException as failure:
            if not isinstance(transform, OwnTransform) or not isinstance(failure, Exception):
                graph.commit()
                raise  # `go` undoes the run
            graph.rollback(before)
            restride(graph, self._note())
            self.converted = converted
            status = failure.status if isinstance(failure, ClikaRTError) else Status.Internal
            row.failed = True
            row.failure_code = str(status)
            row.failure_message = str(failure) or type(failure).__name__
            _log.warning("optimize: %s failed and is skipped: %s", transform.name, failure)
            return False
        changed = self._changed_since(before)
        row.applications += changed
        touched = self._note()
        if not isinstance(transform, OwnTransform):
            restride(graph, touched)
        return changed

    def _changed_since(self, mark: int) -> bool:
        """Ends a mark; whether edits stand that came after it."""
        changed: bool = self.graph.mark() > mark
        self.graph.commit()
        self.graph.commit()
        return changed

    def _rewriter(self, memory: dict[Any, Any]) -> Rewriter:
        return Rewriter(self.graph, self.writers, self.options, self.converted, memory)

    def _own(self, at: int, transform: OwnTransform) -> None:
        rewriter = self._rewriter(self.memories[at])
        if transform.whole is not None:
            transform.whole(rewriter)
        if transform.visit is None:
            return
        graph = self.graph
        for node in self._candidates(at, transform.ops):
            if graph.is_alive(node):
                transform.visit(rewriter, node)

    def _candidates(self, at: int, wanted: frozenset[str] | None) -> list[int]:
        """The nodes an entry has to look at: at first all of its operators, then those that edits
        touched since, and their readers."""
        graph = self.graph
        seen, self.seen[at] = self.seen[at], len(self.touched)
        if seen is None:
            if wanted is None:
                return list(graph.node_ids())
            return sorted(node for op in wanted for node in graph.ids_of(op))
        found = set()
        for node in set(self.touched[seen:]):
            if graph.is_alive(node):
                found.add(node)
                for value in graph.results(node):
                    found.update(reader for reader, _ in graph.use_list(value))
        return sorted(node for node in found if wanted is None or graph.op(node) in wanted)

    def _cleanup(self) -> bool:
        """Drops what nothing reads, whether the list asks for it or not."""
        from .transforms.cleanup import drop_unread

        before = self.graph.mark()
        try:
            drop_unread(self._rewriter({}))
        except BaseException:
            self.graph.commit()
            raise
        return self._changed_since(before)

    def _note(self) -> list[int]:
        """Takes over which nodes the last entry touched, and gives them."""
        touched: list[int] = self.graph.take_dirty()
        self.touched.extend(touched)
        self.writers.update(
            node for node in touched if self.graph.is_alive(node) and self._writes(node)
        )
        return touched

    def _writes(self, node: int) -> bool:
        return any(self.graph.meta(value)[5] for value in self.graph.results(node))


def _forget(graph: Any) -> None:
    """Lets go of what belonged to nodes and values that are gone."""
    graph.take_dirty()
    for kept in (graph._calls, graph._extras, graph._bodies):
        for node in [node for node in kept if not graph.is_alive(node)]:
            del kept[node]
    graph._forget_dropped()
