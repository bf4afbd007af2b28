"""The operator ``sample``."""

from __future__ import annotations

from .. import dtypes
from ._promotion import FLOATS
from ._shapes import fail, same, text
from .record import RANDOM, Meta, op, tensor

_FLOAT32 = frozenset(("float32",))
_INT32 = frozenset(("int32",))
_INT64 = frozenset(("int64",))
_COLUMNS = (
    "temperature",
    "top_p",
    "min_p",
    "top_k",
    "seed",
    "index",
    "top_n_sigma",
    "typical_p",
    "xtc_probability",
    "xtc_threshold",
)


def _infer(logits: Meta, *columns: Meta | None) -> Meta:
    if logits.ndim != 2:
        fail("sample", f"logits must be [R, V], got {text(logits.shape)}")
    rows = logits.shape[0]
    for name, meta in zip(_COLUMNS, columns, strict=True):
        if meta is not None and (meta.ndim != 1 or not same(meta.shape[0], rows)):
            fail(
                "sample", f"{name} {text(meta.shape)} must be [{rows}], one for each row of logits"
            )
    return Meta((rows,), dtypes.int32)


op(
    "sample",
    doc="""
    One token id per row of logits [R, V], drawn from softmax(logits / temperature) after
    filtering; the id of the largest logit (the lowest among equals) where temperature is 0.

    Order tokens by probability, the lower id first among equals. The filters, in this order; each
    sees the probabilities of what the one before has kept, scaled to a sum of 1:

    1. top_n_sigma (0: off): logits at least the largest - top_n_sigma * s, where s is the standard
       deviation of the row's logits above -inf;
    2. top_k (0: off): the first top_k tokens;
    3. typical_p (1: off): order by |-ln p - H|, H = sum of -p ln p, the more probable first among
       equals; the shortest head whose sum reaches typical_p;
    4. top_p (1: off): the shortest head whose sum reaches top_p;
    5. min_p (0: off): tokens with at least min_p times the largest probability;
    6. xtc_probability (0: off): with this chance, where two or more tokens have at least
       xtc_threshold, all of these but the least probable are left out.

    At least one token is always kept. Of the last four arguments an absent one is off in every row.
    A token whose weight exp((logit - largest) / temperature) is 0 in float32 is never drawn. A row
    that has a NaN, or no logit above -inf, has no such distribution: its result is -1.

    With u = (word >> 8) * 2^-24 from word 0 of the Philox4x32-10 block with key (seed's low, high
    32 bits) and counter (index's low, high 32 bits, 0, 0), the result is the first kept token, in
    ascending order of ids, whose cumulative probability is above u times the sum; word 1 of the
    same block is the chance of XTC. `index` is the token's number in its sequence: a row's result
    depends on its own logits and settings only. Sums are float32 or wider.
    """,
    args=[
        tensor("logits", FLOATS),
        tensor("temperature", _FLOAT32),
        tensor("top_p", _FLOAT32),
        tensor("min_p", _FLOAT32),
        tensor("top_k", _INT32),
        tensor("seed", _INT64),
        tensor("index", _INT64),
        tensor("top_n_sigma", _FLOAT32, optional=True),
        tensor("typical_p", _FLOAT32, optional=True),
        tensor("xtc_probability", _FLOAT32, optional=True),
        tensor("xtc_threshold", _FLOAT32, optional=True),
    ],
    infer=_infer,
    traits={RANDOM},
    method=False,
    source="Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011 (Philox4x32-10); "
    "Holtzman et al., The curious case of neural text degeneration, ICLR 2020 (top-p); "
    "Meister et al., Locally typical sampling, TACL 2023; Nguyen et al., Min-p sampling, ICLR "
    "2025; Tang et al., Top-n-sigma, 2024",
)
