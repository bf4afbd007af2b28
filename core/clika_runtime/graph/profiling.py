"""Where the time of a graph's runs goes, node by node, and how near each node is to the roofline.

The roofline model (Williams, Waterman and Patterson, "Roofline", 2009): a node that moves B bytes
and computes F floating-point operations takes at least max(B / bandwidth, F / peak) seconds. Bytes
are those of the node's operands and results, each once; what stays in a cache between two nodes
moves faster than memory, so that small nodes may lie above 100 %.
"""

from __future__ import annotations

import json
import math
import os
import re
import statistics
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .. import dtypes, ops
from .._native._core import tracing_scope
from ..errors import InvalidArgumentError
from .opcode import STRUCTURAL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .._native._graph import GraphStore as _Base
else:
    _Base = object

_COPIED = 16 << 20  # elements of the large copy
_SIDE = 512  # of the matrices that are multiplied
_TIMES = 5
_ROWS = 200  # of the table


@dataclass(frozen=True)
class ProfileRow:
    """One node: ``seconds`` is the median of its time in a run, ``bytes`` what it reads and writes,
    ``flops`` its floating-point operations (None for subgraphs), ``percent`` its part of all nodes'
    time, ``roofline`` the percentage of the ceiling that it reaches (None for subgraphs).
    ``kernels`` are the operators that it ran as, with the median seconds of each."""

    name: str
    operator: str
    seconds: float
    bytes: int
    flops: int | None
    percent: float
    roofline: float | None
    kernels: tuple[tuple[str, float], ...]


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
        for row in self.rows:
            args = {"operator": row.operator, "bytes": row.bytes, "roofline_percent": row.roofline}
            events.append(_event(row.name, 1, at, row.seconds, args))
            for kernel, seconds in row.kernels:
                events.append(_event(kernel, 2, at, seconds, {"node": row.name}))
                at += seconds
        text = json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
        write_atomic(os.fspath(path), [text.encode()])

    def __str__(self) -> str:
        rows = sorted(self.rows, key=lambda row: -row.seconds)
        head = ("node", "operator", "time", "bytes", "% time", "% roofline")
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
    """`profile` of a `ModelGraph`."""

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
        for name, given in (("bandwidth", bandwidth), ("peak", peak)):
            if given is not None and not 0 < given < float("inf"):
                raise InvalidArgumentError(f"profile: {name} must be above 0, got {given!r}")
        program = self._program
        if program is None:
            self._check_whole("profile")
            raise InvalidArgumentError(
                "profile: the graph is not finalized; call finalize() first", "FAILED_PRECONDITION"
            )
        with tracing_scope(None):
            if bandwidth is None or peak is None:
                measured = ceilings(str(self.device))
                bandwidth = measured[0] if bandwidth is None else bandwidth
                peak = measured[1] if peak is None else peak
            program.run(inputs)
            wall, times = [], []
            plan = program.plan
            try:
                for _ in range(runs):
                    plan.profile(True)
                    before = time.perf_counter()
                    program.run(inputs)
                    wall.append(time.perf_counter() - before)
                    times.append(plan.profiled())
            finally:
                plan.profile(False)
        rows = _rows(self, times, _sizes(self, inputs), float(bandwidth), float(peak))
        return ProfileReport(
            self.name, rows, statistics.median(wall), float(bandwidth), float(peak)
        )


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
def _rows(
    graph: Any,
    times: list[list[tuple[str, int, int]]],
    sizes: list[int],
    bandwidth: float,
    peak: float,
) -> list[ProfileRow]:
    """A row for each node: the times of the instructions that it became."""
    owners = {
        recorded: node
        for node, (begin, end) in graph._program.spans.items()
        for recorded in range(begin, end)
    }
    medians: dict[int, list[tuple[str, float]]] = {}
    totals: dict[int, list[float]] = {}
    for at, (op, recorded, _) in enumerate(times[0]):
        node = owners[recorded]
        runs = [run[at][2] / 1e9 for run in times]
        medians.setdefault(node, []).append((op, statistics.median(runs)))
        before = totals.setdefault(node, [0.0] * len(times))
        totals[node] = [one + other for one, other in zip(before, runs, strict=True)]
    spent = {node: statistics.median(runs) for node, runs in totals.items()}
    whole = sum(spent.values())
    rows = []
    for node, seconds in spent.items():
        moved, flops = _bytes(graph, node, sizes), _flops(graph, node, sizes)
        roofline = None
        if flops is not None and seconds > 0:
            roofline = 100 * max(moved / bandwidth, flops / peak) / seconds
        percent = 100 * seconds / whole if whole else 0.0
        rows.append(
            ProfileRow(
                graph.node_name(node),
                graph.op(node),
                seconds,
                moved,
                flops,
                percent,
                roofline,
                tuple(medians[node]),
            )
        )
    return rows


def _sizes(graph: Any, inputs: Any) -> list[int]:
    """What each symbolic size was in the run, by its number: entry ``-s - 1``. A program has every
    symbol that it needs as a size of an input."""
    tracer = graph._tracer
    symbols = list(zip(tracer.symbols(), tracer.symbol_bounds(), strict=True))
    if isinstance(inputs, dict):
        inputs = [inputs[name] for name in graph.input_names()]
    given = {
        size: found
        for node, tensor in zip(graph.input_ids(), inputs, strict=True)
        for size, found in zip(graph.meta(*graph.results(node))[3], tensor.shape, strict=True)
    }
    found: list[int] = tracer.values_at(
        [
            given.get(tracer.encoded(tracer.symbol(name, *bounds)), bounds[0])
            for name, bounds in symbols
        ]
    )
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


def _flops(graph: Any, node: int, sizes: list[int]) -> int | None:
    """Floating-point operations: of products two for each term, of other nodes one for each
    element of the largest operand or result."""
    op = graph.op(node)
    if node in graph._bodies:
        return None
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
