"""Cases and oracle of reductions over segments."""

from __future__ import annotations

from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle

ORACLES: dict[str, Any] = {
    "segment_reduce": lambda torch, x, how, lengths, offsets, axis, initial: torch.segment_reduce(
        x.contiguous(),
        how,
        lengths=None if lengths is None else lengths.long(),
        offsets=offsets,
        axis=axis,
        initial=initial,
        unsafe=True,
    ),
}
CASES = [case for name in ORACLES for case in cases(name)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, ORACLES[case.op])


def test_segments_that_do_not_fit() -> None:
    x = crt.ones(4)
    for call in (
        lambda: crt.segment_reduce(x, "sum"),
        lambda: crt.segment_reduce(x, "sum", lengths=crt.tensor([5])).tolist(),
        lambda: crt.segment_reduce(x, "sum", lengths=crt.tensor([3, -1])).tolist(),
        lambda: crt.segment_reduce(x, "sum", lengths=crt.tensor([2**62, 2**62])).tolist(),
        lambda: crt.segment_reduce(x, "sum", offsets=crt.tensor([0, 5])).tolist(),
        lambda: crt.segment_reduce(x, "sum", offsets=crt.tensor([3, 1])).tolist(),
        lambda: crt.segment_reduce(x, "sum", offsets=crt.tensor([-1, 1])).tolist(),
        lambda: crt.segment_reduce(x, "sum", lengths=crt.tensor([[4]])),
        lambda: crt.segment_reduce(crt.tensor(1.0), "sum", lengths=crt.tensor([1])),
    ):
        with pytest.raises(crt.InvalidArgumentError):
            call()
