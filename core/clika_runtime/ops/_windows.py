"""Parts of the rules of operators that slide a window over channels-last tensors: convolutions and
pooling. A tensor is [N, spatial..., C], or [spatial..., C] without a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._shapes import fail, known, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .record import Meta

LIMIT = 1 << 40  # of kernel sizes, strides, paddings and dilations: their products stay in 64 bits


def each(
    op: str,
    name: str,
    values: int | Sequence[int],
    n: int,
    low: int,
    *,
    counts: tuple[int, ...] = (),
) -> tuple[int, ...]:
    """One number per spatial dim from one for all of them; every number at least ``low``.
    ``counts`` are further lengths that are taken."""
    found = (values,) if isinstance(values, int) else tuple(values)
    if len(found) == 1:
        found = found * n
    elif len(found) != n and len(found) not in counts:
        fail(op, f"{name} {list(found)} must be one number or {n}, one for each spatial dim")
    for value in found:
        if type(value) is not int or not low <= value <= LIMIT:
            fail(op, f"{name} {list(found)} must be integers of at least {low}, at most 2^40")
    return found


def spatial(op: str, input: Meta, n: int, batched: bool = True) -> tuple[Any, ...]:
    """The spatial sizes of ``input``, checked for its rank and a channel."""
    if input.ndim != n + 2 and not (batched and input.ndim == n + 1):
        sizes = ", ".join(("D", "H", "W")[3 - n :])
        fail(
            op,
            f"input {text(input.shape)} must be [N, {sizes}, C]"
            + (f" or [{sizes}, C]" if batched else ""),
        )
    return tuple(input.shape[-n - 1 : -1])


def replaced(input: Meta, sizes: Sequence[Any], channels: Any) -> tuple[Any, ...]:
    """The shape of ``input`` with other spatial sizes and channels."""
    return (*input.shape[: input.ndim - len(sizes) - 1], *sizes, channels)


def slid(
    op: str,
    size: Any,
    kernel: int,
    stride: int,
    pads: int,
    dilation: int,
    *,
    ceil: bool = False,
    before: int = 0,
) -> Any:
    """How many windows fit: (size + pads - dilation * (kernel - 1) - 1) // stride + 1. With
    ``ceil`` the division rounds up, but the last window starts within the input or the padding
    before it."""
    reach = dilation * (kernel - 1) + 1
    room = size + (pads - reach)
    if type(room) is int and room < 0 and not (ceil and room + stride > 0):
        fail(
            op,
            f"a window that reaches over {reach} does not fit size {size} with {pads} of padding",
        )
    if not ceil:
        return room // stride + 1
    count = (room + (stride - 1)) // stride + 1
    if type(count) is int and (count - 1) * stride >= size + before:
        count -= 1
    return count


def needs_elements(op: str, input: Meta, sizes: Sequence[Any], channels: bool = True) -> None:
    """A window of nothing has no result: only the batch may be empty."""
    if any(known(size, 0) for size in sizes) or (channels and known(input.shape[-1], 0)):
        fail(op, f"input {text(input.shape)} is empty in a dim other than the batch")


def same_pads(op: str, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Padding before and after that keeps the size; the odd one goes behind."""
    if stride != 1:
        fail(op, f"padding 'same' needs stride 1, got {stride}")
    total = dilation * (kernel - 1)
    return total // 2, total - total // 2
