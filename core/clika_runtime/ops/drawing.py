"""Random numbers over tensors, by Philox4x32-10: the same seed and offset give the same numbers.

Element i of a call takes words of the block with key (seed's low, high 32 bits) and counter (low,
high 32 bits of the block's number, low, high 32 bits of offset). Without `seed` the process's
generator gives seed and offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import dtypes
from ._factory import place, sized
from ._functions import of_tensors
from ._promotion import ALL, DEFAULT_FLOAT, FLOATS, INTS, result_type
from ._shapes import broadcast, fail, text
from .record import FACTORY, RANDOM, Meta, op, scalar, static, tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._native._core import Tensor

_PHILOX = "Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011 (Philox4x32-10)"
_KEY = [
    scalar("seed", "int", None, keyword_only=True),
    scalar("offset", "int", 0, keyword_only=True),
]
_UNIFORM = "u = (word >> 8) * 2^-24 of word i % 4 of block i // 4"
# Whole numbers up to here are exact.
_EXACT = {"float16": 2**11, "bfloat16": 2**8, "float32": 2**24, "float64": 2**53}


def _limits(dtype: Any) -> tuple[int, int]:
    """The smallest whole number of a dtype, and the largest + 1."""
    if dtype.kind == "f":
        return -_EXACT[dtype.name], _EXACT[dtype.name] + 1
    if dtype.kind == "u":
        return 0, int(2**dtype.bits)
    return -int(2 ** (dtype.bits - 1)), int(2 ** (dtype.bits - 1))


# ---------------------------------------------------------------- whole numbers
def _one(name: str, bound: tuple[int, ...]) -> int:
    if len(bound) != 1:
        fail("randint", f"{name} must be an int, got {list(bound)}")
    return bound[0]


def _infer_randint(
    low: Any, high: Any, shape: Any, seed: Any, offset: Any, dtype: Any, device: Any
) -> Meta:
    if shape is None:
        low, high, shape = None, low, high
    elif high is None:
        low, high = None, low
    if high is None or shape is None:
        fail("randint", "give an upper bound and a size: randint([low,] high, size)")
    first, end = 0 if low is None else _one("low", low), _one("high", high)
    meta = sized("randint", shape, dtypes.int64 if dtype is None else dtype, device)
    if meta.dtype.name not in INTS | FLOATS:
        fail("randint", f"dtype must be one of whole or floating-point numbers, got {meta.dtype}")
    smallest, over = _limits(meta.dtype)
    if not first < end:
        fail("randint", f"low {first} must be below high {end}")
    if first < smallest or end > over:
        fail("randint", f"numbers from {first} to {end - 1} do not fit {meta.dtype.name}")
    return meta


op(
    "randint",
    doc="""
    Random whole numbers from low to high - 1, int64 unless `dtype` says otherwise: randint([low,]
    high, size).

    With the 64-bit number w of words 2 (i % 2) (the low half) and 2 (i % 2) + 1 of block i // 2,
    element i is low + floor(w (high - low) / 2^64).
    """,
    args=[
        static("low", "ints", None),
        static("high", "ints", None),
        static("shape", "ints", None, aliases=("size",)),
        *_KEY,
        *place(),
    ],
    infer=_infer_randint,
    traits={FACTORY, RANDOM},
    method=False,
    source=_PHILOX,
)


def _infer_randperm(n: int, seed: Any, offset: Any, dtype: Any, device: Any) -> Meta:
    meta = sized("randperm", (n,), dtypes.int64 if dtype is None else dtype, device)
    if meta.dtype.name not in INTS:
        fail("randperm", f"dtype must be one of {', '.join(sorted(INTS))}, got {meta.dtype.name}")
    if type(n) is int and n > _limits(meta.dtype)[1]:
        fail("randperm", f"numbers from 0 to {n - 1} do not fit {meta.dtype.name}")
    return meta


op(
    "randperm",
    doc="""
    The whole numbers from 0 to n - 1 in random order, int64 unless `dtype` says otherwise.

    It is the order in which sorting puts n 64-bit numbers, number i made of words 2 (i % 2) (the
    low half) and 2 (i % 2) + 1 of block i // 2.
    """,
    args=[static("n", "int"), *_KEY, *place()],
    infer=_infer_randperm,
    traits={FACTORY, RANDOM},
    method=False,
    source=_PHILOX,
)


# ---------------------------------------------------------------- over tensors
def _infer_bernoulli(input: Meta, p: Any, seed: Any, offset: Any) -> Meta:
    return Meta(input.shape, input.dtype)


op(
    "bernoulli",
    doc=f"""
    1 with the probability that input says, or with probability `p`, else 0, in input's dtype.

    Element i is 1 where u < p, {_UNIFORM}. A probability outside [0, 1] is an error of the kernel.
    """,
    args=[tensor("input", ALL), scalar("p", "float", None), *_KEY],
    infer=_infer_bernoulli,
    traits={RANDOM},
    source=_PHILOX,
)


def _normal_dtype(mean: Meta, std: Meta | None, dtype: Any) -> Any:
    given = [meta for meta in (mean, std) if meta is not None and not meta.weak]
    if not given:
        return DEFAULT_FLOAT if dtype is None else dtype
    return result_type(*given)


def _infer_normal(
    mean: Meta, std: Meta | None, shape: Any, seed: Any, offset: Any, dtype: Any, device: Any
) -> Meta:
    name = "normal"
    found = _normal_dtype(mean, std, dtype)
    if found.name not in FLOATS:
        fail(name, f"dtype must be one of {', '.join(sorted(FLOATS))}, got {found.name}")
    numbers = mean.weak and (std is None or std.weak)
    if numbers:
        if shape is None:
            fail(name, "mean and std are numbers; give the size: normal(mean, std, size)")
        return sized(name, shape, found, device)
    given = [meta for meta in (mean, std) if meta is not None and meta.device is not None]
    elsewhere = device is not None and any(meta.device != device for meta in given)
    if shape is not None or dtype is not None or elsewhere:
        fail(name, "size, dtype and device go with numbers; here the tensors give them")
    return Meta(broadcast(name, mean.shape, () if std is None else std.shape), found)


op(
    "normal",
    doc="""
    Random numbers of normal distributions: mean + std z, with z as `randn` draws it.

    mean and std are tensors that are broadcast to one shape, or numbers; two numbers need a size. A
    negative std is an error of the kernel.
    """,
    args=[
        tensor("mean", FLOATS | INTS, number=True),
        tensor("std", FLOATS | INTS, number=True, optional=True),
        static("shape", "ints", None, aliases=("size",)),
        *_KEY,
        *place(),
    ],
    infer=_infer_normal,
    promote=lambda mean, std, shape, seed, offset, dtype, device: _normal_dtype(mean, std, dtype),
    traits={RANDOM},
    method=False,
    source=_PHILOX,
)


def _infer_multinomial(
    input: Meta, num_samples: int, replacement: bool, seed: Any, offset: Any
) -> Meta:
    name = "multinomial"
    if input.ndim not in (1, 2):
        fail(name, f"input must be [categories] or [rows, categories], got {text(input.shape)}")
    if num_samples < 1:
        fail(name, f"num_samples {num_samples} must be 1 or more")
    count = input.shape[-1]
    if type(count) is int and not replacement and num_samples > count:
        fail(
            name,
            f"{num_samples} samples without replacement from {count} categories; pass "
            "replacement=True",
        )
    return Meta((*input.shape[:-1], num_samples), dtypes.int64)


op(
    "multinomial",
    doc="""
    Categories drawn per row of input in proportion to its numbers: int64 [.., num_samples].

    With `replacement`, sample j of row r is the first category whose cumulative weight is above u
    times the sum, u = (word >> 8) * 2^-24 of word i % 4 of block i // 4 for i = r num_samples + j.
    Without, the samples are the categories with the smallest -ln(v) / weight in ascending order, v
    = ((word >> 8) + 1) * 2^-24 for i = r categories + category. Weights that are negative or not
    finite, sum up to 0, or are too few to draw from, are an error of the kernel.
    """,
    args=[
        tensor("input", FLOATS),
        static("num_samples", "int"),
        static("replacement", "bool", False),
        *_KEY,
    ],
    infer=_infer_multinomial,
    traits={RANDOM},
    source=_PHILOX,
)


def _dropout_front(call: Callable[..., Any]) -> Callable[..., Any]:
    @of_tensors
    def dropout(
        input: Tensor,
        p: float = 0.5,
        training: bool = True,
        *,
        seed: int | None = None,
        offset: int = 0,
    ) -> Tensor:
        if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p <= 1:
            fail("dropout", f"p must be a number between 0 and 1, got {p!r}")
        if not training or p == 0:
            return input
        dropped: Tensor = call(input, p, seed=seed, offset=offset)
        return dropped

    return dropout


op(
    "dropout",
    doc=f"""
    Elements set to 0 with probability `p`, the others divided by 1 - p; input itself where
    `training` is False, as in inference.

    Element i stays where u >= p, {_UNIFORM}.
    """,
    args=[tensor("input", FLOATS), scalar("p", "float", 0.5), *_KEY],
    infer=lambda input, *_: Meta(input.shape, input.dtype),
    traits={RANDOM},
    source=_PHILOX,
    front=_dropout_front,
)
