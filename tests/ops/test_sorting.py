"""Cases and oracles of order, search and distinct values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.testing import _kit, cases
from tests.ops.support import check_backend, check_oracle, has_fixed_shapes, to_torch


def search(
    torch: Any, edges: Any, values: Any, sorter: Any, int32: bool, right: bool, side: str
) -> Any:
    dtype = torch.result_type(edges, values)
    values = values.to(dtype) if isinstance(values, torch.Tensor) else values
    return torch.searchsorted(
        edges.to(dtype), values, sorter=sorter, out_int32=int32, right=right or side == "right"
    )


ORACLES: dict[str, Any] = {
    "argsort": lambda torch, x, dim, down, _: torch.sort(x, dim=dim, descending=down, stable=True)[
        1
    ],
    "msort": lambda torch, x: torch.msort(x),
    "quantile": lambda torch, x, q, dim, keep, mode: torch.quantile(
        x, q if isinstance(q, torch.Tensor) else float(q), dim, keep, interpolation=mode
    ),
    "nanquantile": lambda torch, x, q, dim, keep, mode: torch.nanquantile(
        x, q if isinstance(q, torch.Tensor) else float(q), dim, keep, interpolation=mode
    ),
    "searchsorted": search,
    "bucketize": lambda torch, x, edges, int32, right: torch.bucketize(
        x, edges, out_int32=int32, right=right
    ),
    "unique": lambda torch, x, _, inverse, counts, dim: torch.unique(
        x, return_inverse=inverse, return_counts=counts, dim=dim
    ),
    "unique_consecutive": lambda torch, x, inverse, counts, dim: torch.unique_consecutive(
        x, return_inverse=inverse, return_counts=counts, dim=dim
    ),
}
PICKED = [case for name in ("kthvalue", "median", "nanmedian", "mode") for case in cases(name)]
CASES = [case for name in ORACLES for case in cases(name)]


@pytest.mark.parametrize("case", CASES + PICKED, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", list(filter(has_fixed_shapes, CASES + PICKED)), ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, ORACLES[case.op])


@pytest.mark.parametrize("case", PICKED, ids=str)
def test_oracle_of_picks(case: Any) -> None:
    """Values are torch's. Of several equal elements torch may name any; the references name one,
    which is checked to be of that value."""
    torch = pytest.importorskip("torch")
    x, *args = (to_torch(torch, value) for value in case.args)
    wanted = _kit.expected(case)
    if len(wanted) == 1:
        found = getattr(torch, case.op)(x)
        assert found.dtype == x.dtype
        values = (found.float() if x.dtype == torch.bfloat16 else found).reshape(wanted[0].shape)
        _kit.compare(case, 0, values.numpy(), wanted[0], case.dtype)
        return
    values, indices = getattr(torch, case.op)(x, *args)
    assert indices.dtype == torch.int64 and values.dtype == x.dtype
    values = values.float() if x.dtype == torch.bfloat16 else values
    _kit.compare(case, 0, values.numpy(), wanted[0], case.dtype)
    if x.ndim:
        dim, keep = args[-2:]
        picks = torch.from_numpy(wanted[1]) if keep else torch.from_numpy(wanted[1]).unsqueeze(dim)
        named = x.gather(dim, picks)
        named = (named if keep else named.squeeze(dim)).double().numpy()
        assert np.array_equal(named, wanted[0].astype(np.float64), equal_nan=True)


def test_absurd_ranks_and_probabilities_are_refused() -> None:
    x = crt.rand(3, 5, seed=1)
    for call in (
        lambda: crt.kthvalue(x, 0),
        lambda: crt.kthvalue(x, 6),
        lambda: crt.kthvalue(crt.zeros(0), 1),
        lambda: crt.median(crt.zeros(0, dtype=crt.int64)),
        lambda: crt.mode(crt.zeros(3, 0)),
        lambda: crt.quantile(x, crt.zeros(2, 2)),
        lambda: crt.quantile(x, 1.5).item(),
        lambda: crt.quantile(x, float("nan")).item(),
        lambda: crt.searchsorted(x, crt.zeros(2, 5)),
        lambda: crt.searchsorted(crt.zeros(3), 1.0, crt.tensor([0, 1, 3])).item(),
        lambda: crt.unique(crt.tensor(1.0), dim=0),
        lambda: crt.unique(crt.zeros(3, 0), dim=0),
    ):
        with pytest.raises(crt.InvalidArgumentError):
            call()


def test_long_lines() -> None:
    """Longer than what one thread sorts at a time, against NumPy."""
    x = crt.randint(0, 1000, (3, 20000), seed=4)
    array = x.numpy()
    values, indices = crt.sort(x, -1)
    assert np.array_equal(indices.numpy(), np.argsort(array, -1, kind="stable"))
    assert np.array_equal(values.numpy(), np.sort(array, -1))
    kept, counts = crt.unique(x, return_counts=True)
    wanted = np.unique(array, return_counts=True)
    assert np.array_equal(kept.numpy(), wanted[0]) and np.array_equal(counts.numpy(), wanted[1])
