"""Ways in and out of a tensor: other libraries, foreign memory, pickles, casts."""

from __future__ import annotations

import array
import copy
import gc
import math
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import clika_runtime as crt

torch = pytest.importorskip("torch")

SHARED = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64"
).split()


# ---------------------------------------------------------------- DLPack
@pytest.mark.parametrize("name", SHARED)
def test_torch_and_back_without_a_copy(name: str) -> None:
    x = crt.arange(6, dtype=crt.int32).reshape(2, 3).to(getattr(crt, name)).t()
    y = torch.from_dlpack(x)
    assert y.dtype is getattr(torch, name) and y.stride() == x.stride()
    assert y.data_ptr() == x.data_ptr()
    z = crt.from_dlpack(y)
    assert z.dtype is x.dtype and z.stride() == x.stride() and z.data_ptr() == x.data_ptr()
    y.fill_(1)
    assert x.to(crt.float32).tolist() == z.to(crt.float32).tolist() == [[1.0, 1.0]] * 3


def test_the_memory_lives_as_long_as_either_side() -> None:
    x = crt.from_dlpack(torch.full((3,), 7.0))
    gc.collect()
    assert x.tolist() == [7.0] * 3
    y = torch.from_dlpack(crt.full((3,), 8.0) + 0)
    gc.collect()
    assert y.tolist() == [8.0] * 3
    capsule = crt.ones(2).__dlpack__()  # never taken: the capsule gives it back
    del capsule


def test_numpy_takes_and_gives() -> None:
    x = crt.arange(6).reshape(2, 3)
    assert np.from_dlpack(x).tolist() == x.tolist()
    source = np.arange(12.0).reshape(3, 4)[:, ::2]
    y = crt.from_dlpack(source)
    assert y.stride() == (4, 2) and y.tolist() == source.tolist()
    source[0, 0] = 99.0
    assert y[0, 0].item() == 99.0


def test_what_does_not_cross() -> None:
    with pytest.raises(TypeError, match="float8_e4m3 does not cross; cast"):
        crt.empty(2, dtype=crt.float8_e4m3).__dlpack__()
    with pytest.raises(TypeError, match=r"no tensor dtype for torch\.complex64"):
        crt.from_dlpack(torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(TypeError, match="expected an array with __dlpack__"):
        crt.from_dlpack([1, 2])
    with pytest.raises(BufferError, match="asked for on"):
        crt.zeros(2).__dlpack__(dl_device=(2, 0))
    with pytest.raises(crt.ClikaRTError, match="on device meta"):
        crt.zeros(2, device="meta").__dlpack__()
    capsule = crt.zeros(2).__dlpack__()
    crt.from_dlpack(capsule)
    with pytest.raises(TypeError, match="unused capsule"):
        crt.from_dlpack(capsule)
    with pytest.raises(crt.UnsupportedError, match="rank"):
        crt.from_dlpack(torch.zeros((1,) * 9))


def test_read_only_memory_stays_so() -> None:
    x = crt.Tensor.from_buffer(bytes(8), (2,), crt.float32)
    with pytest.raises(BufferError, match="read-only"):
        x.__dlpack__()
    y = crt.from_dlpack(x)  # this version says so
    with pytest.raises(crt.InvalidArgumentError, match="read-only"):
        y.fill_(1.0)
    assert crt.from_dlpack(x.clone()).fill_(1.0).tolist() == [1.0, 1.0]


def test_dlpack_device_and_copy() -> None:
    x = crt.ones(2)
    assert x.__dlpack_device__() == (1, 0)
    y = crt.from_dlpack(x.__dlpack__(max_version=(1, 0), copy=True))
    y.fill_(3.0)
    assert x.tolist() == [1.0, 1.0]


# ---------------------------------------------------------------- foreign memory
def test_from_blob_borrows_and_sees_strides() -> None:
    image = np.array([[10 * r + c for c in range(6)] for r in range(4)], np.float32)
    roi = crt.from_blob(image[1:, 2:].ctypes.data, (2, 3), crt.float32, strides=(6, 1))
    assert roi.tolist() == [[12.0, 13.0, 14.0], [22.0, 23.0, 24.0]]
    image[1, 2] = -1.0
    assert roi.sum().item() == 108.0 - 13.0
    over_buffer = crt.from_blob(image, (4, 3), crt.float32, (6, 2))
    assert over_buffer.tolist() == image[:, ::2].tolist()


def test_from_blob_adopts_with_a_deleter() -> None:
    memory = np.arange(8.0)
    given: list[Any] = []
    x = crt.from_blob(memory.ctypes.data, (8,), crt.float64, deleter=given.append)
    y = x[2:]
    del x
    gc.collect()
    assert given == []
    assert y.tolist() == memory[2:].tolist()
    del y
    crt.zeros(1)  # what was dropped is given back at the next call
    assert given == [memory.ctypes.data]


def test_a_deleter_that_raises_is_not_heard() -> None:
    def deleter(_: Any) -> None:
        raise ValueError("not yours")

    x = crt.from_blob(bytearray(8), (2,), crt.float32, deleter=deleter)
    del x
    crt.zeros(1)


def test_borrowed_objects_are_let_go() -> None:
    memory = np.zeros(4, np.float32)
    gone = weakref.ref(memory)
    x = crt.from_numpy(memory)
    del memory
    gc.collect()
    assert gone() is not None
    del x
    crt.zeros(1)
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (
            (bytearray(8), (3,), crt.float32),
            crt.InvalidArgumentError,
            "takes 12 bytes, the buffer has 8",
        ),
        ((bytearray(8), (2, 2), crt.float32, (1, 1)), crt.InvalidArgumentError, "takes 12 bytes"),
        (
            (bytearray(8), (2,), crt.float32, (-1,)),
            crt.InvalidArgumentError,
            "must not be negative",
        ),
        (
            (bytearray(8), (2,), crt.float32, (1, 1)),
            crt.InvalidArgumentError,
            "as many as the sizes",
        ),
        ((bytearray(8), (2,), crt.float32, (2**61,)), crt.InvalidArgumentError, "further than can"),
        ((bytearray(8), (2**50, 2**50), crt.float32), crt.InvalidArgumentError, "more elements"),
        ((bytearray(8), (4,), crt.int4, (2,)), crt.UnsupportedError, "share bytes"),
        ((0, (2,), crt.float32), crt.InvalidArgumentError, "0 is no address"),
        ((bytearray(8), (2,), "float32"), TypeError, "expected a clika_runtime dtype"),
        (("text", (2,), crt.float32), TypeError, "bytes-like object is required"),
    ],
)
def test_blobs_that_are_refused(arguments: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        crt.from_blob(*arguments)


def test_arrays_of_another_byte_order() -> None:
    swapped = np.array([1.0, 2.0], ">f4")
    assert crt.tensor(swapped).tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match="byte order"):
        crt.from_numpy(swapped)


