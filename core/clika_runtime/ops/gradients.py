"""``gradient``: derivatives of sampled functions."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._promotion import to_float
from ._shapes import dims as several
from ._shapes import fail, text


def gradient(
    input: Any, *, spacing: Any = None, dim: Any = None, edge_order: int = 1
) -> tuple[Any, ...]:
    """The derivative of the sampled function `input` along each of `dim` (all by default), a tuple.

    Inside, with distances h and g to the neighbours before and after, it is the second-order
    formula (h^2 f(x + g) - g^2 f(x - h) + (g^2 - h^2) f(x)) / (h g (h + g)); at the borders the
    one-sided difference of order `edge_order`, 1 or 2. ``spacing`` is the distance (1 unless
    given), one for each dim, or a list of the coordinates along each dim.

    Raises InvalidArgumentError for a dim with fewer than edge_order + 1 points.

    Example: ``(slope,) = crt.gradient(y, spacing=0.5)``.
    """
    over = several("gradient", dim, len(input.shape))
    if edge_order not in (1, 2):
        fail("gradient", f"edge_order {edge_order} must be 1 or 2")
    if isinstance(spacing, (list, tuple)):
        steps = list(spacing)
        if len(steps) != len(over):
            fail("gradient", f"{len(steps)} spacings for {len(over)} dims")
    else:
        steps = [1.0 if spacing is None else spacing] * len(over)
    value = ops.cast(input, to_float(input.dtype))
    return tuple(_along(value, d, step, edge_order) for d, step in zip(over, steps, strict=True))


def _along(f: Any, dim: int, step: Any, edge_order: int) -> Any:
    size = f.shape[dim]
    if size < edge_order + 1:
        fail(
            "gradient",
            f"input {text(f.shape)} must have at least {edge_order + 1} points along dim {dim}",
        )
    distances = None
    if hasattr(step, "dtype"):
        if len(step.shape) != 1 or step.shape[0] != size:
            fail(
                "gradient", f"spacing {text(step.shape)} must be [{size}], the points of dim {dim}"
            )
        shape = tuple(size - 1 if d == dim else 1 for d in range(len(f.shape)))
        distances = ops.reshape(ops.diff(step), shape)

    def part(start: int, count: int) -> Any:
        return ops.narrow(f, dim, start, count)

    def distance(start: int, count: int) -> Any:
        return step if distances is None else ops.narrow(distances, dim, start, count)

    def edge(start: int, toward: int) -> Any:
        """The one-sided derivative at a border; `toward` is the direction inwards."""
        near, far = start + toward, start + 2 * toward
        h = distance(start if toward > 0 else start - 1, 1)
        slope = ops.div(ops.mul(part(near, 1) - part(start, 1), toward), h)
        if edge_order == 1:
            return slope
        g = distance(near if toward > 0 else near - 1, 1)
        further = ops.div(ops.mul(part(far, 1) - part(near, 1), toward), g)
        return slope + (slope - further) * (h / (h + g))

    pieces = [edge(0, 1), edge(size - 1, -1)]
    inner = size - 2
    if inner > 0 and distances is None:
        pieces.insert(1, (part(2, inner) - part(0, inner)) / (2 * step))
    elif inner > 0:
        h, g = distance(0, inner), distance(1, inner)
        before = (part(1, inner) - part(0, inner)) / h
        after = (part(2, inner) - part(1, inner)) / g
        pieces.insert(1, (before * g + after * h) / (h + g))
    return ops.cat(pieces, dim)
