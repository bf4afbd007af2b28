"""Results whose shape depends on data: eager, refused without data, errors at the call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime import plugins
from clika_runtime._native import _core
from clika_runtime._native._core import GraphRecorder
from clika_runtime.testing import null_backend, reference_backend


def test_sizes_follow_the_data() -> None:
    rng = np.random.default_rng(0)
    for size in (0, 1, 1000, 5_000_000):  # the last is long enough for a queue
        array = (rng.random(size) < 0.3).astype(np.float32)
        x = crt.tensor(array)
        assert np.array_equal(crt.nonzero(x).numpy(), np.argwhere(array))
        assert crt.masked_select(x, x > 0).shape == (int(array.sum()),)


def test_results_of_queued_calls_are_waited_for() -> None:
    """Each call reads what an earlier one, long enough to be queued, is still computing."""
    x = crt.zeros(3_000_000)
    for step in range(1, 3):
        x = x + 1
        assert crt.unique(x).tolist() == [float(step)]
    y = crt.cat([x, x * 2])
    values, counts = crt.unique(y, return_counts=True)
    assert values.tolist() == [2.0, 4.0] and counts.tolist() == [3_000_000] * 2


def test_a_hit_gives_other_sizes_for_other_data() -> None:
    before = _core.dispatch_counters()["misses"]
    for want in ([0], [], [0, 2]):
        x = crt.tensor([float(i in want) for i in range(3)])
        assert crt.nonzero(x).reshape(-1).tolist() == want
    assert _core.dispatch_counters()["misses"] - before <= 6  # nonzero and reshape, once each


def test_errors_are_raised_at_the_call() -> None:
    with pytest.raises(crt.InvalidArgumentError, match="counts numbers from 0 up"):
        crt.bincount(crt.tensor([3, -2]))
    broken = crt.take(crt.zeros(3), crt.tensor([7]))
    with pytest.raises(crt.InvalidArgumentError, match="index 7 is outside"):
        crt.nonzero(broken)  # hands on what its input failed with


def test_a_recording_is_refused_by_name() -> None:
    recorder = GraphRecorder()
    x = recorder.input("x", (4,), crt.float32)
    for call in (
        lambda: crt.nonzero(x),
        lambda: crt.unique(x),
        lambda: crt.masked_select(x, x > 0),
    ):
        with pytest.raises(crt.UnsupportedError, match="depends on the values of the input"):
            call()
    assert crt.nonzero_static(x, size=2).shape == (2, 1)


def test_meta_is_refused_by_name() -> None:
    x = crt.zeros(4).to("meta")
    with pytest.raises(crt.UnsupportedError, match="nonzero: the shape of the result depends"):
        crt.nonzero(x)


@pytest.fixture
def python_backends() -> Iterator[None]:
    before = plugins._registry
    reference_backend.install()
    null_backend.install()
    yield
    plugins._registry = before


def test_python_kernels(python_backends: Any) -> None:
    x = crt.tensor([[0.0, 2.0], [3.0, 0.0]])
    there = x.to("reference")
    assert crt.nonzero(there).to("cpu").tolist() == [[0, 1], [1, 0]]
    values, counts = crt.unique(there, return_counts=True)
    assert values.to("cpu").tolist() == [0.0, 2.0, 3.0] and counts.to("cpu").tolist() == [2, 1, 1]
    narrow = crt.unique(there.to(crt.bfloat16))
    assert narrow.dtype is crt.bfloat16 and narrow.to("cpu").tolist() == [0.0, 2.0, 3.0]
    assert crt.nonzero(crt.zeros(3, 2, device="null")).shape == (0, 2)
