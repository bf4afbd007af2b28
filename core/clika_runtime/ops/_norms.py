"""Parts that the normalizations share."""

from __future__ import annotations

from typing import Any

from ._shapes import fail, same, text


def check_row(op: str, shape: tuple[Any, ...], **rows: Any) -> None:
    """Weights and biases of a norm over the last dim K have the shape [K]."""
    if not shape:
        fail(op, "input needs at least one dim to be normalized over")
    for name, meta in rows.items():
        if meta is not None and (meta.ndim != 1 or not same(meta.shape[0], shape[-1])):
            fail(
                op,
                f"{name} {text(meta.shape)} must be [{shape[-1]}], the last dim of input "
                f"{text(shape)}",
            )
