"""Shape and dtype rules that several operators share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import dtypes, ops
from ._promotion import ALL, BOOL, FLOATS, result_type, to_float
from ._shapes import broadcast, fail, same, text
from ._shapes import dim as front
from .record import COMMUTATIVE, ELEMENTWISE, Meta, op, tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .record import Arg, Record


def like(input: Meta, *_: Any) -> Meta:
    """The shape and dtype of the first argument."""
    return Meta(input.shape, input.dtype)


def unary(
    name: str,
    doc: str,
    allowed: frozenset[str],
    *,
    floats: bool = False,
    result: Any = None,
    compose: Callable[..., Any] | None = None,
    extra: Iterable[Arg] = (),
    source: str = "",
) -> Record:
    """Declares ``name(input)``. ``floats``: integers and bool are computed as float32. ``result``:
    the dtype of the result where it is not that of the operand."""

    def promote(input: Meta, *_: Any) -> Any:
        return to_float(input.dtype) if floats else input.dtype

    def infer(input: Meta, *_: Any) -> Meta:
        return Meta(input.shape, result or promote(input))

    return op(
        name,
        doc=doc,
        args=[tensor("input", allowed), *extra],
        infer=infer,
        promote=promote if floats else None,
        traits={ELEMENTWISE},
        compose=compose,
        source=source,
    )


def halved(name: str, shape: Any, dim: int) -> tuple[Any, ...]:
    """The shape with half of the size at `dim`, which must be even; a symbolic size is taken to
    be."""
    if not shape:
        fail(name, "the input has no dims; there is nothing to halve")
    at = front(name, dim, len(shape))
    size = shape[at]
    if type(size) is int and size % 2:
        fail(name, f"the size {size} at dim {at} of {text(shape)} is odd; it must be even")
    return (*shape[:at], size // 2, *shape[at + 1 :])


def gated(
    name: str,
    formula: str,
    compose: Callable[..., Any],
    extra: Iterable[Arg] = (),
    source: str = "Shazeer, GLU Variants Improve Transformer, arXiv:2002.05202",
) -> Record:
    """Declares ``name(gate, up)``: a function of ``gate`` times ``up``, both of one shape and
    dtype. Without ``up``, ``gate`` has both side by side in its last dim. ``compose`` gets both."""

    def infer(gate: Meta, up: Meta | None, *_: Any) -> Meta:
        if up is None:
            return Meta(halved(name, gate.shape, -1), gate.dtype)
        if gate.ndim != up.ndim or not all(map(same, gate.shape, up.shape)):
            fail(name, f"gate {text(gate.shape)} and up {text(up.shape)} must have one shape")
        if gate.dtype is not up.dtype:
            fail(
                name,
                f"gate has dtype {gate.dtype.name}, up {up.dtype.name}; convert one with .to()",
            )
        return Meta(gate.shape, gate.dtype)

    def composed(gate: Any, up: Any, *rest: Any) -> Any:
        return compose(*((gate, up) if up is not None else ops.chunk(gate, 2, -1)), *rest)

    return op(
        name,
        doc=f"""
        {formula}

        Without `up`, `gate` holds both side by side, `[..., 2n]`, and the result is `[..., n]`. A
        fused kernel computes in float32 and rounds once.
        """,
        args=[tensor("gate", FLOATS), tensor("up", FLOATS, optional=True), *extra],
        infer=infer,
        compose=composed,
        traits={ELEMENTWISE},
        method=False,
        source=source,
    )


def common(name: str, allowed: frozenset[str], *operands: Meta | None) -> Any:
    """The common dtype of operands, of which at least one is a tensor."""
    if all(meta is None or meta.weak for meta in operands):
        fail(name, "at least one operand must be a tensor, got Python numbers only")
    dtype = result_type(*operands)
    if dtype.name not in allowed:
        listed = " and ".join(meta.dtype.name for meta in operands if meta is not None)
        fail(
            name,
            f"operands of dtype {listed} are computed as {dtype.name}, which the operator does not "
            f"take; convert one with .to() to one of {', '.join(sorted(allowed))}",
        )
    return dtype


def numbers_wide(dtype: Any, *operands: Meta) -> Any:
    """The dtypes to enter a kernel in where the common dtype is ``dtype``: beside a 16-bit tensor,
    a Python number keeps float32, as in PyTorch."""
    if dtype.kind != "f" or dtype.bits != 16 or not any(meta.weak for meta in operands):
        return dtype
    return tuple(dtypes.float32 if meta.weak else dtype for meta in operands)


def binary(
    name: str,
    doc: str,
    allowed: frozenset[str] = ALL,
    *,
    compute: Callable[[Any], Any] | None = None,
    result: Any = None,
    commutative: bool = False,
    wide: bool = False,
    compose: Callable[..., Any] | None = None,
    extra: Iterable[Arg] = (),
    first: str = "input",
    second: str = "other",
    source: str = "",
) -> Record:
    """Declares ``name(input, other)`` with broadcasting and promotion.

    Both operands enter the kernel in ``compute(common dtype)``, by default the common dtype; with
    ``wide``, numbers as `numbers_wide` says. The result has that dtype too, or ``result``.
    """

    def chosen(input: Meta, other: Meta) -> Any:
        dtype = common(name, allowed, input, other)
        return dtype if compute is None else compute(dtype)

    def promote(input: Meta, other: Meta, *_: Any) -> Any:
        dtype = chosen(input, other)
        return numbers_wide(dtype, input, other) if wide else dtype

    def infer(input: Meta, other: Meta, *_: Any) -> Meta:
        shape = broadcast(name, input.shape, other.shape)
        return Meta(shape, result or chosen(input, other))

    return op(
        name,
        doc=doc,
        args=[tensor(first, ALL, number=True), tensor(second, ALL, number=True), *extra],
        infer=infer,
        promote=promote,
        traits={ELEMENTWISE, COMMUTATIVE} if commutative else {ELEMENTWISE},
        compose=compose,
        source=source,
    )


def as_bool(_: Any) -> Any:
    return dtypes.bool


__all__ = [
    "ALL",
    "BOOL",
    "as_bool",
    "binary",
    "common",
    "gated",
    "halved",
    "like",
    "numbers_wide",
    "unary",
]
