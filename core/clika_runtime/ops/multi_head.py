"""PyTorch's multi-head attention with its projections."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .. import dtypes, ops
from ._shapes import fail, text

if TYPE_CHECKING:
    from .._native._core import Tensor

NAME = "multi_head_attention_forward"


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = False,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Projections, attention of `num_heads` heads and the projection of the result: (result [L, N,
    E], weights).

    query [L, N, E], key [S, N, Ek] and value [S, N, Ev], or without N. in_proj_weight [3 E, E]
    holds the projections of the three one after the other, else they are q_proj_weight [E, E],
    k_proj_weight [E, Ek] and v_proj_weight [E, Ev] (`use_separate_proj_weight`); in_proj_bias is
    [3 E].
    bias_k and bias_v [E] are a further key and value, `add_zero_attn` adds one of zeros. A mask of
    bool takes out what is True: attn_mask [L, S] or [N * heads, L, S], key_padding_mask [N, S];
    numbers are added to the scores. The weights are [N, L, S'], or [N, heads, L, S'] without
    `average_attn_weights`, or None without `need_weights`. `dropout_p` has no effect unless
    `training`, which is refused with it; `is_causal` says what the attn_mask is.
    """
    if training and dropout_p:
        fail(NAME, f"dropout_p {dropout_p} drops at random in training, and this is inference")
    if is_causal and attn_mask is None:
        fail(NAME, "is_causal says that attn_mask is causal; give the mask too")
    single = len(query.shape) == 2
    if single:
        query, key, value = (ops.unsqueeze(x, 1) for x in (query, key, value))
    size = query.shape[-1] if len(query.shape) else 0
    if len(query.shape) != 3 or size != embed_dim_to_check or size % num_heads:
        fail(
            NAME,
            f"query {text(query.shape)} must be [L, N, {embed_dim_to_check}] with {num_heads} "
            "heads",
        )
    weights: Any
    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    else:
        weights = (None, None, None) if in_proj_weight is None else ops.chunk(in_proj_weight, 3)
    if any(weight is None for weight in weights):
        fail(NAME, "a projection is missing: give in_proj_weight, or the three separate ones")
    biases: Any = (None, None, None) if in_proj_bias is None else ops.chunk(in_proj_bias, 3)
    q, k, v = (
        ops.linear(x, weight, bias)
        for x, weight, bias in zip((query, key, value), weights, biases, strict=True)
    )
    length, batch = query.shape[:2]
    padding = key_padding_mask
    if padding is not None and single:
        padding = ops.unsqueeze(padding, 0)
    mask = _added(attn_mask, q.dtype)
    if mask is not None and len(mask.shape) == 3:
        mask = ops.reshape(mask, (batch, num_heads, *mask.shape[1:]))
    padded = _added(padding, q.dtype)
    if padded is not None:
        padded = ops.reshape(padded, (batch, 1, 1, padded.shape[-1]))
        mask = padded if mask is None else ops.add(mask, padded)
    extra = [(bias_k, bias_v)] if bias_k is not None and bias_v is not None else []
    if add_zero_attn:
        zeros = ops.zeros(size, dtype=q.dtype, device=q.device)
        extra.append((zeros, zeros))
    for more_k, more_v in extra:
        k = ops.cat([k, ops.expand(ops.reshape(more_k, (1, 1, size)), (1, batch, size))], 0)
        v = ops.cat([v, ops.expand(ops.reshape(more_v, (1, 1, size)), (1, batch, size))], 0)
        mask = mask if mask is None else ops.pad(mask, (0, 1))
    heads = [
        ops.permute(
            ops.reshape(x, (*x.shape[:2], num_heads, size // num_heads)), (1, 2, 0, 3)
        )  # [N, heads, length, E / heads]
        for x in (q, k, v)
    ]
    found: Any = None
    if need_weights:
        scores = ops.matmul(heads[0], ops.transpose(heads[1], -1, -2))
        scores = ops.mul(scores, 1 / math.sqrt(size // num_heads))
        found = ops.softmax(scores if mask is None else ops.add(scores, mask), -1)
        result = ops.matmul(found, heads[2])
        found = ops.mean(found, 1) if average_attn_weights else found
    else:
        result = ops.scaled_dot_product_attention(heads[0], heads[1], heads[2], mask)
    result = ops.reshape(ops.permute(result, (2, 0, 1, 3)), (length, batch, size))
    result = ops.linear(result, out_proj_weight, out_proj_bias)
    if single:
        result = ops.squeeze(result, 1)
        found = None if found is None else ops.squeeze(found, 0)
    return result, found


def _added(mask: Any, dtype: Any) -> Any:
    """A mask as numbers to add."""
    if mask is None or mask.dtype is not dtypes.bool:
        return mask
    zero = ops.zeros((), dtype=dtype, device=mask.device)
    return ops.where(mask, -math.inf, zero)
