"""Writing elements to places that indices name. Each gives a new tensor; input stays as it is."""

from __future__ import annotations

from typing import Any

from ._promotion import ALL, BOOL, INDEX, NUMBERS
from ._shapes import broadcast, fail, known, product, same, text
from ._shapes import dim as front
from .record import Meta, op, scalar, static, tensor

_OUTSIDE = "An index outside 0 .. size-1 is an error of the kernel."
_DIM = static("dim", "int", aliases=("dims",))
_INDEX = tensor("index", INDEX)
_REDUCE = ("sum", "prod", "mean", "amax", "amin")
_INCLUDE_SELF = static("include_self", "bool", True, keyword_only=True)


def _one_dtype(name: str, input: Meta, source: Meta, what: str) -> None:
    if not source.weak and source.dtype is not input.dtype:
        fail(
            name,
            f"{what} has dtype {source.dtype.name}, input {input.dtype.name}; convert one with "
            ".to()",
        )


def _to_input(input: Meta, *_: Any) -> tuple[Any, Any, Any]:
    """A number as source enters in input's dtype."""
    return None, None, input.dtype


# ---------------------------------------------------------------- scatter
def _scattered(name: str, input: Meta, dim: int, index: Meta, src: Meta) -> Meta:
    at = front(name, dim, input.ndim)
    _one_dtype(name, input, src, "src")
    if any(known(size, 0) for size in index.shape):
        return Meta(input.shape, input.dtype)
    ranks = {max(meta.ndim, 1) for meta in (input, index, *(() if src.weak else (src,)))}
    if len(ranks) != 1:
        fail(
            name,
            f"index {text(index.shape)}, src {text(src.shape)} and input {text(input.shape)} must "
            "have as many dims",
        )
    for d, size in enumerate(index.shape):
        limits = [] if src.weak or not src.ndim else [("src", src.shape[d])]
        if d != at and input.ndim:
            limits.append(("input", input.shape[d]))
        for what, limit in limits:
            if type(size) is int and type(limit) is int and size > limit:
                fail(
                    name,
                    f"index {text(index.shape)} is larger than {what} "
                    f"{text(src.shape if what == 'src' else input.shape)} at dim {d}",
                )
    return Meta(input.shape, input.dtype)


op(
    "scatter",
    doc=f"""
    input with src written along `dim`: for dim 0 of a matrix, result[index[i, j], j] = src[i, j].

    `src` (or `value`) is a tensor or a number. Of several writes to one place the last one in
    row-major order stays. With `reduce` "add" or "multiply" each is added to, or multiplied with,
    what is there. {_OUTSIDE}
    """,
    args=[
        tensor("input", ALL),
        _DIM,
        _INDEX,
        tensor("src", ALL, number=True, aliases=("value",)),
        static("reduce", "str", "none", modes=("none", "add", "multiply"), keyword_only=True),
    ],
    infer=lambda input, dim, index, src, reduce: _scattered("scatter", input, dim, index, src),
    promote=lambda input, dim, index, src, reduce: _to_input(input),
)
op(
    "scatter_add",
    doc=f"""
    input with src added along `dim`: for dim 0 of a matrix, result[index[i, j], j] += src[i, j].

    Floats are added in float32 or wider and rounded once; bools by or. {_OUTSIDE}
    """,
    args=[tensor("input", ALL), _DIM, _INDEX, tensor("src", ALL)],
    infer=lambda *args: _scattered("scatter_add", *args),
)
op(
    "scatter_reduce",
    doc=f"""
    input with the elements of src that index sends to one place along `dim` reduced there.

    `reduce` is "sum", "prod", "mean", "amax" or "amin". The element of input takes part unless
    `include_self` is False; places that nothing is sent to keep theirs. The mean of integers is
    rounded down. {_OUTSIDE}
    """,
    args=[
        tensor("input", ALL),
        _DIM,
        _INDEX,
        tensor("src", ALL),
        static("reduce", "str", "sum", modes=_REDUCE),
        _INCLUDE_SELF,
    ],
    infer=lambda input, dim, index, src, *_: _scattered("scatter_reduce", input, dim, index, src),
)


