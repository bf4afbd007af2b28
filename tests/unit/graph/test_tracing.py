"""trace: names, symbols, in-place writes as versions, states; finalize, to and run."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import clika_runtime as crt


def test_names_of_nested_inputs_and_outputs() -> None:
    def fn(batch: dict[str, Any], *, scale: float) -> dict[str, Any]:
        return {"y": batch["x"] * scale, "rest": [batch["z"][0] + 1]}

    def call(batch: dict[str, Any]) -> dict[str, Any]:
        return fn(batch, scale=2.0)

    x = crt.ones(2)
    traced = crt.trace(call, example_inputs=({"x": x, "z": [x * 3]},))
    assert traced.input_names() == ["batch_x", "batch_z_0"]
    traced.finalize()
    found = traced({"x": x, "z": [x * 5]})
    assert found["y"].tolist() == [2.0, 2.0] and found["rest"][0].tolist() == [6.0, 6.0]
    assert [t.tolist() for t in traced.run({"batch_z_0": x, "batch_x": x})] == [[2, 2], [2, 2]]


def test_symbols_stay_shared_and_arithmetic_stays_symbolic() -> None:
    spec = crt.TensorSpec
    traced = crt.trace(
        lambda given: [
            crt.cat([given[0], given[1]], 0).reshape(-1, 2),
            crt.zeros(given[0].shape[0] * 3 + 1),
        ],
        [
            spec("a", crt.float32, [-1, 4], dim_names=["n", None]),
            spec("b", crt.float32, [-1, 4], dim_names=["n", None]),
        ],
    )
    assert traced.outputs()[0][2] == [-1, 2]
    assert repr(traced.graph.node("Reshape_2").outputs[0].shape[0]) == "4*n"
    traced.finalize()
    for n in (1, 5, 2, 5):
        a = crt.rand(n, 4, seed=n)
        joined, zeros = traced.run([a, a])
        assert joined.shape == (4 * n, 2) and zeros.shape == (3 * n + 1,)
        assert joined.bytes() == crt.cat([a, a], 0).bytes()
    assert traced.graph.stats()["resizes"] == 3
    with pytest.raises(crt.InvalidArgumentError, match="another input says"):
        traced.run([crt.ones(2, 4), crt.ones(3, 4)])


def test_classes_of_sizes_are_bounded() -> None:
    traced = crt.trace(
        lambda x: crt.relu(x) * 2, example_inputs=(crt.ones(3),), dynamic_axes={"x": [0]}
    )
    traced.finalize()
    for n in range(1, 60):
        assert traced(crt.ones(n)).tolist() == [2.0] * n
    stats = traced.graph.stats()
    assert stats["resizes"] == 59 and stats["evictions"] == 59 - 16


def test_in_place_writes_to_captured_tensors_are_states() -> None:
    state = crt.zeros(3)

    def fn(x: Any) -> Any:
        before = state + 1
        state.add_(x)
        state[0] = 7.0
        return before, state[1:] * 2

    traced = crt.trace(fn, example_inputs=(crt.ones(3),))
    assert state.tolist() == [0, 0, 0]
    assert traced.output_names() == ["output_0", "output_1", "state_out_0"]
    traced.finalize()
    want = np.zeros(3, np.float32)
    for step in range(3):
        before, tail = traced(crt.ones(3) * (step + 1))
        assert before.tolist() == (want + 1).tolist()
        want += step + 1
        want[0] = 7
        assert tail.tolist() == (want[1:] * 2).tolist() and state.tolist() == want.tolist()


def test_views_see_writes_and_writes_see_views() -> None:
    """Aliasing as in the eager functions, bit for bit."""

    def fn(x: Any) -> Any:
        y = x * 1.0
        row, whole = y[0], y.reshape(-1)
        row.mul_(3.0)
        kept = whole + 0.0
        y.transpose(0, 1)[1].add_(row[0])
        crt.copy_(whole[3:5], whole[0:2] * -1)
        return y, row + 0.0, whole + 0.0, kept

    x = crt.rand(2, 3, seed=1)
    want = fn(x)
    traced = crt.trace(fn, example_inputs=(x,))
    traced.finalize()
    for _ in range(2):
        for one, other in zip(traced(x), want, strict=True):
            assert one.contiguous().bytes() == other.contiguous().bytes()


def test_an_edit_that_reads_older_bytes_gets_a_copy() -> None:
    """No order runs a read of both versions around the write: the older bytes are kept."""
    traced = crt.trace(_written_twice, example_inputs=(crt.ones(2),))
    graph = traced.graph
    (late,) = graph.find_nodes(crt.graph.OpCode.Sub)
    (first,) = graph.find_nodes(crt.graph.OpCode.Mul)
    graph.set_input(late, 1, first.output(0))  # after the write, the value before it
    graph.finalize()
    (found,) = graph.run([crt.tensor([1.0, 3.0])])
    # y = x * 2, written: y + x; late = (y + x) - y
    assert found.tolist() == [1.0, 3.0]


def _written_twice(x: Any) -> Any:
    y = x * 2.0
    y.add_(x)
    return y - x


def test_values_cannot_be_read() -> None:
    with pytest.raises(crt.ClikaRTError, match="no value"):
        crt.trace(lambda x: x if x.sum().item() else -x, example_inputs=(crt.ones(2),))
    state = crt.zeros(1)

    def fn(x: Any) -> Any:
        state.add_(x)
        return x * state.item()

    with pytest.raises(crt.ClikaRTError, match="what it holds is older"):
        crt.trace(fn, example_inputs=(crt.ones(1),))
    assert state.tolist() == [0.0]


def test_constants_are_folded() -> None:
    weight = crt.ones(64, 64)
    traced = crt.trace(
        lambda x: x + (weight.transpose(0, 1) * 2 + 1).sum(0), example_inputs=(crt.ones(64),)
    )
    traced.finalize()
    assert traced.graph.stats()["instructions"] == 1
    assert traced(crt.zeros(64)).tolist() == [192.0] * 64


def test_run_refuses_before_finalize_and_wrong_inputs() -> None:
    traced = crt.trace(lambda x: x + 1, example_inputs=(crt.ones(2),))
    with pytest.raises(crt.InvalidArgumentError) as failed:
        traced.run([crt.ones(2)])
    assert failed.value.code_name == "FAILED_PRECONDITION"
    assert str(failed.value) == "run: the graph is not finalized; call finalize() first"
    traced.finalize()
    traced.finalize()
    for given, text in (
        ([], "takes 1 inputs"),
        ({"y": crt.ones(2)}, "inputs are"),
        ([crt.ones(3)], "recorded with size 2"),
        (
            [crt.ones(2, dtype=crt.float64)],
            "'x' was recorded with dtype float32 on cpu and rank 1, got dtype float64 on cpu and "
            r"shape \[2\]",
        ),
    ):
        with pytest.raises(crt.InvalidArgumentError, match=text):
            traced.run(given)
    for wrong in (3, [1.0], crt.ones(2)):
        with pytest.raises(TypeError):
            traced.run(wrong)


def test_runs_from_several_threads() -> None:
    traced = crt.trace(
        lambda x: crt.softmax(crt.relu(x) @ x.transpose(0, 1), -1),
        example_inputs=(crt.ones(8, 8),),
    )
    traced.finalize()
    failures: list[str] = []

    def work(seed: int) -> None:
        x = crt.rand(8, 8, seed=seed)
        want = crt.softmax(crt.relu(x) @ x.transpose(0, 1), -1).bytes()
        for _ in range(50):
            if traced(x).bytes() != want:
                failures.append(f"seed {seed}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_memory_is_planned_by_lifetime() -> None:
    """A chain needs two buffers, however long it is."""

    def fn(x: Any) -> Any:
        for _ in range(50):
            x = crt.relu(x) + 1
        return x

    traced = crt.trace(fn, example_inputs=(crt.ones(1000),))
    traced.finalize()
    stats = traced.graph.stats()
    assert stats["arena_bytes"] == stats["arena_lower_bound"] == 2 * 4032


def test_a_trace_takes_its_own_buffers_and_factories() -> None:
    def fn(x: Any) -> Any:
        buffer = crt.zeros(2)
        buffer.add_(x)
        return buffer

    traced = crt.trace(fn, example_inputs=(crt.ones(2),))
    assert traced.output_names() == ["output_0"]
    traced.finalize()
    assert traced(crt.ones(2)).tolist() == traced(crt.ones(2)).tolist() == [1.0, 1.0]


def test_bad_arguments_of_trace() -> None:
    one = crt.TensorSpec("x", crt.float32, [2])
    with pytest.raises(TypeError, match="give example_inputs"):
        crt.trace(lambda x: x)
    with pytest.raises(TypeError, match="not both"):
        crt.trace(lambda x: x, [one], example_inputs=(crt.ones(2),))
    with pytest.raises(TypeError, match="tensors go into example_inputs"):
        crt.trace(lambda x: x, (crt.ones(2),))
    with pytest.raises(crt.InvalidArgumentError, match="two inputs have the name"):
        crt.trace(lambda x: x, [one, one])
    with pytest.raises(crt.InvalidArgumentError, match="must return tensors"):
        crt.trace(lambda x: 3, [one])
    with pytest.raises(crt.InvalidArgumentError, match="2 names for 1"):
        crt.trace(lambda x: x, [one], output_names=["a", "b"])
    with pytest.raises(TypeError, match="name must be"):
        crt.TensorSpec("", crt.float32, [])
    with pytest.raises(crt.InvalidArgumentError, match="8 is the limit"):
        crt.TensorSpec("x", crt.float32, [1] * 9)


def test_symbols_of_a_dead_graph() -> None:
    """A traced tensor that outlives its graph is refused, not followed."""
    kept: list[Any] = []

    def fn(x: Any) -> Any:
        kept.append(x)
        return x + 1

    crt.trace(fn, example_inputs=(crt.ones(2),))
    with pytest.raises(crt.ClikaRTError):
        kept[0] + 1
