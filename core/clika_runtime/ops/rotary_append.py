"""The operator ``rotary_append``."""

from __future__ import annotations

from typing import Any

from .. import ops
from ._pools import POOLS
from ._promotion import FLOATS, INDEX
from ._shapes import fail, same, text
from .kv_append import check_append
from .record import Meta, op, scalar, static, tensor
from .rotary import check_turn

NAME = "rotary_append"


def _infer(
    query: Meta,
    key: Meta,
    value: Meta,
    positions: Meta,
    inv_freq: Meta,
    key_pool: Meta,
    value_pool: Meta,
    slots: Meta,
    interleaved: bool,
    scale: Any,
) -> tuple[Meta, Meta, Meta]:
    check_turn(NAME, "query", query, positions, inv_freq)
    check_turn(NAME, "key", key, positions, inv_freq)
    if not same(query.shape[2], key.shape[2]):
        fail(
            NAME,
            f"query {text(query.shape)} and key {text(key.shape)} must have heads of one size",
        )
    keys = check_append(NAME, key_pool, key, slots, ("key_pool", "key"))
    values = check_append(NAME, value_pool, value, slots, ("value_pool", "value"))
    return Meta(query.shape, query.dtype), keys, values


def _compose(
    query: Any,
    key: Any,
    value: Any,
    positions: Any,
    inv_freq: Any,
    key_pool: Any,
    value_pool: Any,
    slots: Any,
    interleaved: bool = False,
    scale: float = 1.0,
) -> tuple[Any, Any, Any]:
    turned = ops.rotary(query, positions, inv_freq, interleaved=interleaved, scale=scale)
    key = ops.rotary(key, positions, inv_freq, interleaved=interleaved, scale=scale)
    keys = ops.kv_append(key_pool, key, slots)
    return turned, keys, ops.kv_append(value_pool, value, slots)


op(
    NAME,
    doc="""
    Turns queries and keys as `rotary` does, and writes the turned keys and the values into their
    slots of a cache's pools as `kv_append` does: (rotary(query), key_pool, value_pool).

    query [T, Hq, D], key [T, H, D], value [T, H, Dv], positions [T] or [A, T], inv_freq [R] or
    [A, R] with 2 R <= D, key_pool [blocks, block_size, H, D], value_pool [blocks, block_size, H,
    Dv], slots [T] int32. Both pools are written in place and share no bytes; they are in any dtype
    that `kv_append` takes, and turned keys are rounded to their own dtype before. It is what a
    layer of attention does before it attends, in one step.
    """,
    args=[
        tensor("query", FLOATS),
        tensor("key", FLOATS),
        tensor("value", FLOATS),
        tensor("positions", INDEX),
        tensor("inv_freq", frozenset(("float32",))),
        tensor("key_pool", POOLS),
        tensor("value_pool", POOLS),
        tensor("slots", frozenset(("int32",))),
        static("interleaved", "bool", False),
        scalar("scale", "float", 1.0),
    ],
    infer=_infer,
    compose=_compose,
    outputs=3,
    mutates=(None, 5, 6),
    method=False,
    source="Su et al., RoFormer, arXiv:2104.09864",
)
