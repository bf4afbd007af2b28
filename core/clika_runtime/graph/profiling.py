"""Where the time of a graph's runs goes, node by node, and how near each node is to the roofline.

The roofline model (Williams, Waterman and Patterson, "Roofline", 2009): a node that moves B bytes
and computes F floating-point operations takes at least max(B / bandwidth, F / peak) seconds. Bytes
are those of the node's operands and results, each once; what stays in a cache between two nodes
moves faster than memory, so that small nodes may lie above 100 %.
"""

from __future__ import annotations

import json
import math
import numbers
import os
import re
import statistics
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .. import dtypes, ops
from .._native._core import tracing_scope
from ..errors import InvalidArgumentError
from .opcode import IF, STRUCTURAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .._native._graph import GraphStore as _Base
    from .lowering import Program
else:
    _Base = object

_COPIED = 16 << 20  # elements of the large copy
_SIDE = 512  # of the matrices that are multiplied
_TIMES = 5
_MOST = 1e30  # bytes or operations a second
_ROWS = 200  # of the table


@dataclass(frozen=True)
class ProfileRow:
    """One node: ``seconds`` is the median of its time in a run, ``bytes`` what it reads and writes,
    ``flops`` its floating-point operations, ``percent`` its part of all nodes' time, ``roofline``
    the percentage of the ceiling that it reaches. ``kernels`` are the operators that it ran as,
    with the median seconds of each.

    The nodes of a subgraph follow the If, Loop or Scan that they belong to, with a path as name
    (``Loop_3/MatMul_0``, ``If_2/then/Add_1``) and a ``depth`` of one more. ``calls`` says how often
    a run ran the node; ``seconds``, ``bytes`` and ``flops`` are those of all of its calls. The row
    of If, Loop or Scan has what is left: the time spent beside the nodes of its subgraphs, and
    neither ``flops`` nor ``roofline`` (None)."""

    name: str
    operator: str
    seconds: float
    bytes: int
    flops: int | None
    percent: float
    roofline: float | None
    kernels: tuple[tuple[str, float], ...]
    calls: int = 1
    depth: int = 0


