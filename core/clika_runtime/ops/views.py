"""Views by shape: operators whose result always shares the input's bytes."""

from __future__ import annotations

from typing import Any

from ..errors import UnsupportedError
from ._shapes import (
    dim,
    dims,
    fail,
    known,
    place,
    product,
    reach,
    resolve_reshape,
    same,
    strides_of,
    text,
    view_strides,
)
from .record import VIEW, Meta, View, op, static, tensor


def _as(name: str, input: Meta, shape: tuple[Any, ...]) -> View:
    target = resolve_reshape(name, input.shape, shape)
    strides = view_strides(input, target)
    if strides is None:
        fail(
            name,
            f"{text(input.shape)} with strides {text(strides_of(input))} cannot be seen as "
            f"{text(target)} without a copy; call reshape",
        )
    return View(target, strides)


op(
    "view",
    doc="""
    The elements of input, in row-major order, under another shape: a view.

    One size may be -1 and is worked out. Raises where the strides do not allow a view; `reshape`
    copies there.
    """,
    args=[tensor("input"), static("shape", "ints", aliases=("size",), variadic=True)],
    infer=lambda input, shape: _as("view", input, shape),
    traits={VIEW},
)


def _unflatten(input: Meta, dim_: int, sizes: tuple[Any, ...]) -> View:
    if input.ndim == 0:
        fail("unflatten", "input has no dims; a 0-d tensor cannot be unflattened")
    at = dim("unflatten", dim_, input.ndim)
    if not sizes:
        fail("unflatten", "sizes must not be empty")
    target = resolve_reshape("unflatten", (input.shape[at],), sizes)
    strides = strides_of(input)
    inner: Any = strides[at]
    found: list[Any] = []
    for size in reversed(target):
        found.insert(0, inner)
        inner = product((inner, size))
    return View(
        (*input.shape[:at], *target, *input.shape[at + 1 :]),
        (*strides[:at], *found, *strides[at + 1 :]),
    )


op(
    "unflatten",
    doc="""
    A view of input with `dim` split into several dims of these sizes; one may be -1.

    The opposite of `flatten`.
    """,
    args=[tensor("input"), static("dim", "int"), static("sizes", "ints")],
    infer=_unflatten,
    traits={VIEW},
)


def _slice(input: Meta, dim_: int, start: Any, end: Any, step: Any) -> View:
    if input.ndim == 0:
        fail("slice", "input has no dims; a 0-d tensor cannot be sliced")
    at = dim("slice", dim_, input.ndim)
    if type(step) is int and step < 1:
        fail("slice", f"step {step} must be at least 1; flip() turns a dim round")
    size = input.shape[at]
    first, length = place(size, start, 0), reach(size, start, end)
    if not known(step, 1):
        length = (length + (step - 1)) // step
    if type(size) is int and type(step) is int:
        step = min(step, max(size, 1))  # a longer one is never taken
    strides = strides_of(input)
    return View(
        (*input.shape[:at], length, *input.shape[at + 1 :]),
        (*strides[:at], product((strides[at], step)), *strides[at + 1 :]),
        product((first, strides[at])),
    )


op(
    "slice",
    doc="""
    A view of the entries start, start + step, ... before end of input along `dim`.

    As Python's slices: negative places count from the end, and places beyond the ends are moved to
    them. `step` is at least 1.
    """,
    args=[
        tensor("input"),
        static("dim", "int", 0),
        static("start", "int", None),
        static("end", "int", None),
        static("step", "int", 1),
    ],
    infer=_slice,
    traits={VIEW},
)


def _movedim(input: Meta, source: tuple[int, ...], destination: tuple[int, ...]) -> View:
    if len(source) != len(destination):
        fail(
            "movedim",
            f"source {list(source)} and destination {list(destination)} must name as many dims",
        )
    # `dims` takes an empty list for all dims; here it moves none.
    from_ = dims("movedim", source, input.ndim, name="source") if source else ()
    to = dims("movedim", destination, input.ndim, name="destination") if source else ()
    rest = iter(i for i in range(input.ndim) if i not in from_)
    moved = dict(zip(to, from_, strict=True))
    order = [moved[i] if i in moved else next(rest) for i in range(input.ndim)]
    strides = strides_of(input)
    return View(tuple(input.shape[i] for i in order), tuple(strides[i] for i in order))


