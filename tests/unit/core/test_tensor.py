"""Tensor: facts, ways in and out, views, in-place writes."""

from __future__ import annotations

import gc
import math
import weakref

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime._native import _core


def test_facts_of_a_tensor() -> None:
    x = crt.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert repr(x.shape) == "clika_runtime.Size([2, 3])"
    assert x.dtype is crt.float32
    assert str(x.device) == "cpu"
    assert (x.ndim, x.numel(), x.nbytes, x.stride()) == (2, 6, 24, (3, 1))
    assert x.is_contiguous()
    assert not x.is_quantized


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1.5, "float32"),
        ([1, 2], "int64"),
        ([True, False], "bool"),
        ([], "float32"),
        ([1, 2.5], "float32"),
    ],
)
def test_dtype_of_python_data(data: object, dtype: str) -> None:
    assert crt.tensor(data).dtype.name == dtype


@pytest.mark.parametrize("code", ["?", "b", "h", "i", "q", "B", "H", "I", "Q", "e", "f", "d"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4)])
def test_numpy_round_trip(code: str, shape: tuple[int, ...]) -> None:
    array = np.arange(math.prod(shape), dtype="q").astype(code).reshape(shape)
    x = crt.tensor(array)
    assert tuple(x.shape) == shape
    back = x.numpy()
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)
    assert x.tolist() == array.tolist()


def test_numpy_shares_memory_and_outlives_the_tensor() -> None:
    x = crt.tensor([1.0, 2.0])
    view = x.numpy()
    view[0] = 7.0
    assert x.tolist() == [7.0, 2.0]
    del x
    gc.collect()
    assert view.tolist() == [7.0, 2.0]


def test_from_numpy_borrows_and_keeps_alive() -> None:
    array = np.arange(4, dtype=np.float32)
    alive = weakref.ref(array)
    x = crt.from_numpy(array)
    array[1] = 9.0
    assert x.tolist() == [0.0, 9.0, 2.0, 3.0]
    del array
    gc.collect()
    assert alive() is not None
    del x
    crt.synchronize()
    gc.collect()
    assert alive() is None


