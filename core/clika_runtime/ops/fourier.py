"""Fourier transforms along one dim. Complex numbers are real pairs: a last dim of size 2."""

from __future__ import annotations

from typing import Any

from ._promotion import ALL, to_float
from ._shapes import dim as front
from ._shapes import fail, text
from .record import Meta, op, static, tensor

_SOURCE = (
    "Cooley and Tukey, Mathematics of Computation 19 (1965); for lengths with a large prime "
    "factor Bluestein, IEEE Trans. Audio Electroacoust. 18 (1970)"
)


def _sized(name: str, shape: tuple[Any, ...], n: Any, at: int, pairs: bool) -> tuple[Any, ...]:
    """The shape with size n at `at` (None: as it is), which must be positive."""
    size = shape[at] if n is None else n
    if type(size) is int and not 1 <= size < 2**40:
        if n is None:
            fail(name, f"dim {at} of {text(shape)} has size {size}; a transform needs one element")
        fail(name, f"n {size} must be positive and below 2^40")
    return (*shape[:at], size, *shape[at + 1 :], *((2,) if pairs else ()))


def _pairs(name: str, input: Meta) -> tuple[Any, ...]:
    """The shape of the complex numbers."""
    if not input.ndim or (type(input.shape[-1]) is int and input.shape[-1] != 2):
        fail(name, f"input must hold complex numbers as pairs, [..., 2], got {text(input.shape)}")
    return tuple(input.shape[:-1])


def _declare(name: str, doc: str, real_in: bool, real_out: bool) -> None:
    def infer(input: Meta, n: Any, dim: int, norm: Any) -> Meta:
        shape = tuple(input.shape) if real_in else _pairs(name, input)
        if not shape:
            fail(name, "input must have at least one dim to transform")
        at = front(name, dim, len(shape))
        if real_out:
            n = 2 * (shape[at] - 1) if n is None else n
            result = _sized(name, shape, n, at, False)
        else:
            result = _sized(name, shape, n, at, True)
        if real_in:
            result = (*result[:at], result[at] // 2 + 1, *result[at + 1 :])
        return Meta(result, to_float(input.dtype))

    op(
        name,
        doc=doc,
        args=[
            tensor("input", ALL),
            static("n", "int", None),
            static("dim", "int", -1),
            static("norm", "str", "backward", modes=("backward", "ortho", "forward")),
        ],
        infer=infer,
        promote=lambda input, *_: to_float(input.dtype),
        method=False,
        source=_SOURCE,
    )


_NORM = """
    `dim` counts without the dim of pairs. The input is cut or filled up with zeros to length n. The
    result of the transform is divided by n, by its square root or not at all, which `norm` says:
    "backward" divides in the inverse, "forward" in the other, "ortho" by the root in both.
    Integers and bools are computed as float32; everything is kept in float64 and rounded once.
    """
_declare(
    "fft",
    """
    result[k] = the sum over j of input[j] exp(-2 pi i j k / n): the Fourier transform along `dim`.

    Input and result are complex numbers as pairs, [..., 2].
    """
    + _NORM,
    False,
    False,
)
_declare(
    "ifft",
    """
    result[j] = 1/n of the sum over k of input[k] exp(2 pi i j k / n): the inverse of `fft`.

    Input and result are complex numbers as pairs, [..., 2].
    """
    + _NORM,
    False,
    False,
)
_declare(
    "rfft",
    """
    The first n // 2 + 1 numbers of the Fourier transform of a real input along `dim`: as `fft`.

    The others are their conjugates. The result is complex numbers as pairs, [..., 2].
    """
    + _NORM,
    True,
    False,
)
_declare(
    "irfft",
    """
    The inverse of `rfft`: n real numbers (default: 2 (m - 1)) from the first half of a spectrum.

    The input is m complex numbers as pairs, [..., 2]; the missing ones count as conjugates, and
    the imaginary part of the first (and, for an even n, of the middle one) does not count.
    """
    + _NORM,
    False,
    True,
)