op(
    "movedim",
    doc="""
    A view of input with the dims `source` at the places `destination`.

    Both are an int or several; the other dims keep their order.
    """,
    args=[tensor("input"), static("source", "ints"), static("destination", "ints")],
    infer=_movedim,
    traits={VIEW},
)


def _swapped(name: str, input: Meta, least: int) -> View:
    if input.ndim < least:
        fail(name, f"input {text(input.shape)} must have at least {least} dims")
    strides = strides_of(input)
    if input.ndim < 2:
        return View(input.shape, strides)
    return View(
        (*input.shape[:-2], input.shape[-1], input.shape[-2]),
        (*strides[:-2], strides[-1], strides[-2]),
    )


def _t(input: Meta) -> View:
    if input.ndim > 2:
        fail("t", f"input {text(input.shape)} must have at most 2 dims; use transpose or permute")
    return _swapped("t", input, 0)


op(
    "t",
    doc="A view of a matrix transposed: result[i, j] = input[j, i]. Fewer dims stay as they are.",
    args=[tensor("input")],
    infer=_t,
    traits={VIEW},
)

op(
    "adjoint",
    doc="A view of input with its last two dims swapped: the adjoint of a batch of real matrices.",
    args=[tensor("input")],
    infer=lambda input: _swapped("adjoint", input, 2),
    traits={VIEW},
)


def diagonal_of(name: str, input: Meta, offset: int, dim1: int, dim2: int) -> View:
    """The diagonal as a view, in a last dim."""
    if input.ndim < 2:
        fail(name, f"input {text(input.shape)} must have at least 2 dims")
    rows = dim(name, dim1, input.ndim, name="dim1")
    columns = dim(name, dim2, input.ndim, name="dim2")
    if rows == columns:
        fail(name, f"dim1 {dim1} and dim2 {dim2} must be different dims")
    height, width = input.shape[rows], input.shape[columns]
    length: Any
    if type(height) is int and type(width) is int:
        length = max(0, min(height + min(offset, 0), width - max(offset, 0)))
    elif offset == 0 and same(height, width):
        length = height
    else:
        raise UnsupportedError(
            f"{name}: the length of diagonal {offset} of [{height}, {width}] depends on the value "
            "of a symbolic size",
            "NOT_IMPLEMENTED_FOR_PARAM",
        )
    strides = strides_of(input)
    kept = [i for i in range(input.ndim) if i not in (rows, columns)]
    start: Any = 0
    if offset and length:
        start = offset * strides[columns] if offset > 0 else -offset * strides[rows]
    return View(
        (*(input.shape[i] for i in kept), length),
        (*(strides[i] for i in kept), strides[rows] + strides[columns]),
        start,
    )


op(
    "diagonal",
    doc="""
    A view of the diagonal of the dims dim1 and dim2, in a new last dim: entries [i, i + offset].

    An offset above 0 lies over the main diagonal, one below 0 under it.
    """,
    args=[
        tensor("input"),
        static("offset", "int", 0),
        static("dim1", "int", 0),
        static("dim2", "int", 1),
    ],
    infer=lambda *args: diagonal_of("diagonal", *args),
    traits={VIEW},
)


def _sliding_window(input: Meta, dim_: int, size: Any, step: Any) -> View:
    at = dim("sliding_window", dim_, input.ndim)
    shape, strides = input.shape, strides_of(input)
    total = shape[at] if input.ndim else 1
    stride = strides[at] if input.ndim else 1
    if type(step) is int and step < 1:
        fail("sliding_window", f"step {step} must be at least 1")
    if type(size) is int and size < 0:
        fail("sliding_window", f"size {size} must not be negative")
    if type(size) is int and type(total) is int and size > total:
        fail("sliding_window", f"size {size} does not fit into dim {at} of size {total}")
    if input.ndim == 0:
        return View((size,), (1,))
    count = (total - size) // step + 1
    if type(total) is int:
        step = min(step, total + 1)  # a longer one is never taken
    return View(
        (*shape[:at], count, *shape[at + 1 :], size),
        (*strides[:at], product((stride, step)), *strides[at + 1 :], stride),
    )


op(
    "sliding_window",
    doc="""
    A view of all windows of `size` entries along `dim`, `step` apart; a window is a new last dim.

    It is the `Tensor` method `unfold`.
    """,
    args=[
        tensor("input"),
        static("dim", "int", aliases=("dimension",)),
        static("size", "int"),
        static("step", "int", 1),
    ],
    infer=_sliding_window,
    traits={VIEW},
)
