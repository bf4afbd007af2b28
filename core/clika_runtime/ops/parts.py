"""Taking tensors apart into views, and putting values into a part of a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import ops
from ..errors import UnsupportedError
from ._functions import of_tensors
from ._shapes import dim as front
from ._shapes import fail, text
from .split import MOST_PARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._native._core import Tensor


def _size(op: str, input: Tensor, dim: int) -> int:
    """The size of a dim whose parts are counted here."""
    if input.ndim == 0:
        fail(op, "input has no dims; a 0-d tensor cannot be split")
    at = front(op, dim, input.ndim)
    size = input.shape[at]
    if not isinstance(size, int):
        raise UnsupportedError(
            f"{op}: dim {at} has the symbolic size {size}, and the number of parts must be known",
            "NOT_IMPLEMENTED_FOR_PARAM",
        )
    return size


@of_tensors
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of all entries of `input` along `dim`, without that dim.

    Example: ``x, y = points.unbind(-1)`` for ``points`` of shape ``[N, 2]``.
    """
    return tuple(ops.select(input, dim, i) for i in range(_size("unbind", input, dim)))


@of_tensors
def tensor_split(
    input: Tensor, indices_or_sections: int | Sequence[int] | Tensor, dim: int = 0
) -> tuple[Tensor, ...]:
    """Views of `input` along `dim`: that many, as equal as they can be, or cut at those places.

    Example: ``crt.arange(7).tensor_split(3)`` has the sizes 3, 2, 2.
    """
    return _split("tensor_split", input, indices_or_sections, dim)


def _split(op: str, input: Tensor, cuts: Any, dim: int) -> tuple[Tensor, ...]:
    size = _size(op, input, dim)
    if hasattr(cuts, "tolist"):
        cuts = cuts.tolist()
    if isinstance(cuts, int):
        if cuts < 1:
            fail(op, f"{cuts} sections: there must be at least 1")
        if cuts > size + MOST_PARTS:
            fail(op, f"{cuts} sections of dim {dim} of size {size} are too many")
        whole, more = divmod(size, cuts)
        cuts = [i * whole + min(i, more) for i in range(1, cuts)]
    if not isinstance(cuts, (list, tuple)):
        raise TypeError(
            f"{op}: indices_or_sections must be int or a sequence of ints, got {cuts!r}"
        )
    places = [slice(None, cut).indices(size)[1] for cut in cuts]
    parts = []
    for start, end in zip([0, *places], [*places, size], strict=True):
        parts.append(ops.narrow(input, dim, start, max(0, end - start)))
    return tuple(parts)


def _even(op: str, input: Tensor, cuts: Any, dim: int, rank: int) -> tuple[Tensor, ...]:
    if input.ndim < rank:
        fail(op, f"input {text(input.shape)} must have at least {rank} dims")
    if isinstance(cuts, int) and cuts > 0 and input.shape[dim] % cuts:
        fail(op, f"dim {dim} of size {input.shape[dim]} does not split into {cuts} equal parts")
    return _split(op, input, cuts, dim)


@of_tensors
def hsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Views of `input` along dim 1, or dim 0 of a tensor of one dim: in equal parts or cut at those
    places.

    Example: ``left, right = crt.hsplit(crt.zeros(3, 4), 2)``.
    """
    return _even("hsplit", input, indices_or_sections, 0 if input.ndim == 1 else 1, 1)


@of_tensors
def vsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Views of `input` along dim 0: in equal parts or cut at those places.

    Example: ``top, bottom = crt.vsplit(crt.zeros(4, 3), 2)``.
    """
    return _even("vsplit", input, indices_or_sections, 0, 2)


@of_tensors
def dsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Views of `input` along dim 2: in equal parts or cut at those places.

    Example: ``front, back = crt.dsplit(crt.zeros(3, 3, 4), 2)``.
    """
    return _even("dsplit", input, indices_or_sections, 2, 3)


# ---------------------------------------------------------------- values into a part of a copy
def _scatter(op: str, input: Tensor, src: Tensor, view: Callable[[Tensor], Tensor]) -> Tensor:
    """A copy of `input` whose part `view` has the values of `src`."""
    result = ops.copy(input)
    place = view(result)
    if tuple(place.shape) != tuple(src.shape):
        fail(
            op,
            f"src {text(src.shape)} must have the shape {text(place.shape)} of its place",
        )
    ops.copy_(place, src)
    return result


@of_tensors
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` with `src` as its entry `index` along `dim`.

    Example: ``crt.select_scatter(crt.zeros(2, 3), crt.ones(3), 0, 1)``.
    """
    return _scatter("select_scatter", input, src, lambda x: ops.select(x, dim, index))


@of_tensors
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """A copy of `input` with `src` in the place of the slice ``start:end:step`` along `dim`.

    Example: ``crt.slice_scatter(crt.zeros(4), crt.ones(2), 0, 1, 3)``.
    """
    return _scatter("slice_scatter", input, src, lambda x: ops.slice(x, dim, start, end, step))


@of_tensors
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy of `input` with `src` on a diagonal of the dims dim1 and dim2; see `diagonal`.

    Example: ``crt.diagonal_scatter(crt.zeros(3, 3), crt.ones(3))``.
    """
    return _scatter("diagonal_scatter", input, src, lambda x: ops.diagonal(x, offset, dim1, dim2))


@of_tensors
def as_strided(
    input: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """A view of the storage of `input` with that shape, these strides and that offset, in elements.

    Every element must lie in the storage. Without an offset it starts where `input` does.

    Example: ``crt.as_strided(crt.arange(6), (2, 2), (3, 1))`` has the rows 0 1 and 3 4.
    """
    return input.as_strided(size, stride, storage_offset)


@of_tensors
def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """A copy of `input` with `src` in the place of the view `as_strided` of it.

    Example: ``crt.as_strided_scatter(crt.zeros(4), crt.ones(2), (2,), (2,))``.
    """
    return _scatter(
        "as_strided_scatter", input, src, lambda x: x.as_strided(size, stride, storage_offset)
    )
