"""Recording, symbolic sizes, plans."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime._native._core import GraphRecorder


def test_sizes_are_canonical() -> None:
    g = GraphRecorder()
    n, m = g.symbol("n", 1, 64), g.symbol("m", 0, 8)
    assert n + m == m + n
    assert (n * 12) // (n * 4) == 3
    assert (n * 4 + 8) // 4 == n + 2
    assert n - n == 0
    assert (n + 3) - n == 3
    assert (n * 6) % 3 == 0
    assert n * m == m * n
    assert n != 5
    assert repr(n * 4 + 1) in ("1 + 4*n", "4*n + 1")
    assert g.symbol("n", 1, 64) == n


def test_comparisons_are_answered_where_bounds_decide() -> None:
    g = GraphRecorder()
    n = g.symbol("n", 1, 64)
    assert n >= 1
    assert n < 65
    assert not n > 64
    assert bool(n)
    with pytest.raises(crt.InvalidArgumentError, match="depends on its value"):
        bool(n > 5)
    with pytest.raises(TypeError):
        int(n)


def test_plan_equals_eager_for_every_size() -> None:
    g = GraphRecorder()
    n = g.symbol("n", 1, 32)
    w = crt.tensor(np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32))

    def program(x: object) -> object:
        h = crt.linear(x, w)
        h = h.reshape(x.shape[0], 2, 3) * 2.0
        return crt.softmax(h, -1).permute(1, 0, 2)

    x = g.input("x", (n, 4), crt.float32)
    plan = g.compile({"y": program(x)})
    for size in (1, 3, 32, 3):
        array = np.random.default_rng(size).standard_normal((size, 4)).astype(np.float32)
        given = crt.tensor(array)
        out = plan.run({"x": given})["y"]
        want = program(given)
        assert tuple(out.shape) == tuple(want.shape)
        assert np.array_equal(out.contiguous().numpy(), want.contiguous().numpy())
    assert plan.stats()["resizes"] == 3  # a class is made once


def test_inputs_are_checked() -> None:
    g = GraphRecorder()
    n = g.symbol("n", 1, 8)
    x, y = g.input("x", (n, 2), crt.float32), g.input("y", (n, 2), crt.float32)
    plan = g.compile(x + y)
    one, two = crt.zeros(1, 2), crt.zeros(2, 2)
    with pytest.raises(crt.InvalidArgumentError, match="another input says 1"):
        plan.run([one, two])
    with pytest.raises(crt.InvalidArgumentError, match=r"outside \[1, 8\]"):
        plan.run([crt.zeros(9, 2), crt.zeros(9, 2)])
    with pytest.raises(crt.InvalidArgumentError, match="size 2 at dim 1"):
        plan.run([crt.zeros(1, 3), crt.zeros(1, 3)])
    with pytest.raises(crt.InvalidArgumentError, match="takes 2 inputs"):
        plan.run([one])
    with pytest.raises(crt.InvalidArgumentError, match="dtype"):
        plan.run([crt.zeros(1, 2, dtype=crt.int64), one])
    with pytest.raises(crt.InvalidArgumentError, match="inputs are"):
        plan.run({"x": one})
    with pytest.raises(crt.InvalidArgumentError, match="contiguous"):
        plan.run([crt.zeros(2, 2).permute(1, 0), two])
    assert plan.run([one, one]).tolist() == [[0.0, 0.0]]


def test_sizes_of_inputs_that_are_expressions_are_checked() -> None:
    g = GraphRecorder()
    n = g.symbol("n", 1, 8)
    x, y = g.input("x", (n,), crt.float32), g.input("y", (n + 1, 2), crt.float32)
    plan = g.compile(y.sum() + x.sum())
    assert plan.run([crt.ones(2), crt.ones(3, 2)]).item() == 8.0
    with pytest.raises(crt.InvalidArgumentError, match=r"'y' has size 1 at dim 0, and 1 \+ n is 3"):
        plan.run([crt.ones(2), crt.ones(1, 2)])
    assert plan.run([crt.ones(4), crt.ones(5, 2)]).item() == 14.0


def test_a_symbol_that_nothing_uses_needs_no_value() -> None:
    g = GraphRecorder()
    unused, dead = g.symbol("unused", 3, 9), g.symbol("dead", 1, 4)
    x = g.input("x", (2,), crt.float32)
    crt.zeros(dead, 2)
    assert repr(unused) == "unused"
    plan = g.compile(x + 1.0)
    assert plan.run([crt.ones(2)]).tolist() == [2.0, 2.0]
    assert plan.run([crt.zeros(2)]).tolist() == [1.0, 1.0]


def test_a_symbol_that_the_program_needs_comes_from_an_input() -> None:
    for build in (
        lambda g, n: crt.zeros(n, 2) + 1.0,
        lambda g, n: g.input("x", (n + 1,), crt.float32) * 2.0,
        lambda g, n: g.input("x", (4, 2), crt.float32).expand(n // 2, 4, 2),
    ):
        g = GraphRecorder()
        out = build(g, g.symbol("n", 2, 8))
        with pytest.raises(crt.InvalidArgumentError, match="needs the size 'n', and no input"):
            g.compile(out)


@pytest.mark.parametrize("make", ["symbol", "input", "scalar"])
def test_names_are_text(make: str) -> None:
    rest = {"symbol": (1, 8), "input": ((2,), crt.float32), "scalar": ()}[make]
    g = GraphRecorder()
    with pytest.raises(crt.InvalidArgumentError, match=rf"{make}: '\\ud800x' is no text"):
        getattr(g, make)("\ud800x", *rest)
    with pytest.raises(crt.InvalidArgumentError, match=f"{make}: the name is empty"):
        getattr(g, make)("", *rest)
    assert g.inputs == ()
    getattr(g, make)("Größe 尺", *rest)


def test_what_a_name_was_made_with_stays() -> None:
    g = GraphRecorder()
    g.symbol("n", 1, 8)
    with pytest.raises(crt.InvalidArgumentError, match="the bounds 1 and 8, got 1 and 9"):
        g.symbol("n", 1, 9)
    g.scalar("eps")
    with pytest.raises(crt.InvalidArgumentError, match="scalar: the name 'eps' is taken"):
        g.scalar("eps")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda g: g.symbol("n", 1, 2**63), crt.InvalidArgumentError, "upper bound of 'n' must be"),
        (lambda g: g.symbol("n", -1, 2), crt.InvalidArgumentError, "lower bound of 'n' must be"),
        (lambda g: g.symbol("n", 3, 2), crt.InvalidArgumentError, "needs low <= high"),
        (lambda g: g.symbol("n", 1.5, 2), TypeError, "lower bound of 'n' must be a whole number"),
        (lambda g: g.input("x", (2**70,), crt.float32), crt.InvalidArgumentError, "a size must be"),
        (lambda g: g.input("x", ("a",), crt.float32), TypeError, "a size must be a whole number"),
        (lambda g: g.compile([3]), TypeError, "compile: an output must be a tensor, got int"),
        (lambda g: g.compile(None), TypeError, "compile: outputs must be a tensor"),
    ],
)
def test_what_a_recording_refuses(call: object, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        call(GraphRecorder())


def test_states_are_written_in_place_and_reads_follow_writes() -> None:
    pool = crt.zeros(2, 4, 1, 2)
    g = GraphRecorder()
    n = g.symbol("n", 1, 4)
    state = g.state(pool)
    value = g.input("value", (n, 1, 2), crt.float32)
    slots = g.input("slots", (n,), crt.int32)
    before = state + 0.0
    crt.kv_append(state, value, slots)
    # The pool itself, used after the write, means its newest version.
    after = pool + 0.0 * before
    plan = g.compile({"before": before, "after": after})
    given = crt.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])
    where = crt.tensor([1, 6], dtype=crt.int32)
    out = plan.run([given, where])
    assert out["before"].sum().item() == 0.0
    assert out["after"].sum().item() == 10.0
    assert pool.reshape(8, 2)[1].tolist() == [1.0, 2.0]
    assert pool.reshape(8, 2)[6].tolist() == [3.0, 4.0]


def test_dead_nodes_are_left_out() -> None:
    g = GraphRecorder()
    x = g.input("x", (3,), crt.float32)
    crt.exp(x)
    plan = g.compile(x * 2.0)
    assert plan.stats()["instructions"] == 1


def test_memory_is_reused_by_lifetime() -> None:
    g = GraphRecorder()
    x = g.input("x", (1024,), crt.float32)
    y = x
    for _ in range(50):
        y = crt.relu(y) + 1.0
    plan = g.compile(y)
    stats = plan.stats()
    assert stats["arena_bytes"] <= 3 * 4096
    assert stats["arena_bytes"] <= 1.1 * stats["arena_lower_bound"]
    assert plan.run([crt.zeros(1024)])[0].item() == 50.0


def test_scalars_arrive_with_the_run() -> None:
    g = GraphRecorder()
    x = g.input("x", (1, 2), crt.float32)
    eps = g.scalar("eps")
    plan = g.compile(crt.rms_norm(x, 2, None, eps))
    given = crt.tensor([[3.0, 3.0]])
    assert plan.run([given], {"eps": 0.0})[0, 0].item() == pytest.approx(1.0)
    assert plan.run([given], {"eps": 27.0})[0, 0].item() == pytest.approx(0.5)
    with pytest.raises(crt.InvalidArgumentError, match="scalars"):
        plan.run([given])


def test_an_output_may_be_an_input_or_a_constant() -> None:
    g = GraphRecorder()
    x = g.input("x", (2, 3), crt.float32)
    c = crt.tensor([1.0, 2.0])
    plan = g.compile([x.reshape(6), g.constant(c)])
    given = crt.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    flat, same = plan.run([given])
    assert flat.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert same.tolist() == [1.0, 2.0]


def test_traced_tensors_have_no_value() -> None:
    g = GraphRecorder()
    x = g.input("x", (2,), crt.float32)
    with pytest.raises(crt.ClikaRTError, match="traced"):
        x.tolist()
    other = GraphRecorder().input("x", (2,), crt.float32)
    with pytest.raises(crt.InvalidArgumentError, match="another recording"):
        x + other


def test_kernel_errors_come_out_of_a_run() -> None:
    g = GraphRecorder()
    ids = g.input("ids", (2,), crt.int64)
    plan = g.compile(crt.embedding(crt.zeros(4, 3), ids))
    with pytest.raises(crt.InvalidArgumentError, match="9"):
        plan.run([crt.tensor([0, 9])])
    assert plan.run([crt.tensor([0, 1])]).tolist() == [[0.0] * 3] * 2


def test_runs_from_several_threads() -> None:
    g = GraphRecorder()
    n = g.symbol("n", 1, 64)
    x = g.input("x", (n, 8), crt.float32)
    y = x
    for _ in range(10):
        y = y * 1.5 + 1.0
    plan = g.compile(y)
    wrong = []

    def work(size: int) -> None:
        for _ in range(50):
            out = plan.run([crt.full((size, 8), float(size))])
            expected = float(size)
            for _ in range(10):
                expected = expected * 1.5 + 1.0
            if tuple(out.shape) != (size, 8) or abs(out[0, 0].item() - expected) > 1e-3 * expected:
                wrong.append(size)

    threads = [threading.Thread(target=work, args=(size,)) for size in (1, 7, 64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_ctrl_c_cancels_a_running_plan() -> None:
    g = GraphRecorder()
    x = g.input("x", (256, 256), crt.float32)
    y = x
    for _ in range(3000):
        y = crt.matmul(y, x)
    plan = g.compile(y)
    given = crt.full((256, 256), 0.001)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    started = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            plan.run([given])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - started < 30
    assert crt.matmul(given, given)[0, 0].item() > 0
