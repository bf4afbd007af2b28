"""Windows of signals against torch's, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime import ops
from clika_runtime.errors import InvalidArgumentError

PARAMETERS: dict[str, dict[str, Any]] = {
    "bartlett": {},
    "blackman": {},
    "cosine": {},
    "exponential": {"tau": 3.0},
    "gaussian": {"std": 2.5},
    "general_cosine": {"a": [0.4, 0.3, 0.2, 0.1]},
    "general_hamming": {"alpha": 0.6},
    "hamming": {},
    "hann": {},
    "kaiser": {"beta": 8.5},
    "nuttall": {},
}


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("length", [0, 1, 2, 7, 16])
@pytest.mark.parametrize("periodic", [True, False])
def test_window(name: str, length: int, periodic: bool) -> None:
    torch = pytest.importorskip("torch")
    options = PARAMETERS[name]
    theirs = getattr(torch.signal.windows, name)
    want = theirs(length, sym=not periodic, dtype=torch.float64, **options)
    got = getattr(ops, f"{name}_window")(length, periodic, dtype=crt.float64, **options)
    # A few roundings, and torch's angle, which is itself rounded.
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12, atol=1e-14)
    rounded = getattr(ops, f"{name}_window")(length, periodic, **options)
    np.testing.assert_array_equal(rounded.numpy(), got.numpy().astype(np.float32))


def test_a_center() -> None:
    torch = pytest.importorskip("torch")
    want = torch.signal.windows.exponential(6, center=1.0, sym=False)
    got = ops.exponential_window(6, center=1.0)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)


def test_refusals() -> None:
    for call, problem in (
        (lambda: ops.hann_window(-1), "window_length must be"),
        (lambda: ops.hann_window(4, dtype=crt.int32), "dtype must be one of"),
        (lambda: ops.gaussian_window(4, std=0.0), "std must be positive"),
        (lambda: ops.exponential_window(4, False, center=1.0), "leave out center"),
        (lambda: ops.exponential_window(4, tau=-1.0), "tau must be positive"),
        (lambda: ops.kaiser_window(4, beta=float("nan")), "beta must be a finite number"),
        (lambda: ops.general_cosine_window(4, a=[]), "at least one number"),
    ):
        with pytest.raises(InvalidArgumentError, match=problem):
            call()
