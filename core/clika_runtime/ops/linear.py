"""The operator ``linear``."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._promotion import INTS, NUMBERS
from ._shapes import fail, same, text
from .record import Meta, op, static, tensor


def _infer(input: Meta, weight: Meta, bias: Meta | None, mode: str) -> Meta:
    if input.ndim < 1 or weight.ndim != 2:
        fail(
            "linear",
            f"expected input [..., K] and weight [N, K], got {text(input.shape)} and "
            f"{text(weight.shape)}",
        )
    n, k = weight.shape
    if not same(input.shape[-1], k):
        fail(
            "linear",
            f"input {text(input.shape)} does not fit weight {text(weight.shape)}: input's last dim "
            f"({input.shape[-1]}) must equal weight's dim 1 ({k})",
        )
    if bias is not None and (bias.ndim != 1 or not same(bias.shape[0], n)):
        fail(
            "linear",
            f"bias {text(bias.shape)} must be [{n}], one for each row of weight "
            f"{text(weight.shape)}",
        )
    whole = {input.dtype.name in INTS, weight.scheme == 0 and weight.dtype.name in INTS}
    if True in whole and (False in whole or weight.dtype is not input.dtype):
        fail(
            "linear",
            f"input has dtype {input.dtype.name}, weight {weight.dtype.name}; integers go with "
            "integers of the same dtype, convert one with .to()",
        )
    return Meta((*input.shape[:-1], n), input.dtype)


def _compose(input: Any, weight: Any, bias: Any, mode: str) -> Any:
    dense = ops.dequantize if weight.scheme else ops.cast
    dense = dense(weight, input.dtype)
    if len(input.shape) > 1:
        result = ops.matmul(input, ops.transpose(dense, 0, 1))
    else:
        result = ops.matmul(dense, input)
    return result if bias is None else ops.add(result, ops.cast(bias, input.dtype))


op(
    "linear",
    doc="""
    input @ weight^T + bias, with input [..., K], weight [N, K] and bias [N]; the result is [...,
    N].

    The weight is dense, in any floating-point dtype (integers go with integers), or packed in a
    quantization scheme. `exact` decodes a packed weight and multiplies in floating point; `fast`
    may quantize the input per row in blocks of 32 to 8 bits, the blocks with the largest values
    to more, and multiply integers. A row of the result depends on that row of the input only, to
    the bit.
    """,
    args=[
        tensor("input", NUMBERS),
        tensor("weight", NUMBERS, packed=True),
        tensor("bias", NUMBERS, optional=True),
        static("mode", "str", "exact", modes=("exact", "fast")),
    ],
    infer=_infer,
    compose=_compose,
    method=False,
)
