"""The operator ``paged_attention``."""

from __future__ import annotations

from typing import Any

from ._pools import POOLS, head_size
from ._promotion import FLOATS
from ._shapes import fail, same, text
from .record import Meta, op, scalar, static, tensor

_INT32 = frozenset(("int32",))


def _infer(
    query: Meta,
    key_pool: Meta,
    value_pool: Meta,
    block_table: Meta,
    cu_seqlens: Meta,
    kv_lens: Meta,
    sinks: Meta | None,
    causal: bool,
    window: int,
    mode: str,
    scale: Any,
    softcap: Any,
) -> Meta:
    name = "paged_attention"
    if query.ndim != 3 or key_pool.ndim != 4 or value_pool.ndim != 4:
        fail(
            name,
            "expected query [T, Hq, D], key_pool [blocks, block_size, H, D] and value_pool "
            f"[blocks, block_size, H, Dv], got {text(query.shape)}, {text(key_pool.shape)} and "
            f"{text(value_pool.shape)}",
        )
    if not all(map(same, key_pool.shape[:3], value_pool.shape[:3])):
        fail(
            name,
            f"key_pool {text(key_pool.shape)} and value_pool {text(value_pool.shape)} must agree "
            "in all dims but the last",
        )
    tokens, heads, size = query.shape
    kv_heads = key_pool.shape[2]
    if not same(size, head_size(name, "key_pool", key_pool)):
        fail(
            name,
            f"query {text(query.shape)} and key_pool {text(key_pool.shape)} must have one head "
            "size",
        )
    if kv_heads == 0 or heads % kv_heads != 0:
        fail(name, f"{heads} query heads are not a multiple of {kv_heads} key heads")
    if block_table.ndim != 2 or cu_seqlens.ndim != 1 or kv_lens.ndim != 1:
        fail(
            name,
            "expected block_table [B, M], cu_seqlens [B + 1] and kv_lens [B], got "
            f"{text(block_table.shape)}, {text(cu_seqlens.shape)} and {text(kv_lens.shape)}",
        )
    batch = kv_lens.shape[0]
    if not same(block_table.shape[0], batch) or not same(cu_seqlens.shape[0], batch + 1):
        fail(
            name,
            f"block_table {text(block_table.shape)}, cu_seqlens {text(cu_seqlens.shape)} and "
            f"kv_lens {text(kv_lens.shape)} are not of one batch [B, M], [B + 1], [B]",
        )
    if sinks is not None and (sinks.ndim != 1 or not same(sinks.shape[0], heads)):
        fail(name, f"sinks {text(sinks.shape)} must be [{heads}], one for each query head")
    if window < 0:
        fail(name, f"window {window} must be 0 (no window) or a number of positions")
    value_size = head_size(name, "value_pool", value_pool)
    return Meta((tokens, heads, value_size), query.dtype)


op(
    "paged_attention",
    doc="""
    softmax(scale * q . k) . v over the cached keys and values of each token's own sequence, which
    lie in the blocks that its row of block_table names.

    query [T, Hq, D], key_pool [blocks, block_size, H, D], value_pool [blocks, block_size, H, Dv],
    block_table [B, M], cu_seqlens [B + 1], kv_lens [B]; the result is [T, Hq, Dv]. Query head h
    reads key head h // (Hq / H). Position j of sequence b lies in block block_table[b, j //
    block_size] at j % block_size.

    Token t of sequence b (cu_seqlens[b] <= t < cu_seqlens[b + 1]) stands at position p =
    kv_lens[b] - (cu_seqlens[b + 1] - t); kv_lens counts the cached tokens, the new ones included.
    It sees the keys at positions j < kv_lens[b]; with `causal` only j <= p; with a window w > 0
    only j > p - w. softcap c > 0 replaces a score s by c * tanh(s / c). sinks [Hq] adds one term
    e^sinks[h] to head h's denominator. A token that sees no key gets zeros. Scores, weights and
    sums are float32.

    Pools are in any of the dtypes that `kv_append` writes, keys and values each in their own; of
    uint8 the rows are blocks of Q8_0, [blocks, block_size, H, D / 32 * 34]. What they stand for is
    read exactly.

    With `mode` "fast" a backend may round queries and weights to the dtype of pools of 16 bits, as
    instructions that multiply such numbers want it; the sums stay float32. Whether it does depends
    on the machine, on the head size and on how the pools lie in memory, never on batch or position.
    """,
    args=[
        tensor("query", FLOATS),
        tensor("key_pool", POOLS),
        tensor("value_pool", POOLS),
        tensor("block_table", _INT32),
        tensor("cu_seqlens", _INT32),
        tensor("kv_lens", _INT32),
        tensor("sinks", FLOATS, optional=True),
        static("causal", "bool", True),
        static("window", "int", 0),
        static("mode", "str", "exact", modes=("exact", "fast")),
        scalar("scale", "float", keyword_only=True),
        scalar("softcap", "float", 0.0, keyword_only=True),
    ],
    infer=_infer,
    method=False,
    source="Kwon et al., Efficient Memory Management for LLM Serving with PagedAttention, "
    "arXiv:2309.06180",
)
