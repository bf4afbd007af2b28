"""What the operator tests share: the CPU backend under the kit's cases, and PyTorch as the oracle.

The oracle is treated as one more backend: its results stand the same comparison, which checks the
reference's values and the rule's shapes and dtypes at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clika_runtime import dtypes
from clika_runtime.errors import UnsupportedError
from clika_runtime.testing import Case, Operand, _kit, check_case, check_rule

#: What the CPU backend has to serve; a case in another dtype may be declined.
REQUIRED = {"float32", "bfloat16", "int32", "int64", "bool"}


def dtypes_of(case: Case) -> set[str]:
    found = {dtype for _, dtype in _kit.inferred(case)}
    for value in case.args:
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Operand):
                found.add(item.dtype)
    return found


def has_fixed_shapes(case: Case) -> bool:
    """Whether the rule knows all sizes; a call whose sizes depend on data cannot be recorded."""
    return all(None not in shape for shape, _ in _kit.inferred(case))


def check_backend(case: Case, backend: str = "cpu", **options: Any) -> None:
    try:
        check_case(case, backend, **options)
    except UnsupportedError as error:
        if dtypes_of(case) <= REQUIRED:
            raise
        pytest.skip(str(error))


#: torch's names of dtypes that differ from ours.
_TORCH_NAMES = {"float8_e4m3": "float8_e4m3fn"}


def to_torch(torch: Any, value: Any) -> Any:
    if isinstance(value, list):
        return [to_torch(torch, item) for item in value]
    if isinstance(value, dtypes.dtype):
        return getattr(torch, value.name)
    if not isinstance(value, Operand):
        return value
    if value.dtype in ("bfloat16", "float8_e4m3"):
        held = np.array(value.values, np.float32)
        return torch.from_numpy(held).to(getattr(torch, _TORCH_NAMES.get(value.dtype, value.dtype)))
    return torch.from_numpy(np.array(value.values))


def check_oracle(case: Case, oracle: Any) -> None:
    """``oracle(torch, *arguments)`` gives the case's expected shape, dtype and values."""
    torch = pytest.importorskip("torch")
    check_rule(case)
    with torch.inference_mode():
        results = oracle(torch, *(to_torch(torch, value) for value in case.args))
    results = results if isinstance(results, tuple) else (results,)
    wanted = _kit.expected(case)
    for i, (shape, dtype) in enumerate(_kit.inferred(case)):
        got = results[i]
        assert _kit.fits(tuple(got.shape), shape), (
            f"{case}: torch has {tuple(got.shape)}, the rule {shape}"
        )
        assert tuple(got.shape) == wanted[i].shape, f"{case}: torch has {tuple(got.shape)}"
        name = str(got.dtype).removeprefix("torch.")
        wanted_name = _TORCH_NAMES.get(dtype, dtype)
        assert name == wanted_name, f"{case}: torch has dtype {name}, the rule {dtype}"
        values = got.float().numpy() if dtype in ("bfloat16", "float8_e4m3") else got.numpy()
        _kit.compare(case, i, values, wanted[i], dtype)


def pair(torch: Any, input: Any, other: Any) -> tuple[Any, Any]:
    """Two operands as torch functions take them that know no numbers: a number becomes a 0-d tensor
    of the dtype that the number has beside the other operand."""
    if not isinstance(input, torch.Tensor):
        input = _zero_dim(torch, input, other)
    if not isinstance(other, torch.Tensor):
        other = _zero_dim(torch, other, input)
    return input, other


def _zero_dim(torch: Any, number: Any, beside: Any) -> Any:
    dtype = torch.result_type(beside, number)
    # A 0-d tensor beside a 0-d tensor is no longer weak: give it the common dtype itself.
    return torch.scalar_tensor(number, dtype=dtype)
