"""``split``, ``split_with_sizes``, ``chunk``, ``max`` and ``min``: functions over operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime import ops


def numbers(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize(("size", "dim"), [(2, 0), (3, -1), (10, 1), ([1, 4], 1), ([2, 0, 3], -1)])
def test_split_as_torch(size: Any, dim: int) -> None:
    torch = pytest.importorskip("torch")
    x = numbers(4, 5)
    got = ops.split(crt.tensor(x), size, dim)
    want = torch.split(torch.from_numpy(x), size, dim)
    assert [part.tolist() for part in got] == [part.tolist() for part in want]


@pytest.mark.parametrize(("chunks", "dim"), [(2, 0), (3, 1), (7, -1), (1, 0)])
def test_chunk_as_torch(chunks: int, dim: int) -> None:
    torch = pytest.importorskip("torch")
    x = numbers(4, 5)
    got = crt.tensor(x).chunk(chunks, dim)
    want = torch.chunk(torch.from_numpy(x), chunks, dim)
    assert [part.tolist() for part in got] == [part.tolist() for part in want]


def test_parts_are_views() -> None:
    x = crt.zeros(4, 2)
    first, second = x.split(2)
    second.copy_(crt.ones(2, 2))
    assert x.tolist() == [[0, 0], [0, 0], [1, 1], [1, 1]]
    assert first.data_ptr() == x.data_ptr()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ops.split(x, 0), "split: split size 0 must be above 0"),
        (lambda x: ops.split(x, [1, 2]), "split_with_sizes: sizes [1, 2] add up to 3, and dim 0"),
        (lambda x: ops.split(x, [5, -1]), "split_with_sizes: sizes [5, -1] add up to 4"),
        (lambda x: ops.chunk(x, 0), "chunk: chunks 0 must be at least 1"),
        (lambda x: ops.split(x, 2, 2), "split: dim 2 is out of range for rank 2"),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(crt.InvalidArgumentError) as caught:
        call(crt.zeros(4, 5))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ops.chunk([1, 2], 2), "chunk: input must be a tensor, got list"),
        (lambda x: ops.split([1, 2], 1), "split: input must be a tensor, got list"),
        (lambda x: ops.split_with_sizes([1], [1]), "split_with_sizes: input must be a tensor"),
        (lambda x: ops.chunk(numbers(4), 2), "chunk: input must be a tensor, got ndarray"),
        (lambda x: ops.chunk(None, 2), "chunk: input must be a tensor, got NoneType"),
        (lambda x: ops.chunk(x, 2.5), "chunk: chunks must be int, got 2.5"),
        (lambda x: ops.split(x, None), "split: the split size must be int, got None"),
        (lambda x: ops.split(x, True), "split: the split size must be int, got True"),
        (lambda x: ops.split(x, ["a"]), "split_with_sizes: a size must be int, got 'a'"),
        (lambda x: ops.split_with_sizes(x, 4), "split_with_sizes: sizes must be a sequence of"),
        (lambda x: ops.split_with_sizes(x, [1.5, 2.5]), "split_with_sizes: a size must be int"),
        (lambda x: ops.manual_seed("x"), "manual_seed: seed must be int, got 'x'"),
        (lambda x: ops.manual_seed(1.5), "manual_seed: seed must be int, got 1.5"),
        (lambda x: ops.max([1, 2]), "amax: input must be a tensor, got list"),
        (lambda x: ops.min(None, 0), "argmin: input must be a tensor, got NoneType"),
    ],
)
def test_wrong_kinds_are_named(call: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        call(crt.zeros(4, 5))
    assert str(caught.value).startswith(message)


def test_sizes_of_numpy_and_symbolic_sizes() -> None:
    x = crt.tensor(numbers(4, 5))
    assert [part.shape[0] for part in x.split(np.int64(3))] == [3, 1]
    recorder = crt.GraphRecorder()
    n = recorder.symbol("n", 2, 8)
    traced = recorder.input("x", (n, 5), crt.float32)
    for call in (lambda: traced.chunk(2), lambda: traced.split(1)):
        with pytest.raises(crt.UnsupportedError, match="dim 0 has the symbolic size n"):
            call()
    head, tail = traced.split([1, n - 1])
    out = recorder.compile([head, tail]).run([x])
    assert [part.tolist() for part in out] == [x[:1].tolist(), x[1:].tolist()]


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("keepdim", [False, True])
def test_extremes_as_torch(name: str, keepdim: bool) -> None:
    torch = pytest.importorskip("torch")
    x = np.array([[3, 1, 3], [2, 2, 5]], np.float32)
    for dim in (0, 1, -1):
        got = getattr(crt.tensor(x), name)(dim, keepdim)
        want = getattr(torch.from_numpy(x), name)(dim, keepdim)
        assert got[0].tolist() == want.values.tolist()
        assert got[1].tolist() == want.indices.tolist()
    assert getattr(crt.tensor(x), name)().item() == getattr(torch.from_numpy(x), name)().item()
