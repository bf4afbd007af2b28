"""Cases of ``paged_attention``; the oracle is torch's attention over the gathered sequence."""

from __future__ import annotations

from typing import Any

import gguf
import pytest

from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle

CASES = cases("paged_attention")


def held(torch: Any, pool: Any) -> Any:
    """What the rows of a pool stand for."""
    if pool.dtype != torch.uint8:
        return pool.float()
    flat = gguf.quants.dequantize(pool.flatten(0, 2).numpy(), gguf.GGMLQuantizationType.Q8_0)
    return torch.from_numpy(flat).view(*pool.shape[:3], -1)


def oracle(
    torch: Any,
    query: Any,
    key_pool: Any,
    value_pool: Any,
    table: Any,
    cu_seqlens: Any,
    kv_lens: Any,
    sinks: Any,
    causal: bool,
    window: int,
    mode: str,
    scale: float,
    softcap: float,
) -> Any:
    key_pool, value_pool = (held(torch, pool) for pool in (key_pool, value_pool))
    heads = query.shape[1]
    group = heads // key_pool.shape[2]
    result = torch.zeros(*query.shape[:2], value_pool.shape[3])
    for b, length in enumerate(kv_lens.tolist()):
        first, last = cu_seqlens[b : b + 2].tolist()
        blocks = table[b].long()
        keys, values = (
            pool[blocks].flatten(0, 1)[:length].float().repeat_interleave(group, 1).transpose(0, 1)
            for pool in (key_pool, value_pool)
        )
        q = query[first:last].float().transpose(0, 1)
        at = torch.arange(length)
        place = torch.arange(length - (last - first), length)[:, None]
        seen = at <= place if causal else torch.ones(last - first, length, dtype=torch.bool)
        if window:
            seen = seen & (at > place - window)
        if softcap or sinks is not None:
            scores = scale * (q @ keys.transpose(1, 2))
            scores = softcap * torch.tanh(scores / softcap) if softcap else scores
            scores = scores.masked_fill(~seen, -torch.inf)
            if sinks is not None:  # a column that no value belongs to
                column = sinks.float()[:, None, None].expand(-1, last - first, 1)
                scores = torch.cat([scores, column], -1)
            weights = torch.softmax(scores, -1)[..., :length]
            out = weights @ values
        else:
            out = torch.nn.functional.scaled_dot_product_attention(
                q, keys, values, attn_mask=seen, scale=scale
            )
        result[first:last] = out.transpose(0, 1)
    return result.to(query.dtype)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)
