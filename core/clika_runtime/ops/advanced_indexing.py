"""Indexing by tensors: what ``x[i, :, j]`` and ``x[i, j] = y`` are made of."""

from __future__ import annotations

from typing import Any

from ._promotion import INDEX
from ._shapes import Shape, broadcast, convertible, dim, fail, known, same, text
from .record import Meta, op, static, tensor


def _places(
    name: str, input: Meta, indices: list[Meta], dims: tuple[int, ...] | None
) -> tuple[tuple[int, ...], Shape]:
    """The indexed dims from the front, and the shape of ``input[indices]``."""
    if not indices:
        fail(name, "expected at least one index")
    if dims is None:
        dims = tuple(range(len(indices)))
    if len(dims) != len(indices):
        fail(name, f"{len(indices)} indices for the dims {list(dims)}")
    if input.ndim == 0:
        fail(name, "input has no dims; a 0-d tensor has nothing to index")
    at = tuple(dim(name, value, input.ndim, name="dims") for value in dims)
    if list(at) != sorted(set(at)):
        fail(name, f"dims {list(dims)} must be different and in order")
    picked = broadcast(name, *(index.shape for index in indices))
    if not any(known(size, 0) for size in picked):
        for d in at:
            if known(input.shape[d], 0):
                fail(name, f"dim {d} has size 0; there is nothing to index")
    rest = [size for d, size in enumerate(input.shape) if d not in at]
    together = at[-1] - at[0] == len(at) - 1
    place = at[0] if together else 0
    shape = (*rest[:place], *picked, *rest[place:])
    if len(shape) > 8:
        fail(name, f"the places have the shape {text(shape)}, whose rank is over the limit of 8")
    return at, shape


def _index(input: Meta, indices: list[Meta], dims: tuple[int, ...] | None) -> Meta:
    return Meta(_places("index", input, indices, dims)[1], input.dtype)


op(
    "index",
    doc="""
    Picks entries by several indices at once: of two, result[.., k, ..] = input[.., i[k], j[k], ..].

    The indices are integer tensors that broadcast to one shape. They stand for the dims `dims` of
    input (the first ones by default), and that shape takes their place, or the front where they are
    not side by side. A negative index counts from the end; one outside is an error of the kernel.
    `x[i, :, j]` is this operator.
    """,
    args=[
        tensor("input"),
        tensor("indices", INDEX, sequence=True),
        static("dims", "ints", None),
    ],
    infer=_index,
    method=False,
)


def _put(
    input: Meta, indices: list[Meta], values: Meta, dims: tuple[int, ...] | None, accumulate: bool
) -> Meta:
    _, shape = _places("index_put_", input, indices, dims)
    if len(values.shape) > len(shape) or not all(
        known(size, 1) or same(size, want)
        for size, want in zip(reversed(values.shape), reversed(shape), strict=False)
    ):
        fail(
            "index_put_",
            f"values {text(values.shape)} do not broadcast to the shape {text(shape)} of the "
            "places",
        )
    convertible("index_put_", values, input)
    return Meta(input.shape, input.dtype)


def _put_promote(input: Meta, *_: Any) -> tuple[Any, Any, Any]:
    return None, None, input.dtype


op(
    "index_put_",
    doc="""
    Writes values to the places that `index` would pick, in place; returns input.

    The values broadcast to the shape of the places and are converted to input's dtype. With
    `accumulate` they are added, one after the other; without, the last one stays where two
    indices name one place. `x[i, j] = y` is this operator.
    """,
    args=[
        tensor("input"),
        tensor("indices", INDEX, sequence=True),
        tensor("values", number=True),
        static("dims", "ints", None),
        static("accumulate", "bool", False),
    ],
    infer=_put,
    promote=_put_promote,
    mutates=0,
    method=False,
)
