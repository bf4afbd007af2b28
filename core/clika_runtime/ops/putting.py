"""``index_put``: writing to places that several indices name."""

from __future__ import annotations

from typing import Any

from .. import dtypes, ops
from ._shapes import fail, text


def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """input with values at several indices: result[indices[0][i], indices[1][i], ..] = values[i].

    The indices are integer tensors that broadcast to one shape, one for each of the first dims, or
    bool masks, which stand for the indices of their true elements. With `accumulate` values are
    added, also where several go to one place; without, the last one stays. See `index_put_`.

    Example: ``crt.index_put(x, (rows, columns), values)``.
    """
    places: list[Any] = []
    for index in indices:
        if index.dtype is not dtypes.bool:
            places.append(index)
            continue
        shape = input.shape[len(places) : len(places) + len(index.shape)]
        if tuple(index.shape) != tuple(shape):
            fail("index_put", f"mask {text(index.shape)} does not fit input {text(input.shape)}")
        places.extend(ops.nonzero(index, as_tuple=True))
    result = ops.copy(input)
    ops.index_put_(result, places, values, None, accumulate)
    return result
