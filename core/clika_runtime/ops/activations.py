"""Activations: elementwise functions of one tensor with numbers that shape them. Kernels compute in
float32 and round once."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._promotion import FLOATS, NUMBERS
from ._rules import halved, unary
from ._shapes import fail, same, text
from .record import ELEMENTWISE, Meta, op, scalar, static, tensor

_ELU = "Clevert et al., Fast and Accurate Deep Network Learning by ELUs, arXiv:1511.07289"

unary(
    "softplus",
    "ln(1 + e^(beta x)) / beta, and x itself where beta x is above `threshold`.",
    FLOATS,
    extra=[scalar("beta", "float", 1.0), scalar("threshold", "float", 20.0)],
)
unary(
    "elu",
    "x where it is above 0, else alpha (e^x - 1).",
    FLOATS,
    extra=[scalar("alpha", "float", 1.0)],
    source=_ELU,
)
unary(
    "celu",
    "x where it is above 0, else alpha (e^(x / alpha) - 1).",
    FLOATS,
    extra=[scalar("alpha", "float", 1.0)],
    source="Barron, Continuously Differentiable Exponential Linear Units, arXiv:1704.07483",
)
unary(
    "selu",
    "1.05070098... * elu(x, alpha=1.67326324...), which keeps mean 0 and variance 1.",
    FLOATS,
    source="Klambauer et al., Self-Normalizing Neural Networks, arXiv:1706.02515",
)
unary(
    "hardtanh",
    "min(max(x, min_val), max_val).",
    NUMBERS,
    extra=[scalar("min_val", "number", -1.0), scalar("max_val", "number", 1.0)],
)
unary("relu6", "min(max(x, 0), 6).", NUMBERS)
unary("hardsigmoid", "min(max(x + 3, 0), 6) / 6.", FLOATS)
unary(
    "hardswish",
    "x * min(max(x + 3, 0), 6) / 6.",
    FLOATS,
    source="Howard et al., Searching for MobileNetV3, arXiv:1905.02244",
)
unary(
    "hardshrink",
    "0 where |x| <= lambd, else x.",
    FLOATS,
    extra=[scalar("lambd", "float", 0.5)],
)
unary(
    "softshrink",
    "x - lambd above lambd, x + lambd below -lambd, and 0 between.",
    FLOATS,
    extra=[scalar("lambd", "float", 0.5)],
)
unary("tanhshrink", "x - tanh(x).", NUMBERS, floats=True)
unary("softsign", "x / (1 + |x|).", NUMBERS, floats=True)
unary(
    "mish",
    "x * tanh(softplus(x)).",
    FLOATS,
    source="Misra, Mish: A Self Regularized Non-Monotonic Activation Function, arXiv:1908.08681",
)
unary("logsigmoid", "ln(sigmoid(x)) = min(x, 0) - ln(1 + e^-|x|).", FLOATS)
unary(
    "leaky_relu",
    "x where it is above 0, else negative_slope * x.",
    FLOATS,
    extra=[scalar("negative_slope", "float", 0.01)],
)
unary(
    "threshold",
    "x where it is above `threshold`, else `value`.",
    NUMBERS,
    extra=[scalar("threshold", "number"), scalar("value", "number")],
)


def _prelu(input: Meta, weight: Meta) -> Meta:
    if weight.ndim > 1:
        fail("prelu", f"weight {text(weight.shape)} must have one dim, or none")
    if weight.dtype is not input.dtype:
        fail(
            "prelu",
            f"input has dtype {input.dtype.name}, weight {weight.dtype.name}; convert one with "
            ".to()",
        )
    size = weight.shape[0] if weight.ndim else 1
    channels = input.shape[1] if input.ndim > 1 else 1
    if not same(size, 1) and not same(size, channels):
        fail(
            "prelu",
            f"weight has {size} elements; input {text(input.shape)} has {channels} channels at "
            "dim 1, and a weight has that many or one",
        )
    return Meta(input.shape, input.dtype)


def _prelu_composed(input: Any, weight: Any) -> Any:
    if len(input.shape) > 1 and len(weight.shape) == 1:
        weight = ops.reshape(weight, (-1, *[1] * (len(input.shape) - 2)))
    elif len(weight.shape) == 1:
        weight = ops.reshape(weight, ())
    return ops.where(ops.gt(input, 0), input, ops.mul(weight, input))


op(
    "prelu",
    doc="""
    x where it is above 0, else weight * x.

    `weight` has one element, or one per channel; the channels are dim 1.
    """,
    args=[tensor("input", FLOATS), tensor("weight", FLOATS)],
    infer=_prelu,
    traits={ELEMENTWISE},
    compose=_prelu_composed,
    source="He et al., Delving Deep into Rectifiers, arXiv:1502.01852",
)


def _glu_composed(input: Any, dim: int) -> Any:
    first, second = ops.chunk(input, 2, dim)
    return ops.mul(first, ops.sigmoid(second))


op(
    "glu",
    doc="""
    a * sigmoid(b), where a and b are the halves of input along `dim`.

    The size at `dim` is even; the result has half of it.
    """,
    args=[tensor("input", FLOATS), static("dim", "int", -1)],
    infer=lambda input, dim: Meta(halved("glu", input.shape, dim), input.dtype),
    traits={ELEMENTWISE},
    compose=_glu_composed,
    method=False,
    source="Dauphin et al., Language Modeling with Gated Convolutional Networks, arXiv:1612.08083",
)
