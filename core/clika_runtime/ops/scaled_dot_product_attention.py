"""The operator ``scaled_dot_product_attention``."""

from __future__ import annotations

from typing import Any

from ._promotion import BOOL, FLOATS
from ._shapes import broadcast, fail, known, same, text
from .record import Meta, op, scalar, static, tensor

NAME = "scaled_dot_product_attention"


def _infer(
    query: Meta,
    key: Meta,
    value: Meta,
    attn_mask: Meta | None,
    dropout_p: Any,
    is_causal: bool,
    scale: Any,
    enable_gqa: bool,
    softcap: Any,
) -> Meta:
    if min(query.ndim, key.ndim, value.ndim) < 2:
        fail(
            NAME,
            "expected query [..., L, E], key [..., S, E] and value [..., S, V], got "
            f"{text(query.shape)}, {text(key.shape)} and {text(value.shape)}",
        )
    for other in (key, value):
        if other.dtype is not query.dtype:
            fail(
                NAME,
                f"query has dtype {query.dtype.name}, key {key.dtype.name} and value "
                f"{value.dtype.name}; convert them to one with .to()",
            )
    length, size = query.shape[-2:]
    if not same(size, key.shape[-1]) or not same(key.shape[-2], value.shape[-2]):
        fail(
            NAME,
            f"query {text(query.shape)}, key {text(key.shape)} and value {text(value.shape)} do "
            "not fit: query and key must agree in the last dim, key and value in dim -2",
        )
    heads, others, third = query.shape[:-2], key.shape[:-2], value.shape[:-2]
    if enable_gqa:
        if min(len(heads), len(others), len(third)) < 1 or not same(others[-1], third[-1]):
            fail(NAME, "enable_gqa needs heads in dim -3 of query, key and value")
        many, few = heads[-1], others[-1]
        if known(few, 0) or (type(many) is int and type(few) is int and many % few):
            fail(NAME, f"{many} query heads are not a multiple of {few} key heads")
        others, third = (*others[:-1], many), (*third[:-1], many)
    batch = broadcast(NAME, heads, others, third)
    if attn_mask is not None:
        if is_causal:
            fail(NAME, "attn_mask and is_causal exclude each other")
        if attn_mask.dtype.name not in BOOL and attn_mask.dtype.name not in FLOATS:
            fail(
                NAME,
                f"attn_mask has dtype {attn_mask.dtype.name}; it must be bool or floating-point",
            )
        wanted = (*batch, length, key.shape[-2])
        if broadcast(NAME, attn_mask.shape, wanted) != wanted:
            fail(NAME, f"attn_mask {text(attn_mask.shape)} must broadcast to {text(wanted)}")
    if len(batch) > 6:
        fail(NAME, f"{len(batch)} batch dims are more than the 6 that are served")
    return Meta((*batch, length, value.shape[-1]), query.dtype)


op(
    NAME,
    doc="""
    softmax(scale * query @ key^T + mask) @ value: each query weighs the values by how well their
    keys fit it.

    query [..., L, E], key [..., S, E], value [..., S, V]; the result is [..., L, V]. The leading
    dims broadcast; with `enable_gqa` dim -3 of the query is a multiple of that of key and value,
    and neighbouring query heads share one. attn_mask broadcasts to [..., L, S]: False takes a
    position out, numbers are added to the scores. `is_causal`: query i sees the keys j <= i.
    `scale` None is 1 / sqrt(E). softcap c > 0 replaces a scaled score s by c * tanh(s / c) before
    the mask. `dropout_p` must be 0. A query that sees nothing gets zeros. Scores, weights and sums
    are float32 (float64 in its own precision).
    """,
    args=[
        tensor("query", FLOATS),
        tensor("key", FLOATS),
        tensor("value", FLOATS),
        tensor("attn_mask", FLOATS | BOOL, optional=True),
        scalar("dropout_p", "float", 0.0),
        static("is_causal", "bool", False),
        scalar("scale", "float", None),
        static("enable_gqa", "bool", False),
        scalar("softcap", "float", 0.0, keyword_only=True),
    ],
    infer=_infer,
    method=False,
    source="Vaswani et al., Attention Is All You Need, arXiv:1706.03762",
)
