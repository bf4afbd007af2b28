"""Joining tensors, and giving several tensors one form: functions over operators."""

from __future__ import annotations

import itertools
import math
from array import array
from operator import index
from typing import TYPE_CHECKING, Any

from .. import dtypes, ops
from ..errors import UnsupportedError
from ._promotion import promote_types
from ._shapes import broadcast, fail, text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._native._core import Tensor

MOST_PLACES = 1 << 26  # of an index that is made on the host


def _tensors(op: str, given: Any) -> list[Any]:
    """The tensors of a call that takes one sequence or the tensors themselves."""
    from .._native._core import Tensor

    if len(given) == 1 and isinstance(given[0], (list, tuple)):
        given = given[0]
    for one in given:
        if not isinstance(one, Tensor):
            raise TypeError(f"{op}: expected tensors, got {type(one).__name__}")
    return list(given)


def _each(op: str, given: tuple[Any, ...], function: Callable[[Any], Any]) -> Any:
    """The function of one tensor, or of each of several."""
    tensors = _tensors(op, given)
    if len(given) == 1 and not isinstance(given[0], (list, tuple)):
        return function(tensors[0])
    return tuple(map(function, tensors))


def atleast_1d(*tensors: Any) -> Any:
    """A view of a tensor with at least one dim: a 0-d tensor becomes [1]. Several give a tuple.

    Example: ``crt.atleast_1d(crt.tensor(3.0)).shape`` is ``[1]``.
    """
    return _each("atleast_1d", tensors, _one_dim)


def atleast_2d(*tensors: Any) -> Any:
    """A view of a tensor with at least two dims; new ones are put in front. Several give a tuple.

    Example: ``crt.atleast_2d(crt.zeros(3)).shape`` is ``[1, 3]``.
    """
    return _each("atleast_2d", tensors, _two_dims)


def atleast_3d(*tensors: Any) -> Any:
    """A view of a tensor with at least three dims; [N] becomes [1, N, 1], and [M, N] becomes
    [M, N, 1]. Several give a tuple.

    Example: ``crt.atleast_3d(crt.zeros(2, 3)).shape`` is ``[2, 3, 1]``.
    """
    return _each("atleast_3d", tensors, _three_dims)


def _one_dim(input: Any) -> Any:
    return input.reshape(1) if input.ndim == 0 else input


def _two_dims(input: Any) -> Any:
    return input if input.ndim >= 2 else _one_dim(input).unsqueeze(0)


def _three_dims(input: Any) -> Any:
    return input if input.ndim >= 3 else _two_dims(input).unsqueeze(-1)


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors side by side: joined along dim 1, tensors of one dim along dim 0.

    Example: ``crt.hstack([crt.zeros(2, 3), crt.ones(2, 1)]).shape`` is ``[2, 4]``.
    """
    whole = [_one_dim(one) for one in _tensors("hstack", (tensors,))]
    return ops.cat(whole, 0 if whole and whole[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors one over the other: joined along dim 0, with at least two dims.

    Example: ``crt.vstack([crt.zeros(3), crt.ones(3)]).shape`` is ``[2, 3]``.
    """
    return ops.cat([_two_dims(one) for one in _tensors("vstack", (tensors,))], 0)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors one behind the other: joined along dim 2, with at least three dims.

    Example: ``crt.dstack([crt.zeros(3), crt.ones(3)]).shape`` is ``[1, 3, 2]``.
    """
    return ops.cat([_three_dims(one) for one in _tensors("dstack", (tensors,))], 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors as columns: joined along dim 1; one of up to one dim is a column.

    Example: ``crt.column_stack([crt.zeros(3), crt.ones(3)]).shape`` is ``[3, 2]``.
    """
    whole = _tensors("column_stack", (tensors,))
    return ops.cat([one.reshape(one.numel(), 1) if one.ndim < 2 else one for one in whole], 1)