class ProfileReport:
    """What `profile` measured. ``rows`` has one `ProfileRow` for each node that ran a kernel, in
    the order of the program; ``seconds`` is the median of a whole run; ``bandwidth`` (bytes a
    second) and ``peak`` (operations a second) are the ceilings. `str` gives a table, the slowest
    first."""

    def __init__(
        self, name: str, rows: list[ProfileRow], seconds: float, bandwidth: float, peak: float
    ) -> None:
        self.name = name
        self.rows = rows
        self.seconds = seconds
        self.bandwidth = bandwidth
        self.peak = peak

    def chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes one run with median times as a trace that chrome://tracing and Perfetto show. The
        file appears only when it is complete."""
        from ..io._files import write_atomic

        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": 1, "tid": 1, "args": {"name": self.name}}
        ]
        at = 0.0
        for row, whole in zip(self.rows, _wholes(self.rows), strict=True):
            args = {
                "operator": row.operator,
                "bytes": row.bytes,
                "roofline_percent": row.roofline,
                "calls": row.calls,
            }
            events.append(_event(row.name, 1, at, whole, args))
            for kernel, seconds in row.kernels:
                events.append(_event(kernel, 2, at, seconds, {"node": row.name}))
                at += seconds
        text = json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
        write_atomic(os.fspath(path), [text.encode()])

    def __str__(self) -> str:
        rows = sorted(self.rows, key=lambda row: -row.seconds)
        head = ("node", "operator", "calls", "time", "bytes", "% time", "% roofline")
        table = [head, *(_cells(row) for row in rows[:_ROWS])]
        widths = [max(len(row[column]) for row in table) for column in range(len(head))]
        lines = [
            f"Profile of '{self.name}': {_time(self.seconds)} a run, "
            f"{_time(sum(row.seconds for row in rows))} of it in {len(rows)} nodes; ceilings: "
            f"{self.bandwidth / 1e9:.1f} GB/s, {self.peak / 1e9:.1f} GFLOP/s"
        ]
        for row in table:
            left = [text.ljust(width) for text, width in zip(row[:2], widths[:2], strict=True)]
            right = [text.rjust(width) for text, width in zip(row[2:], widths[2:], strict=True)]
            lines.append("  ".join(["", *left, *right]))
        if len(rows) > _ROWS:
            lines.append(f"  ... and {len(rows) - _ROWS} more nodes")
        return "\n".join(lines)

    __repr__ = __str__


class Profiling(_Base):
    """`profile` and `profile_runs` of a `ModelGraph`."""

    def profile(
        self: Any,
        inputs: Sequence[Any] | Mapping[str, Any],
        runs: int = 10,
        *,
        bandwidth: float | None = None,
        peak: float | None = None,
    ) -> ProfileReport:
        """Runs the finalized graph once to warm up and ``runs`` times with a clock around every
        instruction, and gives a `ProfileReport`. The runs are runs: they rewrite the graph's
        states.

        ``bandwidth`` (bytes a second) and ``peak`` (floating-point operations a second) are the
        ceilings; by default those of a copy of 64 MiB and of a product of float32 matrices of 512,
        measured once per process and device. Raises `InvalidArgumentError` before `finalize`
        (``FAILED_PRECONDITION``), and what a run raises.

        >>> import clika_runtime as crt
        >>> spec = crt.TensorSpec("x", crt.float32, [64, 64])
        >>> graph = crt.trace(lambda x: [crt.relu(x[0] @ x[0])], [spec]).graph
        >>> graph.finalize()
        >>> report = graph.profile([crt.ones(64, 64)], bandwidth=1e10, peak=1e11)
        >>> [(row.name, row.operator, row.bytes, row.flops) for row in report.rows]
        [('MatMul_1', 'matmul', 32768, 524288), ('Relu_2', 'relu', 32768, 4096)]
        """
        if type(runs) is not int or not 1 <= runs <= 1_000_000:
            raise InvalidArgumentError(f"profile: runs must be a number of runs, got {runs!r}")
        program, bandwidth, peak = _profiled(self, "profile", bandwidth, peak)
        with tracing_scope(None):
            program.run(inputs)
            wall = []
            measured_graph = _Measured(self, program)
            try:
                for _ in range(runs):
                    measured_graph.profile(True)
                    before = time.perf_counter()
                    program.run(inputs)
                    wall.append(time.perf_counter() - before)
                    measured_graph.take()
            finally:
                measured_graph.profile(False)
        rows = _percentages(measured_graph.rows(bandwidth, peak))
        return ProfileReport(self.name, rows, statistics.median(wall), bandwidth, peak)

    @contextmanager
    def profile_runs(
        self: Any, *, bandwidth: float | None = None, peak: float | None = None
    ) -> Iterator[ProfileReport]:
        """A clock around every instruction of the runs that somebody makes within the block, whose
        inputs are theirs; the report is filled at the block's end.

        ``seconds``, ``bytes``, ``flops`` and ``calls`` of its rows are those of all runs together
        (with symbolic sizes as in the last of them), ``seconds`` of the report is the nodes' sum. A
        graph that did not run has no rows. ``bandwidth``, ``peak`` and errors are those of
        `profile`; blocks of one graph do not nest.

        >>> import clika_runtime as crt
        >>> spec = crt.TensorSpec("x", crt.float32, [8])
        >>> graph = crt.trace(lambda x: [crt.relu(x[0])], [spec]).graph
        >>> graph.finalize()
        >>> with graph.profile_runs(bandwidth=1e10, peak=1e11) as report:
        ...     for _ in range(3):
        ...         _ = graph.run([crt.ones(8)])
        >>> [(row.operator, row.calls, row.bytes) for row in report.rows]
        [('relu', 3, 192)]
        """
        program, bandwidth, peak = _profiled(self, "profile_runs", bandwidth, peak)
        measured_graph = _Measured(self, program)
        report = ProfileReport(self.name, [], 0.0, bandwidth, peak)
        measured_graph.profile(True)
        try:
            yield report
            measured_graph.take()
        finally:
            measured_graph.profile(False)
        report.rows = _percentages(measured_graph.rows(bandwidth, peak))
        report.seconds = sum(row.seconds for row in report.rows)


def _profiled(
    graph: Any, what: str, bandwidth: float | None, peak: float | None
) -> tuple[Program, float, float]:
    """The graph's program and the ceilings."""
    for name, given in (("bandwidth", bandwidth), ("peak", peak)):
        number = isinstance(given, numbers.Real) and not isinstance(given, bool)
        if given is not None and not (number and 1 <= given <= _MOST):
            raise InvalidArgumentError(
                f"{what}: {name} must be 1 to {_MOST:g} a second, got {given!r:.80}"
            )
    program = graph._program
    if program is None:
        graph._check_whole(what)
        raise InvalidArgumentError(
            f"{what}: the graph is not finalized; call finalize() first", "FAILED_PRECONDITION"
        )
    if bandwidth is None or peak is None:
        with tracing_scope(None):
            measured = ceilings(str(graph.device))
        bandwidth = measured[0] if bandwidth is None else bandwidth
        peak = measured[1] if peak is None else peak
    return program, float(bandwidth), float(peak)