# ---------------------------------------------------------------- along one dim, by a vector
def _along(name: str, input: Meta, dim: int, index: Meta, source: Meta | None) -> Meta:
    at = front(name, dim, input.ndim)
    if index.ndim > 1:
        fail(name, f"index must have one dim, got shape {text(index.shape)}")
    if source is None:
        return Meta(input.shape, input.dtype)
    _one_dtype(name, input, source, "source")
    count = index.shape[0] if index.ndim else 1
    if input.ndim == 0:
        wanted: tuple[Any, ...] = source.shape if source.ndim <= 1 else ()
        fits = same(product(source.shape), count)
    else:
        wanted = (*input.shape[:at], count, *input.shape[at + 1 :])
        fits = source.ndim == len(wanted) and all(map(same, source.shape, wanted))
        if source.ndim == 0 and len(wanted) == 1:
            fits = same(count, 1)
    if not fits:
        fail(
            name,
            f"source {text(source.shape)} must be {text(wanted)}, input with one slice for each "
            "index",
        )
    return Meta(input.shape, input.dtype)


op(
    "index_add",
    doc=f"""
    input with slices added along `dim`: for dim 0, result[index[i]] += alpha * source[i].

    Floats are added in float32 or wider and rounded once; bools by or. {_OUTSIDE}
    """,
    args=[
        tensor("input", ALL),
        _DIM,
        _INDEX,
        tensor("source", ALL),
        scalar("alpha", "number", 1, keyword_only=True),
    ],
    infer=lambda input, dim, index, source, alpha: _along("index_add", input, dim, index, source),
)
op(
    "index_copy",
    doc=f"""
    input with slices replaced along `dim`: for dim 0, result[index[i]] = source[i].

    Of several slices for one place the last one stays. {_OUTSIDE}
    """,
    args=[tensor("input", ALL), _DIM, _INDEX, tensor("source", ALL)],
    infer=lambda *args: _along("index_copy", *args),
)


def _infer_fill(input: Meta, dim: int, index: Meta, value: Meta) -> Meta:
    if value.ndim:
        fail("index_fill", f"value must be a number or 0-d, got shape {text(value.shape)}")
    return _along("index_fill", input, dim, index, None)


op(
    "index_fill",
    doc=f"""
    input with slices along `dim` filled: for dim 0, result[index[i]] = value.

    `value` is a number or a 0-d tensor. {_OUTSIDE}
    """,
    args=[tensor("input", ALL), _DIM, _INDEX, tensor("value", ALL, number=True)],
    infer=_infer_fill,
    promote=lambda input, dim, index, value: _to_input(input),
)
op(
    "index_reduce",
    doc=f"""
    input with the slices of source that index sends to one place along `dim` reduced there.

    `reduce` is "prod", "mean", "amax", "amin" or "sum". The slice of input takes part unless
    `include_self` is False. The mean of integers is rounded down. {_OUTSIDE}
    """,
    args=[
        tensor("input", NUMBERS),
        _DIM,
        _INDEX,
        tensor("source", NUMBERS),
        static("reduce", "str", "sum", modes=_REDUCE),
        _INCLUDE_SELF,
    ],
    infer=lambda input, dim, index, source, *_: _along("index_reduce", input, dim, index, source),
)


# ---------------------------------------------------------------- anywhere
def _infer_put(input: Meta, index: Meta, source: Meta, accumulate: bool) -> Meta:
    _one_dtype("put", input, source, "source")
    if not same(product(index.shape), product(source.shape)):
        fail(
            "put",
            f"source {text(source.shape)} must have as many elements as index {text(index.shape)}",
        )
    return Meta(input.shape, input.dtype)


op(
    "put",
    doc="""
    input with elements replaced by position in row-major order: result.flatten()[index[i]] =
    source[i].

    With `accumulate` elements are added instead. Negative indices count from the end; one outside
    is an error of the kernel.
    """,
    args=[
        tensor("input", ALL),
        _INDEX,
        tensor("source", ALL),
        static("accumulate", "bool", False),
    ],
    infer=_infer_put,
)


def _infer_masked_scatter(input: Meta, mask: Meta, source: Meta) -> Meta:
    _one_dtype("masked_scatter", input, source, "source")
    return Meta(broadcast("masked_scatter", input.shape, mask.shape), input.dtype)


op(
    "masked_scatter",
    doc="""
    input with the elements where mask is true replaced by those of source, in row-major order.

    input and mask are broadcast to one shape. source has at least as many elements as mask has true
    ones; fewer are an error of the kernel.
    """,
    args=[tensor("input", ALL), tensor("mask", BOOL), tensor("source", ALL)],
    infer=_infer_masked_scatter,
)