def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with the given matrices along its diagonal, else 0; one with fewer dims is a row.

    Example: ``crt.block_diag(crt.ones(2, 2), crt.ones(1, 3)).shape`` is ``[3, 5]``.
    """
    parts = _tensors("block_diag", tensors)
    for one in parts:
        if one.ndim > 2:
            fail("block_diag", f"a tensor has shape {text(one.shape)}; at most 2 dims are taken")
    parts = [_two_dims(one) for one in parts]
    if not parts:
        return ops.zeros(1, 0)
    dtype = parts[0].dtype
    for one in parts:
        dtype = promote_types(dtype, one.dtype)
    height = sum(one.shape[0] for one in parts)
    width = sum(one.shape[1] for one in parts)
    result = ops.zeros(height, width, dtype=dtype, device=parts[0].device)
    row = column = 0
    for one in parts:
        place = result.narrow(0, row, one.shape[0]).narrow(1, column, one.shape[1])
        ops.copy_(place, one)
        row, column = row + one.shape[0], column + one.shape[1]
    return result


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Views of the tensors in their common shape.

    Example: ``a, b = crt.broadcast_tensors(crt.zeros(3, 1), crt.zeros(4))``; both are ``[3, 4]``.
    """
    whole = _tensors("broadcast_tensors", tensors)
    if not whole:
        return ()
    shape = broadcast("broadcast_tensors", *(tuple(one.shape) for one in whole))
    return tuple(one.expand(shape) for one in whole)


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The common shape of tensors with these shapes.

    Example: ``crt.broadcast_shapes((3, 1), (4,))`` is ``(3, 4)``.
    """
    whole = [
        (one,) if isinstance(one, int) else tuple(index(size) for size in one) for one in shapes
    ]
    if any(size < 0 for shape in whole for size in shape):
        fail("broadcast_shapes", f"{', '.join(map(text, whole))} have a negative size")
    return broadcast("broadcast_shapes", *whole) if whole else ()


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinates over a grid: views of tensors of one dim, each along a dim of its own.

    With ``indexing="xy"`` the first two dims of the results are swapped.

    Example: ``y, x = crt.meshgrid(crt.arange(2), crt.arange(3))``; both are ``[2, 3]``.
    """
    if indexing not in ("ij", "xy"):
        fail("meshgrid", f"indexing must be 'ij' or 'xy', got {indexing!r}")
    whole = _tensors("meshgrid", tensors)
    if not whole:
        fail("meshgrid", "expected at least one tensor")
    for one in whole:
        if one.ndim > 1:
            fail("meshgrid", f"tensors must have at most one dim, got {text(one.shape)}")
        if one.dtype is not whole[0].dtype:
            fail(
                "meshgrid",
                f"tensors must have one dtype, got {one.dtype.name} beside {whole[0].dtype.name}",
            )
    whole = [_one_dim(one) for one in whole]
    swap = indexing == "xy" and len(whole) > 1
    if swap:
        whole[:2] = whole[1], whole[0]
    shape = tuple(one.shape[0] for one in whole)
    grids = []
    for i, one in enumerate(whole):
        column = one.reshape(*(shape[i] if k == i else 1 for k in range(len(shape))))
        grids.append(column.expand(shape))
    if swap:
        grids[:2] = grids[1], grids[0]
    return tuple(grids)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one element of each tensor of one dim, as rows; of one tensor, itself.

    Example: ``crt.cartesian_prod(crt.tensor([1, 2]), crt.tensor([3, 4])).shape`` is ``[4, 2]``.
    """
    whole = _tensors("cartesian_prod", tensors)
    for one in whole:
        if one.ndim != 1:
            fail("cartesian_prod", f"tensors must have one dim, got {text(one.shape)}")
    if len(whole) == 1:
        return whole[0]
    return ops.stack([grid.flatten() for grid in meshgrid(*whole)], 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of `r` elements of a tensor of one dim, as rows, in the order of the input.

    Example: ``crt.combinations(crt.tensor([1, 2, 3]))`` has the rows 1 2, 1 3 and 2 3.
    """
    if isinstance(input, (list, tuple)):
        raise TypeError("combinations: input must be a tensor, got a sequence")
    (input,) = _tensors("combinations", (input,))
    r = index(r)
    if input.ndim != 1:
        fail("combinations", f"input must have one dim, got {text(input.shape)}")
    if r < 0:
        fail("combinations", f"r {r} must not be negative")
    if r == 0:
        return ops.zeros(0, dtype=input.dtype, device=input.device)
    size = input.shape[0]
    if not isinstance(size, int):
        raise UnsupportedError(
            f"combinations: the symbolic size {size} must be known", "NOT_IMPLEMENTED_FOR_PARAM"
        )
    count = r * math.comb(size + r - 1 if with_replacement else size, r)
    if count > MOST_PLACES:
        fail(
            "combinations", f"{size} elements in rows of {r} give {count} places, which is too many"
        )
    if count == 0:
        return ops.zeros(0, r, dtype=input.dtype, device=input.device)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    from .._native._core import from_bytes

    places = array("q", itertools.chain.from_iterable(choose(range(size), r)))
    rows = from_bytes(places, (count,), dtypes.int64).to(input.device)
    return ops.index_select(input, 0, rows).reshape(-1, r)
