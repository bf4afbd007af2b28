"""Running sums, products and extremes along a dim, and differences."""

from __future__ import annotations

from typing import Any

from .. import dtypes, ops
from ._promotion import ALL, FLOATS, promote_types, to_float
from ._shapes import broadcast, fail, known, same, text
from ._shapes import dim as front
from .record import Meta, op, static, tensor
from .reductions import DTYPE, entering, wide

_DIM = static("dim", "int", aliases=("dims",))


def _declare_running(name: str, doc: str) -> None:
    def infer(input: Meta, dim: int, dtype: Any) -> Meta:
        front(name, dim, input.ndim)
        return Meta(input.shape, wide(input.dtype, dtype))

    op(
        name,
        doc=f"{doc}\n\nIntegers and bool are taken as int64 unless `dtype` says otherwise.",
        args=[tensor("input", ALL), _DIM, DTYPE],
        infer=infer,
        promote=lambda input, dim, dtype: entering(input.dtype, wide(input.dtype, dtype)),
    )


_declare_running("cumsum", "Running sums along `dim`: result[i] = input[0] + ... + input[i].")
_declare_running("cumprod", "Running products along `dim`: result[i] = input[0] * ... * input[i].")


def _declare_extreme(name: str, word: str) -> None:
    def infer(input: Meta, dim: int) -> tuple[Meta, Meta]:
        front(name, dim, input.ndim)
        return Meta(input.shape, input.dtype), Meta(input.shape, dtypes.int64)

    op(
        name,
        doc=f"""
        The {word} element so far along `dim`, and its int64 index.

        The last one among equal elements. A NaN stays from its place on; the index is that of the
        last NaN so far.
        """,
        args=[tensor("input", ALL), _DIM],
        infer=infer,
        outputs=2,
    )


_declare_extreme("cummax", "largest")
_declare_extreme("cummin", "smallest")


def _infer_logcumsumexp(input: Meta, dim: int) -> Meta:
    front("logcumsumexp", dim, input.ndim)
    return Meta(input.shape, input.dtype)


op(
    "logcumsumexp",
    doc="""
    Running ln(sum(e^x)) along `dim`: result[i] = ln(e^input[0] + ... + e^input[i]).

    Computed about the largest element so far, so that nothing overflows.
    """,
    args=[tensor("input", FLOATS), _DIM],
    infer=_infer_logcumsumexp,
)


# ---------------------------------------------------------------- differences
def _infer_diff(input: Meta, n: int, dim: int, prepend: Meta | None, append: Meta | None) -> Meta:
    if input.ndim == 0:
        fail("diff", "input must have at least one dim")
    at = front("diff", dim, input.ndim)
    if n < 0:
        fail("diff", f"n {n} must be 0 or more")
    if n == 0:
        return Meta(input.shape, input.dtype)
    size = input.shape[at]
    dtype = input.dtype
    for name, more in (("prepend", prepend), ("append", append)):
        if more is None:
            continue
        fits = more.ndim == input.ndim and all(
            d == at or same(a, b)
            for d, (a, b) in enumerate(zip(more.shape, input.shape, strict=False))
        )
        if not fits:
            fail(
                "diff",
                f"{name} {text(more.shape)} must have the shape of input {text(input.shape)} but "
                f"for dim {at}",
            )
        size = more.shape[at] + size
        dtype = promote_types(dtype, more.dtype)
    if type(size) is int:
        size = max(size - n, 0)
    else:
        size = size - n
    return Meta((*input.shape[:at], size, *input.shape[at + 1 :]), dtype)


def _diff(input: Any, n: int, dim: int, prepend: Any, append: Any) -> Any:
    if n == 0:
        return ops.copy(input)
    parts = [part for part in (prepend, input, append) if part is not None]
    value = ops.cat(parts, dim) if len(parts) > 1 else input
    step = ops.logical_xor if value.dtype is dtypes.bool else ops.sub
    for _ in range(n):
        size = value.shape[dim]
        if type(size) is int and size <= 1:
            return ops.narrow(value, dim, 0, 0).contiguous()
        value = step(ops.narrow(value, dim, 1, size - 1), ops.narrow(value, dim, 0, size - 1))
    return value


