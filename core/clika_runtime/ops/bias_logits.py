"""The operator ``bias_logits``."""

from __future__ import annotations

from ._shapes import fail, same, text
from .record import Meta, op, tensor

_INT32 = frozenset(("int32",))
_FLOAT32 = frozenset(("float32",))


def _infer(logits: Meta, ids: Meta, values: Meta, spans: Meta) -> Meta:
    if logits.ndim != 2 or spans.ndim != 2 or not same(spans.shape[0], logits.shape[0]):
        fail(
            "bias_logits",
            "expected logits [R, V] and spans [R, 2], got "
            f"{text(logits.shape)} and {text(spans.shape)}",
        )
    if not same(spans.shape[1], 2):
        fail("bias_logits", f"spans {text(spans.shape)} must have 2 columns, begin and end")
    if ids.ndim != 1 or values.ndim != 1 or not same(ids.shape[0], values.shape[0]):
        fail(
            "bias_logits",
            f"ids and values must be [N], got {text(ids.shape)} and {text(values.shape)}",
        )
    return Meta(logits.shape, logits.dtype)


op(
    "bias_logits",
    doc="""
    Adds a bias to chosen logits of each row, in place; returns logits:
    logits[r, ids[j]] += values[j] for j from spans[r, 0] to spans[r, 1] - 1.

    logits [R, V], ids [N] int32, values [N], spans [R, 2] int32. A value of -inf bans the token. A
    NaN logit stays NaN. An id outside the vocabulary, or a span outside ids, is an error of the
    kernel.
    """,
    args=[
        tensor("logits", _FLOAT32),
        tensor("ids", _INT32),
        tensor("values", _FLOAT32),
        tensor("spans", _INT32),
    ],
    infer=_infer,
    mutates=0,
    method=False,
)
