"""The operator ``top_logprobs``."""

from __future__ import annotations

from .. import dtypes
from ._promotion import FLOATS
from ._shapes import fail, same, text
from .record import Meta, op, static, tensor


def _infer(logits: Meta, ids: Meta, k: int) -> tuple[Meta, Meta, Meta]:
    if logits.ndim != 2 or ids.ndim != 1 or not same(ids.shape[0], logits.shape[0]):
        fail(
            "top_logprobs",
            f"expected logits [R, V] and ids [R], got {text(logits.shape)} and {text(ids.shape)}",
        )
    size = logits.shape[1]
    if k < 0 or (type(size) is int and k > size):
        fail("top_logprobs", f"k {k} must be between 0 and the {size} logits of a row")
    rows = logits.shape[0]
    return (
        Meta((rows,), dtypes.float32),
        Meta((rows, k), dtypes.float32),
        Meta((rows, k), dtypes.int32),
    )


op(
    "top_logprobs",
    doc="""
    The log-probability of a chosen token of each row, and the row's k likeliest tokens:
    log_softmax(logits)[r, ids[r]], and the k largest log-probabilities with their ids, the lower
    id first among equals.

    logits [R, V], ids [R] int32 -> [R], [R, k] and [R, k] int32. NaN where ids is outside the
    vocabulary (-1 for none), and in a row whose largest logit is not finite, whose ids are -1.
    """,
    args=[
        tensor("logits", FLOATS),
        tensor("ids", frozenset(("int32",))),
        static("k", "int", 0),
    ],
    infer=_infer,
    outputs=3,
    method=False,
)
