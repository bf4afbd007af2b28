"""Cases, oracle and refusals of ``scaled_dot_product_attention`` and ``multi_head_attention``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle

CASES = cases("scaled_dot_product_attention")


def oracle(
    torch: Any,
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    dropout: float,
    causal: bool,
    scale: Any,
    grouped: bool,
    softcap: float,
) -> Any:
    wide = torch.float64
    if mask is not None:
        mask = torch.atleast_2d(mask if mask.dtype is torch.bool else mask.to(wide))
    result = torch.nn.functional.scaled_dot_product_attention(
        q.to(wide), k.to(wide), v.to(wide), mask, dropout, causal, scale=scale, enable_gqa=grouped
    )
    return result.to(q.dtype)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name not in ("softcap", "no-keys")], ids=str
)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)


def test_a_query_does_not_depend_on_its_neighbours() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (crt.tensor(rng.standard_normal((130, 24)).astype(np.float32)) for _ in range(3))
    whole = crt.scaled_dot_product_attention(q, k, v).numpy()
    alone = crt.scaled_dot_product_attention(crt.narrow(q, 0, 77, 1), k, v).numpy()
    assert (whole[77:78] == alone).all()


@pytest.mark.parametrize("few", [1, 2, 6])
def test_multi_head_attention(few: int) -> None:
    torch = pytest.importorskip("torch")
    q = torch.randn(2, 5, 6 * 8)
    k, v = torch.randn(2, 7, few * 8), torch.randn(2, 7, few * 8)

    def heads(x: Any, n: int) -> Any:
        return x.view(*x.shape[:2], n, -1).transpose(1, 2)

    mask = torch.randn(6, 5, 7)
    want = torch.nn.functional.scaled_dot_product_attention(
        heads(q, 6), heads(k, few), heads(v, few), mask, enable_gqa=True
    )
    ours = [crt.tensor(x.numpy()) for x in (q, k, v)]
    got = crt.multi_head_attention(*ours, 6, few, crt.tensor(mask.numpy()))
    # Scores and sums of a few terms of size 1 in float32.
    np.testing.assert_allclose(
        got.numpy(), want.transpose(1, 2).reshape(2, 5, -1).numpy(), rtol=1e-5, atol=1e-5
    )


Q = crt.ones(2, 4, 3, 8)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: crt.scaled_dot_product_attention(Q, Q, crt.ones(2, 4, 2, 8)), "do not fit"),
        (lambda: crt.scaled_dot_product_attention(Q, crt.ones(3, 9), Q), "do not fit"),
        (lambda: crt.scaled_dot_product_attention(crt.ones(8), Q, Q), "expected query [..., L, E]"),
        (lambda: crt.scaled_dot_product_attention(Q, Q.to(crt.float16), Q), "convert them to one"),
        (
            lambda: crt.scaled_dot_product_attention(Q, Q, Q, crt.ones(3, 4)),
            "cannot broadcast [3, 4]",
        ),
        (
            lambda: crt.scaled_dot_product_attention(Q, Q, Q, crt.ones(5, 2, 4, 3, 3)),
            "must broadcast to [2, 4, 3, 3]",
        ),
        (
            lambda: crt.scaled_dot_product_attention(Q, Q, Q, crt.ones(3, 3), is_causal=True),
            "attn_mask and is_causal exclude each other",
        ),
        (
            lambda: crt.scaled_dot_product_attention(Q, Q, Q, crt.tensor([[1]])),
            "attn_mask has dtype int64",
        ),
        (
            lambda: crt.scaled_dot_product_attention(
                Q, crt.ones(2, 3, 3, 8), crt.ones(2, 3, 3, 8), enable_gqa=True
            ),
            "4 query heads are not a multiple of 3",
        ),
        (lambda: crt.scaled_dot_product_attention(Q, Q, Q, dropout_p=0.5).numpy(), "must be 0"),
        (
            lambda: crt.multi_head_attention(crt.ones(1, 2, 6), crt.ones(1, 2, 6), Q, 4),
            "with 4 heads",
        ),
    ],
)
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    assert text in str(caught.value)
