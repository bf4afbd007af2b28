"""The operator ``kv_append``."""

from __future__ import annotations

from ._promotion import FLOATS
from ._shapes import fail, same, text
from .record import Meta, op, tensor


def _infer(pool: Meta, value: Meta, slots: Meta) -> Meta:
    if pool.ndim != 4 or value.ndim != 3 or slots.ndim != 1:
        fail(
            "kv_append",
            "expected pool [blocks, block_size, H, D], value [T, H, D] and slots [T], got "
            f"{text(pool.shape)}, {text(value.shape)} and {text(slots.shape)}",
        )
    if not all(map(same, pool.shape[2:], value.shape[1:])):
        fail(
            "kv_append",
            f"value {text(value.shape)} must have the heads and the head size of pool "
            f"{text(pool.shape)}",
        )
    if not same(value.shape[0], slots.shape[0]):
        fail(
            "kv_append",
            f"slots {text(slots.shape)} must name one slot for each token of value "
            f"{text(value.shape)}",
        )
    return Meta(pool.shape, pool.dtype)


op(
    "kv_append",
    doc="""
    Writes the tokens of value into their slots of a cache pool, in place; returns the pool:
    pool[slots[t] // block_size, slots[t] % block_size] = value[t].

    pool [blocks, block_size, H, D], value [T, H, D], slots [T] int32. The value is converted to the
    pool's dtype. A slot outside the pool is an error of the kernel.
    """,
    args=[
        tensor("pool", FLOATS),
        tensor("value", FLOATS),
        tensor("slots", frozenset(("int32",))),
    ],
    infer=_infer,
    mutates=0,
    method=False,
)
