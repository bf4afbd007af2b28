"""Cases and oracle of ``bitcast``."""

from __future__ import annotations

from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime import ops
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def oracle(torch: Any, input: Any, dtype: Any) -> Any:
    if dtype == torch.bool:  # torch keeps bytes that are neither 0 nor 1
        return input.contiguous().view(torch.uint8) != 0
    return input.contiguous().view(dtype)


@pytest.mark.parametrize("case", cases("bitcast"), ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", cases("bitcast"), ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, oracle)


@pytest.mark.parametrize("dtype", [crt.bfloat16, crt.float16])
def test_bits_of_16_bit_floats(dtype: Any) -> None:
    x = crt.tensor([1.0, -2.5, 0.0]).to(dtype)
    bits = ops.bitcast(x, crt.int16)
    assert (
        bits.tolist()
        == {
            "bfloat16": [0x3F80, 0xC020 - 0x10000, 0],
            "float16": [0x3C00, 0xC100 - 0x10000, 0],
        }[dtype.name]
    )
    assert ops.bitcast(bits, dtype).tolist() == [1.0, -2.5, 0.0]


def test_another_width_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="bitcast: input has dtype float32, 32 bits"):
        ops.bitcast(crt.ones(2), crt.int64)
