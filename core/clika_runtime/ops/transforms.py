"""Fourier transforms over several dims and of Hermitian signals, and what belongs to their
frequencies: Python functions over `fft`, `ifft`, `rfft` and `irfft`. Complex numbers are real
pairs, [..., 2]; dims count without the dim of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from .. import dtypes, ops
from ._functions import of_tensors
from ._promotion import DEFAULT_FLOAT, FLOATS
from ._shapes import dims as fronts
from ._shapes import fail, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._native._core import Tensor

__all__ = [
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft2",
    "irfftn",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

_SWAPPED = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _axes(
    name: str, input: Any, s: Any, dim: Any, *, pairs: bool = True
) -> tuple[list[int], list[Any]]:
    """The dims to transform and the length of each (None: as it is)."""
    rank = input.ndim - pairs
    if rank < 0:
        fail(name, f"input must hold complex numbers as pairs, [..., 2], got {text(input.shape)}")
    s = [s] if isinstance(s, int) else None if s is None else list(s)
    if dim is None:
        if s is not None and len(s) > rank:
            fail(name, f"s {s} has more entries than input has dims, {rank}")
        dims = list(range(rank) if s is None else range(rank - len(s), rank))
    else:
        given = [dim] if isinstance(dim, int) else list(dim)
        dims = list(fronts(name, given, rank)) if given else []
    if s is not None and len(s) != len(dims):
        fail(name, f"s {s} must have one length for each of dims {dims}")
    if not dims:
        fail(name, "there is no dim to transform")
    return dims, [None if n == -1 else n for n in s] if s is not None else [None] * len(dims)


def _conjugate(x: Any) -> Any:
    signs = ops.cat([ops.ones(1, dtype=x.dtype), ops.full((1,), -1.0, dtype=x.dtype)], 0)
    return ops.mul(x, signs.to(x.device))


def _swapped(name: str, norm: str | None) -> Any:
    if norm not in _SWAPPED:
        fail(name, f"norm: '{norm}' is not a Norm; choose one of 'backward', 'ortho', 'forward'")
    return _SWAPPED[norm]


@of_tensors
def fftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Any = None, norm: str | None = None
) -> Tensor:
    """`fft` along several dims (default all, or the last len(s)), each of length s[i]."""
    result: Any = input
    for at, n in zip(*_axes("fftn", input, s, dim), strict=True):
        result = ops.fft(result, n, at, cast(Any, norm))
    return result


@of_tensors
def ifftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Any = None, norm: str | None = None
) -> Tensor:
    """`ifft` along several dims (default all, or the last len(s)), each of length s[i]."""
    result: Any = input
    for at, n in zip(*_axes("ifftn", input, s, dim), strict=True):
        result = ops.ifft(result, n, at, cast(Any, norm))
    return result


@of_tensors
def rfftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Any = None, norm: str | None = None
) -> Tensor:
    """`rfft` of a real input along the last of several dims, then `fft` along the others."""
    dims, sizes = _axes("rfftn", input, s, dim, pairs=False)
    result = ops.rfft(input, sizes[-1], dims[-1], cast(Any, norm))
    for at, n in zip(dims[:-1], sizes[:-1], strict=True):
        result = ops.fft(result, n, at, cast(Any, norm))
    return result


@of_tensors
def irfftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Any = None, norm: str | None = None
) -> Tensor:
    """`ifft` along all but the last of several dims, then `irfft` along it: the inverse of `rfftn`.

    The last of `s` is the length of the real result.
    """
    dims, sizes = _axes("irfftn", input, s, dim)
    result: Any = input
    for at, n in zip(dims[:-1], sizes[:-1], strict=True):
        result = ops.ifft(result, n, at, cast(Any, norm))
    return ops.irfft(result, sizes[-1], dims[-1], cast(Any, norm))


@of_tensors
def hfftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Any = None, norm: str | None = None
) -> Tensor:
    """The real `fftn` of a signal that is Hermitian along the last dim, of which half is given."""
    return irfftn(_conjugate(input), s, dim, _swapped("hfftn", norm))


@of_tensors
def ihfftn(
    input: Tensor, s: Sequence[int] | None = None, dim: Any = None, norm: str | None = None
) -> Tensor:
    """The inverse of `hfftn`: half of the `ifftn` of a real input."""
    return _conjugate(rfftn(input, s, dim, _swapped("ihfftn", norm)))


@of_tensors
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The real `fft` of a Hermitian signal along `dim`, of which half is given; n real numbers."""
    return ops.irfft(_conjugate(input), n, dim, _swapped("hfft", cast(Any, norm)))


