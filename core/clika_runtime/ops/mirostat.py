"""The operator ``mirostat``."""

from __future__ import annotations

from .. import dtypes
from ._shapes import fail, same, text
from .record import RANDOM, Meta, op, tensor

_FLOAT32 = frozenset(("float32",))
_INT32 = frozenset(("int32",))
_INT64 = frozenset(("int64",))
_COLUMNS = ("ids", "temperature", "tau", "eta", "mu", "seed", "index", "version")


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
    A token id per row by Mirostat, version 1 or 2, and the state mu for the row's next token.

    With p = softmax(logits / temperature), version 2 keeps the tokens whose surprise -log2 p is at
    most mu (the most probable one always). Version 1 takes p for a Zipf distribution: p_1 >= p_2 >=
    ... fall as i^-s, with s = sum(t_i b_i) / sum(t_i^2) over the first min(100, N) - 1 of them,
    t_i = log((i + 1) / i), b_i = log(p_i / p_(i+1)), N tokens above -inf; with e = s - 1 it keeps
    the floor((e 2^mu / (1 - N^-e))^(1/s)) most probable (at least one, of equals the lower id).

    One of the kept is drawn as in `sample`, from the same random number. With its probability q
    among the kept, mu becomes mu - eta * (-log2 q - tau). Begin with mu = 2 * tau. A row with tau 0
    takes its result from ids and keeps its mu, as does one with temperature 0 and one that has a
    NaN or no logit above -inf.

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
        tensor("version", _INT32),
    ],
    infer=_infer,
    outputs=2,
    traits={RANDOM},
    method=False,
    source="Basu et al., Mirostat: a neural text decoding algorithm that directly controls "
    "perplexity, ICLR 2021",
)
