"""``norm``: the norm of a vector, or of a matrix seen as one."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._shapes import fail


def norm(
    input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    """The norm of order `p` over `dim` (all dims by default): see `vector_norm`.

    "fro", the square root of the sum of squares, is order 2. "nuc" is the sum of the singular
    values of the matrices that two dims make: see `matrix_norm`.

    Example: ``x.norm(2, -1)``.
    """
    if p is None or p == "fro":
        p = 2
    if p == "nuc":
        return ops.matrix_norm(input, p, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    if isinstance(p, str):
        fail("norm", f"p {p!r} is no order; give a number, inf, 'fro' or 'nuc'")
    return ops.vector_norm(input, p, dim, keepdim, dtype=dtype)
