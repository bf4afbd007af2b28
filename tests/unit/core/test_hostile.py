"""What a hostile caller may pass: typed refusals, never a crash or a wrong answer."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime import ops
from clika_runtime._native import _core
from clika_runtime.io.ggml_types import LOADABLE, TYPES


def ones(*shape: int) -> crt.Tensor:
    return ops.ones(shape)


@pytest.mark.parametrize("traced", [False, True])
def test_a_view_of_more_than_eight_dims_is_refused(traced: bool) -> None:
    x = ones(*[1] * 8)
    if traced:
        x = _core.GraphRecorder().input("x", (1,) * 8, crt.float32)
    for call in (
        lambda: x.unsqueeze(0),
        lambda: x.expand((1,) * 60),
        lambda: x.reshape((1,) * 9),
        lambda: x[(None,) * 3],
        lambda: ops.stack([x, x]),
    ):
        with pytest.raises(crt.UnsupportedError, match="over the limit of 8"):
            call()


def test_a_shape_whose_bytes_overflow_is_refused() -> None:
    for call in (
        lambda: ops.zeros((2**31, 2**30), dtype=crt.float64),
        lambda: crt.Tensor.from_buffer(b"x" * 64, (2**61,), crt.float64),
        lambda: ones(1, 1).expand((2**31, 2**31)),
    ):
        with pytest.raises(crt.InvalidArgumentError, match="more elements than can be addressed"):
            call()


def test_packed_payloads_are_measured() -> None:
    for number in LOADABLE:
        kind = TYPES[number]
        if kind.scheme:
            assert _core._packed_bytes((3, kind.block * 2), kind.scheme) == 6 * kind.nbytes
    with pytest.raises(crt.InvalidArgumentError, match="takes 72 bytes"):
        crt.Tensor.from_buffer(b"x" * 71, (4, 32), crt.float32, scheme=3)
    with pytest.raises(crt.InvalidArgumentError, match="multiple of 32"):
        crt.Tensor.from_buffer(b"x" * 999, (4, 33), crt.float32, scheme=3)
    with pytest.raises(crt.UnsupportedError, match="no scheme number -1"):
        crt.Tensor.from_buffer(b"x" * 999, (4, 32), crt.float32, scheme=-1)


def test_native_types_are_made_by_their_factories_only() -> None:
    for kind in (crt.Tensor, _core.Plan, _core.SymInt, _core._GraphScalar):
        with pytest.raises(TypeError, match="make"):
            kind()


def test_integers_past_64_bits_are_refused_by_name() -> None:
    x = ones(2, 3)
    for call in (
        lambda: x.softmax(2**64),
        lambda: x.sum(dim=(2**63,)),
        lambda: x.reshape((-(2**63) - 1, 2)),
        lambda: x.narrow(0, 2**64, 1),
    ):
        with pytest.raises(crt.InvalidArgumentError, match="does not fit 64 bits"):
            call()
    with pytest.raises(TypeError, match="dtype must be dtype, got True"):
        ops.cast(x, True)


def test_a_plan_does_not_see_what_is_recorded_after_it() -> None:
    recorder = _core.GraphRecorder()
    x = recorder.input("x", (2,), crt.float32)
    y = x + 1.0
    plan = recorder.compile(y)
    for _ in range(200):
        y = y * 2.0
    recorder.symbol("late", 1, 2)
    assert plan.run([ones(2)]).tolist() == [2.0, 2.0]


def test_recording_and_running_from_threads() -> None:
    recorder = _core.GraphRecorder()
    x = recorder.input("x", (4,), crt.float32)
    answers: list[list[float]] = []

    def work() -> None:
        y = x
        for _ in range(60):
            y = y + 1.0
        answers.append(recorder.compile(y).run([ones(4)]).tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [[61.0] * 4] * 4


def test_a_sequence_that_lies_about_its_length() -> None:
    recorder = _core.GraphRecorder()
    plan = recorder.compile(recorder.input("x", (2,), crt.float32) * 2.0)

    class Liar(list):
        def __len__(self) -> int:
            return 1

    with pytest.raises(crt.InvalidArgumentError, match="takes 1 inputs, got 500"):
        plan.run(Liar([ones(2)] * 500))
    with pytest.raises(crt.InvalidArgumentError, match="more than 32 scalars"):
        plan.run([ones(2)], Liar([1.0] * 500))
    with pytest.raises(crt.InvalidArgumentError, match="does not fit 64 bits"):
        plan.run([ones(2)], [2**70])


def test_absurd_symbolic_sizes_are_refused_at_the_run() -> None:
    recorder = _core.GraphRecorder()
    n = recorder.symbol("n", 0, 2**62)
    assert repr(n - 2**62 - 2**62)
    x = recorder.input("x", (n, 0), crt.float32)
    plan = recorder.compile({"x": x + 1.0, "y": ops.ones((n, n))})
    assert plan.run([ops.zeros((3, 0))])["y"].shape == (3, 3)
    with pytest.raises(crt.InvalidArgumentError, match="more elements than can be addressed"):
        plan.run([ops.zeros((2**40, 0))])
    assert plan.run([ops.zeros((2, 0))])["y"].shape == (2, 2)


def test_gather_from_a_scalar() -> None:
    source = crt.tensor(7.0)
    index = _core.from_numpy(np.zeros(4, np.int64))
    for _ in range(20):
        assert ops.gather(source, 0, index).tolist() == [7.0] * 4


def test_none_is_no_tensor() -> None:
    """Native functions that take a tensor look into it at once."""
    recorder = _core.GraphRecorder()
    for call in (
        lambda: _core.pack_mode(None),
        lambda: _core.pack_weight(None),
        lambda: _core.unpack_weight(None),
        lambda: _core.pack_weights([None], ["both"]),
        lambda: _core.pack_weights(None, None),
        lambda: ones(1).type_as(None),
        lambda: ones(1)._write(None),
        lambda: recorder.state(None),
        lambda: recorder.constant(None),
        lambda: recorder.apply(None, []),
    ):
        with pytest.raises(TypeError, match="None"):
            call()
    with pytest.raises(crt.InvalidArgumentError, match="is not a PackMode"):
        crt.pack_weight(ones(2, 32), "slow")
