"""compile: guards, recapture, dynamic axes, fallback, modules; tracing and eager scopes."""

from __future__ import annotations

from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime import nn


def ones(*shape: int) -> Any:
    return crt.ones(*shape)


def test_replay_does_not_call_python() -> None:
    calls: list[int] = []

    def fn(x: Any) -> Any:
        calls.append(1)
        return x + 1

    step = crt.compile(fn)
    for value in range(5):
        assert step(ones(2) * value).tolist() == [value + 1.0] * 2
    assert len(calls) == 2  # the eager call and its recording


def test_static_values_and_structures_guard() -> None:
    step = crt.compile(lambda tree: {"y": tree["x"] * tree["k"], "k": tree["k"], "n": None})
    for k in (2.0, 3.0, 2.0, 3.0):
        found = step({"x": ones(2), "k": k})
        assert found["y"].tolist() == [k, k] and found["k"] == k and found["n"] is None
    assert step.recapture_count == 1
    step({"k": 2.0, "x": ones(2)})  # another order of keys is another structure
    assert step.recapture_count == 2
    with pytest.raises(KeyError):
        step({"x": ones(2)})


def test_int_and_float_and_bool_are_different_statics() -> None:
    step = crt.compile(lambda x, k: x * k)
    assert step(ones(1), 1).dtype == crt.float32
    assert step(crt.ones(1, dtype=crt.int64), 1).dtype == crt.int64
    assert step(crt.ones(1, dtype=crt.int64), 1.0).dtype == crt.float32
    assert step(crt.ones(1, dtype=crt.int64), True).dtype == crt.int64


def test_old_captures_are_dropped() -> None:
    step = crt.compile(lambda x, k: x * k)
    for k in range(12):
        step(ones(1), float(k))
    assert step.recapture_count == 11
    assert step(ones(1), 11.0).tolist() == [11.0] and step.recapture_count == 11
    assert step(ones(1), 0.0).tolist() == [0.0] and step.recapture_count == 12


def test_shapes_that_drift_past_the_budget_are_served_eagerly() -> None:
    def fn(x: Any) -> Any:
        return x.reshape(2, -1) if x.shape[0] % 2 == 0 else x + 1

    step = crt.compile(fn, dynamic=False)
    for n in range(2, 14):
        assert step(ones(n)).numpy().size == n
    assert step.state is crt.CompiledFunction.State.Fallback
    step.reset()
    assert step.recapture_count == 0 and step(ones(4)).shape == (2, 2)


def test_two_inputs_share_a_drifting_size_or_not() -> None:
    add = crt.compile(lambda x, y: x + y)
    for n in (2, 3, 4, 5):
        assert add(ones(n, 4), ones(n, 4)).shape == (n, 4)
    assert add.recapture_count == 1
    outer = crt.compile(lambda x, y: x.reshape(-1, 1) * y)
    for n, m in ((2, 2), (3, 4), (5, 6)):
        assert outer(ones(n), ones(m)).shape == (n, m)
    assert outer.state is crt.CompiledFunction.State.Compiled


def test_signature_and_names() -> None:
    spec = crt.TensorSpec("x", crt.float32, [-1, 2], dim_names=["rows", None])
    step = crt.compile(lambda given: [given[0] * 2], [spec], output_names=["y"])
    for n in (1, 3, 2):
        assert step([ones(n, 2)])[0].shape == (n, 2)
    assert step.recapture_count == 0 and step.input_names == ["x"]
    graph = step.take_graph()
    assert graph.input_names() == ["x"] and graph.output_names() == ["y"]
    assert graph.run([ones(4, 2)])[0].shape == (4, 2)
    with pytest.raises(crt.InvalidArgumentError, match="Compiled"):
        step.take_graph()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.layer.weight = nn.Parameter(crt.rand(3, 4, seed=1))
        self.layer.bias = nn.Parameter(crt.rand(3, seed=2))
        self.calls = crt.zeros(1)

    def forward(self, x: Any, *, times: int = 1) -> Any:
        self.calls.add_(1.0)
        return self.layer(x) * times


