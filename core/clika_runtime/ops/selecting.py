"""Picking elements: by truth, by flat positions; and rows with a single one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import dtypes, ops
from ._promotion import ALL, BOOL, INDEX, INTS
from ._shapes import broadcast, fail, known, product, text
from ._shapes import dim as front
from .record import Meta, op, scalar, static, tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._native._core import Tensor


# ---------------------------------------------------------------- what is not zero
def _nonzero_front(call: Callable[..., Any]) -> Callable[..., Any]:
    def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
        if not as_tuple:
            return call(input)
        places = call(input if len(input.shape) else ops.reshape(input, (1,)))
        return tuple(ops.unbind(places, 1))

    return nonzero


op(
    "nonzero",
    doc="""
    The int64 indices of all elements that are not zero, one row for each, in row-major order.

    The result is [how many, number of dims]; with `as_tuple` a tuple of its columns, which can
    index input. Its size depends on the data: the call cannot be recorded (see `nonzero_static`).
    """,
    args=[tensor("input", ALL)],
    infer=lambda input: Meta((None, input.ndim), dtypes.int64),
    front=_nonzero_front,
)


def _infer_static(input: Meta, size: int, fill_value: Any) -> Meta:
    if size < 0:
        fail("nonzero_static", f"size {size} must be 0 or more")
    return Meta((size, input.ndim), dtypes.int64)


op(
    "nonzero_static",
    doc="""
    The first `size` rows of nonzero(input), filled up with rows of `fill_value`.
    """,
    args=[
        tensor("input", ALL),
        static("size", "int", keyword_only=True),
        scalar("fill_value", "int", -1, keyword_only=True),
    ],
    infer=_infer_static,
)


def _infer_masked(input: Meta, mask: Meta) -> Meta:
    broadcast("masked_select", input.shape, mask.shape)
    return Meta((None,), input.dtype)


op(
    "masked_select",
    doc="""
    A vector of the elements of input where mask is true, in row-major order.

    The two are broadcast to one shape. The result's size depends on the data: the call cannot be
    recorded.
    """,
    args=[tensor("input", ALL), tensor("mask", BOOL)],
    infer=_infer_masked,
)


# ---------------------------------------------------------------- flat positions
def _infer_take(input: Meta, index: Meta) -> Meta:
    if any(known(size, 0) for size in input.shape) and not any(
        known(size, 0) for size in index.shape
    ):
        fail("take", f"input {text(input.shape)} has no elements to take")
    return Meta(index.shape, input.dtype)


op(
    "take",
    doc="""
    Elements of input by their position in row-major order: result[i] = input.flatten()[index[i]].

    The result has index's shape. Negative indices count from the end; one outside is an error of
    the kernel.
    """,
    args=[tensor("input", ALL), tensor("index", INDEX)],
    infer=_infer_take,
)


def _infer_along(input: Meta, indices: Meta, dim: int | None) -> Meta:
    name = "take_along_dim"
    if dim is None:
        return Meta((product(indices.shape),), input.dtype)
    if input.ndim != indices.ndim:
        fail(
            name,
            f"indices {text(indices.shape)} must have as many dims as input {text(input.shape)}",
        )
    at = front(name, dim, input.ndim)

    def others(shape: Any) -> tuple[Any, ...]:
        return tuple(1 if d == at else size for d, size in enumerate(shape))

    shape = list(broadcast(name, others(input.shape), others(indices.shape)))
    if shape:
        shape[at] = indices.shape[at]
    return Meta(tuple(shape), input.dtype)


op(
    "take_along_dim",
    doc="""
    Picks entries along `dim` as `gather` does; input and indices are broadcast in the other dims.

    Without `dim` both are flattened. Negative indices count from the end; one outside is an error
    of the kernel.
    """,
    args=[
        tensor("input", ALL),
        tensor("indices", INDEX),
        static("dim", "int", None, aliases=("dims",)),
    ],
    infer=_infer_along,
)


# ---------------------------------------------------------------- one hot
def _infer_one_hot(input: Meta, num_classes: int) -> Meta:
    if num_classes < -1 or num_classes == 0:
        fail("one_hot", f"num_classes {num_classes} must be positive, or -1 for what input needs")
    return Meta((*input.shape, None if num_classes == -1 else num_classes), dtypes.int64)


op(
    "one_hot",
    doc="""
    Rows of zeros with a 1 at the position that input names: int64 [..., num_classes].

    With `num_classes` -1 it is one more than the largest number, and the call cannot be recorded. A
    number outside 0 .. num_classes-1 is an error of the kernel.
    """,
    args=[tensor("input", INTS), static("num_classes", "int", -1)],
    infer=_infer_one_hot,
    promote=lambda input, num_classes: dtypes.int64,
    method=False,
)