def test_what_tensor_takes() -> None:
    assert crt.tensor(array.array("d", [1.0, 2.0])).dtype is crt.float64
    assert crt.tensor(memoryview(array.array("i", [1, 2]))).dtype is crt.int32
    assert crt.tensor(b"ab").tolist() == [97, 98]
    assert crt.tensor(torch.ones(2, dtype=torch.bfloat16)).dtype is crt.bfloat16
    assert crt.tensor(np.float32(1.5)).dtype is crt.float32
    assert crt.tensor([crt.tensor([1, 2]), crt.tensor([3, 4])]).tolist() == [[1, 2], [3, 4]]
    assert crt.tensor([np.int64(3), True]).tolist() == [3, 1]
    assert crt.tensor(1e300, dtype=crt.float32).item() == math.inf
    for bad in (math.nan, math.inf):
        with pytest.raises(crt.InvalidArgumentError, match="does not fit int64"):
            crt.tensor([bad], dtype=crt.int64)
    for odd in ("text", None, 1j, [object()], np.zeros(2, "c16"), memoryview(b"ab").cast("c")[:0]):
        if isinstance(odd, memoryview):
            continue
        with pytest.raises(TypeError):
            crt.tensor(odd)


# ---------------------------------------------------------------- copies and pickles
@pytest.mark.parametrize("name", [*SHARED, "float8_e4m3"])
def test_pickles(name: str) -> None:
    x = crt.arange(6, dtype=crt.float32).reshape(2, 3).t().to(getattr(crt, name))
    y = pickle.loads(pickle.dumps(x))
    assert y.dtype is x.dtype and y.shape == x.shape and y.bytes() == x.bytes()


def test_other_states_and_pickles() -> None:
    meta = pickle.loads(pickle.dumps(crt.zeros(2, 3, device="meta")))
    assert meta.is_fake() and tuple(meta.shape) == (2, 3)
    packed = crt.Tensor.from_buffer(bytes(range(34)) * 2, (2, 32), crt.float32, scheme=9)
    back = pickle.loads(pickle.dumps(packed))
    assert back.is_quantized and back.bytes() == packed.bytes() and back.shape == packed.shape
    recorder = crt.GraphRecorder()
    with pytest.raises(TypeError, match="traced tensor cannot be pickled"):
        pickle.dumps(recorder.input("x", (2,), crt.float32))


def test_copies() -> None:
    x = crt.tensor([1.0, 2.0])
    handle, deep = copy.copy(x), copy.deepcopy([x, x])
    x.fill_(5.0)
    assert handle.tolist() == [5.0, 5.0]
    assert deep[0].tolist() == [1.0, 2.0] and deep[0] is deep[1]


# ---------------------------------------------------------------- casts, moves, Python's protocols
CASTS = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "bool": "bool",
    "byte": "uint8",
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
}


@pytest.mark.parametrize("name", CASTS)
def test_casts(name: str) -> None:
    x = crt.tensor([0.0, 1.5, 2.0])
    y = getattr(x, name)()
    assert y.dtype.name == CASTS[name]
    assert y.tolist() == getattr(torch.tensor([0.0, 1.5, 2.0]), name)().tolist()


