"""The operator ``softmax``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import ops
from ._promotion import ALL, FLOATS
from ._shapes import dim as front
from ._shapes import fail
from .record import Meta, op, static, tensor
from .reductions import DTYPE

if TYPE_CHECKING:
    from collections.abc import Callable


def declare(name: str, doc: str, compose: Callable[..., Any] | None = None) -> None:
    """Declares ``name(input, dim, dtype=None)``."""

    def chosen(input: Meta, dtype: Any) -> Any:
        found = input.dtype if dtype is None else dtype
        if found.name not in FLOATS:
            fail(
                name,
                f"input has dtype {found.name}, which the operator does not take; pass dtype=, for "
                f"example float32, or convert it with .to() to one of {', '.join(sorted(FLOATS))}",
            )
        return found

    def infer(input: Meta, dim: int, dtype: Any) -> Meta:
        front(name, dim, input.ndim)
        return Meta(input.shape, chosen(input, dtype))

    op(
        name,
        doc=doc,
        args=[tensor("input", ALL), static("dim", "int", -1, aliases=("dims",)), DTYPE],
        infer=infer,
        promote=lambda input, dim, dtype: chosen(input, dtype),
        compose=compose,
    )


def _compose(input: Any, dim: int, dtype: Any) -> Any:
    value = input if dtype is None else ops.cast(input, dtype)
    raised = ops.exp(ops.sub(value, ops.amax(value, dim, True)))
    return ops.div(raised, ops.sum(raised, dim, True))


declare(
    "softmax",
    """
    e^(x - max(x)) / sum(e^(x - max(x))) along `dim`.

    The result has the shape of input. Computed in float32 for the 16-bit dtypes. `dtype` is the
    dtype that input is converted to first.
    """,
    _compose,
)
