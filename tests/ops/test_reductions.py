"""Cases and oracles of reductions."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle


def dims(x: Any, dim: Any) -> Any:
    return tuple(range(x.ndim)) if dim is None else dim


def product(torch: Any, x: Any, dim: Any, keep: bool, dtype: Any) -> Any:
    """torch multiplies over one dim at a time, and rounds in between."""
    over = dims(x, dim)
    kind = torch.prod(x, dtype=dtype).dtype
    x = x.double() if kind.is_floating_point else x
    for d in (over,) if isinstance(over, int) else over:
        x = torch.prod(x, d, True)
    return (x if keep or x.ndim == 0 else x.squeeze(over)).to(kind)


def spread(name: str) -> Any:
    def oracle(torch: Any, x: Any, dim: Any, unbiased: Any, keep: bool, correction: Any) -> Any:
        if unbiased is not None:
            correction = int(unbiased)
        correction = 1 if correction is None else correction
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns where nothing is left
            return getattr(torch, name)(x, dims(x, dim), correction=correction, keepdim=keep)

    return oracle


ORACLES: dict[str, Any] = {
    "sum": lambda torch, x, dim, keep, dtype: torch.sum(x, dims(x, dim), keep, dtype=dtype),
    "mean": lambda torch, x, dim, keep, dtype: torch.mean(x, dims(x, dim), keep, dtype=dtype),
    "prod": product,
    "amax": lambda torch, x, dim, keep: torch.amax(x, dims(x, dim), keep),
    "amin": lambda torch, x, dim, keep: torch.amin(x, dims(x, dim), keep),
    "any": lambda torch, x, dim, keep: torch.any(x, dims(x, dim), keep),
    "all": lambda torch, x, dim, keep: torch.all(x, dims(x, dim), keep),
    "nansum": lambda torch, x, dim, keep, dtype: torch.nansum(x, dims(x, dim), keep, dtype=dtype),
    "nanmean": lambda torch, x, dim, keep, dtype: torch.nanmean(x, dims(x, dim), keep, dtype=dtype),
    "aminmax": lambda torch, x, dim, keep: (
        torch.amin(x, dims(x, dim), keep),
        torch.amax(x, dims(x, dim), keep),
    ),
    "count_nonzero": lambda torch, x, dim: torch.count_nonzero(x, dims(x, dim)),
    "var": spread("var"),
    "std": spread("std"),
    "var_mean": spread("var_mean"),
    "std_mean": spread("std_mean"),
    "logsumexp": lambda torch, x, dim, keep: torch.logsumexp(x, dims(x, dim), keep),
    "vector_norm": lambda torch, x, p, dim, keep, dtype: torch.linalg.vector_norm(
        x.double() if x.dtype == torch.float32 else x, p, dim, keep, dtype=dtype
    ).to(dtype or x.dtype),
    "dist": lambda torch, x, y, p: torch.dist(
        *torch.broadcast_tensors(x, y.to(torch.result_type(x, y))), p
    ).to(torch.result_type(x, y)),
    "trace": lambda torch, x: torch.trace(x.long() if x.dtype == torch.bool else x),
}
CASES = [case for name in ORACLES for case in cases(name)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


# torch multiplies lane by lane in float32, which overflows on the way to these products.
@pytest.mark.parametrize("case", [c for c in CASES if c.name != "far-4"], ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, ORACLES[case.op])


def test_spread_takes_the_forms_of_torch() -> None:
    x = crt.rand(3, 5, seed=1)
    assert x.var(False).tolist() == x.var(correction=0).tolist()
    assert x.var(1, False, True).tolist() == x.var(1, correction=0, keepdim=True).tolist()
    assert x.std(-1, True).tolist() == x.std(-1).tolist()
    for call in (
        lambda: crt.var(x, unbiased=True, correction=0),
        lambda: crt.std(x, correction=float("nan")),
        lambda: crt.vector_norm(x, float("nan")),
        lambda: crt.vector_norm(crt.zeros(3, 0), -1, 1),
        lambda: crt.vector_norm(x, dtype=crt.int64),
        lambda: crt.norm(x, "nuclear"),
        lambda: crt.norm(crt.zeros(3), "nuc"),
        lambda: crt.aminmax(crt.zeros(0)),
        lambda: crt.ops.trace(crt.zeros(3)),
        lambda: crt.nanmean(x, dtype=crt.int64),
    ):
        with pytest.raises(crt.InvalidArgumentError):
            call()


def test_norm() -> None:
    x = crt.tensor([[3.0, -4.0], [0.0, 2.0]])
    assert crt.norm(x, dim=1).tolist() == [5.0, 2.0] and crt.norm(x, 1).item() == 9.0
    assert crt.norm(x, "fro", keepdim=True).shape == (1, 1)
    # (a + b)^2 of two singular values: the sum of squares, and twice the determinant.
    assert abs(crt.norm(x, "nuc").item() - (29 + 2 * 6) ** 0.5) < 1e-5


def test_max_and_min_of_two_tensors() -> None:
    a, b = crt.tensor([1.0, 5.0]), crt.tensor([3.0, 2.0])
    assert crt.max(a, b).tolist() == [3.0, 5.0] and a.min(other=b).tolist() == [1.0, 2.0]
    values, indices = crt.max(crt.tensor([[True, False], [False, False]]), 1)
    assert values.tolist() == [True, False] and indices.tolist() == [0, 0]


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "var", "logsumexp", "vector_norm"])
def test_threads_do_not_change_bits(name: str) -> None:
    """Each result is folded in one order; with one thread and with two in another process."""
    program = f"""
import clika_runtime as crt, hashlib
x = crt.randn(70, 3000, seed=1)
parts = [crt.{name}(v, dim=d).bytes() for v in (x, x.t()) for d in (None, 0, 1)]
print(hashlib.sha256(b"".join(parts)).hexdigest())
"""
    found = set()
    for threads in ("1", "2"):
        environment = {**os.environ, "CLIKA_RT_NUM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(done.stdout)
    assert len(found) == 1


@pytest.mark.parametrize("level", ["portable", "avx2"])
def test_lower_levels_of_the_processor(level: str) -> None:
    """The kernels are compiled for several levels; all of them give results within the bounds."""
    program = f"""
import sys
from clika_runtime.testing import run_cases
report = run_cases("cpu", {[*ORACLES, "argmax", "argmin", "softmax"]!r}, ["float32", "bfloat16"])
print(report)
sys.exit(not report)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "CLIKA_RT_CPU_ISA": level},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
