"""Short forms of the operators on shapes: functions over them."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

from .. import dtypes, ops
from ..errors import UnsupportedError
from ._functions import of_tensors
from ._shapes import dim as front
from ._shapes import fail, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._native._core import Tensor


@of_tensors
def contiguous(input: Tensor) -> Tensor:
    """`input` itself when its elements lie in row-major order, else a copy that does.

    Example: ``crt.contiguous(x.t())``.
    """
    return input.contiguous()


@of_tensors
def ravel(input: Tensor) -> Tensor:
    """The elements in row-major order as one dim: a view where the strides allow, else a copy.

    Example: ``crt.ravel(crt.zeros(2, 3)).shape`` is ``[6]``.
    """
    return ops.reshape(input, (-1,) if input.numel() else (0,))


@of_tensors
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """A view of `input` with the shape of `other`.

    Example: ``crt.zeros(6).view_as(crt.zeros(2, 3))``.
    """
    return ops.view(input, other.shape)


@of_tensors
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """`input` with the shape of `other`: a view where the strides allow, else a copy.

    Example: ``crt.zeros(6).reshape_as(crt.zeros(2, 3))``.
    """
    return ops.reshape(input, other.shape)


@of_tensors
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """A view of `input` with its dims of size 1 repeated to the shape of `other`.

    Example: ``crt.zeros(3, 1).expand_as(crt.zeros(3, 4))``.
    """
    return ops.expand(input, other.shape)


@of_tensors
def fliplr(input: Tensor) -> Tensor:
    """A copy of `input` with dim 1 turned round.

    Example: ``crt.fliplr(crt.tensor([[1, 2]]))`` is ``[[2, 1]]``.
    """
    if input.ndim < 2:
        fail("fliplr", f"input {text(input.shape)} must have at least 2 dims")
    return ops.flip(input, (1,))


@of_tensors
def flipud(input: Tensor) -> Tensor:
    """A copy of `input` with dim 0 turned round.

    Example: ``crt.flipud(crt.tensor([1, 2]))`` is ``[2, 1]``.
    """
    if input.ndim < 1:
        fail("flipud", "input has no dims; it needs one to turn round")
    return ops.flip(input, (0,))


@of_tensors
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """A copy of `input` turned by `k` quarters in the plane of two dims, the first to the second.

    Example: ``crt.rot90(crt.tensor([[1, 2], [3, 4]]))`` is ``[[2, 4], [1, 3]]``.
    """
    if len(dims) != 2:
        fail("rot90", f"dims {list(dims)} must name two dims")
    first, second = (front("rot90", index(value), input.ndim, name="dims") for value in dims)
    if first == second or input.ndim < 2:
        fail("rot90", f"dims {list(dims)} must name two different dims of {text(input.shape)}")
    quarters = index(k) % 4
    if quarters == 0:
        return ops.copy(input)
    if quarters == 2:
        return ops.flip(input, (first, second))
    if quarters == 1:
        return ops.transpose(ops.flip(input, (second,)), first, second)
    return ops.flip(ops.transpose(input, first, second), (second,))


@of_tensors
def tile(input: Tensor, *dims: Any) -> Tensor:
    """`input` repeated along its last dims: `repeat` with 1 for the dims that are not named.

    Example: ``crt.tile(crt.tensor([1, 2]), (2,))`` is ``[1, 2, 1, 2]``.
    """
    counts = tuple(dims[0]) if len(dims) == 1 and hasattr(dims[0], "__iter__") else dims
    return ops.repeat(input, (*(1,) * (input.ndim - len(counts)), *counts))


@of_tensors
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """Of a tensor of one dim, the matrix with it on that diagonal; of a matrix, its diagonal.

    Example: ``crt.diag(crt.tensor([1, 2]))`` is ``[[1, 0], [0, 2]]``.
    """
    if input.ndim == 1:
        return ops.diag_embed(input, diagonal)
    if input.ndim != 2:
        fail("diag", f"input {text(input.shape)} must have one or two dims")
    return ops.copy(ops.diagonal(input, diagonal))


@of_tensors
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with the elements of `input`, in row-major order, on that diagonal.

    Example: ``crt.diagflat(crt.tensor([[1, 2]]))`` is ``[[1, 0], [0, 2]]``.
    """
    return ops.diag_embed(ravel(input), offset)


