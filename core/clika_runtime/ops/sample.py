"""The operator ``sample``."""

from __future__ import annotations

from .. import dtypes
from ._promotion import FLOATS
from ._shapes import fail, same, text
from .record import RANDOM, Meta, op, tensor

_FLOAT32 = frozenset(("float32",))
_INT64 = frozenset(("int64",))


def _infer(logits: Meta, *per_row: Meta) -> Meta:
    if logits.ndim != 2:
        fail("sample", f"logits must be [R, V], got {text(logits.shape)}")
    rows = logits.shape[0]
    names = ("temperature", "top_p", "min_p", "top_k", "seed", "index")
    for name, meta in zip(names, per_row, strict=True):
        if meta.ndim != 1 or not same(meta.shape[0], rows):
            fail(
                "sample", f"{name} {text(meta.shape)} must be [{rows}], one for each row of logits"
            )
    return Meta((rows,), dtypes.int32)


op(
    "sample",
    doc="""
    One token id per row of logits [R, V], drawn from softmax(logits / temperature) after
    filtering; the id of the largest logit (the lowest among equals) where temperature is 0.

    Order tokens by probability, the lower id first among equals. Kept are: the first top_k (0:
    all); then, with the probabilities of the kept ones scaled to 1, the shortest head whose sum
    reaches top_p (1: all); then those with at least min_p times the largest probability (0: all).
    At least one token is always kept. A row that has a NaN, or no logit above -inf, has no such
    distribution: its result is -1.

    With u = (word >> 8) * 2^-24 from word 0 of the Philox4x32-10 block with key (seed's low, high
    32 bits) and counter (index's low, high 32 bits, 0, 0), the result is the first kept token, in
    ascending order of ids, whose cumulative probability is above u times the sum. `index` is the
    token's number in its sequence: a row's result depends on its own logits and settings only.
    Sums are float32 or wider.
    """,
    args=[
        tensor("logits", FLOATS),
        tensor("temperature", _FLOAT32),
        tensor("top_p", _FLOAT32),
        tensor("min_p", _FLOAT32),
        tensor("top_k", frozenset(("int32",))),
        tensor("seed", _INT64),
        tensor("index", _INT64),
    ],
    infer=_infer,
    traits={RANDOM},
    method=False,
    source="Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011 (Philox4x32-10)",
)
