"""Attention in the forms that models call: functions over `scaled_dot_product_attention`,
`paged_attention` and `kv_append`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from .. import dtypes, ops
from ._shapes import fail, known, same, text

if TYPE_CHECKING:
    from .._native._core import Tensor
    from ..device import Device
    from ..dtypes import dtype as DType


# ---------------------------------------------------------------- whole sequences
def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    num_heads: int,
    kv_num_heads: int | None = None,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    softcap: float = 0.0,
) -> Tensor:
    """`scaled_dot_product_attention` over heads that are folded into the last dim.

    query [B, L, H * E], key [B, S, G * E], value [B, S, G * V] with H `num_heads` and G
    `kv_num_heads` (H by default); the result is [B, L, H * V]. attn_mask broadcasts to [B, H, L,
    S].
    """
    name = "multi_head_attention"
    few = num_heads if kv_num_heads is None else kv_num_heads
    for what, x, heads in (
        ("query", query, num_heads),
        ("key", key, few),
        ("value", value, few),
    ):
        _check_heads(name, what, x, heads, 3)
    q, k, v = [
        ops.permute(ops.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads)), (0, 2, 1, 3))
        for x, heads in ((query, num_heads), (key, few), (value, few))
    ]
    result = ops.scaled_dot_product_attention(
        q, k, v, attn_mask, 0.0, is_causal, scale, few != num_heads, softcap=softcap
    )
    size = result.shape[3]
    result = ops.permute(result, (0, 2, 1, 3))
    return ops.reshape(result, (*query.shape[:2], num_heads * size))


def _check_heads(name: str, what: str, x: Any, heads: int, rank: int) -> None:
    if isinstance(heads, bool) or not isinstance(heads, int) or heads < 1:
        fail(name, f"the number of heads must be a positive int, got {heads!r}")
    size = x.shape[-1] if len(x.shape) == rank else None
    if size is None or (type(size) is int and size % heads):
        layout = "[B, L, heads * size]" if rank == 3 else "[T, heads * size]"
        fail(name, f"{what} {text(x.shape)} must be {layout} with {heads} heads")


# ---------------------------------------------------------------- rotary tables and norms of heads
_LARGEST_HEAD = 2**16


def generate_rotary_cache(
    head_dim: int,
    max_positions: int,
    theta: float = 10000.0,
    scaling: str | None = None,
    scale: float = 1.0,
    low_freq_factor: float = 1.0,
    high_freq_factor: float = 4.0,
    original_max_pos: int = 8192,
    dtype: DType | None = None,
    device: Device | str | None = None,
) -> tuple[Tensor, Tensor]:
    """The tables (cos, sin) of rotary embedding, [max_positions, head_dim / 2]: cosine and sine of
    p * theta^(-2i / head_dim) in row p, column i.

    `scaling` stretches the frequencies for longer contexts: "linear" divides them by `scale`,
    "llama3" only those whose wavelength is long beside `original_max_pos`, with a smooth passage
    between `low_freq_factor` and `high_freq_factor`.
    """
    name = "generate_rotary_cache"
    for what, number in (("head_dim", head_dim), ("max_positions", max_positions)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            fail(name, f"{what} must be a positive int, got {number!r}")
    if head_dim > _LARGEST_HEAD:
        fail(name, f"head_dim {head_dim} must be at most {_LARGEST_HEAD}")
    if head_dim % 2:
        fail(name, f"head_dim {head_dim} must be even: the values are turned in pairs")
    if theta <= 0 or scale <= 0:
        fail(name, f"theta {theta} and scale {scale} must be positive")
    if scaling not in (None, "none", "linear", "llama3"):
        fail("scaling", f"{scaling!r} is not a Scaling; choose one of 'none', 'linear', 'llama3'")
    rates = [theta ** (-2 * i / head_dim) for i in range(head_dim // 2)]
    if scaling == "linear":
        rates = [rate / scale for rate in rates]
    elif scaling == "llama3":
        if not 0 < low_freq_factor < high_freq_factor or original_max_pos < 1:
            fail(
                name,
                f"llama3 needs 0 < low_freq_factor ({low_freq_factor}) < high_freq_factor "
                f"({high_freq_factor}) and a positive original_max_pos ({original_max_pos})",
            )
        rates = [
            _llama3(rate, scale, low_freq_factor, high_freq_factor, original_max_pos)
            for rate in rates
        ]
    from array import array

    from .._native._core import Tensor

    data = array("f", rates).tobytes()
    inv_freq = Tensor.from_bytes(data, (1, head_dim // 2), dtypes.float32)
    if device is not None:
        inv_freq = inv_freq.to(device)
    places = ops.arange(max_positions, dtype=dtypes.float32, device=inv_freq.device)
    angles = ops.mul(ops.unsqueeze(places, 1), inv_freq)
    wanted = dtypes.float32 if dtype is None else dtype
    return ops.cast(ops.cos(angles), wanted), ops.cast(ops.sin(angles), wanted)


def _llama3(rate: float, scale: float, low: float, high: float, window: int) -> float:
    """The frequency rule of Llama 3.1: long waves are divided by ``scale``, short ones stay."""
    turns = window * rate / (2 * math.pi)  # within the original window
    if turns < low:
        return rate / scale
    if turns > high:
        return rate
    kept = (turns - low) / (high - low)
    return (1 - kept) * rate / scale + kept * rate


def qk_rms_norm(
    query: Tensor,
    key: Tensor,
    q_norm_gain: Tensor,
    k_norm_gain: Tensor,
    eps: float = 1e-6,
) -> tuple[Tensor, Tensor]:
    """`rms_norm` of each head of query and key: the pair (query, key).

    query [..., H * D] and key [..., G * D] with the gains [D]; heads in a dim of their own are fine
    too.
    """
    return _norm_heads("query", query, q_norm_gain, eps), _norm_heads("key", key, k_norm_gain, eps)


def _norm_heads(what: str, x: Any, gain: Any, eps: float) -> Any:
    size = gain.shape[0] if len(gain.shape) == 1 else 0
    last = x.shape[-1] if len(x.shape) else 0
    if known(size, 0) or (type(last) is int and type(size) is int and last % size):
        fail(
            "qk_rms_norm",
            f"{what} {text(x.shape)} must hold heads of the size of the gain {text(gain.shape)}",
        )
    heads = ops.reshape(x, (*x.shape[:-1], last // size, size))
    return ops.reshape(ops.rms_norm(heads, size, gain, eps), tuple(x.shape))


# ---------------------------------------------------------------- packed sequences over a cache
def group_query_attention_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_k: int | None = None,
    max_seqlen_q: int | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    kvcache_start: Tensor | None = None,
    rope_cos: Tensor | None = None,
    rope_sin: Tensor | None = None,
    is_causal: bool = True,
    rotary_mode: str = "neox",
    num_heads: int | None = None,
    kv_num_heads: int | None = None,
    out_present_key: Tensor | None = None,
    out_present_value: Tensor | None = None,
    slot_ids: Tensor | None = None,
    block_table: Tensor | None = None,
    q_norm_gain: Tensor | None = None,
    k_norm_gain: Tensor | None = None,
    qk_norm_eps: float | None = None,
    head_sink: Tensor | None = None,
    scale: float | None = None,
    window_size: int = 0,
    softcap: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention of packed sequences with grouped heads over a cache: (attention, present_key,
    present_value).

    query [T, H * D], key and value [T, G * D] with H `num_heads` and G `kv_num_heads`, the new
    tokens of B sequences one after the other. cu_seqlens_q and cu_seqlens_k [B + 1] int32 are the
    cumulative lengths of the new tokens and of the whole sequences. First query and key are turned
    by the tables `rope_cos` and `rope_sin` at their positions, then normalized per head
    (`q_norm_gain`, `k_norm_gain` [D] with `qk_norm_eps`), then appended to the cache, then
    attended to.

    A continuous cache is past_key and past_value [max_seqs, G, max_seq, D] (with `kvcache_start`,
    whose values are not read, or without it); sequence b has row slot_ids[b], or b. With
    `block_table` [B, M] int32 it is paged: [blocks, G, block_size, D], -1 behind a sequence's last
    block. The cache is written in place where it is given again as out_present_key and
    out_present_value, else copied first. Without a cache key and value are the whole sequences, and
    `max_seqlen_k` must be given.

    `window_size` w > 0: a token sees the last w positions, its own included. head_sink [H] adds a
    virtual score to the denominator; softcap c > 0 replaces a score s by c * tanh(s / c); `scale`
    is 1 / sqrt(D) unless given.
    """
    name = "group_query_attention_varlen"
    if num_heads is None or kv_num_heads is None:
        fail(name, "num_heads and kv_num_heads must be given: they split the last dim into heads")
    for what, x, heads in (
        ("query", query, num_heads),
        ("key", key, kv_num_heads),
        ("value", value, kv_num_heads),
    ):
        _check_heads(name, what, x, heads, 2)
    if (past_key is None) != (past_value is None):
        fail(name, "past_key and past_value go together")
    if (rope_cos is None) != (rope_sin is None):
        fail(name, "rope_cos and rope_sin go together")
    if (q_norm_gain is None) != (k_norm_gain is None) or (q_norm_gain is None) != (
        qk_norm_eps is None
    ):
        fail(name, "q_norm_gain, k_norm_gain and qk_norm_eps go together")
    q = _split_heads(query, num_heads)
    k, v = _split_heads(key, kv_num_heads), _split_heads(value, kv_num_heads)
    cached = past_key is not None and past_value is not None
    if cached:
        present_key: Any = _target(past_key, out_present_key)
        present_value: Any = _target(past_value, out_present_value)
        keys, values = _as_pool(present_key), _as_pool(present_value)
        table = _blocks_of(name, keys, cu_seqlens_k, slot_ids, block_table)
        q_places, slots = _slots(cu_seqlens_q, cu_seqlens_k, table, q, keys)
        k_places = q_places
    else:
        if out_present_key is not None or out_present_value is not None:
            fail(name, "out_present_key and out_present_value go with past_key and past_value")
        if max_seqlen_k is None:
            fail(name, "max_seqlen_k must be given where there is no cache")
        # The packed tokens are a pool with one position to a block.
        table = _consecutive(cu_seqlens_k, max_seqlen_k, k)
        q_places, _ = _slots(cu_seqlens_q, cu_seqlens_k, table, q, None)
        k_places, slots = _slots(cu_seqlens_k, cu_seqlens_k, table, k, None)
    if rope_cos is not None and rope_sin is not None:
        q = ops.rotary_embedding(q, rope_cos, rope_sin, q_places, cast(Any, rotary_mode))
        k = ops.rotary_embedding(k, rope_cos, rope_sin, k_places, cast(Any, rotary_mode))
    if q_norm_gain is not None and k_norm_gain is not None and qk_norm_eps is not None:
        q = ops.rms_norm(q, q.shape[-1], q_norm_gain, qk_norm_eps)
        k = ops.rms_norm(k, k.shape[-1], k_norm_gain, qk_norm_eps)
    if cached:
        ops.kv_append(keys, k, slots)
        ops.kv_append(values, v, slots)
    else:
        keys, values = ops.unsqueeze(k, 1), ops.unsqueeze(v, 1)
        present_key, present_value = ops.reshape(k, tuple(key.shape)), value
    attention = _attend(
        name,
        q,
        keys,
        values,
        table,
        (cu_seqlens_q, cu_seqlens_k),
        head_sink,
        is_causal,
        window_size,
        scale,
        softcap,
    )
    return attention, present_key, present_value


