"""Discrete Fourier transforms along one dim; complex numbers are pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._kit import Make, operator
from .._numpy import Array


def _complex(x: Array) -> Array:
    values: Array = x[..., 0] + 1j * x[..., 1]
    return values


def _pairs(z: Array) -> Array:
    return np.stack([z.real, z.imag], -1)


def _fft(x: Array, n: Any, dim: int, norm: Any) -> Array:
    return _pairs(np.fft.fft(_complex(x), n, dim, norm))


def _ifft(x: Array, n: Any, dim: int, norm: Any) -> Array:
    return _pairs(np.fft.ifft(_complex(x), n, dim, norm))


def _rfft(x: Array, n: Any, dim: int, norm: Any) -> Array:
    return _pairs(np.fft.rfft(x, n, dim, norm))


def _irfft(x: Array, n: Any, dim: int, norm: Any) -> Array:
    result: Array = np.fft.irfft(_complex(x), n, dim, norm)
    return result


def _cases(pairs: bool) -> Any:
    last = (2,) if pairs else ()

    def build(make: Make) -> None:
        # A power of two, small factors, a prime of its own, and primes that are too large.
        for n in (1, 2, 8, 24, 31, 45, 37, 74, 121):
            make.case(f"length-{n}", make.normal((2, n, *last)), n)
        for norm in ("backward", "ortho", "forward"):
            make.case(f"norm-{norm}", make.normal((12, *last)), None, -1, norm)
        make.case("inner", make.normal((3, 10, 4, *last)), None, 1)
        make.case("first", make.normal((6, 2, *last)), 6, 0, "ortho")
        make.case("cut", make.normal((2, 12, *last)), 7)
        make.case("filled", make.normal((2, 5, *last)), 16)
        make.case("none", make.normal((0, 5, *last)), 6)
        make.case("bfloat16", make.normal((3, 20, *last), "bfloat16"))
        make.case("float64", make.normal((3, 20, *last), "float64"))
        make.case("int64", make.normal((3, 9, *last), "int64"))
        if pairs:
            make.case("stepped", make.normal((4, 10, *last), "float32", "stepped"))
        else:
            make.case("transposed", make.normal((4, 10), "float32", "transposed"))

    return build


_SAMPLE = "crt.tensor([[1.0, 0.0], [2.0, 0.0]])"
# Everything is kept in float64: one rounding, and in float64 as many as there are factors.
_BOUNDS: dict[str, Any] = {"float32": (1, 4), "narrow": (1, 0.1)}
operator("fft", _fft, _cases(True), example=f"crt.fft({_SAMPLE})", **_BOUNDS)
operator("ifft", _ifft, _cases(True), example=f"crt.ifft({_SAMPLE})", **_BOUNDS)
operator(
    "rfft", _rfft, _cases(False), example="crt.rfft(crt.tensor([1.0, 2.0, 3.0, 4.0]))", **_BOUNDS
)
operator("irfft", _irfft, _cases(True), example=f"crt.irfft({_SAMPLE})", **_BOUNDS)
