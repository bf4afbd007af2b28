"""Packed weights by their payload: what a weight's bytes are, and weights from bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clika_runtime import dtypes
from clika_runtime.errors import InvalidArgumentError, UnsupportedError

from ._files import shown
from .schemes import SCHEMES, SCHEMES_BY_NAME

if TYPE_CHECKING:
    from clika_runtime._native._core import Tensor

__all__ = ["QTensor", "dequantize", "make_quantized", "make_quantized_mxfp4", "quantized_view"]


class QTensor:
    """A packed weight with names for its parts; ``tensor`` is the weight itself.

    ``payload`` is uint8 [rows, row_bytes], a view of the same bytes; ``scheme`` is a name such as
    ``"GGUF_Q8_0"``; ``logical_shape`` counts elements, the contiguous dimension first: [in, out].
    """

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    @property
    def scheme(self) -> str:
        return SCHEMES[self.tensor.scheme].name

    @property
    def logical_shape(self) -> list[int]:
        return [int(size) for size in reversed(self.tensor.shape)]

    @property
    def payload(self) -> Tensor:
        import ctypes

        from clika_runtime._native._core import Tensor

        row_bytes = _row_bytes(self.tensor.scheme, self.logical_shape[0])
        rows = math.prod(self.logical_shape[1:])
        nbytes = rows * row_bytes
        if not nbytes:
            return Tensor.from_bytes(b"", (rows, row_bytes), dtypes.uint8)
        memory = (ctypes.c_ubyte * nbytes).from_address(self.tensor.data_ptr())
        view = memoryview(memory).cast("B").toreadonly()
        return Tensor.from_buffer(
            view, (rows, row_bytes), dtypes.uint8, owner=self.tensor, mapped=False
        )

    def __repr__(self) -> str:
        return f"QTensor(scheme={self.scheme!r}, logical_shape={self.logical_shape})"


def _row_bytes(number: int, columns: int) -> int:
    scheme = SCHEMES[number]
    return columns // scheme.columns * scheme.nbytes


def quantized_view(tensor: Tensor) -> QTensor:
    """Names the parts of a packed weight as published; nothing is copied.

    Errors: ``InvalidArgumentError`` for what is no packed weight, or one in a backend's own layout.

    >>> quantized_view(weights["blk.0.ffn_up.weight"]).scheme  # doctest: +SKIP
    'GGUF_Q8_0'
    """
    from clika_runtime._native._core import Tensor

    if isinstance(tensor, QTensor):
        return tensor
    if not isinstance(tensor, Tensor):
        raise InvalidArgumentError(
            f"quantized_view: expected a tensor, found {type(tensor).__name__}"
        )
    if not tensor.is_quantized:
        raise InvalidArgumentError(
            f"quantized_view: the tensor is dense {tensor.dtype.name} {list(tensor.shape)}; "
            "only a packed weight has a payload"
        )
    if tensor.layout:
        raise InvalidArgumentError(
            f"quantized_view: the weight is in layout {tensor.layout} of its backend; take the "
            "view before pack_weight"
        )
    return QTensor(tensor)


def dequantize(weight: Any, dtype: Any = dtypes.float32) -> Tensor:
    """The operator ``dequantize``, which also takes a ``QTensor``: dense [out, in].

    >>> dequantize(quantized_view(weight)).shape  # doctest: +SKIP
    Size([1536, 576])
    """
    from clika_runtime import ops

    result: Tensor = ops.dequantize(getattr(weight, "tensor", weight), dtype=dtype)
    return result


def _sizes(what: str, logical_shape: Any) -> list[int]:
    if (
        not isinstance(logical_shape, Sequence)
        or isinstance(logical_shape, str)
        or len(logical_shape) < 2
        or not all(type(size) is int and 0 <= size < 1 << 40 for size in logical_shape)
    ):
        raise InvalidArgumentError(
            f"{what}: logical_shape must be sizes [in, out, ...], found {shown(logical_shape)}"
        )
    return list(logical_shape)


def _codes(what: str, name: str, tensor: Any) -> Any:
    """The NumPy view of a uint8 tensor on the CPU."""
    import numpy as np

    from clika_runtime._native._core import Tensor

    if (
        not isinstance(tensor, Tensor)
        or tensor.is_quantized
        or tensor.dtype is not dtypes.uint8
        or tensor.device.type != "cpu"
    ):
        found = (
            f"{tensor.dtype.name} on {tensor.device}"
            if isinstance(tensor, Tensor)
            else type(tensor).__name__
        )
        raise InvalidArgumentError(
            f"{what}: {name} must be a uint8 tensor on the CPU, found {found}"
        )
    return np.ascontiguousarray(tensor.numpy())


def make_quantized(payload: Tensor, scheme: str, logical_shape: Sequence[int]) -> QTensor:
    """A packed weight from packed block rows: uint8 [rows, row_bytes] on the CPU.

    ``scheme`` is a name such as ``"GGUF_Q8_0"`` or ``"MXFP4_E8M0"``; ``logical_shape`` is
    [in, out], the contiguous dimension first. A contiguous payload is not copied. Errors:
    ``UnsupportedError`` for an unknown scheme, ``InvalidArgumentError`` for a payload or shape that
    does not fit it.

    >>> import clika_runtime as crt
    >>> make_quantized(crt.zeros((2, 34), dtype=crt.uint8), "GGUF_Q8_0", [32, 2]).scheme
    'GGUF_Q8_0'
    """
    from clika_runtime._native._core import Tensor

    what = "make_quantized"
    found = SCHEMES_BY_NAME.get(scheme) if isinstance(scheme, str) else None
    if found is None:
        raise UnsupportedError(
            f"{what}: {shown(scheme)} is no scheme; known are {', '.join(SCHEMES_BY_NAME)}",
            "NOT_IMPLEMENTED_FOR_SCHEME",
        )
    sizes = _sizes(what, logical_shape)
    if sizes[0] % found.columns:
        raise InvalidArgumentError(
            f"{what}: {sizes[0]} columns are no multiple of {found.columns}, the block of "
            f"{found.name}"
        )
    data = _codes(what, "payload", payload)
    expected = (math.prod(sizes[1:]), sizes[0] // found.columns * found.nbytes)
    if data.shape != expected:
        raise InvalidArgumentError(
            f"{what}: the payload has shape {list(data.shape)}, {found.name} of {sizes} takes "
            f"{list(expected)}"
        )
    return QTensor(
        Tensor.from_buffer(
            data,
            tuple(reversed(sizes)),
            dtypes.float32,
            scheme=found.number,
            owner=payload,
            mapped=False,
        )
    )


def make_quantized_mxfp4(blocks: Tensor, scales: Tensor, logical_shape: Sequence[int]) -> QTensor:
    """A weight of scheme ``MXFP4_E8M0`` from the two tensors that checkpoints publish (OCP
    Microscaling Formats v1.0).

    ``blocks`` is uint8 with 16 bytes for each 32 columns (two e2m1 codes to a byte, the even column
    in the low half), ``scales`` uint8 with one exponent for each 32 columns: a factor 2^(e - 127).
    ``logical_shape`` is [in, out]. The shapes may be split up in any way that keeps the order.
    Errors: ``InvalidArgumentError`` for counts that do not fit and for the scale 255 (NaN).

    >>> import clika_runtime as crt
    >>> q = make_quantized_mxfp4(
    ...     crt.full((1, 16), 0x21, dtype=crt.uint8), crt.full((1,), 128, dtype=crt.uint8), [32, 1]
    ... )
    >>> dequantize(q)[0, :2].tolist()
    [1.0, 2.0]
    """
    import numpy as np

    from clika_runtime._native._core import Tensor

    what = "make_quantized_mxfp4"
    sizes = _sizes(what, logical_shape)
    if sizes[0] % 32:
        raise InvalidArgumentError(f"{what}: {sizes[0]} columns are no multiple of 32")
    codes, exponents = _codes(what, "blocks", blocks), _codes(what, "scales", scales)
    rows, count = math.prod(sizes[1:]), sizes[0] // 32
    for name, array, each in (("blocks", codes, 16), ("scales", exponents, 1)):
        if array.size != rows * count * each:
            raise InvalidArgumentError(
                f"{what}: {name} has shape {list(array.shape)}, {array.size} bytes; the logical "
                f"shape {sizes} takes {rows * count * each}"
            )
    wrong = np.flatnonzero(exponents.reshape(-1) == 255)
    if wrong.size:
        raise InvalidArgumentError(
            f"{what}: scales[{int(wrong[0])}] is 255, which is no number; at most 254 is one"
        )
    woven = np.concatenate(
        [codes.reshape(rows, count, 16), exponents.reshape(rows, count, 1)], axis=2
    )
    payload = Tensor.from_buffer(woven, (rows, count * 17), dtypes.uint8, mapped=False)
    return make_quantized(payload, "MXFP4_E8M0", sizes)
