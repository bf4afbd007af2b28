"""The operator ``kv_append``."""

from __future__ import annotations

from ._pools import POOLS, head_size
from ._promotion import FLOATS
from ._shapes import fail, same, text
from .record import Meta, op, tensor


def check_append(
    op: str, pool: Meta, value: Meta, slots: Meta, names: tuple[str, str] = ("pool", "value")
) -> Meta:
    """Refuses rows and slots that do not fit the pool; ``names`` are those of the arguments. The
    pool after the write."""
    to, rows = names
    if pool.ndim != 4 or value.ndim != 3 or slots.ndim != 1:
        fail(
            op,
            f"expected {to} [blocks, block_size, H, D], {rows} [T, H, D] and slots [T], got "
            f"{text(pool.shape)}, {text(value.shape)} and {text(slots.shape)}",
        )
    size = head_size(op, to, pool)
    if not same(pool.shape[2], value.shape[1]) or not same(size, value.shape[2]):
        fail(
            op,
            f"{rows} {text(value.shape)} must have the heads and the head size of {to} "
            f"{text(pool.shape)}",
        )
    if not same(value.shape[0], slots.shape[0]):
        fail(
            op,
            f"slots {text(slots.shape)} must name one slot for each token of {rows} "
            f"{text(value.shape)}",
        )
    return Meta(pool.shape, pool.dtype)


def _infer(pool: Meta, value: Meta, slots: Meta) -> Meta:
    return check_append("kv_append", pool, value, slots)


op(
    "kv_append",
    doc="""
    Writes the tokens of value into their slots of a cache pool, in place; returns the pool:
    pool[slots[t] // block_size, slots[t] % block_size] = value[t].

    pool [blocks, block_size, H, D], value [T, H, D], slots [T] int32. The value is converted to the
    pool's dtype, each row by itself. A slot outside the pool is an error of the kernel.

    float8_e4m3: rounded to the nearest, halves to even; beyond +-448, infinity included, it is
    +-448, and the scale is 1. uint8: a row is D / 32 blocks of GGUF's Q8_0, 34 bytes each, so that
    pool is [blocks, block_size, H, D / 32 * 34]. A block is a float16 scale d = max |x| / 127 (at
    most 65504) and 32 codes of int8, x / d rounded to the nearest, halves away from zero; it stands
    for d * code. A block with a number that is not finite is NaN.
    """,
    args=[
        tensor("pool", POOLS),
        tensor("value", FLOATS),
        tensor("slots", frozenset(("int32",))),
    ],
    infer=_infer,
    mutates=0,
    method=False,
    source="Q8_0: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; float8_e4m3: "
    "Micikevicius et al., FP8 Formats for Deep Learning, arXiv:2209.05433",
)
