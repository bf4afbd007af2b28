"""Cases and oracle of decompositions and of what is made of them."""

from __future__ import annotations

from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime import ops
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle

# Torch's in float64: its float32 adds up in float32. Signs of vectors are torch's own affair.
ORACLES: dict[str, Any] = {
    "cholesky": lambda torch, x, upper: torch.linalg.cholesky(x, upper=upper),
    "lu_factor": lambda torch, x: tuple(torch.linalg.lu_factor(x)),
    "lu_factor_ex": lambda torch, x: tuple(torch.linalg.lu_factor_ex(x)),
    "det": lambda torch, x: torch.linalg.det(x),
    "slogdet": lambda torch, x: tuple(torch.linalg.slogdet(x)),
    "inv": lambda torch, x: torch.linalg.inv(x),
    "solve": lambda torch, a, b: torch.linalg.solve(a, b),
    "solve_triangular": lambda torch, a, b, upper, unit: torch.linalg.solve_triangular(
        a, b, upper=upper, unitriangular=unit
    ),
    "qr": lambda torch, x, mode: tuple(torch.linalg.qr(x, mode)),
}
#: What is left in the place of a matrix that has no result is LAPACK's affair; here it is NaN.
GOOD: dict[str, Any] = {
    "cholesky_ex": lambda torch, x, upper: tuple(torch.linalg.cholesky_ex(x, upper=upper)),
    "inv_ex": lambda torch, x: tuple(torch.linalg.inv_ex(x)),
    "solve_ex": lambda torch, a, b: tuple(torch.linalg.solve_ex(a, b)),
}


def without_bad(name: str) -> Any:
    """torch's results, NaN where its info is not 0."""

    def oracle(torch: Any, *args: Any) -> Any:
        result, info = GOOD[name](torch, *args)
        bad = (info != 0).reshape(*info.shape, *[1] * (result.ndim - info.ndim))
        return torch.where(bad, float("nan"), result), info

    return oracle


ORACLES.update({name: without_bad(name) for name in GOOD})
CASES = [case for name in (*ORACLES, "eigh", "svd") for case in cases(name)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", [case for case in CASES if case.op in ORACLES], ids=str)
def test_oracle(case: Any) -> None:
    def oracle(torch: Any, *args: Any) -> Any:
        tensors = [x.double() if isinstance(x, torch.Tensor) else x for x in args]
        results = ORACLES[case.op](torch, *tensors)
        results = results if isinstance(results, tuple) else (results,)
        dtype = getattr(torch, case.dtype)
        return tuple(x.to(dtype) if x.is_floating_point() else x for x in results)

    check_oracle(case, oracle)


def test_refusals() -> None:
    square, flat = crt.ones(2, 2), crt.ones(2, 3)
    for call, problem in (
        (lambda: ops.cholesky(crt.tensor([[1.0, 2.0], [2.0, 1.0]])).tolist(), "positive definite"),
        (lambda: ops.inv(square).tolist(), "singular"),
        (lambda: ops.solve(square, square).tolist(), "singular"),
        (lambda: ops.det(flat), "square"),
        (lambda: ops.det(crt.ones(3)), "matrices"),
        (lambda: ops.inv(square.to(crt.int32)), "dtype int32"),
        (lambda: ops.solve(square, crt.ones(3, 1)), "does not fit"),
        (lambda: ops.solve(square, crt.ones(3, 2, 1, 1)), "does not fit|broadcast"),
        (lambda: ops.qr(square, "full"), "is not a Mode"),
        (lambda: ops.eigh(crt.full((2, 2), float("nan")))[0].tolist(), "not finite"),
        (lambda: ops.svd(crt.full((2, 2), float("inf")))[1].tolist(), "not finite"),
    ):
        with pytest.raises(InvalidArgumentError, match=problem):
            call()
