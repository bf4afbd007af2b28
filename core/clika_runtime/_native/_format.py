"""How a tensor prints: values in aligned columns, abbreviated past a thousand elements.

The layout is PyTorch's: 4 digits, 80 columns, 3 entries at each end of an abbreviated dim.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._core import Tensor

EDGE = 3  # entries shown at each end of an abbreviated dim
LIMIT = 1000  # elements above which a tensor is abbreviated
WIDTH = 80
DIGITS = 4
HEAD = "tensor("


def format_tensor(tensor: Tensor) -> str:
    """``tensor([...])`` with the dtype where it is not float32 and the device where it is not the
    CPU."""
    extra = []
    if str(tensor.device) != "cpu":
        extra.append(f"device='{tensor.device}'")
    if tensor.dtype.name != "float32":
        extra.append(f"dtype={tensor.dtype!r}")
    if tensor.is_traced or tensor.is_fake() or tensor.is_quantized:
        state = "traced" if tensor.is_traced else "packed" if not tensor.is_fake() else "fake"
        return f"tensor(<{state}>, {', '.join([f'shape={list(tensor.shape)}', *extra])})"
    shape = tuple(tensor.shape)
    if 0 in shape:
        if len(shape) > 1:
            extra.insert(0, f"size={shape}")
        return f"{HEAD}{', '.join(['[]', *extra])})"
    if tensor.layout:
        from ._core import unpack_weight

        tensor = unpack_weight(tensor)
    abbreviated = math.prod(shape) > LIMIT
    values = _edges(tensor).tolist() if abbreviated else tensor.tolist()
    write, width = _writer(values)
    body = _rows(values, shape, write, width, abbreviated, len(HEAD))
    return _with_suffixes(HEAD + body, extra)


def _with_suffixes(text: str, extra: list[str]) -> str:
    """The parts after the values go on the last line as long as they fit."""
    column = len(text) - text.rfind("\n") + 1
    for part in extra:
        if column + len(part) + 2 > WIDTH:
            text += ",\n" + " " * len(HEAD) + part
            column = len(HEAD) + len(part)
        else:
            text += ", " + part
            column += len(part) + 2
    return text + ")"


def _edges(tensor: Any) -> Any:
    """Only the entries that an abbreviated print shows."""
    from .. import ops

    for at in range(tensor.ndim):
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


def _writer(values: Any) -> tuple[Callable[[Any], str], int]:
    """One format for all values, so that columns line up, and the width of a column."""
    leaves = _flat(values)
    if not isinstance(leaves[0], float):
        width = max(len(str(leaf)) for leaf in leaves)
        return (lambda value: str(value).rjust(width)), width
    # Zeros and what is not finite have no say in the format.
    finite = [leaf for leaf in leaves if math.isfinite(leaf) and leaf != 0]
    sizes = [abs(leaf) for leaf in finite] or [1.0]
    low, high = min(sizes), max(sizes)
    whole = all(leaf == math.floor(leaf) for leaf in finite)
    scientific = high / low > 1000 or high > 1e8 or (not whole and low < 1e-4)

    def plain(value: float) -> str:
        if scientific:
            return f"{value:.{DIGITS}e}"
        if not whole:
            return f"{value:.{DIGITS}f}"
        return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"

    width = max((len(plain(leaf)) for leaf in finite), default=1)
    return (lambda value: plain(value).rjust(width)), width


def _rows(
    values: Any,
    shape: Sequence[int],
    write: Callable[[Any], str],
    width: int,
    abbreviated: bool,
    indent: int,
) -> str:
    if not shape:
        return write(values)
    cut = abbreviated and shape[0] > 2 * EDGE
    if len(shape) == 1:
        cells = [write(value) for value in values]
        if cut:
            cells.insert(EDGE, " ...")
        per_line = max(1, (WIDTH - indent) // (width + 2))
        lines = [", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = [_rows(value, shape[1:], write, width, abbreviated, indent + 1) for value in values]
    if cut:
        parts.insert(EDGE, "...")
    gap = "," + "\n" * (len(shape) - 1) + " " * (indent + 1)
    return "[" + gap.join(parts) + "]"
