"""Indexing and assignment against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clika_runtime as crt

torch = pytest.importorskip("torch")

EXAMPLES = settings(max_examples=300, deadline=None, derandomize=True)


@st.composite
def parts(draw: Any, shape: tuple[int, ...]) -> list[Any]:
    """The parts of an index of a tensor of that shape: as torch takes them, tensors as arrays."""
    found: list[Any] = []
    dim = 0
    picked = draw(st.sampled_from([(), (1,), (3,), (2, 1), (0,)]))  # what the tensors broadcast to
    ellipsis_left = True
    while True:
        left = len(shape) - dim
        kinds = ["none", "end"]
        if ellipsis_left:
            kinds.append("ellipsis")
        if left > 0:
            kinds += ["int", "slice", "slice", "tensor", "tensor", "list", "mask"]
        kind = draw(st.sampled_from(kinds))
        if kind == "end" or len(found) > 5:
            return found
        size = shape[dim] if left > 0 else 0
        if kind == "none":
            found.append(None)
        elif kind == "ellipsis":
            skipped = draw(st.integers(0, left))
            found.append(...)
            ellipsis_left = False
            dim = len(shape) - skipped if skipped < left else dim
            if skipped == left:
                continue
        elif kind == "slice":
            bound = st.none() | st.integers(-size - 2, size + 2)
            step = draw(st.sampled_from([None, 1, 2, 3, 9]))
            found.append(slice(draw(bound), draw(bound), step))
            dim += 1
        elif kind == "mask":
            span = draw(st.integers(1, min(2, left)))
            mask = np.zeros(shape[dim : dim + span], bool)
            count = int(np.prod(picked)) if len(picked) < 2 else 1
            flat = mask.reshape(-1)
            flat[: min(count, flat.size)] = True  # so that masks and tensors broadcast often
            found.append(mask)
            dim += span
        elif size == 0:
            found.append(slice(None))
            dim += 1
        elif kind == "int":
            found.append(draw(st.integers(-size, size - 1)))
            dim += 1
        else:
            count = int(np.prod(picked))
            numbers = draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count))
            array = np.array(numbers, np.int64).reshape(picked)
            found.append(array.tolist() if kind == "list" and array.ndim else array)
            dim += 1


def ours(part: Any) -> Any:
    return crt.tensor(part) if isinstance(part, np.ndarray) else part


def theirs(part: Any) -> Any:
    return torch.from_numpy(part.copy()) if isinstance(part, np.ndarray) else part


def outcome(call: Any) -> Any:
    """The result, or None where the index is refused."""
    try:
        return call()
    except (IndexError, RuntimeError, ValueError, TypeError):
        return None


@st.composite
def indexed(draw: Any) -> tuple[tuple[int, ...], list[Any], bool]:
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 5]), min_size=0, max_size=4)))
    return shape, draw(parts(shape)), draw(st.booleans())


def pair(shape: tuple[int, ...], turned: bool) -> tuple[Any, Any]:
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    x, y = crt.tensor(array), torch.from_numpy(array.copy())
    if turned and len(shape) > 1:
        shape = (shape[1], shape[0], *shape[2:])
        array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        x, y = crt.tensor(array).transpose(0, 1), torch.from_numpy(array.copy()).transpose(0, 1)
    return x, y


@EXAMPLES
@given(indexed())
def test_reading(case: Any) -> None:
    shape, index, turned = case
    x, y = pair(shape, turned)
    want = outcome(lambda: y[tuple(map(theirs, index))])
    got = outcome(lambda: x[tuple(map(ours, index))])
    if want is None or want.ndim > 8:
        assert got is None, index
        return
    assert got is not None, (index, x[tuple(map(ours, index))])
    assert tuple(got.shape) == tuple(want.shape), index
    assert got.tolist() == want.tolist(), index
    # A view where torch makes one, else memory of its own.
    if want.numel():
        shared = want.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
        assert (got.storage_offset() == want.storage_offset()) or not shared
        before = x.tolist()
        got.fill_(-1.0)
        assert (x.tolist() != before) == shared


@EXAMPLES
@given(indexed(), st.integers(0, 3))
def test_writing(case: Any, kind: int) -> None:
    shape, index, turned = case
    x, y = pair(shape, turned)
    place = outcome(lambda: y[tuple(map(theirs, index))])
    if place is None or place.ndim > 8:
        assert outcome(lambda: x.__setitem__(tuple(map(ours, index)), 1.0)) is None
        return
    count = int(np.prod(place.shape))
    flat = -1 - np.arange(count, dtype=np.float32)
    value: Any = flat.reshape(tuple(place.shape))
    if kind == 1:
        value = -7
    elif kind == 2 and place.ndim:
        value = value[:1]
    elif kind == 3 and place.ndim <= 6:
        value = value[None, None]
    if any(isinstance(part, (np.ndarray, list)) for part in index) and kind in (0, 3):
        value = np.full_like(value, -7)  # torch does not say which of two values stays

    def write(x: Any, convert: Any) -> None:
        x[tuple(map(convert, index))] = convert(value)

    try:
        write(y, theirs)
    except (IndexError, RuntimeError, ValueError, TypeError):
        return  # torch takes fewer forms of a value beside tensors
    write(x, ours)
    assert x.tolist() == y.tolist(), (index, kind)


@pytest.mark.parametrize(
    "index",
    [
        [0, 2],
        [[0, 1], [2, 2]],
        [True, False, True],
        np.array([2, 0]),
        np.int64(1),
        (np.bool_(True), 1),
        True,
        False,
        (True, [0, 1]),
        range(2),
        ([], slice(None)),
        (slice(None), [], 0),
        (0, slice(None), [1, 2]),
        ([0, 1], None, [1, 2]),
        (slice(None), [0, 1], [1, 2]),
        ([0, 1], ..., [1, 2]),
        (),
        ...,
        None,
    ],
    ids=str,
)
def test_forms(index: Any) -> None:
    array = np.arange(60.0).reshape(3, 4, 5)
    x, y = crt.tensor(array), torch.from_numpy(array.copy())
    known: Any = index
    if isinstance(index, range) or (isinstance(index, list) and index and index[0] == [0, 1]):
        known = torch.tensor(list(index))
    elif isinstance(index, np.ndarray):
        known = torch.from_numpy(index)
    elif isinstance(index, tuple) and index and isinstance(index[0], np.bool_):
        known = (bool(index[0]), *index[1:])
    want = y[known]
    assert x[index].tolist() == want.tolist()
    x[index] = -1
    y[known] = -1
    assert x.tolist() == y.tolist()


def test_masks() -> None:
    x = crt.arange(12).reshape(3, 4)
    assert x[x > 7].tolist() == [8, 9, 10, 11]
    x[x % 2 == 0] = -1
    assert x.tolist() == [[-1, 1, -1, 3], [-1, 5, -1, 7], [-1, 9, -1, 11]]
    rows = crt.tensor([True, False, True])
    x[rows] = crt.tensor([10, 20, 30, 40])
    assert x[rows].tolist() == [[10, 20, 30, 40]] * 2
    assert x[rows, 1].tolist() == [20, 20]
    x[rows, 1:3] += 5
    assert x[0].tolist() == [10, 25, 35, 40]
    for mask in (crt.tensor([True, False]), crt.ones(3, 5, dtype=crt.bool)):
        with pytest.raises(crt.InvalidArgumentError, match=r"a mask of shape \[.*\] must have"):
            x[mask]


def test_overlapping_writes_read_first() -> None:
    x = crt.arange(6)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    x[[5, 4, 3]] = x[3:]
    assert x.tolist() == [0, 0, 1, 4, 3, 2]


def test_values_are_converted_and_fit() -> None:
    x = crt.zeros(3, dtype=crt.int64)
    x[0] = 1.9
    x[1] = 2**62 + 1
    assert x.tolist() == [1, 2**62 + 1, 0]
    x[:] = crt.tensor([1.5, 2.5, -3.5])
    assert x.tolist() == [1, 2, -3]
    x[1:] = [8, 9]
    assert x.tolist() == [1, 8, 9]
    with pytest.raises(crt.InvalidArgumentError, match="does not fit"):
        x[0] = 2**64
    with pytest.raises(crt.InvalidArgumentError):
        x[:2] = crt.zeros(3)
    with pytest.raises(crt.InvalidArgumentError):
        x[0] = crt.zeros(2)


def test_refusals() -> None:
    x = crt.zeros(3, 4)
    for index, kind, message in (
        ((0, 0, 0), crt.InvalidArgumentError, "3 indices for a tensor of rank 2"),
        ((..., ...), crt.InvalidArgumentError, "more than one ellipsis"),
        (3, crt.InvalidArgumentError, "index 3 is out of range for dim 0 of size 3"),
        (slice(None, None, -1), crt.UnsupportedError, "use flip"),
        (1.5, TypeError, "1.5 is no index"),
        ("a", TypeError, "'a' is no index"),
        ([0.5], TypeError, "must have an integer dtype or bool, got float32"),
        (crt.zeros(2), TypeError, "must have an integer dtype or bool, got float32"),
        ([[0], [1, 2]], crt.InvalidArgumentError, "ragged"),
        (([0, 1], [0, 1, 2]), crt.InvalidArgumentError, "cannot broadcast"),
        (2**70, crt.InvalidArgumentError, "does not fit 64 bits"),
    ):
        with pytest.raises(kind, match=message):
            x[index]
        with pytest.raises(kind, match=message):
            x[index] = 0
    with pytest.raises(crt.InvalidArgumentError, match="index 7 is outside dim 0 of size 3"):
        x[[0, 7]].tolist()


def test_recorded() -> None:
    recorder = crt.GraphRecorder()
    n = recorder.symbol("n", 1, 16)
    x = recorder.input("x", (n, 4), crt.float32)
    i = recorder.input("i", (2,), crt.int64)
    plan = recorder.compile([x[i], x[:, 1:3], x[1::2], x[..., None], x[i, [0, 3]]])
    data = crt.arange(20, dtype=crt.float32).reshape(5, 4)
    rows = crt.tensor([4, -5])
    got = plan.run([data, rows])
    want = [data[rows], data[:, 1:3], data[1::2], data[..., None], data[rows, [0, 3]]]
    assert [one.tolist() for one in got] == [one.tolist() for one in want]
    with pytest.raises(crt.UnsupportedError, match="values of a traced mask"):
        x[x > 0]
