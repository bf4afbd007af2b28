"""Twins of products, windows, Fourier transforms and decompositions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clika_runtime import dtypes, ops
from tests.oracles.opinfo import Twin


def window(call: Callable[..., Any]) -> Callable[..., Any]:
    """torch.signal.windows: `sym` is the opposite of `periodic`, and the default."""

    def made(length: int, *, sym: bool = True, **options: Any) -> Any:
        return call(length, not sym, **options)

    return made


def pairs(x: Any) -> Any:
    """torch's samples are real here: complex numbers with an imaginary part of 0."""
    x = x if x.dtype.kind == "f" else ops.cast(x, dtypes.float32)
    return ops.stack([x, ops.zeros(*x.shape, dtype=x.dtype)], -1)


def spectrum(call: Callable[..., Any]) -> Twin:
    """A transform of complex numbers. Both are right to a few float32 roundings of the largest
    sum: up to 30 x 9 x 2^-24, and float32 is the precision in which torch adds up."""
    return Twin(lambda x, *args, **options: call(pairs(x), *args, **options), close=_SPECTRUM)


def real_spectrum(call: Callable[..., Any]) -> Twin:
    """The same of real numbers."""
    return Twin(call, close=_SPECTRUM)


_SPECTRUM = {"float32": (1.3e-6, 5e-5)}


def sums(call: Callable[..., Any], narrow: float = 0.5) -> Twin:
    """Sums of products of numbers up to 9 that cancel: an absolute error is that of the terms.

    float32: 10 terms up to 81, 2^-24 each. bfloat16: torch rounds products (2^-9 of 81 each), or
    sums (up to 10 of them) where `narrow` says so, before it adds them up; ours rounds once.
    """
    return Twin(call, close={"float32": (1.3e-6, 5e-5), "bfloat16": (1.6e-2, narrow)})


TWINS: dict[str, Any] = {
    "addmm.decomposed": ops.addmm,
    "addbmm": sums(ops.addbmm, narrow=2.0),
    "addr": sums(ops.addr),
    "cross": sums(ops.cross),
    "__rmatmul__": sums(lambda x, other: ops.matmul(other, x)),
    "einsum": lambda operands, equation: ops.einsum(equation, *operands),
    "linalg.cross": sums(lambda x, other, dim=-1: ops.cross(x, other, dim)),
    "linalg.matrix_power": ops.matrix_power,
    "linalg.multi_dot": ops.multi_dot,
    "linalg.vander": ops.vander,
    "linalg.vecdot": sums(ops.vecdot),
    **{
        f"fft.{name}": spectrum(getattr(ops, name))
        for name in "fft fft2 fftn ifft ifft2 ifftn irfft irfft2 irfftn hfft hfft2 hfftn".split()
    },
    **{
        f"fft.{name}": real_spectrum(getattr(ops, name))
        for name in "rfft rfft2 rfftn ihfft ihfft2 ihfftn".split()
    },
    "fft.fftshift": ops.fftshift,
    "fft.ifftshift": ops.ifftshift,
    **{
        f"signal.windows.{name}": window(getattr(ops, f"{name}_window"))
        for name in (
            "bartlett blackman cosine exponential gaussian general_cosine general_hamming hamming "
            "hann kaiser nuttall"
        ).split()
    },
}
