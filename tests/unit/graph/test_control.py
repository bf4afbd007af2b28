"""If, Loop and Scan: traced and run natively, equal to the eager functions bit for bit."""

from __future__ import annotations

from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime.graph import cond, loop, scan


def check(fn: Any, *examples: Any) -> Any:
    """The traced function gives what the eager one gives, for every example."""
    traced = crt.trace(fn, example_inputs=examples[0])
    traced.finalize()
    for example in examples:
        want, got = fn(*example), traced(*example)
        for one, other in zip(got, want, strict=True):
            assert one.dtype == other.dtype and one.bytes() == other.bytes()
    return traced.graph


X = crt.tensor([1.0, 2.0])


def test_if_takes_one_branch_and_reads_what_both_need() -> None:
    weight = crt.tensor([2.0, 3.0])

    def fn(x: Any) -> Any:
        y = x + 1
        return cond(x.sum() > 0, lambda t: t * weight + y, lambda t: -t, [x])

    graph = check(fn, (X,), (-X,))
    (node,) = graph.find_nodes(crt.graph.OpCode.If)
    assert [value.name for value in node.inputs] == ["Gt_3_0", "x", "constant_1", "Add_1_0"]
    assert graph.has_path(graph.node("Add_1"), node)


def test_the_other_branch_does_not_run() -> None:
    """A division of integers by zero is an error of the kernel."""

    def fn(x: Any) -> Any:
        return cond(x.sum() == 0, lambda t: t, lambda t: 6 // t, [x])

    traced = crt.trace(fn, example_inputs=(crt.tensor([1, 2]),))
    traced.finalize()
    assert traced(crt.tensor([0, 0]))[0].tolist() == [0, 0]
    assert traced(crt.tensor([2, 3]))[0].tolist() == [3, 2]
    with pytest.raises(crt.ClikaRTError):
        traced(crt.tensor([0, 3]))


def test_loop_carries_stacks_and_stops() -> None:
    def fn(x: Any) -> Any:
        total, seen = loop(3, None, lambda i, go, t: (go, t + x * i.to(crt.float32), t * 2), [x])
        count, power = loop(
            None,
            crt.full((), True, dtype=crt.bool),
            lambda i, go, c, v: (c + 1 < 5, c + 1, v * 2),
            [crt.zeros((), dtype=crt.int64), x],
        )
        (never,) = loop(0, True, lambda i, go, v: (go, v + 1), [x])
        (skipped,) = loop(5, False, lambda i, go, v: (go, v + 1), [x])
        return total, seen, count, power, never, skipped

    check(fn, (X,), (crt.tensor([0.5, -7.0]),))


def test_trip_count_that_is_computed() -> None:
    def fn(x: Any) -> Any:
        count = x.sum().to(crt.int64)
        return loop(count, True, lambda i, go, v: (go, v + i.to(crt.float32)), [x])

    check(fn, (X,), (X * 10,))


def test_scan_over_several_tensors_and_a_size_that_changes() -> None:
    def fn(x: Any, y: Any) -> Any:
        return scan(lambda s, a, b: (s + a * b, s - b, a), [crt.zeros(2)], [x, y])

    rows = crt.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    check(fn, (rows, rows * 3))
    traced = crt.trace(
        fn,
        example_inputs=(rows, rows),
        dynamic_axes={"x": {0: "steps"}, "y": {0: "steps"}},
    )
    traced.finalize()
    for count in (1, 2, 3):
        want = fn(rows[:count].contiguous(), rows[:count].contiguous())
        got = traced(rows[:count].contiguous(), rows[:count].contiguous())
        assert [item.tolist() for item in got] == [item.tolist() for item in want]


def test_bodies_nest() -> None:
    def fn(x: Any) -> Any:
        def body(i: Any, go: Any, v: Any) -> Any:
            (w,) = cond(v.sum() > 3, lambda a: a - x, lambda a: a + x * 2, [v])
            (w,) = loop(2, None, lambda j, g, u: (g, u + i.to(crt.float32)), [w])
            return go, w

        return loop(4, None, body, [x])

    check(fn, (X,), (crt.tensor([-1.0, 0.25]),))


def test_refusals_name_the_rule() -> None:
    def traced(fn: Any) -> Any:
        return crt.trace(fn, example_inputs=(X,))

    with pytest.raises(crt.InvalidArgumentError, match="same dtypes and shapes"):
        traced(lambda x: cond(x.sum() > 0, lambda t: t, lambda t: t.sum(), [x]))
    with pytest.raises(crt.InvalidArgumentError, match="pred must be one bool"):
        traced(lambda x: cond(x, lambda t: t, lambda t: t, [x]))
    with pytest.raises(crt.InvalidArgumentError, match="carried values as it takes them"):
        traced(lambda x: loop(2, None, lambda i, go, v: (go, v.sum()), [x]))
    with pytest.raises(crt.InvalidArgumentError, match="an int for trips"):
        traced(lambda x: loop(x.sum().to(crt.int64), None, lambda i, go, v: (go, v, v), [x]))
    with pytest.raises(crt.InvalidArgumentError, match="writes in place"):
        traced(lambda x: cond(x.sum() > 0, lambda t: t.add_(1), lambda t: t, [x]))
    with pytest.raises(crt.InvalidArgumentError, match="one first dim"):
        traced(lambda x: scan(lambda s, a, b: (s, a), [x], [x, crt.zeros(3)]))


def test_a_stop_before_the_stacked_results_are_full_is_an_error() -> None:
    def fn(x: Any) -> Any:
        return loop(4, None, lambda i, go, v: (v.sum() < 5, v + 1, v), [x])

    run = crt.trace(fn, example_inputs=(X,))
    run.finalize()
    with pytest.raises(crt.InvalidArgumentError, match="ended after 2 iterations"):
        run(X)


def test_a_failing_body_leaves_the_plan_usable() -> None:
    def fn(x: Any) -> Any:
        return loop(2, None, lambda i, go, v: (go, 12 // v), [x])

    run = crt.trace(fn, example_inputs=(crt.tensor([3]),))
    run.finalize()
    with pytest.raises(crt.ClikaRTError):
        run(crt.tensor([0]))
    assert run(crt.tensor([3]))[0].tolist() == [3]


def test_bodies_may_give_views() -> None:
    """What is carried, stacked or chosen has to have no gaps; a view is copied."""

    def fn(x: Any) -> Any:
        (turned,) = loop(3, None, lambda i, go, v: (go, v.t()), [x])
        (part,) = cond(x.sum() > 0, lambda a: a[:, 1:], lambda a: a[:, :2], [x])
        last, rows = scan(lambda s, a: (s.t(), a.expand(2, 3).t()), [x], [x])
        return [turned, part, last, rows]

    x = crt.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    check(fn, (x,), (-x,))
