"""Operators that put the entries of a tensor at other places."""

from __future__ import annotations

from typing import Any

from ._rules import like
from ._shapes import dim, dims, fail, product, text
from .record import Meta, op, static, tensor


def _flip(input: Meta, over: tuple[int, ...]) -> Meta:
    if over:  # an empty list turns none
        dims("flip", over, input.ndim, name="dims")
    return Meta(input.shape, input.dtype)


op(
    "flip",
    doc="A copy of input with these dims turned round: entry i of one is entry size - 1 - i.",
    args=[tensor("input"), static("dims", "ints", aliases=("dim",), variadic=True)],
    infer=_flip,
)


def _roll(input: Meta, shifts: tuple[int, ...], over: tuple[int, ...] | None) -> Meta:
    wanted = len(over) if over else 1
    if len(shifts) != wanted:
        fail(
            "roll",
            f"shifts {list(shifts)} and dims {list(over or ())} must be of one length; without "
            "dims there is one shift",
        )
    for value in over or ():
        dim("roll", value, input.ndim, name="dims")
    return Meta(input.shape, input.dtype)


op(
    "roll",
    doc="""
    A copy of input moved by `shifts` along `dims`: entry i goes to (i + shift) modulo size.

    Without dims, the elements in row-major order are moved as one dim.
    """,
    args=[
        tensor("input"),
        static("shifts", "ints"),
        static("dims", "ints", None, aliases=("dim",)),
    ],
    infer=_roll,
)


def _repeat(input: Meta, repeats: tuple[Any, ...]) -> Meta:
    new = len(repeats) - input.ndim
    if new < 0:
        fail("repeat", f"repeats {list(repeats)} must have one for each dim of {text(input.shape)}")
    if any(type(count) is int and count < 0 for count in repeats):
        fail("repeat", f"repeats {list(repeats)} must not be negative")
    sizes = (*(1,) * new, *input.shape)
    return Meta(tuple(map(product, zip(repeats, sizes, strict=True))), input.dtype)


op(
    "repeat",
    doc="""
    input repeated along each dim, one copy after the other; new dims are put in front.

    `x.repeat(2, 3)` has two times x's rows and three times its columns. `expand` gives a view
    where the repeated dims have size 1.
    """,
    args=[tensor("input"), static("repeats", "ints", aliases=("sizes",), variadic=True)],
    infer=_repeat,
)


def _triangle(name: str, doc: str) -> None:
    def infer(input: Meta, diagonal: int) -> Meta:
        if input.ndim < 2:
            fail(name, f"input {text(input.shape)} must have at least 2 dims")
        return like(input)

    op(name, doc=doc, args=[tensor("input"), static("diagonal", "int", 0)], infer=infer)


_triangle(
    "tril",
    """
    The lower triangles of matrices: entry [i, j] where j <= i + diagonal, else 0.

    Leading dims are batch dims.
    """,
)
_triangle(
    "triu",
    """
    The upper triangles of matrices: entry [i, j] where j >= i + diagonal, else 0.

    Leading dims are batch dims.
    """,
)


def _diag_embed(input: Meta, offset: int, dim1: int, dim2: int) -> Meta:
    if input.ndim == 0:
        fail("diag_embed", "input has no dims; it needs one to lie on the diagonal")
    rank = input.ndim + 1
    rows = dim("diag_embed", dim1, rank, name="dim1")
    columns = dim("diag_embed", dim2, rank, name="dim2")
    if rows == columns:
        fail("diag_embed", f"dim1 {dim1} and dim2 {dim2} must be different dims")
    side = input.shape[-1] + abs(offset)
    rest = iter(input.shape[:-1])
    return Meta(
        tuple(side if i in (rows, columns) else next(rest) for i in range(rank)), input.dtype
    )


op(
    "diag_embed",
    doc="""
    Square matrices, zero but for diagonal `offset`, on which the last dim of input lies.

    The matrices stand in the dims dim1 and dim2 of the result.
    """,
    args=[
        tensor("input"),
        static("offset", "int", 0),
        static("dim1", "int", -2),
        static("dim2", "int", -1),
    ],
    infer=_diag_embed,
)