def attention_over_cache(
    query: Tensor,
    past_key: Tensor,
    past_value: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_k: int | None = None,
    max_seqlen_q: int | None = None,
    kvcache_start: Tensor | None = None,
    rope_cos: Tensor | None = None,
    rope_sin: Tensor | None = None,
    is_causal: bool = True,
    rotary_mode: str = "neox",
    num_heads: int | None = None,
    slot_ids: Tensor | None = None,
    block_table: Tensor | None = None,
    q_norm_gain: Tensor | None = None,
    qk_norm_eps: float | None = None,
    head_sink: Tensor | None = None,
    scale: float | None = None,
    window_size: int = 0,
    softcap: float = 0.0,
) -> Tensor:
    """Attention of packed queries over a cache that stays as it is: [T, H * D].

    The query and the cache are those of `group_query_attention_varlen`; nothing is appended, and
    only the query is turned by the tables. cu_seqlens_k counts what the cache holds; token i of a
    sequence stands at position k_len - q_len + i.
    """
    name = "attention_over_cache"
    if num_heads is None:
        fail(name, "num_heads must be given: it splits the last dim of query into heads")
    _check_heads(name, "query", query, num_heads, 2)
    if (rope_cos is None) != (rope_sin is None):
        fail(name, "rope_cos and rope_sin go together")
    if (q_norm_gain is None) != (qk_norm_eps is None):
        fail(name, "q_norm_gain and qk_norm_eps go together")
    q = _split_heads(query, num_heads)
    keys, values = _as_pool(past_key), _as_pool(past_value)
    table = _blocks_of(name, keys, cu_seqlens_k, slot_ids, block_table)
    if rope_cos is not None and rope_sin is not None:
        places, _ = _slots(cu_seqlens_q, cu_seqlens_k, table, q, keys)
        q = ops.rotary_embedding(q, rope_cos, rope_sin, places, cast(Any, rotary_mode))
    if q_norm_gain is not None and qk_norm_eps is not None:
        q = ops.rms_norm(q, q.shape[-1], q_norm_gain, qk_norm_eps)
    return _attend(
        name,
        q,
        keys,
        values,
        table,
        (cu_seqlens_q, cu_seqlens_k),
        head_sink,
        is_causal,
        window_size,
        scale,
        softcap,
    )


