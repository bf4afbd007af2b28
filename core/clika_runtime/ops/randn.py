"""The operator ``randn``."""

from __future__ import annotations

from typing import Any

from ._factory import SHAPE, place, sized
from ._promotion import FLOATS
from ._shapes import fail
from .record import FACTORY, RANDOM, Meta, op, scalar


def _infer(shape: tuple[Any, ...], seed: Any, offset: Any, dtype: Any, device: Any) -> Meta:
    meta = sized("randn", shape, dtype, device)
    if meta.dtype.name not in FLOATS:
        fail("randn", f"dtype must be one of {', '.join(sorted(FLOATS))}, got {meta.dtype.name}")
    return meta


op(
    "randn",
    doc="""
    Random numbers of the normal distribution with mean 0 and variance 1.

    Element i takes from the Philox4x32-10 block with key (seed's low, high 32 bits) and counter
    (low, high 32 bits of i // 4, low, high 32 bits of offset). Words 0 and 1 make elements 0 and
    1, words 2 and 3 make 2 and 3: with u = ((word >> 8) + 1) * 2^-24 of the first and v = (word
    >> 8) * 2^-24 of the second, r = sqrt(-2 ln u), the two are r * cos(2 pi v) and r * sin(2 pi
    v), in float32. Without `seed` the process's generator gives seed and offset.
    """,
    args=[
        SHAPE,
        scalar("seed", "int", None, keyword_only=True),
        scalar("offset", "int", 0, keyword_only=True),
        *place(),
    ],
    infer=_infer,
    traits={FACTORY, RANDOM},
    method=False,
    source="Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011 (Philox4x32-10)",
)
