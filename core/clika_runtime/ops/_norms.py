"""Parts that the normalizations share."""

from __future__ import annotations

from typing import Any

from ._shapes import fail, known, same, text


def check_rows(op: str, input: Any, normalized_shape: tuple[int, ...] | None, **rows: Any) -> None:
    """``normalized_shape`` are the last dims of input, and weights and biases have that shape."""
    shape = input.shape
    wanted = tuple(shape[-1:]) if normalized_shape is None else normalized_shape
    n = len(wanted)
    if not n or n > len(shape) or not all(map(same, shape[len(shape) - n :], wanted)):
        fail(
            op,
            f"normalized_shape {text(wanted)} must be the last dims of input {text(shape)}, at "
            "least one",
        )
    for name, meta in rows.items():
        if meta is not None and (meta.ndim != n or not all(map(same, meta.shape, wanted))):
            fail(
                op,
                f"{name} {text(meta.shape)} must be {text(wanted)}, the last dims of input "
                f"{text(shape)}",
            )


def over_rows(normalized_shape: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """The dims that a norm goes over, from the last one on."""
    n = len(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else 1
    return tuple(range(-n, 0))


def check_channels(op: str, input: Any, **channels: Any) -> None:
    """Each of ``channels`` is [C] for input [N, ..., C], or absent."""
    if input.ndim < 2:
        fail(op, f"input {text(input.shape)} must be [N, ..., C]")
    size = input.shape[-1]
    for name, meta in channels.items():
        if meta is not None and (meta.ndim != 1 or not same(meta.shape[0], size)):
            fail(
                op,
                f"{name} {text(meta.shape)} must be [{size}], one for each channel of input "
                f"{text(input.shape)}",
            )


def several(op: str, input: Any, sizes: tuple[Any, ...]) -> None:
    """Statistics need more than one value: their spread would be 0."""
    if all(known(size, 1) for size in sizes):
        fail(op, f"input {text(input.shape)} has one value for each mean; expected more than one")
