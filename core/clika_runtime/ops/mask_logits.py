"""The operator ``mask_logits``."""

from __future__ import annotations

from ._shapes import fail, same, text
from .record import Meta, op, tensor


def _infer(logits: Meta, mask: Meta) -> Meta:
    if logits.ndim != 2 or mask.ndim != 2 or not same(mask.shape[0], logits.shape[0]):
        fail(
            "mask_logits",
            "expected logits [R, V] and mask [R, ceil(V / 32)], got "
            f"{text(logits.shape)} and {text(mask.shape)}",
        )
    if type(logits.shape[1]) is int and not same(mask.shape[1], (logits.shape[1] + 31) // 32):
        fail(
            "mask_logits",
            f"mask {text(mask.shape)} must have {(logits.shape[1] + 31) // 32} words of 32 bits, "
            f"one bit for each of {logits.shape[1]} tokens",
        )
    return Meta(logits.shape, logits.dtype)


op(
    "mask_logits",
    doc="""
    Sets the logits of tokens that are not allowed to -inf, in place; returns logits.

    Token v of row r is allowed where bit v % 32 of mask[r, v // 32] is 1. logits [R, V], mask
    [R, ceil(V / 32)] int32. A NaN logit stays NaN.
    """,
    args=[
        tensor("logits", frozenset(("float32",))),
        tensor("mask", frozenset(("int32",))),
    ],
    infer=_infer,
    mutates=0,
    method=False,
)
