"""Reductions over one, several or all dims."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .. import dtypes, ops
from ._promotion import ALL, FLOATS, result_type, to_float
from ._shapes import broadcast, dims, fail, known, product, reduced
from .record import REDUCTION, Meta, op, static, tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._native._core import Tensor
    from .record import Record

_DIMS = "`dim` is an int, several, or None for all; `keepdim` leaves the reduced dims with size 1."
_SHORT = ("float16", "bfloat16", "float32")  # computed in float32

DIM = static("dim", "ints", None, aliases=("dims",))
KEEPDIM = static("keepdim", "bool", False)
DTYPE = static("dtype", "dtype", None, keyword_only=True)


def entering(dtype: Any, result: Any) -> Any:
    """The dtype that an input enters in: its own where the kernel widens or narrows by itself."""
    if dtype.kind == "f" and result.kind == "f":
        return dtype if dtype.name in _SHORT and result.name in _SHORT else result
    whole = dtype.kind in "iub" and result.kind in "iu" and dtype is not dtypes.uint64
    return dtype if whole else result


def _declare(
    name: str,
    doc: str,
    allowed: frozenset[str] = ALL,
    *,
    dtype: Callable[[Any, Any], Any],
    enter: Callable[[Any, Any], Any] = entering,
    takes_dtype: bool = False,
    keepdim: bool = True,
    empty: bool = True,
    outputs: int = 1,
    compose: Callable[..., Any] | None = None,
) -> Record:
    """``dtype(input's, the one asked for)`` is the dtype of the result, ``enter(input's, the
    result's)`` the one that the input enters in. Not ``empty``: nothing has no result."""

    def asked(options: tuple[Any, ...]) -> Any:
        return options[0] if takes_dtype else None

    def promote(
        input: Meta, dim: tuple[int, ...] | None, keepdim: bool = False, *options: Any
    ) -> Any:
        return enter(input.dtype, dtype(input.dtype, asked(options)))

    def infer(input: Meta, dim: tuple[int, ...] | None, keepdim: bool = False, *rest: Any) -> Any:
        over = dims(name, dim, input.ndim)
        if not empty:
            not_empty(name, input, over)
        result = Meta(reduced(name, input.shape, over, keepdim), dtype(input.dtype, asked(rest)))
        return result if outputs == 1 else (result,) * outputs

    args = [tensor("input", allowed), DIM]
    if keepdim:
        args.append(KEEPDIM)
    if takes_dtype:
        args.append(DTYPE)
    return op(
        name,
        doc=f"{doc}\n\n{_DIMS if keepdim else _DIMS.partition(';')[0] + '.'}",
        args=args,
        infer=infer,
        promote=promote,
        outputs=outputs,
        traits={REDUCTION},
        compose=compose,
    )


def not_empty(name: str, input: Meta, over: tuple[int, ...]) -> None:
    for i in over:
        if input.ndim and known(input.shape[i], 0):
            fail(name, f"dim {i} has size 0, and {name} of nothing is not defined")


# ---------------------------------------------------------------- sums and products
def wide(dtype: Any, wanted: Any) -> Any:
    if wanted is not None:
        return wanted
    return dtype if dtype.kind == "f" else dtypes.int64


def _floating(name: str) -> Callable[[Any, Any], Any]:
    def chosen(dtype: Any, wanted: Any) -> Any:
        found = dtype if wanted is None else wanted
        if found.kind != "f":
            fail(
                name,
                f"the {name} of {found.name} has no dtype of its own; pass dtype=, for example "
                "float32",
            )
        return found

    return chosen


def _keep(dtype: Any, _: Any) -> Any:
    return dtype


def _as_it_is(dtype: Any, _: Any) -> Any:
    return dtype


def _mean(input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    total = ops.sum(input, dim, keepdim, dtype=dtype)
    over = dims("mean", dim, len(input.shape)) if len(input.shape) else ()
    return ops.div(total, product(input.shape[i] for i in over))


_declare(
    "sum",
    "The sum; integers and bool are summed as int64 unless `dtype` says otherwise.",
    dtype=wide,
    takes_dtype=True,
)
_declare(
    "nansum",
    "The sum with NaN taken for 0; integers and bool are summed as int64 unless `dtype` says "
    "otherwise.",
    dtype=wide,
    takes_dtype=True,
)
_declare(
    "mean",
    "The arithmetic mean sum(x) / n of floating-point numbers; NaN where n is 0.",
    dtype=_floating("mean"),
    takes_dtype=True,
    compose=_mean,
)
_declare(
    "nanmean",
    "The arithmetic mean of the numbers that are not NaN; NaN where there is none.",
    FLOATS,
    dtype=_floating("nanmean"),
    takes_dtype=True,
)
_declare(
    "prod",
    "The product; integers and bool are multiplied as int64 unless `dtype` says otherwise.",
    dtype=wide,
    takes_dtype=True,
)

# ---------------------------------------------------------------- extremes and truth
_declare("amax", "The largest value; NaN if there is one.", dtype=_keep, empty=False)
_declare("amin", "The smallest value; NaN if there is one.", dtype=_keep, empty=False)
_declare(
    "aminmax",
    "The pair (smallest value, largest value); both are NaN if there is one.",
    dtype=_keep,
    empty=False,
    outputs=2,
)
_declare(
    "any",
    "True where at least one element is not zero.",
    dtype=lambda dtype, _: dtypes.bool,
    enter=_as_it_is,
)
_declare(
    "all", "True where no element is zero.", dtype=lambda dtype, _: dtypes.bool, enter=_as_it_is
)
_declare(
    "count_nonzero",
    "The number of elements that are not zero, int64.",
    dtype=lambda dtype, _: dtypes.int64,
    enter=_as_it_is,
    keepdim=False,
)

# ---------------------------------------------------------------- variance
_SPREADS = {
    "var": "The variance sum((x - mean)^2) / max(0, n - correction).",
    "std": "The standard deviation: the square root of `var`.",
    "var_mean": "The pair (variance, mean).",
    "std_mean": "The pair (standard deviation, mean).",
}


def _spread_front(call: Callable[..., Any]) -> Callable[..., Any]:
    def spread(
        input: Tensor,
        dim: Any = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Any:
        if isinstance(dim, bool):  # var(input, unbiased)
            dim, unbiased = None, dim
        return call(input, dim, unbiased, keepdim, correction=correction)

    return spread


def _declare_spread(name: str, doc: str) -> None:
    def infer(input: Meta, dim: Any, unbiased: bool | None, keepdim: bool, correction: Any) -> Any:
        if correction is not None and unbiased is not None:
            fail(name, "give one of correction and unbiased, not both")
        if isinstance(correction, float) and not math.isfinite(correction):
            fail(name, f"correction must be finite, got {correction}")
        over = dims(name, dim, input.ndim)
        result = Meta(reduced(name, input.shape, over, keepdim), input.dtype)
        return (result, result) if name.endswith("_mean") else result

    op(
        name,
        doc=f"""
        {doc}

        `correction` is 1 unless given; `unbiased` is True for 1 and False for 0. {_DIMS}
        """,
        args=[
            tensor("input", FLOATS),
            DIM,
            static("unbiased", "bool", None),
            KEEPDIM,
            static("correction", "number", None, keyword_only=True),
        ],
        infer=infer,
        outputs=2 if name.endswith("_mean") else 1,
        traits={REDUCTION},
        front=_spread_front,
        source="Chan, Golub, LeVeque, Updating formulae and a pairwise algorithm for computing "
        "sample variances, STAN-CS-79-773, 1979",
    )


for _name, _doc in _SPREADS.items():
    _declare_spread(_name, _doc)

_declare(
    "logsumexp",
    "ln(sum(e^x)), computed as m + ln(sum(e^(x - m))) with the largest element m; -inf where "
    "there is none. Integers and bool are computed as float32.",
    dtype=lambda dtype, _: to_float(dtype),
)


# ---------------------------------------------------------------- norms
def _check_order(name: str, ord: float, input: Meta, over: tuple[int, ...]) -> None:
    if math.isnan(ord):
        fail(name, "ord must be a number or infinity, got nan")
    if (ord < 0 or math.isinf(ord)) and any(known(input.shape[i], 0) for i in over if input.ndim):
        fail(name, f"the norm of order {ord} of nothing is not defined: input has a size of 0")


def _norm_result(input: Meta, dtype: Any) -> Any:
    if dtype is None:
        return input.dtype
    if dtype.kind != "f":
        fail("vector_norm", f"dtype must be a floating-point dtype, got {dtype.name}")
    return dtype


def _infer_norm(input: Meta, ord: float, dim: Any, keepdim: bool, dtype: Any) -> Meta:
    over = dims("vector_norm", dim, input.ndim)
    _check_order("vector_norm", ord, input, over)
    shape = reduced("vector_norm", input.shape, over, keepdim)
    return Meta(shape, _norm_result(input, dtype))


op(
    "vector_norm",
    doc=f"""
    The norm of order p = `ord`: (sum |x|^p)^(1/p).

    Order 0 counts what is not zero, inf and -inf give the largest and the smallest |x|. Sums are
    float64. `dtype` is that of the result.

    {_DIMS}
    """,
    args=[tensor("input", FLOATS), static("ord", "number", 2), DIM, KEEPDIM, DTYPE],
    infer=_infer_norm,
    promote=lambda input, ord, dim, keepdim, dtype: entering(
        input.dtype, _norm_result(input, dtype)
    ),
    traits={REDUCTION},
)


def _dist_dtype(input: Meta, other: Meta, p: float) -> Any:
    dtype = result_type(input, other)
    if dtype.name not in FLOATS:
        fail("dist", f"operands of dtype {dtype.name} have no norm; convert them with .to()")
    return dtype


def _infer_dist(input: Meta, other: Meta, p: float) -> Meta:
    shape = broadcast("dist", input.shape, other.shape)
    _check_order("dist", p, Meta(shape, input.dtype), tuple(range(len(shape))))
    return Meta((), _dist_dtype(input, other, p))


op(
    "dist",
    doc="""
    The norm of order p of the difference: (sum |input - other|^p)^(1/p) over all elements.

    See `vector_norm` for the orders 0, inf and -inf. The tensors are broadcast to one shape.
    """,
    args=[tensor("input", ALL), tensor("other", ALL), static("p", "number", 2)],
    infer=_infer_dist,
    promote=_dist_dtype,
    traits={REDUCTION},
)


def _infer_trace(input: Meta) -> Meta:
    if input.ndim != 2:
        fail("trace", f"input must be a matrix, got {input.ndim} dims")
    return Meta((), wide(input.dtype, None))


op(
    "trace",
    doc="The sum of a matrix's main diagonal; integers and bool are summed as int64.",
    args=[tensor("input", ALL)],
    infer=_infer_trace,
    promote=lambda input: entering(input.dtype, wide(input.dtype, None)),
    traits={REDUCTION},
)
