"""``multi_head_attention_forward`` beside torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError

SIZE, HEADS = 8, 2


def ours(value: Any) -> Any:
    return crt.tensor(value.numpy()) if hasattr(value, "numpy") else value


@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("mask", [None, "bool", "float", "each"])
def test_torch_agrees(batch: int | None, separate: bool, weights: bool, mask: str | None) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    n = () if batch is None else (batch,)
    query, key, value = (torch.randn(length, *n, SIZE) for length in (4, 5, 5))
    whole = torch.randn(3 * SIZE, SIZE)
    options: dict[str, Any] = {"need_weights": weights, "use_separate_proj_weight": separate}
    if separate:
        names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        options.update(zip(names, whole.chunk(3), strict=True))
    if mask == "bool":
        options["attn_mask"] = torch.rand(4, 5) < 0.3
        options["key_padding_mask"] = torch.rand(*n, 5) < 0.2
    elif mask == "float":
        options["attn_mask"] = torch.randn(4, 5)
    elif mask == "each":
        options["attn_mask"] = torch.randn((batch or 1) * HEADS, 4, 5)
    given = (
        *(query, key, value, SIZE, HEADS, None if separate else whole, torch.randn(3 * SIZE)),
        *(torch.randn(SIZE), torch.randn(SIZE), mask is None, 0.0),
        *(torch.randn(SIZE, SIZE), torch.randn(SIZE)),
    )
    want, seen = torch.nn.functional.multi_head_attention_forward(*given, training=False, **options)
    got, found = crt.multi_head_attention_forward(
        *map(ours, given), **{key: ours(value) for key, value in options.items()}
    )
    # Three products of eight terms of size 1 in a row, in float32.
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-4)
    assert (found is None) == (seen is None)
    if found is not None:
        np.testing.assert_allclose(found.numpy(), seen.numpy(), rtol=1e-4, atol=1e-5)


X, W = crt.ones(2, 1, SIZE), crt.ones(3 * SIZE, SIZE)
PROJECTION = crt.ones(SIZE, SIZE)


def attend(*, size: int = SIZE, weight: Any = W, dropout: float = 0.0, **options: Any) -> Any:
    rest = (None, None, None, False, dropout, PROJECTION, None)
    return crt.multi_head_attention_forward(X, X, X, size, HEADS, weight, *rest, **options)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: attend(size=9), "query [2, 1, 8] must be [L, N, 9]"),
        (lambda: attend(weight=None), "a projection is missing"),
        (lambda: attend(use_separate_proj_weight=True), "a projection is missing"),
        (lambda: attend(dropout=0.5, training=True), "dropout_p 0.5 drops at random"),
        (lambda: attend(is_causal=True), "give the mask too"),
    ],
)
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    assert text in str(caught.value)