def _split_heads(x: Any, heads: int) -> Any:
    tokens, size = x.shape
    return ops.reshape(x, (tokens, heads, size // heads))


def _target(past: Any, out: Any) -> Any:
    """The cache that is written: ``past`` itself where it is also ``out``, else a copy of it."""
    if out is past:
        return past
    return ops.copy(past) if out is None else ops.copy_(out, past)


def _as_pool(cache: Any) -> Any:
    """A cache [blocks, G, block_size, D] as the pool [blocks, block_size, G, D] of `kv_append`."""
    if len(cache.shape) != 4:
        fail("attention", f"a cache must be [blocks, G, block_size, D], got {text(cache.shape)}")
    return ops.permute(cache, (0, 2, 1, 3))


def _blocks_of(name: str, pool: Any, cu_seqlens: Any, slot_ids: Any, block_table: Any) -> Any:
    """The block table [B, M]; a continuous cache has one block for each sequence."""
    if block_table is not None:
        if slot_ids is not None:
            fail(name, "slot_ids go with a continuous cache, block_table with a paged one")
        return block_table
    batch = cu_seqlens.shape[0] - 1
    if slot_ids is None:
        if type(batch) is int and type(pool.shape[0]) is int and batch > pool.shape[0]:
            fail(name, f"{batch} sequences need as many rows of the cache, it has {pool.shape[0]}")
        slot_ids = ops.arange(batch, dtype=dtypes.int32, device=pool.device)
    elif len(slot_ids.shape) != 1 or not same(slot_ids.shape[0], batch):
        fail(name, f"slot_ids {text(slot_ids.shape)} must be [{batch}]")
    return ops.unsqueeze(slot_ids, 1)


def _slots(cu_q: Any, cu_k: Any, table: Any, x: Any, pool: Any) -> Any:
    size = 1 if pool is None else pool.shape[1]
    return ops.packed_slots(cu_q, cu_k, table, x.shape[0], size)


def _consecutive(cu_seqlens: Any, longest: int, k: Any) -> Any:
    """[B, longest]: position j of sequence b is token cu_seqlens[b] + j."""
    starts = ops.narrow(cu_seqlens, 0, 0, cu_seqlens.shape[0] - 1)
    steps = ops.arange(longest, dtype=dtypes.int32, device=k.device)
    table = ops.add(ops.unsqueeze(starts, 1), ops.unsqueeze(steps, 0))
    return ops.clamp(table, 0, max=max(k.shape[0] - 1, 0))


def _attend(
    name: str,
    q: Any,
    keys: Any,
    values: Any,
    table: Any,
    cu_seqlens: tuple[Any, Any],
    head_sink: Any,
    is_causal: bool,
    window: int,
    scale: float | None,
    softcap: float,
) -> Any:
    tokens, heads, size = q.shape
    cu_q, cu_k = cu_seqlens
    batch = cu_k.shape[0] - 1
    lengths = ops.sub(ops.narrow(cu_k, 0, 1, batch), ops.narrow(cu_k, 0, 0, batch))
    result = ops.paged_attention(
        q,
        keys,
        values,
        ops.contiguous(table),
        cu_q,
        lengths,
        head_sink,
        is_causal,
        window,
        scale=1 / math.sqrt(size) if scale is None else scale,
        softcap=softcap,
    )
    return ops.reshape(result, (tokens, heads * result.shape[2]))