def test_modules_keep_their_face_and_state() -> None:
    net = Net()
    step: Any = crt.compile(net)
    assert isinstance(step, crt.CompiledModule) and step.module is net
    assert list(step.state_dict()) == list(net.state_dict())
    x = crt.rand(2, 4, seed=3)
    want = net(x, times=2).bytes()
    for count in range(2, 5):
        assert step(x, times=2).bytes() == want
        assert net.calls.tolist() == [float(count)]  # a run rewrites the captured tensor
    net.layer.weight = nn.Parameter(crt.zeros(3, 4))
    assert step(x, times=2).tolist() == (crt.zeros(2, 3) + net.layer.bias * 2).tolist()


def test_what_cannot_be_recorded() -> None:
    def branch(x: Any) -> Any:
        return crt.relu(x) if x.sum().item() > 0 else crt.neg(x)

    step = crt.compile(branch)
    assert step(-ones(2)).tolist() == [1.0, 1.0]
    assert step.state is crt.CompiledFunction.State.Fallback
    assert step(ones(2)).tolist() == [1.0, 1.0]
    with pytest.raises(crt.ClikaRTError):
        crt.compile(branch, fullgraph=True)(ones(2))


def test_errors_of_the_function_are_its_own() -> None:
    def fails(x: Any) -> Any:
        raise ZeroDivisionError("mine")

    step = crt.compile(fails)
    with pytest.raises(ZeroDivisionError, match="mine"):
        step(ones(1))
    assert step.state is crt.CompiledFunction.State.Pending
    with pytest.raises(TypeError):
        crt.compile(3)  # type: ignore[arg-type]


def test_inside_a_trace_the_function_itself_is_recorded() -> None:
    inner = crt.compile(lambda x: x * 2)
    inner(ones(2))
    traced = crt.trace(lambda x: inner(x) + 1, example_inputs=(ones(2),))
    assert [node.name for node in traced.graph.nodes()] == ["x", "Mul_1", "Add_2"]


def test_tracing_waits_until_somebody_asks() -> None:
    x = ones(3)
    with crt.tracing():
        y = x * 2 + 1
        z = y.sum()
        with pytest.raises(crt.ClikaRTError):
            y.tolist()
        with pytest.raises(crt.ClikaRTError, match="in place"):
            x.add_(1)
        with crt.eager():
            assert (x + 1).tolist() == [2.0] * 3
    crt.eval({"z": [z]})
    assert z.item() == 9.0
    with pytest.raises(crt.ClikaRTError):
        y.tolist()
    crt.async_eval(y)
    assert y.tolist() == [3.0] * 3 and x.tolist() == [1.0] * 3


def test_random_numbers_without_a_seed_are_served_eagerly():
    """A recorded draw would give the same numbers in every run."""
    noisy = crt.compile(lambda x: x + crt.rand(64))
    dropped = crt.compile(lambda x: crt.dropout(x, 0.5))
    for function, given in ((noisy, crt.zeros(64)), (dropped, crt.ones(64))):
        found = [tuple(function(given).tolist()) for _ in range(3)]
        assert len(set(found)) == 3
    with pytest.raises(crt.errors.ClikaRTError, match="without a seed cannot be recorded"):
        crt.compile(lambda x: x + crt.rand(2), fullgraph=True)(crt.zeros(2))
    with pytest.raises(crt.errors.ClikaRTError, match="give a seed"):
        crt.trace(lambda x: x + crt.randn(2), example_inputs=(crt.zeros(2),))
    seeded = crt.trace(lambda x: x + crt.randn(2, seed=3), example_inputs=(crt.zeros(2),))
    seeded.finalize()
    assert seeded(crt.zeros(2)).tolist() == crt.randn(2, seed=3).tolist()
