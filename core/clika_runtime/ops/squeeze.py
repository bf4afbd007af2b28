"""The operator ``squeeze``."""

from __future__ import annotations

from ._shapes import dims, known, strides_of
from .record import VIEW, Meta, View, op, static, tensor


def _infer(input: Meta, dim: tuple[int, ...] | None) -> View:
    every = range(input.ndim)
    over = every if dim is None else dims("squeeze", dim, input.ndim) if dim else ()
    kept = [i for i in every if not (i in over and known(input.shape[i], 1))]
    strides = strides_of(input)
    return View(tuple(input.shape[i] for i in kept), tuple(strides[i] for i in kept))


op(
    "squeeze",
    doc="""
    A view of input without its dims of size 1.

    With `dim`, an int or several: without those of them that have size 1; the others stay.
    """,
    args=[tensor("input"), static("dim", "ints", None, aliases=("dims",))],
    infer=_infer,
    traits={VIEW},
)