def _percentages(rows: list[ProfileRow]) -> list[ProfileRow]:
    whole = sum(row.seconds for row in rows)
    return [replace(row, percent=100 * row.seconds / whole) for row in rows] if whole else rows


@lru_cache(maxsize=8)
def ceilings(device: str) -> tuple[float, float]:
    """(bytes a second of a large copy, operations a second of a product of matrices) of a device,
    with our own kernels: the best of several times."""
    large = ops.full((_COPIED,), 1.0, dtype=dtypes.float32).to(device)
    copying = _best(lambda: ops.copy(large))
    matrix = ops.full((_SIDE, _SIDE), 0.5, dtype=dtypes.float32).to(device)
    product = _best(lambda: ops.matmul(matrix, matrix))
    return 2 * large.nbytes / copying, 2 * _SIDE**3 / product


def _best(call: Any) -> float:
    found = float("inf")
    for _ in range(_TIMES):
        before = time.perf_counter()
        call().synchronize()
        found = min(found, time.perf_counter() - before)
    return max(found, 1e-9)


# ---------------------------------------------------------------- rows
class _Measured:
    """A graph's program, and those of its subgraphs: the times of their instructions, run by
    run."""

    def __init__(self, graph: Any, program: Program, path: str = "", depth: int = 0) -> None:
        self.graph, self.program, self.path, self.depth = graph, program, path, depth
        self.times: list[list[float]] = []  # per run, of each instruction, over all calls
        self.calls: list[int] = []  # per run
        self.bodies = {
            node: [
                _Measured(body, inner, f"{path}{graph.node_name(node)}/{part}", depth + 1)
                for part, body, inner in zip(
                    ("then/", "else/") if graph.op(node) == IF else ("",),
                    graph._bodies[node],
                    programs,
                    strict=True,
                )
            ]
            for node, programs in program.bodies.items()
        }

    def parts(self) -> list[_Measured]:
        """This program and all within it."""
        inner = [body for bodies in self.bodies.values() for body in bodies]
        return [self, *(part for body in inner for part in body.parts())]

    def profile(self, on: bool) -> None:
        for part in self.parts():
            part.program.plan.profile(on)

    def take(self) -> None:
        """Keeps what the run before took."""
        for part in self.parts():
            plan = part.program.plan
            part.times.append([nanoseconds / 1e9 for _, _, nanoseconds in plan.profiled()])
            part.calls.append(plan.profiled_runs())

    def rows(self, bandwidth: float, peak: float) -> list[ProfileRow]:
        """A row for each node that ran, by the instructions that it became."""
        graph = self.graph
        if not any(self.calls):
            return []
        sizes = _sizes(graph, self.program.plan)
        calls = statistics.median_high(self.calls)
        owners = {
            recorded: node
            for node, (begin, end) in self.program.spans.items()
            for recorded in range(begin, end)
        }
        kernels: dict[int, list[tuple[str, list[float]]]] = {}
        for at, (op, recorded, _) in enumerate(self.program.plan.profiled()):
            node = owners[recorded]
            runs = [run[at] for run in self.times]
            if node in self.bodies and op == graph.op(node):
                within = zip(*(body.times for body in self.bodies[node]), strict=True)
                inside = [sum(map(sum, bodies)) for bodies in within]
                runs = [max(one - other, 0.0) for one, other in zip(runs, inside, strict=True)]
            kernels.setdefault(node, []).append((op, runs))
        rows = []
        for node, found in kernels.items():
            seconds = statistics.median(map(sum, zip(*(runs for _, runs in found), strict=True)))
            moved, flops, roofline = calls * _bytes(graph, node, sizes), None, None
            if node not in graph._bodies:
                flops = calls * _flops(graph, node, sizes)
                if seconds > 0:
                    roofline = 100 * max(moved / bandwidth, flops / peak) / seconds
            rows.append(
                ProfileRow(
                    self.path + graph.node_name(node),
                    graph.op(node),
                    seconds,
                    moved,
                    flops,
                    0.0,
                    roofline,
                    tuple((op, statistics.median(runs)) for op, runs in found),
                    calls,
                    self.depth,
                )
            )
            for body in self.bodies.get(node, ()):
                rows += body.rows(bandwidth, peak)
        return rows


