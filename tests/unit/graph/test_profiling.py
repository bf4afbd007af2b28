"""`ModelGraph.profile`: rows for nodes, ceilings, the table and the trace."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime import ops
from clika_runtime.graph import ModelGraph
from clika_runtime.graph.control import cond, loop, scan
from clika_runtime.graph.profiling import ceilings

from .test_transforms import Block
from .traced_graphs import bits, draw, trace

CEILINGS = {"bandwidth": 1e10, "peak": 1e11}


def profiled(graph: ModelGraph, *inputs: Any, **options: Any) -> Any:
    graph.finalize()
    return graph.profile(list(inputs), 3, **{**CEILINGS, **options})


def test_rows_are_the_nodes_that_ran() -> None:
    """Views run nothing."""

    def fn(x: Any) -> Any:
        y = x.reshape(-1, 8).t()
        return [crt.relu(y), ops.normalize(x, dim=-1), crt.softmax(x @ x, -1)]

    graph = trace(fn, draw(1, 16, 16))
    report = profiled(graph, draw(2, 16, 16))
    names = [row.name for row in report.rows]
    assert names == [
        node.name
        for node in graph.topological_order()
        if node.op_code is not None and node.op_code.value not in ("reshape", "t")
    ]
    assert all(graph.node(row.name).op_code.value == row.operator for row in report.rows)
    assert sum(row.percent for row in report.rows) == pytest.approx(100)
    for row in report.rows:
        assert row.seconds > 0 and all(seconds >= 0 for _, seconds in row.kernels)


def test_a_node_that_runs_as_several_kernels_is_one_row() -> None:
    graph = trace(lambda x: crt.relu(x @ x), draw(1, 16, 16))
    graph.optimize()
    (row,) = profiled(graph, draw(2, 16, 16)).rows
    assert row.operator == "matmul" and [name for name, _ in row.kernels] == ["matmul", "relu"]
    assert row.flops == 2 * 16**3 + 16**2


def test_time_goes_where_the_work_is() -> None:
    big, small = draw(1, 384, 384), draw(2, 8, 8)
    graph = trace(lambda x, y: [x @ x, y @ y], big, small)
    report = profiled(graph, big, small)
    heavy, light = report.rows
    assert heavy.percent > 90 and light.percent < 10
    assert heavy.seconds < report.seconds * 1.5


def test_bytes_and_operations() -> None:
    """Counted by hand: every operand and result once, two operations for each term."""
    weight, bias = draw(1, 32, 64), draw(2, 32)
    kernel = draw(3, 5, 3, 3, 4)
    packed = crt.make_quantized(crt.zeros((6, 68), dtype=crt.uint8), "GGUF_Q8_0", [64, 6]).tensor

    def fn(x: Any, image: Any, h: Any) -> Any:
        return [
            ops.linear(x, weight, bias),
            ops.conv2d(image, kernel),
            ops.linear(x, packed),
            x + x,
            ops.scaled_dot_product_attention(h, h, h),
        ]

    inputs = (draw(4, 10, 64), draw(5, 2, 8, 8, 4), draw(6, 1, 2, 7, 16))
    rows = profiled(trace(fn, *inputs), *inputs).rows
    found = {row.name: (row.bytes, row.flops) for row in rows}
    assert list(found.values()) == [
        (4 * (10 * 64 + 32 * 64 + 32 + 10 * 32), 2 * 10 * 64 * 32),
        (4 * (2 * 8 * 8 * 4 + 5 * 9 * 4 + 2 * 6 * 6 * 5), 2 * (2 * 6 * 6 * 5) * 9 * 4),
        (4 * (10 * 64 + 10 * 6) + 6 * 68, 2 * 10 * 64 * 6),
        (4 * 2 * 10 * 64, 10 * 64),
        (4 * 2 * 2 * 7 * 16, 4 * 2 * 7 * 7 * 16),
    ]
    for row in rows:
        least = max(row.bytes / CEILINGS["bandwidth"], row.flops / CEILINGS["peak"])
        assert row.roofline == pytest.approx(100 * least / row.seconds)


def test_sizes_of_the_run() -> None:
    block = Block()
    for optimize in (False, True):
        graph = trace(lambda x: block(x), draw(5, 2, 3, 16), dynamic_axes={"x": {0: "batch"}})
        if optimize:
            graph.optimize()
        one, four = (profiled(graph, draw(5, n, 3, 16)) for n in (1, 4))
        fixed = trace(lambda x: block(x), draw(5, 4, 3, 16))
        if optimize:
            fixed.optimize()
        wanted = profiled(fixed, draw(5, 4, 3, 16))
        assert [(row.name, row.bytes) for row in four.rows] == [
            (row.name, row.bytes) for row in wanted.rows
        ]
        assert all(a.bytes < b.bytes for a, b in zip(one.rows, four.rows, strict=True))


def test_a_size_that_is_an_expression() -> None:
    specs = [
        crt.TensorSpec(name, crt.float32, [-1, 2], dim_names=[size, None])
        for name, size in (("x", "n + 3"), ("y", "n"))
    ]
    graph = crt.trace(lambda x: [crt.relu(x[0]), crt.exp(x[1])], specs).graph
    rows = profiled(graph, draw(1, 10, 2), draw(2, 7, 2)).rows
    assert [row.bytes for row in rows] == [2 * 4 * 20, 2 * 4 * 14]


def in_loops(x: Any) -> Any:
    """A loop, a branch, a scan, and a loop in a loop."""
    weight = draw(3, 32, 32)
    (y,) = loop(5, None, lambda i, go, v: (go, crt.tanh(v @ weight)), [x])
    (z,) = cond(y.sum() > 1e9, lambda a: a @ weight, crt.relu, [y])
    _, rows = scan(lambda s, a: (s + a, a), [crt.zeros(32)], [z])
    (deep,) = loop(3, None, lambda i, go, v: (go, *loop(2, None, inner, [v])), [rows])
    return [deep]


def inner(i: Any, go: Any, v: Any) -> Any:
    return go, crt.exp(v)


def test_nodes_of_subgraphs_have_rows_of_their_own() -> None:
    """Counted by hand, for a run of n rows."""
    graph = trace(in_loops, draw(1, 4, 32), dynamic_axes={"x": {0: "n"}})
    n = 6
    report = profiled(graph, draw(2, n, 32))
    within = [row for row in report.rows if row.depth]
    tile, row = 4 * n * 32, 4 * 32
    assert [(row.name, row.calls, row.depth, row.bytes, row.flops) for row in within] == [
        ("Loop_2/MatMul_1", 5, 1, 5 * (2 * tile + 4 * 32 * 32), 5 * 2 * n * 32 * 32),
        ("Loop_2/Tanh_2", 5, 1, 5 * 2 * tile, 5 * n * 32),
        ("If_5/else/Relu_1", 1, 1, 2 * tile, n * 32),
        ("Scan_7/Add_1", n, 1, n * 3 * row, n * 32),
        ("Loop_9/Loop_2", 3, 1, 3 * (2 * tile + 8), None),
        ("Loop_9/Loop_2/Exp_1", 6, 2, 6 * 2 * tile, 6 * n * 32),
    ]
    for row in report.rows:
        if row.operator in ("loop", "if", "scan"):
            assert row.flops is None and row.roofline is None
        else:
            least = max(row.bytes / CEILINGS["bandwidth"], row.flops / CEILINGS["peak"])
            assert row.roofline == pytest.approx(100 * least / row.seconds)
    assert sum(row.percent for row in report.rows) == pytest.approx(100)
    assert sum(row.seconds for row in report.rows) < report.seconds * 1.5


def test_a_subgraph_says_its_own_share() -> None:
    """The work of a loop is in its body, and its node keeps what is left."""
    weight = draw(1, 192, 192)
    graph = trace(
        lambda x: loop(8, None, lambda i, go, v: (go, v @ weight), [x]), draw(2, 192, 192)
    )
    outer, product = profiled(graph, draw(2, 192, 192)).rows
    assert (outer.operator, product.operator) == ("loop", "matmul")
    assert outer.seconds < product.seconds and product.percent > 50
    assert product.name == f"{outer.name}/{graph._bodies[graph.node_ids()[-1]][0].nodes()[-1].name}"


def test_a_branch_that_is_taken_now_and_then() -> None:
    count = crt.zeros(())

    def fn(x: Any) -> Any:
        count.add_(1.0)
        return cond(count > 2.0, lambda a: crt.exp(a), lambda a: crt.tanh(a), [x])

    graph = trace(fn, draw(1, 4))
    rows = profiled(graph, draw(1, 4)).rows  # four runs: tanh, tanh, exp, exp
    found = {row.name.split("/", 1)[1]: row.calls for row in rows if row.depth}
    assert found == {"then/Exp_1": 1, "else/Tanh_1": 0}


def test_the_trace_nests_subgraphs(tmp_path: Path) -> None:
    graph = trace(in_loops, draw(1, 4, 32))
    report = profiled(graph, draw(1, 4, 32))
    report.chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    nodes = [event for event in events if event["ph"] == "X" and event["tid"] == 1]
    assert [event["name"] for event in nodes] == [row.name for row in report.rows]
    spans = {event["name"]: (event["ts"], event["ts"] + event["dur"]) for event in nodes}
    for row in report.rows:
        begin, end = spans[row.name]
        if row.depth:
            outer_begin, outer_end = spans[row.name.rsplit("/", 2 if "If" in row.name else 1)[0]]
            assert outer_begin <= begin and end <= outer_end + 1e-6
    assert sum(row.seconds for row in report.rows) * 1e6 == pytest.approx(
        max(end for _, end in spans.values())
    )


def test_runs_after_it_are_as_before() -> None:
    total = crt.zeros(2)

    def fn(x: Any) -> Any:
        total.add_(x)
        return total * 1.0

    x = crt.ones(2)
    graph = trace(fn, x)
    profiled(graph, x)  # one run to warm up, and three
    assert graph.run([x])[0].tolist() == [5.0, 5.0]
    assert graph._program.plan.profiled() and not any(
        t for _, _, t in graph._program.plan.profiled()
    )
    plain = trace(lambda x: crt.exp(x), draw(1, 4))
    report = profiled(plain, draw(2, 4))
    assert bits(plain.run({"x": draw(2, 4)})[0]) == bits(crt.exp(draw(2, 4)))
    assert plain.profile({"x": draw(2, 4)}, 1, **CEILINGS).rows[0].name == report.rows[0].name


def test_table_and_trace(tmp_path: Path) -> None:
    graph = trace(lambda x: crt.softmax(crt.relu(x @ x), -1), draw(1, 64, 64))
    report = profiled(graph, draw(2, 64, 64))
    lines = str(report).splitlines()
    assert "ceilings: 10.0 GB/s, 100.0 GFLOP/s" in lines[0]
    slowest = max(report.rows, key=lambda row: row.seconds)
    assert lines[2].split()[:2] == [slowest.name, slowest.operator]
    assert len(lines) == 2 + len(report.rows) == 5
    report.chrome_trace(tmp_path / "trace.json")
    assert [file.name for file in tmp_path.iterdir()] == ["trace.json"]
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    nodes = [event for event in events if event["ph"] == "X" and event["tid"] == 1]
    assert [event["name"] for event in nodes] == [row.name for row in report.rows]
    for event, row in zip(nodes, report.rows, strict=True):
        assert event["dur"] == pytest.approx(row.seconds * 1e6)
        assert event["args"]["bytes"] == row.bytes
    assert [event["ts"] for event in nodes] == sorted(event["ts"] for event in nodes)
    with pytest.raises(crt.NotFoundError):
        report.chrome_trace(tmp_path / "absent" / "trace.json")


def test_ceilings_are_measured_once() -> None:
    bandwidth, peak = ceilings("cpu")
    assert 1e8 < bandwidth < 1e13 and 1e8 < peak < 1e15
    assert ceilings("cpu") == (bandwidth, peak)
    graph = trace(lambda x: crt.relu(x), draw(1, 4))
    graph.finalize()
    report = graph.profile([draw(1, 4)], 1)
    assert (report.bandwidth, report.peak) == (bandwidth, peak)


def test_runs_of_somebody_else_are_timed() -> None:
    """All runs of the block together; what runs before and after it does not count."""
    graph = trace(lambda x: crt.softmax(x @ x, -1), draw(1, 8, 8))
    graph.finalize()
    graph.run([draw(1, 8, 8)])
    with graph.profile_runs(**CEILINGS) as report:
        assert report.rows == []
        results = [bits(graph.run([draw(seed, 8, 8)])[0]) for seed in range(3)]
    graph.run([draw(1, 8, 8)])
    once = {row.name: row for row in graph.profile([draw(1, 8, 8)], 1, **CEILINGS).rows}
    assert [row.name for row in report.rows] == list(once)
    for row in report.rows:
        assert (row.calls, row.bytes) == (3, 3 * once[row.name].bytes)
        assert row.flops == 3 * once[row.name].flops and row.seconds > 0
    assert sum(row.percent for row in report.rows) == pytest.approx(100)
    assert report.seconds == sum(row.seconds for row in report.rows)
    assert results == [bits(graph.run([draw(seed, 8, 8)])[0]) for seed in range(3)]


def test_a_block_without_runs_has_no_rows() -> None:
    graph = trace(lambda x: crt.relu(x), draw(1, 4))
    graph.finalize()
    graph.run([draw(1, 4)])
    with graph.profile_runs(**CEILINGS) as report:
        pass
    assert (report.rows, report.seconds) == ([], 0.0)


def test_a_block_that_fails_ends_the_clock() -> None:
    graph = trace(lambda x: crt.relu(x), draw(1, 4))
    graph.finalize()
    with pytest.raises(ZeroDivisionError), graph.profile_runs(**CEILINGS) as report:
        graph.run([draw(1, 4)])
        raise ZeroDivisionError
    assert report.rows == []
    graph.run([draw(1, 4)])
    assert not any(t for _, _, t in graph._program.plan.profiled())


def test_refusals() -> None:
    graph = trace(lambda x: crt.relu(x), draw(1, 4))
    with pytest.raises(crt.InvalidArgumentError, match="call finalize") as failure:
        graph.profile([draw(1, 4)])
    assert failure.value.code_name == "FAILED_PRECONDITION"
    with pytest.raises(crt.InvalidArgumentError, match=r"profile_runs: .* call finalize"):
        with graph.profile_runs():
            pass
    graph.finalize()
    for runs in (0, -1, 2.0, True):
        with pytest.raises(crt.InvalidArgumentError, match="number of runs"):
            graph.profile([draw(1, 4)], runs)
    for ceiling in (0.0, "fast", True, float("nan"), 5e-324, 10**400, Fraction(1, 10**400)):
        with pytest.raises(crt.InvalidArgumentError, match="bandwidth must be 1 to 1e\\+30 a"):
            graph.profile([draw(1, 4)], bandwidth=ceiling)
    with pytest.raises(crt.InvalidArgumentError):
        graph.profile([draw(1, 5)], **CEILINGS)
    assert graph.run([draw(1, 4)])
