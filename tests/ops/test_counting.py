"""Cases and oracles of bins and histograms."""

from __future__ import annotations

from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle, has_fixed_shapes


def histogram(torch: Any, x: Any, bins: Any, weight: Any, ends: Any, density: bool) -> Any:
    return tuple(
        torch.histogram(x, bins, range=ends, weight=weight, density=density)
        if ends is not None
        else torch.histogram(x, bins, weight=weight, density=density)
    )


ORACLES: dict[str, Any] = {
    "bincount": lambda torch, x, weights, minlength: torch.bincount(x.long(), weights, minlength),
    "histc": lambda torch, x, bins, low, high: torch.histc(x, bins, low, high),
    "histogram": histogram,
}
CASES = [case for name in ORACLES for case in cases(name)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", list(filter(has_fixed_shapes, CASES)), ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, ORACLES[case.op])


def test_refusals() -> None:
    x = crt.tensor([0.0, 1.0, 2.0])
    for call in (
        lambda: crt.bincount(crt.tensor([1, -1])),
        lambda: crt.bincount(crt.tensor([2**63 - 1])),
        lambda: crt.bincount(crt.tensor([1]), crt.zeros(2)),
        lambda: crt.histc(x, 0),
        lambda: crt.histc(crt.tensor([float("inf"), 1.0])).tolist(),
        lambda: crt.histc(x, 3, 2.0, 1.0).tolist(),
        lambda: crt.histogram(x, 0),
        lambda: crt.histogram(x, 2.5),
        lambda: crt.histogram(x, crt.tensor([1.0])),
        lambda: crt.histogram(x, crt.tensor([1.0, 0.0]))[0].tolist(),
        lambda: crt.histogram(x, 4, range=(0.0, float("nan"))),
        lambda: crt.histogram(x, 4, weight=crt.zeros(2)),
    ):
        with pytest.raises(crt.InvalidArgumentError):
            call()
    wide = crt.tensor([-3e38, 0.0, 3e38])  # whose range is beyond float32
    assert crt.histc(wide, 4, -3e38, 3e38).sum().item() == 3
    with pytest.raises(crt.OutOfMemoryError):  # 2^43 bytes
        crt.bincount(crt.tensor([2**40]))