def _sizes(graph: Any, plan: Any) -> list[int]:
    """What each symbolic size was in the run before, by its number: entry ``-s - 1``."""
    tracer, values = graph._tracer, plan.symbols()
    later = tracer.symbol_bounds()[len(values) :]  # the program knows nothing of them
    found: list[int] = tracer.values_at([*values, *(low for low, _ in later)])
    return found


def _shape(graph: Any, value: int, sizes: list[int]) -> list[int]:
    return [size if size >= 0 else sizes[-size - 1] for size in graph.meta(value)[3]]


def _bytes(graph: Any, node: int, sizes: list[int]) -> int:
    """The bytes of a node's operands and results, each value once."""
    from ..io import SCHEMES

    total = 0
    for value in {*graph.ports(node), *graph.results(node)} - {-1}:
        count = math.prod(_shape(graph, value, sizes))
        dtype, scheme = graph.meta(value)[:2]
        if scheme:
            total += count // SCHEMES[scheme].columns * SCHEMES[scheme].nbytes
        else:
            total += dtypes.by_code(dtype).nbytes(count)
    return total


def _flops(graph: Any, node: int, sizes: list[int]) -> int:
    """Floating-point operations: of products two for each term, of other nodes one for each
    element of the largest operand or result."""
    op = graph.op(node)
    ports = [value for value in graph.ports(node) if value >= 0]
    results = graph.results(node)
    shapes = [_shape(graph, value, sizes) for value in (*ports, *results)]
    numbers = [math.prod(shape) for shape in shapes]
    if op in STRUCTURAL:
        return 0
    carried = sum(key in graph._extras.get(node, {}) for key in ("bias", "activation"))
    result = numbers[len(ports)] if results else 0
    extra = carried * result
    if op in ("matmul", "linear"):
        return 2 * result * (shapes[0][-1] if shapes[0] else 1) + extra
    if re.fullmatch(r"conv\dd", op):
        return 2 * result * (numbers[1] // max(shapes[len(ports)][-1], 1)) + extra
    if re.fullmatch(r"conv_transpose\dd", op):
        return 2 * numbers[0] * (numbers[1] // max(shapes[0][-1], 1)) + extra
    if op == "scaled_dot_product_attention":
        return 4 * numbers[0] * shapes[1][-2]
    return max(numbers, default=0) + extra


# ---------------------------------------------------------------- text
def _wholes(rows: list[ProfileRow]) -> list[float]:
    """The seconds of each row together with the rows of its subgraphs."""
    found: list[float] = []
    within: dict[int, float] = {}  # depth -> seconds of the rows that are met before the outer one
    for row in reversed(rows):
        found.append(row.seconds + within.pop(row.depth + 1, 0.0))
        within[row.depth] = within.get(row.depth, 0.0) + found[-1]
    return found[::-1]


def _event(name: str, track: int, at: float, seconds: float, args: Any) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "pid": 1,
        "tid": track,
        "ts": at * 1e6,
        "dur": seconds * 1e6,
        "args": args,
    }


def _cells(row: ProfileRow) -> tuple[str, ...]:
    return (
        row.name,
        row.operator,
        str(row.calls),
        _time(row.seconds),
        f"{row.bytes:,}",
        f"{row.percent:.1f}",
        "-" if row.roofline is None else f"{row.roofline:.0f}",
    )


def _time(seconds: float) -> str:
    """A time for people.

    >>> _time(0.00001234), _time(0.5)
    ('12.3 µs', '500.0 ms')
    """
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"
