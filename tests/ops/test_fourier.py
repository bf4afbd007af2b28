"""Cases and oracle of Fourier transforms; those over several dims stand on torch's samples too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime import ops
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.testing import cases
from tests.ops.support import check_backend, check_oracle

NAMES = ("fft", "ifft", "rfft", "irfft")
CASES = [case for name in NAMES for case in cases(name)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_oracle(case: Any) -> None:
    def oracle(torch: Any, x: Any, *args: Any) -> Any:
        if case.dtype == "bfloat16":
            pytest.skip("torch has no transform of bfloat16")
        # In float64, so that the bound of a single rounding holds for the oracle too.
        x = x.double() if x.dtype != torch.float64 else x
        x = x if case.op == "rfft" else torch.view_as_complex(x.contiguous())
        result = getattr(torch.fft, case.op)(x, *args)
        result = result if case.op == "irfft" else torch.view_as_real(result)
        return result if case.dtype == "float64" else result.float()

    if case.name == "none":
        check_backend(case)
        return
    check_oracle(case, oracle)


@pytest.mark.parametrize("n", [1000, 1009, 4096])
def test_there_and_back(n: int) -> None:
    x = np.random.default_rng(n).normal(size=(n, 2))
    x64 = crt.from_numpy(x)
    back = ops.ifft(ops.fft(x64))
    np.testing.assert_allclose(back.numpy(), x, rtol=0, atol=1e-13)  # float64: some 10 steps
    want = np.fft.fft(x[:, 0] + 1j * x[:, 1])
    got = ops.fft(x64).numpy()
    np.testing.assert_allclose(got[:, 0] + 1j * got[:, 1], want, rtol=0, atol=1e-12 * n**0.5)


def test_several_dims() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    got = ops.irfftn(ops.rfftn(crt.from_numpy(x)), (3, 4, 5))
    np.testing.assert_allclose(got.numpy(), x, rtol=0, atol=1e-14)
    got = ops.rfft2(crt.from_numpy(x)).numpy()
    want = np.fft.rfft2(x)
    np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], want, rtol=0, atol=1e-13)
    np.testing.assert_allclose(ops.hfft(ops.ihfft(crt.from_numpy(x)), 5).numpy(), x, atol=1e-14)


def test_frequencies() -> None:
    for n in (1, 4, 5):
        got = ops.fftfreq(n, 0.5, dtype=crt.float64).numpy()
        np.testing.assert_array_equal(got, np.fft.fftfreq(n, 0.5))
        got = ops.rfftfreq(n, 0.5, dtype=crt.float64).numpy()
        np.testing.assert_array_equal(got, np.fft.rfftfreq(n, 0.5))
        shifted = ops.fftshift(crt.arange(n))
        np.testing.assert_array_equal(shifted.numpy(), np.fft.fftshift(np.arange(n)))
        assert ops.ifftshift(shifted).tolist() == list(range(n))


def test_refusals() -> None:
    x, pairs = crt.ones(4), crt.ones(4, 2)
    for call, problem in (
        (lambda: ops.fft(crt.ones(4, 3)), r"as pairs, \[..., 2\]"),
        (lambda: ops.fft(pairs, 0), "n 0 must be positive"),
        (lambda: ops.rfft(x, 2**50), "below 2"),
        (lambda: ops.rfft(x, dim=1), "out of range"),
        (lambda: ops.fft(pairs, dim=1), "out of range"),
        (lambda: ops.fft(crt.ones(2)), "at least one dim"),
        (lambda: ops.rfft(crt.ones(2, 0)), "needs one element"),
        (lambda: ops.irfft(crt.ones(1, 2)), "n 0 must be positive"),
        (lambda: ops.fft(pairs, norm="half"), "is not a Norm"),
        (lambda: ops.hfft(pairs, norm="half"), "is not a Norm"),
        (lambda: ops.fftn(pairs, (2, 2)), "more entries"),
        (lambda: ops.fftn(pairs, dim=(0, 0)), "twice"),
        (lambda: ops.fftfreq(0), "positive int"),
        (lambda: ops.fftfreq(4, 0.0), "distance of samples"),
    ):
        with pytest.raises(InvalidArgumentError, match=problem):
            call()
