"""The operator ``mirostat``."""

from __future__ import annotations

from .. import dtypes
from ._shapes import fail, same, text
from .record import RANDOM, Meta, op, tensor

_FLOAT32 = frozenset(("float32",))
_INT32 = frozenset(("int32",))
_INT64 = frozenset(("int64",))
_COLUMNS = ("ids", "temperature", "tau", "eta", "mu", "seed", "index")


def _infer(logits: Meta, *columns: Meta) -> tuple[Meta, Meta]:
    if logits.ndim != 2:
        fail("mirostat", f"logits must be [R, V], got {text(logits.shape)}")
    rows = logits.shape[0]
    for name, meta in zip(_COLUMNS, columns, strict=True):
        if meta.ndim != 1 or not same(meta.shape[0], rows):
            fail(
                "mirostat",
                f"{name} {text(meta.shape)} must be [{rows}], one for each row of logits",
            )
    return Meta((rows,), dtypes.int32), Meta((rows,), dtypes.float32)


op(
    "mirostat",
    doc="""
    A token id per row by Mirostat, version 2, and the state mu for the row's next token.

    With p = softmax(logits / temperature), kept are the tokens whose surprise -log2 p is at most mu
    (the most probable one always); one is drawn from them as in `sample`, from the same random
    number. With its probability q among the kept, mu becomes mu - eta * (-log2 q - tau). Begin with
    mu = 2 * tau. A row with tau 0 takes its result from ids and keeps its mu, as does one with
    temperature 0 and one that has a NaN or no logit above -inf.

    logits [R, V], ids [R] int32, the other columns [R].
    """,
    args=[
        tensor("logits", _FLOAT32),
        tensor("ids", _INT32),
        tensor("temperature", _FLOAT32),
        tensor("tau", _FLOAT32),
        tensor("eta", _FLOAT32),
        tensor("mu", _FLOAT32),
        tensor("seed", _INT64),
        tensor("index", _INT64),
    ],
    infer=_infer,
    outputs=2,
    traits={RANDOM},
    method=False,
    source="Basu et al., Mirostat: a neural text decoding algorithm that directly controls "
    "perplexity, ICLR 2021",
)
