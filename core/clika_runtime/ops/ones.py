"""The operator ``ones``."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._factory import SHAPE, place, sized
from ._promotion import DEFAULT_FLOAT
from .record import FACTORY, Meta, op


def _infer(shape: tuple[Any, ...], dtype: Any, device: Any) -> Meta:
    return sized("ones", shape, dtype, device)


def _compose(shape: tuple[Any, ...], dtype: Any, device: Any) -> Any:
    return ops.full(shape, 1, dtype=DEFAULT_FLOAT if dtype is None else dtype, device=device)


op(
    "ones",
    doc="A tensor of that shape, filled with ones; float32 unless `dtype` says otherwise.",
    args=[SHAPE, *place()],
    infer=_infer,
    traits={FACTORY},
    compose=_compose,
    method=False,
)
