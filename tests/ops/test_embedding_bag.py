"""Cases, oracle and refusals of ``embedding_bag``; rows of a limited norm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle

CASES = cases("embedding_bag")


def oracle(
    torch: Any, weight: Any, ids: Any, offsets: Any, scales: Any, mode: str, last: bool, pad: Any
) -> Any:
    wide = None if scales is None else scales.double()
    result = torch.nn.functional.embedding_bag(
        ids.long(),
        weight.double(),
        None if offsets is None else offsets.long(),
        mode=mode,
        per_sample_weights=wide,
        include_last_offset=last,
        padding_idx=pad,
    )
    return result.to(weight.dtype)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", [case for case in CASES if case.name != "empty"], ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)


@pytest.mark.parametrize("norm", [2.0, 1.0, 3.0, float("inf")])
def test_rows_of_a_limited_norm(norm: float) -> None:
    torch = pytest.importorskip("torch")
    weight, ids = torch.randn(9, 5), torch.tensor([[1, 3], [3, 8]])
    ours, places = crt.tensor(weight.numpy()), crt.tensor(ids.numpy())
    want = torch.nn.functional.embedding(ids, weight.clone(), max_norm=0.7, norm_type=norm)
    got = crt.embedding(ours, places, max_norm=0.7, norm_type=norm)
    # A few float32 roundings, and torch's 1e-7 beside the norm.
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-6)
    want = torch.nn.functional.embedding_bag(ids, weight.clone(), max_norm=0.7, norm_type=norm)
    got = crt.embedding_bag(ours, places, max_norm=0.7, norm_type=norm)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-6, atol=1e-7)


W, IDS = crt.ones(4, 2), crt.tensor([0, 1, 3])


def offsets(*values: int) -> Any:
    return crt.tensor(list(values))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: crt.embedding_bag(W, IDS), "need offsets [B]"),
        (lambda: crt.embedding_bag(W, IDS.reshape(1, 3), offsets(0)), "offsets must be None"),
        (lambda: crt.embedding_bag(crt.ones(4), IDS, offsets(0)), "weight must be [N, K]"),
        (lambda: crt.embedding_bag(W, IDS, offsets(0), crt.ones(3)), "go with mode 'sum'"),
        (lambda: crt.embedding_bag(W, IDS, offsets(0), padding_idx=4), "padding_idx 4 must be"),
        (lambda: crt.embedding(W, IDS, padding_idx=-5), "padding_idx -5 must be"),
        (lambda: crt.embedding_bag(W, IDS + 1, offsets(0)).numpy(), "id 4 is outside 0 .. 3"),
        (lambda: crt.embedding_bag(W, IDS - 1, offsets(0)).numpy(), "id -1 is outside 0 .. 3"),
        (lambda: crt.embedding_bag(W, IDS, offsets(1)).numpy(), "offsets[0] is 1"),
        (lambda: crt.embedding_bag(W, IDS, offsets(0, 3, 2)).numpy(), "offsets[2] is 2"),
        (lambda: crt.embedding_bag(W, IDS, offsets(0, 4)).numpy(), "offsets[1] is 4"),
        (lambda: crt.embedding_bag(W, IDS, offsets(0), mode="last"), "is not a Mode"),
    ],
)
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    assert text in str(caught.value)
