"""The operator ``bilinear``."""

from __future__ import annotations

from ._promotion import NUMBERS
from ._shapes import fail, same, text
from .record import Meta, op, tensor


def _infer(input1: Meta, input2: Meta, weight: Meta, bias: Meta | None) -> Meta:
    name = "bilinear"
    if weight.ndim != 3 or input1.ndim < 1 or input2.ndim != input1.ndim:
        fail(
            name,
            f"expected input1 [..., A], input2 [..., B] and weight [O, A, B], got "
            f"{text(input1.shape)}, {text(input2.shape)} and {text(weight.shape)}",
        )
    if not all(map(same, input1.shape[:-1], input2.shape[:-1])):
        fail(
            name,
            f"input1 {text(input1.shape)} and input2 {text(input2.shape)} must agree in all dims "
            "but the last",
        )
    o, a, b = weight.shape
    if not same(input1.shape[-1], a) or not same(input2.shape[-1], b):
        fail(
            name,
            f"weight {text(weight.shape)} does not fit input1 {text(input1.shape)} and input2 "
            f"{text(input2.shape)}: it must be [O, {input1.shape[-1]}, {input2.shape[-1]}]",
        )
    if bias is not None and (bias.ndim != 1 or not same(bias.shape[0], o)):
        fail(name, f"bias {text(bias.shape)} must be [{o}]")
    for other in (input2, weight, bias):
        if other is not None and other.dtype is not input1.dtype:
            fail(
                name,
                f"operands must have one dtype, got {input1.dtype.name} and {other.dtype.name}; "
                "convert one with .to()",
            )
    return Meta((*input1.shape[:-1], o), input1.dtype)


op(
    "bilinear",
    doc="""
    result[.., o] = bias[o] + the sum over a and b of input1[.., a] * weight[o, a, b] * input2[..,
    b].

    input1 [..., A], input2 [..., B], weight [O, A, B], bias [O]. Sums are kept in float32 for the
    16-bit dtypes.
    """,
    args=[
        tensor("input1", NUMBERS),
        tensor("input2", NUMBERS),
        tensor("weight", NUMBERS),
        tensor("bias", NUMBERS, optional=True),
    ],
    infer=_infer,
    method=False,
)
