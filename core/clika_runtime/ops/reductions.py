"""Reductions over one, several or all dims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import dtypes, ops
from ._promotion import ALL
from ._shapes import dims, fail, known, product, reduced
from .record import REDUCTION, Meta, op, static, tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from .record import Record

_DIMS = "`dim` is an int, several, or None for all; `keepdim` leaves the reduced dims with size 1."


def _declare(
    name: str,
    doc: str,
    allowed: frozenset[str] = ALL,
    *,
    dtype: Callable[[Any, Any], Any],
    takes_dtype: bool = False,
    empty: bool = True,
    compose: Callable[..., Any] | None = None,
) -> Record:
    """``dtype(input's, the one asked for)`` is the dtype that input enters in, and the result's."""

    def promote(input: Meta, dim: tuple[int, ...] | None, keepdim: bool, wanted: Any = None) -> Any:
        return dtype(input.dtype, wanted)

    def infer(input: Meta, dim: tuple[int, ...] | None, keepdim: bool, wanted: Any = None) -> Meta:
        over = dims(name, dim, input.ndim)
        for i in over:
            if input.ndim and not empty and known(input.shape[i], 0):
                fail(name, f"dim {i} has size 0, and {name} of nothing is not defined")
        return Meta(reduced(name, input.shape, over, keepdim), dtype(input.dtype, wanted))

    args = [
        tensor("input", allowed),
        static("dim", "ints", None, aliases=("dims",)),
        static("keepdim", "bool", False),
    ]
    if takes_dtype:
        args.append(static("dtype", "dtype", None, keyword_only=True))
    return op(
        name,
        doc=f"{doc}\n\n{_DIMS}",
        args=args,
        infer=infer,
        promote=promote,
        traits={REDUCTION},
        compose=compose,
    )


def _wide(dtype: Any, wanted: Any) -> Any:
    if wanted is not None:
        return wanted
    return dtype if dtype.kind == "f" else dtypes.int64


def _float(dtype: Any, wanted: Any) -> Any:
    chosen = dtype if wanted is None else wanted
    if chosen.kind != "f":
        fail(
            "mean",
            f"the mean of {chosen.name} has no dtype of its own; pass dtype=, for example float32",
        )
    return chosen


def _keep(dtype: Any, _: Any) -> Any:
    return dtype


def _truth(dtype: Any, _: Any) -> Any:
    return dtypes.bool


def _mean(input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    total = ops.sum(input, dim, keepdim, dtype=dtype)
    over = dims("mean", dim, len(input.shape)) if len(input.shape) else ()
    return ops.div(total, product(input.shape[i] for i in over))


_declare(
    "sum",
    "The sum; integers and bool are summed as int64 unless `dtype` says otherwise.",
    dtype=_wide,
    takes_dtype=True,
)
_declare(
    "mean",
    "The arithmetic mean sum(x) / n of floating-point numbers; NaN where n is 0.",
    dtype=_float,
    takes_dtype=True,
    compose=_mean,
)
_declare(
    "prod",
    "The product; integers and bool are multiplied as int64 unless `dtype` says otherwise.",
    dtype=_wide,
    takes_dtype=True,
)
_declare("amax", "The largest value; NaN if there is one.", dtype=_keep, empty=False)
_declare("amin", "The smallest value; NaN if there is one.", dtype=_keep, empty=False)
_declare("any", "True where at least one element is not zero.", dtype=_truth)
_declare("all", "True where no element is zero.", dtype=_truth)