@of_tensors
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft`: the first n // 2 + 1 numbers of the `ifft` of a real input."""
    return _conjugate(ops.rfft(input, n, dim, _swapped("ihfft", cast(Any, norm))))


@of_tensors
def fft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Any = (-2, -1), norm: str | None = None
) -> Tensor:
    """`fftn` along two dims."""
    return fftn(input, s, dim, norm)


@of_tensors
def ifft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Any = (-2, -1), norm: str | None = None
) -> Tensor:
    """`ifftn` along two dims."""
    return ifftn(input, s, dim, norm)


@of_tensors
def rfft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Any = (-2, -1), norm: str | None = None
) -> Tensor:
    """`rfftn` along two dims."""
    return rfftn(input, s, dim, norm)


@of_tensors
def irfft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Any = (-2, -1), norm: str | None = None
) -> Tensor:
    """`irfftn` along two dims."""
    return irfftn(input, s, dim, norm)


@of_tensors
def hfft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Any = (-2, -1), norm: str | None = None
) -> Tensor:
    """`hfftn` along two dims."""
    return hfftn(input, s, dim, norm)


@of_tensors
def ihfft2(
    input: Tensor, s: Sequence[int] | None = None, dim: Any = (-2, -1), norm: str | None = None
) -> Tensor:
    """`ihfftn` along two dims."""
    return ihfftn(input, s, dim, norm)


def _frequencies(name: str, n: int, d: float, dtype: Any, device: Any, half: bool) -> Any:
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        fail(name, f"n must be a positive int, got {n!r}")
    if not d:
        fail(name, f"d must be the distance of samples, got {d!r}")
    dtype = DEFAULT_FLOAT if dtype is None else dtype
    if dtype.name not in FLOATS:
        fail(name, f"dtype must be one of {', '.join(sorted(FLOATS))}, got {dtype.name}")

    def run(start: int, end: int) -> Any:
        return ops.arange(start, end, 1, dtype=dtypes.float64, device=device)

    if half:
        k = run(0, n // 2 + 1)
    else:
        k = ops.cat([run(0, (n + 1) // 2), run(-(n // 2), 0)], 0)
    return ops.cast(ops.div(k, n * d), dtype)


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of `fft` for samples at distance d: [0, 1, .., -2, -1] / (n d).

    Example: ``ops.fftfreq(4)`` is ``[0, 0.25, -0.5, -0.25]``.
    """
    return _frequencies("fftfreq", n, d, dtype, device, False)


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of `rfft` for n samples at distance d: [0, 1, .., n // 2] / (n d)."""
    return _frequencies("rfftfreq", n, d, dtype, device, True)


def _shifted(name: str, input: Any, dim: Any, forward: bool) -> Any:
    given = None if dim is None else [dim] if isinstance(dim, int) else list(dim)
    dims = fronts(name, given, input.ndim)
    if given == [] or not dims:
        return ops.copy(input)
    halves = [input.shape[d] // 2 if forward else -(input.shape[d] // 2) for d in dims]
    return ops.roll(input, halves, dims)


@of_tensors
def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Frequency 0 from the front of the dims to their middle.

    `dim` counts all dims and is all of them unless given: name the dims of a spectrum of pairs.
    """
    return _shifted("fftshift", input, dim, True)


@of_tensors
def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The inverse of `fftshift`."""
    return _shifted("ifftshift", input, dim, False)
