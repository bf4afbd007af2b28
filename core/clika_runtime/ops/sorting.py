"""Order along a dim: ranks, medians and quantiles, search in sorted numbers, distinct values.

NaN counts as larger than every number, unless an operator says otherwise.
"""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ._promotion import ALL, NUMBERS, result_type
from ._shapes import dim as front
from ._shapes import fail, known, reduced, same, text
from .record import REDUCTION, Meta, op, static, tensor
from .reductions import KEEPDIM, not_empty

_LAST = static("dim", "int", -1, aliases=("dims",))
_ANY_DIM = static("dim", "int", None, aliases=("dims",))


def _infer_argsort(input: Meta, dim: int, descending: bool, stable: bool) -> Meta:
    front("argsort", dim, input.ndim)
    return Meta(input.shape, dtypes.int64)


op(
    "argsort",
    doc="""
    The int64 indices that sort input along `dim`: gather(input, dim, argsort(input, dim)) is
    sorted.

    Equal values keep their order whether `stable` is asked for or not.
    """,
    args=[
        tensor("input", ALL),
        _LAST,
        static("descending", "bool", False),
        static("stable", "bool", False, keyword_only=True),
    ],
    infer=_infer_argsort,
)
op(
    "msort",
    doc="input sorted along its first dim, in ascending order: the values of sort(input, 0).",
    args=[tensor("input", ALL)],
    infer=lambda input: Meta(input.shape, input.dtype),
)


# ---------------------------------------------------------------- one element along a dim
def _picked(name: str, input: Meta, dim: int, keepdim: bool) -> tuple[Meta, Meta]:
    """Value and index for each line along the dim."""
    at = front(name, dim, input.ndim)
    over = (at,) if input.ndim else ()
    not_empty(name, input, over)
    shape = reduced(name, input.shape, over, keepdim)
    return Meta(shape, input.dtype), Meta(shape, dtypes.int64)


def _infer_kthvalue(input: Meta, k: int, dim: int, keepdim: bool) -> tuple[Meta, Meta]:
    at = front("kthvalue", dim, input.ndim)
    size = input.shape[at] if input.ndim else 1
    if k < 1 or (type(size) is int and k > size):
        fail("kthvalue", f"k {k} must be between 1 and the size {size} of dim {at}")
    return _picked("kthvalue", input, dim, keepdim)


op(
    "kthvalue",
    doc="""
    The k-th smallest element along `dim` (the smallest for k = 1), and its int64 index.

    Among equal elements the lower index counts as the smaller.
    """,
    args=[tensor("input", ALL), static("k", "int"), _LAST, KEEPDIM],
    infer=_infer_kthvalue,
    outputs=2,
    traits={REDUCTION},
)


def _declare_median(name: str, doc: str) -> None:
    def infer(input: Meta, dim: int | None, keepdim: bool) -> Any:
        if dim is not None:
            return _picked(name, input, dim, keepdim)
        if input.dtype.kind != "f":
            not_empty(name, input, tuple(range(input.ndim)))
        return Meta(reduced(name, input.shape, tuple(range(input.ndim)), keepdim), input.dtype)

    op(
        name,
        doc=f"""
        {doc} With `dim`, the pair (values, int64 indices) along it.

        Of two middle elements it is the smaller. Without `dim` it is that of all elements, a single
        value; NaN for no elements.
        """,
        args=[tensor("input", NUMBERS), _ANY_DIM, KEEPDIM],
        infer=infer,
        outputs=0,
        traits={REDUCTION},
    )


_declare_median("median", "The middle element; NaN if there is one, and the first of them.")
_declare_median("nanmedian", "The middle one of the elements that are not NaN; NaN if all are.")

op(
    "mode",
    doc="""
    The most frequent element along `dim`, the smallest of several, and the int64 index of its last
    place.
    """,
    args=[tensor("input", ALL), _LAST, KEEPDIM],
    infer=lambda input, dim, keepdim: _picked("mode", input, dim, keepdim),
    outputs=2,
    traits={REDUCTION},
)


# ---------------------------------------------------------------- quantiles
_INTERPOLATION = ("linear", "lower", "higher", "midpoint", "nearest")


def _declare_quantile(name: str, doc: str) -> None:
    def infer(input: Meta, q: Meta, dim: int | None, keepdim: bool, interpolation: str) -> Meta:
        if q.ndim > 1:
            fail(name, f"q must be a number or a vector, got shape {text(q.shape)}")
        if not q.weak and q.dtype is not input.dtype:
            fail(
                name,
                f"q has dtype {q.dtype.name}, input {input.dtype.name}; convert one with .to()",
            )
        over = tuple(range(input.ndim)) if dim is None else (front(name, dim, input.ndim),)
        not_empty(name, input, over)
        shape = reduced(name, input.shape, over if input.ndim else (), keepdim)
        return Meta((*q.shape, *shape), input.dtype)

    op(
        name,
        doc=f"""
        {doc}

        The q-th quantile, 0 <= q <= 1, of n sorted elements stands at position q (n - 1). Between
        two elements a and b, the part w of the way from a, it is a + w (b - a) for `interpolation`
        "linear", a for "lower", b for "higher", (a + b) / 2 for "midpoint", and for "nearest" the
        nearer one (the one at an even position for w = 1/2). A vector q makes a first dim of the
        result.
        """,
        args=[
            tensor("input", frozenset(("float32", "float64"))),
            tensor("q", frozenset(("float32", "float64", "int64", "bool")), number=True),
            _ANY_DIM,
            KEEPDIM,
            static("interpolation", "str", "linear", modes=_INTERPOLATION, keyword_only=True),
        ],
        infer=infer,
        promote=lambda input, *_: input.dtype,
        traits={REDUCTION},
    )


