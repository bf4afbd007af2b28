"""Cases, oracle and refusals of the operators over packed sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle

CASES = [case for name in ("packed_slots", "rotary_embedding") for case in cases(name)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


def oracle(torch: Any, x: Any, cos: Any, sin: Any, positions: Any, mode: str) -> Any:
    """Pairs as complex numbers, turned by products."""
    r = cos.shape[1]
    rows = torch.arange(len(x)) if positions is None else positions.long()
    turn = torch.complex(cos.double(), sin.double())[rows][:, None]
    part = x[..., : 2 * r].double()
    if mode == "gptj":
        pairs = torch.view_as_complex(part.reshape(*part.shape[:-1], r, 2).contiguous())
        both = torch.view_as_real(pairs * turn).flatten(-2)
    else:
        pairs = torch.complex(part[..., :r], part[..., r:]) * turn
        both = torch.cat([pairs.real, pairs.imag], -1)
    return torch.cat([both, x[..., 2 * r :].double()], -1).to(x.dtype)


@pytest.mark.parametrize("case", cases("rotary_embedding"), ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)


@pytest.mark.parametrize("interleaved", [False, True])
def test_tables_turn_as_frequencies_do(interleaved: bool) -> None:
    x = crt.tensor(np.random.default_rng(0).standard_normal((5, 2, 16)).astype(np.float32))
    places = crt.tensor([0, 3, 900, 7, 1])
    cos, sin = crt.generate_rotary_cache(16, 1000)
    got = crt.rotary_embedding(x, cos, sin, places, "gptj" if interleaved else "neox")
    rates = crt.tensor([10000.0 ** (-2 * i / 16) for i in range(8)])
    want = crt.rotary(x, places.to(crt.int32), rates, interleaved)
    # The same angles in float32, by two ways: an ulp of an angle of 900 is 6e-5.
    np.testing.assert_allclose(got.numpy(), want.numpy(), atol=2e-4)


INT = crt.int32
ENDS, TABLE = crt.tensor([0, 2]).to(INT), crt.tensor([[0, 1]]).to(INT)
X, COS = crt.ones(2, 1, 4), crt.ones(5, 2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: crt.packed_slots(ENDS, ENDS, TABLE, 3, 4), "cu_seqlens_q ends at 2"),
        (lambda: crt.packed_slots(ENDS + 1, ENDS, TABLE, 2, 4), "they start at 1 and 0"),
        (lambda: crt.packed_slots(ENDS, ENDS * 9, TABLE, 2, 4), "has 18 tokens, 2 of them new"),
        (lambda: crt.packed_slots(ENDS * 2, ENDS, TABLE, 4, 4), "has 2 tokens, 4 of them new"),
        (lambda: crt.packed_slots(ENDS, ENDS, TABLE - 1, 2, 4), "which is no block"),
        (lambda: crt.packed_slots(ENDS, ENDS, TABLE, -1, 4), "length -1 must not be negative"),
        (lambda: crt.packed_slots(ENDS, ENDS, TABLE, 2, 0), "block_size 0 must be between"),
        (lambda: crt.packed_slots(ENDS, ENDS, ENDS, 2, 4), "expected cu_seqlens_q [B + 1]"),
        (lambda: crt.rotary_embedding(X, COS, COS, crt.tensor([0, 5])), "positions[1] is 5"),
        (lambda: crt.rotary_embedding(X, COS, COS, crt.tensor([0, -1])), "positions[1] is -1"),
        (lambda: crt.rotary_embedding(X, COS, COS), "must have one row for each token"),
        (lambda: crt.rotary_embedding(X, crt.ones(5, 3), crt.ones(5, 3)), "turns 6 values"),
        (lambda: crt.rotary_embedding(X, COS, crt.ones(5, 1)), "must both be [P, R]"),
        (lambda: crt.rotary_embedding(X, COS, COS, None, "llama"), "is not a RotaryMode"),
    ],
)
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        result = call()
        (result[0] if isinstance(result, tuple) else result).numpy()
    assert text in str(caught.value)