op(
    "diff",
    doc="""
    The n-th difference along `dim`: result[i] = input[i + 1] - input[i], n times over.

    `prepend` and `append` are joined to input along `dim` first (not for n = 0). The difference of
    bools is their exclusive or.
    """,
    args=[
        tensor("input", ALL),
        static("n", "int", 1),
        static("dim", "int", -1, aliases=("dims",)),
        tensor("prepend", ALL, optional=True),
        tensor("append", ALL, optional=True),
    ],
    infer=_infer_diff,
    compose=_diff,
)


# ---------------------------------------------------------------- the trapezoidal rule
def _spaced(name: str, y: Meta, x: Meta, at: int) -> tuple[Any, ...]:
    """The shape of x beside y: a vector runs along the dim, else the dims are aligned at the
    end."""
    if x.ndim == 1:
        shape = tuple(x.shape[0] if d == at else 1 for d in range(y.ndim))
    else:
        shape = (1,) * (y.ndim - x.ndim) + tuple(x.shape)
    if x.ndim > y.ndim or not same(shape[at], y.shape[at]):
        fail(
            name,
            f"x {text(x.shape)} must have as many points along dim {at} as y {text(y.shape)}",
        )
    return shape


def _areas(name: str, y: Meta, x: Meta | None, dx: Any, dim: int) -> tuple[int, Meta]:
    """The dim, and what is known of the areas of the trapezoids."""
    if y.ndim == 0:
        fail(name, "y must have at least one dim")
    at = front(name, dim, y.ndim)
    if x is not None and dx is not None:
        fail(name, "give one of x and dx, not both")
    dtype = to_float(y.dtype if x is None else promote_types(y.dtype, x.dtype))
    shape = list(y.shape)
    if x is not None:
        shape = list(broadcast(name, y.shape, _spaced(name, y, x, at)))
    shape[at] = 0 if known(shape[at], 0) else shape[at] - 1
    return at, Meta(tuple(shape), dtype)


def _sum_areas(y: Any, x: Any, dx: Any, dim: int) -> Any:
    """Twice the areas."""
    size = y.shape[dim]
    count = 0 if known(size, 0) else size - 1
    sides = ops.add(ops.narrow(y, dim, 1 if count else 0, count), ops.narrow(y, dim, 0, count))
    if x is None:
        return sides if dx is None else ops.mul(sides, dx)
    at = front("trapezoid", dim, len(y.shape))
    if len(x.shape) == 1:
        x = ops.reshape(x, tuple(size if d == at else 1 for d in range(len(y.shape))))
    else:
        x = ops.reshape(x, (1,) * (len(y.shape) - len(x.shape)) + tuple(x.shape))
    return ops.mul(sides, ops.diff(x, 1, dim))


def _infer_trapezoid(y: Meta, x: Meta | None, dx: Any, dim: int) -> Meta:
    at, areas = _areas("trapezoid", y, x, dx, dim)
    return Meta((*areas.shape[:at], *areas.shape[at + 1 :]), areas.dtype)


def _infer_cumulative(y: Meta, x: Meta | None, dx: Any, dim: int) -> Meta:
    return _areas("cumulative_trapezoid", y, x, dx, dim)[1]


_RULE_ARGS = [
    tensor("y", ALL),
    tensor("x", ALL, optional=True),
    static("dx", "number", None, keyword_only=True),
    static("dim", "int", -1, keyword_only=True, aliases=("dims",)),
]
_RULE = """

    The points stand at `x`, a vector or a tensor that broadcasts to y, or `dx` apart (1 unless
    given).
    """

op(
    "trapezoid",
    doc=f"""
    The integral by the trapezoidal rule along `dim`: the sum of (x[i + 1] - x[i]) (y[i] + y[i + 1])
    / 2.
    {_RULE}""",
    args=_RULE_ARGS,
    infer=_infer_trapezoid,
    compose=lambda y, x, dx, dim: ops.div(ops.sum(_sum_areas(y, x, dx, dim), dim), 2.0),
)
op(
    "cumulative_trapezoid",
    doc=f"""
    The running integral by the trapezoidal rule along `dim`: running sums of (x[i + 1] - x[i])
    (y[i] + y[i + 1]) / 2.
    {_RULE}""",
    args=_RULE_ARGS,
    infer=_infer_cumulative,
    compose=lambda y, x, dx, dim: ops.div(ops.cumsum(_sum_areas(y, x, dx, dim), dim), 2.0),
)