_declare_quantile("quantile", "Quantiles along `dim`, or of all elements; NaN where there is one.")
_declare_quantile("nanquantile", "Quantiles of the elements that are not NaN; NaN if all are.")


# ---------------------------------------------------------------- search
def _index_dtype(out_int32: bool) -> Any:
    return dtypes.int32 if out_int32 else dtypes.int64


def _infer_search(
    sorted_sequence: Meta,
    values: Meta,
    sorter: Meta | None,
    out_int32: bool,
    right: bool,
    side: str,
) -> Meta:
    name = "searchsorted"
    rows, wanted = sorted_sequence.shape, values.shape
    if not rows:
        fail(name, "sorted_sequence must have at least one dim")
    if len(rows) > 1 and not (len(rows) == len(wanted) and all(map(same, rows[:-1], wanted[:-1]))):
        fail(
            name,
            f"sorted_sequence {text(rows)} must be a vector, or have all dims but the last like "
            f"values {text(wanted)}",
        )
    if sorter is not None and not (sorter.ndim == len(rows) and all(map(same, sorter.shape, rows))):
        fail(
            name,
            f"sorter {text(sorter.shape)} must have the shape of sorted_sequence {text(rows)}",
        )
    return Meta(wanted, _index_dtype(out_int32))


_OUT_INT32 = static("out_int32", "bool", False, keyword_only=True)
_RIGHT = static("right", "bool", False, keyword_only=True)

op(
    "searchsorted",
    doc="""
    Where values would be put into a sorted sequence: the number of its elements that are smaller,
    or with `right` (or side "right") not larger.

    sorted_sequence is a vector, or has one sorted row for each row of values. `sorter` holds the
    indices that sort an unsorted sequence.
    """,
    args=[
        tensor("sorted_sequence", ALL),
        tensor("values", ALL, number=True, aliases=("input",)),
        tensor("sorter", frozenset(("int64",)), optional=True),
        _OUT_INT32,
        _RIGHT,
        static("side", "str", "left", modes=("left", "right"), keyword_only=True),
    ],
    infer=_infer_search,
    promote=lambda sorted_sequence, values, sorter, *_: (
        result_type(sorted_sequence, values),
        result_type(sorted_sequence, values),
        None,
    ),
    method=False,
)


def _infer_bucketize(input: Meta, boundaries: Meta, out_int32: bool, right: bool) -> Meta:
    if boundaries.ndim != 1:
        fail("bucketize", f"boundaries must be a vector, got shape {text(boundaries.shape)}")
    return Meta(input.shape, _index_dtype(out_int32))


op(
    "bucketize",
    doc="""
    The bucket of each element: the number of sorted `boundaries` that are smaller, or with `right`
    not larger.
    """,
    args=[tensor("input", ALL, number=True), tensor("boundaries", ALL), _OUT_INT32, _RIGHT],
    infer=_infer_bucketize,
    promote=lambda input, boundaries, *_: result_type(input, boundaries),
)


# ---------------------------------------------------------------- distinct values
def _distinct(
    name: str, input: Meta, dim: int | None, return_inverse: bool, return_counts: bool
) -> Any:
    """The results of `unique`: as many as there are distinct values or slices."""
    if dim is None:
        shape: tuple[Any, ...] = (None,)
        inverse = input.shape
    else:
        if input.ndim == 0:
            fail(name, "a 0-d input has no dim to take slices of")
        at = front(name, dim, input.ndim)
        if any(known(size, 0) for d, size in enumerate(input.shape) if d != at):
            fail(name, f"the slices of input {text(input.shape)} along dim {at} have no elements")
        shape = (*input.shape[:at], None, *input.shape[at + 1 :])
        inverse = (input.shape[at],)
    found = [Meta(shape, input.dtype)]
    if return_inverse:
        found.append(Meta(inverse, dtypes.int64))
    if return_counts:
        found.append(Meta((None,), dtypes.int64))
    return found[0] if len(found) == 1 else tuple(found)


_INVERSE = static("return_inverse", "bool", False)
_COUNTS = static("return_counts", "bool", False)
_RESULTS = """

    With `return_inverse` also, for each element (or slice), the int64 index of its value in the
    result; with `return_counts` also how often each value occurs. A NaN is equal to nothing. The
    result's size depends on the data: the call cannot be recorded.
    """

op(
    "unique",
    doc=f"""
    The distinct values of input in ascending order; with `dim`, the distinct slices along it.

    Slices are compared element by element. `sorted` is accepted; the result is sorted either way.
    {_RESULTS}""",
    args=[
        tensor("input", ALL),
        static("sorted", "bool", True),
        _INVERSE,
        _COUNTS,
        static("dim", "int", None, aliases=("dims",)),
    ],
    infer=lambda input, sorted, inverse, counts, dim: _distinct(
        "unique", input, dim, inverse, counts
    ),
    outputs=0,
)
op(
    "unique_consecutive",
    doc=f"""
    input without repetitions: of equal values side by side one; with `dim`, of equal slices.
    {_RESULTS}""",
    args=[
        tensor("input", ALL),
        _INVERSE,
        _COUNTS,
        static("dim", "int", None, aliases=("dims",)),
    ],
    infer=lambda input, inverse, counts, dim: _distinct(
        "unique_consecutive", input, dim, inverse, counts
    ),
    outputs=0,
)
