"""Op: binding of arguments, the signature cache, lanes and errors as a caller meets them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime._native import _core


def misses() -> int:
    return int(_core.dispatch_counters()["misses"])


def test_a_repeated_call_hits() -> None:
    x = crt.tensor([1.0, 2.0, 3.0])
    crt.add(x, x)
    before = misses()
    for _ in range(50):
        crt.add(x, x)
    assert misses() == before


def test_runtime_scalars_are_in_no_key() -> None:
    x = crt.tensor([-1.0, 2.0, 3.0])
    crt.clamp(x, 0.0, 1.0)
    crt.mul(x, 2.0)
    before = misses()
    for i in range(50):
        assert crt.clamp(x, 0.0, float(i)).tolist() == [0.0, min(2.0, i), min(3.0, i)]
        assert crt.mul(x, float(i)).tolist() == [-1.0 * i, 2.0 * i, 3.0 * i]
    assert misses() == before


def test_static_arguments_and_shapes_are_in_the_key() -> None:
    x = crt.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert crt.softmax(x, 0).tolist() != crt.softmax(x, 1).tolist()
    assert tuple(crt.sum(x, 0).shape) == (2,)
    assert tuple(crt.sum(x, 0, True).shape) == (1, 2)
    assert crt.add(x, x).dtype is crt.float32
    assert crt.add(x.to(crt.int64), 1).dtype is crt.int64


def test_the_cache_is_bounded() -> None:
    before = _core.dispatch_counters()["evictions"]
    for i in range(1, 1100):
        crt.relu(crt.zeros(i))
    assert crt.relu.cache_size() <= 1024
    assert _core.dispatch_counters()["evictions"] > before


def test_keywords_aliases_and_faults() -> None:
    x = crt.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert crt.sum(input=x, dim=1).tolist() == crt.sum(x, dims=[1]).tolist() == [3.0, 7.0]
    for call in (
        lambda: crt.add(x),
        lambda: crt.add(x, x, bogus=1),
        lambda: crt.add(x, x, other=x),
        lambda: crt.relu(x, x),
        lambda: crt.relu("x"),
        lambda: crt.relu([1.0]),
        lambda: crt.sum(x, dim="a"),
    ):
        with pytest.raises(TypeError):
            call()


def test_int_operands_stay_exact() -> None:
    big = (1 << 62) + 1
    assert crt.sub(crt.tensor([big]), 2).tolist() == [big - 2]
    with pytest.raises(crt.InvalidArgumentError, match="does not fit"):
        crt.add(crt.tensor([1], dtype=crt.int32), 1 << 40)
    with pytest.raises(crt.InvalidArgumentError, match="does not fit"):
        crt.add(crt.tensor([1]), 1 << 80)


def test_numbers_promote_by_kind_only() -> None:
    assert crt.add(crt.tensor([1], dtype=crt.int32), 1).dtype is crt.int32
    assert crt.add(crt.tensor([1], dtype=crt.int32), 1.5).dtype is crt.float32
    assert crt.add(crt.tensor([1.0], dtype=crt.bfloat16), 1.5).dtype is crt.bfloat16
    assert crt.add(crt.tensor([1]), crt.tensor([0.5])).tolist() == [1.5]


def test_strided_inputs() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = crt.tensor(array).permute(1, 0)
    assert np.array_equal(crt.add(x, 1.0).numpy(), array.T + 1)
    assert np.allclose(crt.softmax(x, 0).numpy().sum(0), 1)
    assert np.array_equal(x.contiguous().numpy(), array.T)


def test_many_tensors_in_one_cat() -> None:
    parts = [crt.full((1,), float(i)) for i in range(300)]
    assert crt.cat(parts, 0).tolist() == [float(i) for i in range(300)]


def test_large_calls_are_queued_and_read_in_order() -> None:
    before = _core.dispatch_counters()["queued_calls"]
    x = crt.zeros(1 << 22)
    for _ in range(20):
        x = x + 1.0
    assert _core.dispatch_counters()["queued_calls"] > before
    assert x[-1].item() == 20.0
    x.add_(1.0)
    y = x * 2.0
    x.mul_(0.0)
    assert (y[0].item(), x[0].item()) == (42.0, 0.0)


def test_threads_see_each_others_writes() -> None:
    x = crt.zeros(1 << 18)
    failures = []

    def work() -> None:
        try:
            for _ in range(20):
                x.add_(1.0)
                crt.synchronize()
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(4)]
    # In-place adds of several threads interleave as whole calls: each reads what the one before
    # wrote.
    lock = threading.Lock()
    with lock:
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    values = set(x.tolist())
    assert len(values) == 1


def test_synchronous_scope() -> None:
    x = crt.zeros(1 << 20)
    with _core.synchronous():
        y = x + 1.0
    assert y[0].item() == 1.0

    @_core.synchronous()
    def inside(t: object) -> object:
        return t + 1.0

    assert inside(y)[0].item() == 2.0


def test_kernel_errors_surface_at_the_read_and_again() -> None:
    table = crt.zeros(4, 3)
    bad = crt.embedding(table, crt.tensor([0, 9]))
    for _ in range(2):
        with pytest.raises(crt.InvalidArgumentError, match="9"):
            bad.tolist()
    with pytest.raises(crt.InvalidArgumentError):
        (bad + 1.0).tolist()


def test_pickled_operators_and_signatures() -> None:
    import copy
    import inspect
    import pickle

    assert pickle.loads(pickle.dumps(crt.softmax)) is crt.softmax
    assert copy.deepcopy(crt.softmax) is crt.softmax
    assert "dim" in inspect.signature(crt.softmax).parameters
    assert crt.softmax.__doc__


@pytest.mark.parametrize(
    "call",
    [lambda: crt.eye(None), lambda: crt.zeros(3).flip(None), lambda: crt.zeros(3).select(0, None)],
)
def test_a_required_argument_is_not_none(call: Any) -> None:
    with pytest.raises(TypeError, match=r"must be ints?, got None"):
        call()