def test_from_numpy_refusals() -> None:
    with pytest.raises(TypeError, match="ascontiguousarray"):
        crt.from_numpy(np.zeros((4, 4), np.float32)[:, ::2])
    frozen = np.zeros(3, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(TypeError, match="read-only"):
        crt.from_numpy(frozen)
    with pytest.raises(TypeError, match="complex64"):
        crt.from_numpy(np.zeros(3, np.complex64))


def test_from_buffer_of_read_only_memory_is_not_written() -> None:
    x = crt.Tensor.from_buffer(b"\0" * 16, (4,), crt.float32)
    assert x.tolist() == [0.0] * 4
    with pytest.raises(crt.InvalidArgumentError, match="read-only"):
        x.add_(1.0)


def test_from_buffer_checks_the_size() -> None:
    with pytest.raises(crt.InvalidArgumentError, match=r"takes 32 bytes.*has 16"):
        crt.Tensor.from_buffer(b"\0" * 16, (8,), crt.float32)
    with pytest.raises(crt.InvalidArgumentError):
        crt.Tensor.from_buffer(b"\0" * 16, (1,), crt.float32, offset=-4)


def test_bytes_round_trip_for_dtypes_without_numpy_form() -> None:
    x = crt.tensor([1.0, -2.5, 0.0], dtype=crt.bfloat16)
    assert crt.Tensor.from_bytes(x.bytes(), (3,), crt.bfloat16).tolist() == [1.0, -2.5, 0.0]
    with pytest.raises(TypeError, match=r"bfloat16.*\.bytes"):
        x.numpy()
    with pytest.raises(crt.InvalidArgumentError, match="takes 6 bytes"):
        crt.Tensor.from_bytes(b"\0" * 5, (3,), crt.bfloat16)


def test_ragged_and_odd_data_are_refused() -> None:
    with pytest.raises(crt.InvalidArgumentError, match="ragged"):
        crt.tensor([[1, 2], [3]])
    with pytest.raises(TypeError, match="expected numbers"):
        crt.tensor(["a"])
    with pytest.raises(crt.InvalidArgumentError, match="does not fit"):
        crt.tensor([300], dtype=crt.uint8)
    with pytest.raises(crt.InvalidArgumentError, match="more elements than can be addressed"):
        crt.zeros(1 << 40, 1 << 40)


def test_views_share_bytes() -> None:
    x = crt.tensor([[1.0, 2.0], [3.0, 4.0]])
    x.reshape(4)[0] = 9.0
    assert x.tolist() == [[9.0, 2.0], [3.0, 4.0]]
    x.permute(1, 0)[1, 0] = 8.0
    assert x.tolist() == [[9.0, 8.0], [3.0, 4.0]]
    x[1].mul_(2.0)
    assert x.tolist() == [[9.0, 8.0], [6.0, 8.0]]


def test_indexing_matches_numpy() -> None:
    array = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    x = crt.tensor(array)
    for index in [
        0,
        -1,
        (1, 2),
        (slice(1, 3),),
        (slice(None), 2),
        (..., 1),
        (None, 0),
        (slice(0, 3, 2), 1),
        (slice(-2, None), slice(1, -1)),
        (0, ..., slice(2, 4)),
        (slice(5, 9),),
    ]:
        assert np.array_equal(x[index].contiguous().numpy(), array[index]), index
    picked = crt.tensor([2, 0])
    assert np.array_equal(x[picked].numpy(), array[[2, 0]])
    with pytest.raises(crt.InvalidArgumentError):
        x[3]
    with pytest.raises(crt.InvalidArgumentError, match="4 indices for a tensor of rank 3"):
        x[0, 0, 0, 0]


def test_handles_alias_and_in_place_returns_self() -> None:
    x = crt.tensor([1.0, 2.0])
    y = x
    assert x.add_(1.0) is x
    x += 1.0
    assert y.tolist() == [3.0, 4.0]


def test_item_and_bool() -> None:
    assert crt.tensor([[2.5]]).item() == 2.5
    assert bool(crt.tensor(1))
    with pytest.raises(crt.InvalidArgumentError, match="2 elements"):
        crt.tensor([1, 2]).item()
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(crt.tensor([1, 2]))


def test_parameter_is_a_flag() -> None:
    x = crt.tensor([1.0])
    p = _core.Parameter(x)
    assert isinstance(p, _core.Parameter)
    assert not isinstance(x, _core.Parameter)
    p.add_(1.0)
    assert x.tolist() == [2.0]


def test_writing_from_a_meta_tensor_is_refused() -> None:
    x, meta = crt.ones(4), crt.zeros(4, device="meta")
    pool = crt.zeros(1, 4, 1, 2)
    value, slots = crt.ones(2, 1, 2), crt.tensor([0, 1], dtype=crt.int32)
    for call in (
        lambda: x.copy_(meta),
        lambda: x.add_(meta),
        lambda: x.__setitem__(slice(0, 4), meta),
        lambda: crt.kv_append(pool, value.to("meta"), slots),
        lambda: crt.kv_append(pool, value, slots.to("meta")),
    ):
        with pytest.raises(crt.InvalidArgumentError, match="has bytes to write and another input"):
            call()
    assert x.tolist() == [1.0] * 4 and pool.sum().item() == 0.0
    assert meta.copy_(x).device == meta.copy_(meta).device == crt.Device("meta")


def test_meta_tensors_have_shape_without_bytes() -> None:
    x = crt.zeros(4, 5).to("meta")
    assert x.is_fake()
    assert tuple(crt.relu(x).shape) == (4, 5)
    with pytest.raises(crt.ClikaRTError, match="meta"):
        x.tolist()


def test_rank_over_the_limit_is_refused() -> None:
    with pytest.raises(crt.UnsupportedError, match="rank"):
        crt.zeros(*[1] * 9)


def test_memory_goes_back_to_the_pool() -> None:
    crt.empty_cache("cpu")
    before = crt.memory_stats("cpu").active_bytes
    x = crt.zeros(1 << 20)
    crt.synchronize()  # the bytes are allocated when the call runs
    assert crt.memory_stats("cpu").active_bytes >= before + (4 << 20)
    del x
    crt.synchronize()
    after = crt.memory_stats("cpu")
    assert after.active_bytes <= before + 4096
    assert after.cached_bytes >= 4 << 20
    assert crt.empty_cache("cpu") >= 4 << 20
    assert crt.memory_stats("cpu").cached_bytes < 4 << 20