def test_to() -> None:
    x = crt.tensor([1.5, 2.5])
    assert x.to(crt.float32) is x and x.to("cpu") is x and x.to() is x and x.to(x) is x
    assert x.to(crt.float32, copy=True) is not x and x.to("cpu", copy=True) is not x
    assert x.to("cpu", crt.int32).tolist() == [1, 2]
    assert x.to(device="cpu", dtype=crt.float16, non_blocking=True).dtype is crt.float16
    assert x.to(crt.zeros(1, dtype=crt.int64)).dtype is crt.int64
    assert x.type_as(crt.zeros(1, dtype=crt.bool)).tolist() == [True, True]
    assert x.new_tensor([3]).dtype is crt.float32
    for call in (lambda: x.to(crt.float16, crt.float16), lambda: x.to("cpu", device="cpu")):
        with pytest.raises(TypeError, match="given twice"):
            call()


def test_protocols() -> None:
    x = crt.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert len(x) == 2 and [row.tolist() for row in x] == [[1.0, 2.0], [3.0, 4.0]]
    assert [row.tolist() for row in reversed(x)] == [[3.0, 4.0], [1.0, 2.0]]
    assert 3.0 in x and 5 not in x and crt.tensor(1) in x
    assert f"{crt.tensor(2.5):.3f} {crt.tensor(7):04d}" == "2.500 0007"
    assert f"{x}" == str(x)
    with pytest.raises(TypeError):
        f"{x:.2f}"
    with pytest.raises(TypeError, match="contains numbers"):
        "a" in x  # noqa: B015
    assert (x == None) is False and (x != None) is True  # noqa: E711
    assert (x == "a") is False
    assert int(crt.tensor(3.7)) == 3 and float(crt.tensor(2)) == 2.0
    assert [10, 20, 30][crt.tensor(1)] == 20
    for call in (
        lambda: len(crt.tensor(1)),
        lambda: iter(crt.tensor(1)),
        lambda: [1][crt.tensor(0.5)],
    ):
        with pytest.raises(TypeError):
            call()
    assert (+x).tolist() == x.tolist() and (x.T.tolist(), x.mT.tolist()) == (
        [[1.0, 3.0], [2.0, 4.0]],
    ) * 2
    assert x.itemsize == 4 and x.element_size() == 4 and x.is_floating_point()
    assert (x.nelement(), x.ndimension()) == (4, 2) and not x.is_complex() and x.is_signed()


def test_in_place_keeps_dtype_and_shape() -> None:
    x = crt.tensor([1, 2, 3])
    x += 2
    x *= crt.tensor([1, 2, 3])
    x //= 2
    x %= 5
    x **= 2
    x |= 1
    x &= 7
    x ^= 2
    y = torch.tensor([1, 2, 3])
    y += 2
    y *= torch.tensor([1, 2, 3])
    y //= 2
    y %= 5
    y **= 2
    y |= 1
    y &= 7
    y ^= 2
    assert x.tolist() == y.tolist()
    with pytest.raises(crt.InvalidArgumentError, match="result of dtype float32 cannot be written"):
        x /= 2
    with pytest.raises(crt.InvalidArgumentError, match="cannot be written into"):
        x += 0.5
    with pytest.raises(crt.InvalidArgumentError, match=r"result of shape \[2, 3\]"):
        x += crt.zeros(2, 1, dtype=crt.int64)
    assert x.tolist() == y.tolist()
    assert x.zero_() is x and x.tolist() == [0, 0, 0]


def test_finfo_and_iinfo_as_torch() -> None:
    for name in ("float16", "bfloat16", "float32", "float64"):
        ours, theirs = crt.finfo(getattr(crt, name)), torch.finfo(getattr(torch, name))
        assert ours.dtype == theirs.dtype
        for field in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution"):
            assert getattr(ours, field) == pytest.approx(getattr(theirs, field), rel=1e-15), field
    for name in ("int8", "int16", "int32", "int64", "uint8"):
        ours, theirs = crt.iinfo(getattr(crt, name)), torch.iinfo(getattr(torch, name))
        assert (ours.bits, ours.min, ours.max) == (theirs.bits, theirs.min, theirs.max)


# ---------------------------------------------------------------- storage
def test_as_strided_stays_inside_the_storage() -> None:
    x = crt.arange(10)
    view = x[2:6].as_strided((2, 2), (3, 1))
    assert view.tolist() == [[2, 3], [5, 6]] and view.storage_offset() == 2
    assert x[5:].as_strided((2,), (1,), 0).tolist() == [0, 1]
    view.fill_(-1)
    assert x.tolist() == [0, 1, -1, -1, 4, -1, -1, 7, 8, 9]
    for size, stride, offset, message in (
        ((4,), (3,), 1, "reach element 10, and the storage has 10"),
        ((2,), (1, 1), None, "as many strides as sizes"),
        ((2,), (-1,), 5, "none may be negative"),
        ((-1,), (1,), None, "none may be negative"),
        ((1,), (2**60,), None, "not that many elements"),
        ((2**40, 2**40), (0, 0), None, "more elements than can be addressed"),
    ):
        with pytest.raises(crt.InvalidArgumentError, match=message):
            x.as_strided(size, stride, offset)