@of_tensors
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of the `length` entries of `input` from `start` on along `dim`.

    Example: ``crt.narrow_copy(crt.arange(6), 0, 2, 3)``.
    """
    return ops.copy(ops.narrow(input, dim, start, length))


@of_tensors
def repeat_interleave(
    input: Tensor,
    repeats: int | Tensor | None = None,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> Tensor:
    """Each entry of `input` along `dim` repeated: as often as the number says, or the tensor for
    each entry. Without `dim` the elements in row-major order are one dim.

    With one tensor of counts, the number of each count, that many times: ``[1, 2]`` gives 0, 1, 1.
    The counts are read on the host. `output_size` is checked.

    Example: ``crt.repeat_interleave(crt.tensor([5, 6]), 2)`` is ``[5, 5, 6, 6]``.
    """
    if repeats is None:
        if input.ndim != 1:
            fail("repeat_interleave", f"counts {text(input.shape)} must have one dim")
        input, repeats = ops.arange(input.shape[0], device=input.device), input
    if dim is None:
        input, dim = ravel(input), 0
    at = front("repeat_interleave", dim, input.ndim)
    input = input.reshape(1) if input.ndim == 0 else input
    size = input.shape[at]
    counts = [repeats] if isinstance(repeats, int) else _counts(repeats)
    if min(counts, default=0) < 0:
        fail("repeat_interleave", f"repeats {counts} must not be negative")
    if len(counts) == 1:
        total = size * counts[0]
        wide = ops.unsqueeze(input, at + 1)
        shape = (*input.shape[: at + 1], counts[0], *input.shape[at + 1 :])
        result = ops.reshape(
            ops.expand(wide, shape), (*input.shape[:at], total, *input.shape[at + 1 :])
        )
        result = ops.copy(result) if counts[0] == 1 else result  # never a view of the input
    else:
        if len(counts) != size:
            fail("repeat_interleave", f"{len(counts)} repeats for dim {at} of size {size}")
        total = sum(counts)
        result = ops.index_select(input, at, _places(counts, total).to(input.device))
    if output_size is not None and output_size != total:
        fail("repeat_interleave", f"output_size {output_size} is not the sum {total} of repeats")
    return result


def _counts(repeats: Any) -> list[int]:
    if not hasattr(repeats, "tolist") or repeats.dtype.kind not in "iu":
        raise TypeError(
            f"repeat_interleave: repeats must be int or an integer tensor, got {repeats!r}"
        )
    if repeats.is_traced:
        raise UnsupportedError(
            "repeat_interleave: the size of the result depends on the values of a traced tensor",
            "NOT_IMPLEMENTED_FOR_PARAM",
        )
    if repeats.ndim > 1:
        fail("repeat_interleave", f"repeats {text(repeats.shape)} must have at most one dim")
    found = repeats.tolist()
    return found if isinstance(found, list) else [found]


def _places(counts: list[int], total: int) -> Any:
    """Entry i, counts[i] times."""
    from .._native._core import empty

    places = empty((total,), dtypes.int64)
    start = 0
    for i, count in enumerate(counts):
        ops.copy_(ops.narrow(places, 0, start, count), i)
        start += count
    return places


@of_tensors
def unravel_index(indices: Tensor, shape: int | Sequence[int] | Tensor) -> tuple[Tensor, ...]:
    """The indices along each dim of `shape` of places in row-major order.

    Example: ``crt.unravel_index(crt.tensor([4]), (2, 3))`` is ``[1]`` and ``[1]``.
    """
    if indices.dtype.kind not in "iu":
        raise TypeError(f"unravel_index: indices must be integers, got {indices.dtype.name}")
    sizes = shape.tolist() if hasattr(shape, "tolist") else shape
    sizes = [sizes] if isinstance(sizes, int) else list(sizes)
    if any(size < 0 for size in sizes):
        fail("unravel_index", f"shape {text(sizes)} has a negative size")
    found: list[Tensor] = []
    for size in reversed(sizes):
        found.insert(0, ops.remainder(indices, size))
        indices = ops.floor_divide(indices, size)
    return tuple(found)


@of_tensors
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """The sums of `input` over the dims along which a tensor of that shape would broadcast to it.

    Example: ``crt.sum_to_size(crt.ones(2, 3), (1, 3))`` is ``[[2, 2, 2]]``.
    """
    target = tuple(size[0]) if len(size) == 1 and hasattr(size[0], "__iter__") else size
    target = tuple(map(index, target))
    new = input.ndim - len(target)
    if new < 0 or any(
        want not in (1, have) for want, have in zip(target, input.shape[new:], strict=True)
    ):
        fail("sum_to_size", f"{text(target)} does not broadcast to input {text(input.shape)}")
    if not target:
        return ops.sum(input)
    over = [i for i in range(input.ndim) if i < new or target[i - new] != input.shape[i]]
    return ops.reshape(ops.sum(input, over, keepdim=True) if over else input, target)


@of_tensors
def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor with the shape, dtype and device of `input`, whose every element is `value`.

    Example: ``crt.fill(crt.zeros(2), 3.0)``.
    """
    return ops.full(input.shape, value, dtype=input.dtype, device=input.device)


@of_tensors
def to(input: Tensor, target: Any = None, dtype: Any = None, **options: Any) -> Tensor:
    """`input` on another device, in another dtype, or both; see `Tensor.to`.

    Example: ``crt.to(x, "cpu")``, ``crt.to(x, crt.float16)``.
    """
    return input.to(target, dtype, **options)
