"""The operator ``rand``."""

from __future__ import annotations

from typing import Any

from ._factory import SHAPE, place, sized
from ._promotion import FLOATS
from ._shapes import fail
from .record import FACTORY, RANDOM, Meta, op, scalar


def _infer(shape: tuple[Any, ...], seed: Any, offset: Any, dtype: Any, device: Any) -> Meta:
    meta = sized("rand", shape, dtype, device)
    if meta.dtype.name not in FLOATS:
        fail("rand", f"dtype must be one of {', '.join(sorted(FLOATS))}, got {meta.dtype.name}")
    return meta


op(
    "rand",
    doc="""
    Uniform random numbers in [0, 1).

    Element i takes word i % 4 of the Philox4x32-10 block with key (seed's low, high 32 bits) and
    counter (low, high 32 bits of i // 4, low, high 32 bits of offset): (word >> 8) * 2^-24.
    Without `seed` the process's generator gives seed and offset.
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
