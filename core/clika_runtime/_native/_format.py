"""How a tensor prints: values in rows, abbreviated past a thousand elements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._core import Tensor

EDGE = 3  # entries shown at each end of an abbreviated dim
LIMIT = 1000  # elements above which a tensor is abbreviated
WIDTH = 80
DIGITS = 4


def format_tensor(tensor: Tensor) -> str:
    """``tensor([...])`` with the dtype where it is not the default and the device where it is not
    the CPU."""
    extra = []
    if str(tensor.device) != "cpu":
        extra.append(f"device='{tensor.device}'")
    if tensor.dtype.name not in ("float32", "int64", "bool"):
        extra.append(f"dtype={tensor.dtype!r}")
    if tensor.is_traced or tensor.is_fake() or tensor.is_quantized or tensor.layout:
        state = "traced" if tensor.is_traced else "packed" if not tensor.is_fake() else "fake"
        return f"tensor(<{state}>, {', '.join([f'shape={list(tensor.shape)}', *extra])})"
    shape = tuple(tensor.shape)
    if 0 in shape:
        return (
            f"tensor([], {', '.join([f'size={shape}', *extra])})"
            if len(shape) > 1
            else (f"tensor([]{''.join(', ' + part for part in extra)})")
        )
    abbreviated = math.prod(shape) > LIMIT
    values = _edges(tensor, 0).tolist() if abbreviated else tensor.tolist()
    write = _writer(values)
    body = _rows(values, shape, write, abbreviated, len("tensor("))
    return f"tensor({body}{''.join(', ' + part for part in extra)})"


def _edges(tensor: Any, dim: int) -> Any:
    """Only the entries that an abbreviated print shows."""
    from .. import ops

    for at in range(dim, tensor.ndim):
        size = tensor.shape[at]
        if size > 2 * EDGE:
            head = tensor.narrow(at, 0, EDGE)
            tail = tensor.narrow(at, size - EDGE, EDGE)
            tensor = ops.cat([head, tail], at)
    return tensor


def _flat(values: Any) -> list[Any]:
    if not isinstance(values, list):
        return [values]
    return [leaf for value in values for leaf in _flat(value)]


def _writer(values: Any) -> Any:
    """One format for all values, so that columns line up."""
    leaves = _flat(values)
    if not leaves or not isinstance(leaves[0], float):
        width = max((len(str(leaf)) for leaf in leaves), default=0)
        return lambda value: str(value).rjust(width)
    finite = [abs(leaf) for leaf in leaves if math.isfinite(leaf) and leaf != 0]
    whole = all(leaf == math.floor(leaf) for leaf in leaves if math.isfinite(leaf))
    scientific = bool(finite) and (
        max(finite) / min(finite) > 1000 or max(finite) > 1e8 or (not whole and min(finite) < 1e-4)
    )

    def plain(value: float) -> str:
        if math.isnan(value) or math.isinf(value):
            return str(value)
        if scientific and not (whole and max(finite) <= 1e8):
            return f"{value:.{DIGITS}e}"
        return f"{value:.0f}." if whole else f"{value:.{DIGITS}f}"

    width = max((len(plain(leaf)) for leaf in leaves), default=0)
    return lambda value: plain(value).rjust(width)


def _rows(values: Any, shape: Sequence[int], write: Any, abbreviated: bool, indent: int) -> str:
    if not shape:
        return str(write(values)).strip()
    cut = abbreviated and shape[0] > 2 * EDGE
    if len(shape) == 1:
        cells = [write(value) for value in values]
        if cut:
            cells.insert(EDGE, "...")
        per_line = max(1, (WIDTH - indent) // (max(map(len, cells)) + 2))
        lines = [", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = [_rows(value, shape[1:], write, abbreviated, indent + 1) for value in values]
    if cut:
        parts.insert(EDGE, "...")
    gap = "," + "\n" * (len(shape) - 1) + " " * (indent + 1)
    return "[" + gap.join(parts) + "]"
