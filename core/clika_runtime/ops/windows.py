"""Windows of signals: Python functions that compute in float64 and round once.

All take the number of elements, and whether the window is periodic (one period of a longer signal,
for spectra) or symmetric (for filters): its period N is the length, or the length less one. The
dtype is a floating-point one, float32 by default.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .. import dtypes, ops
from ._promotion import DEFAULT_FLOAT, FLOATS
from ._shapes import fail

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "bartlett_window",
    "blackman_window",
    "cosine_window",
    "exponential_window",
    "gaussian_window",
    "general_cosine_window",
    "general_hamming_window",
    "hamming_window",
    "hann_window",
    "kaiser_window",
    "nuttall_window",
]


def _window(
    name: str,
    length: Any,
    periodic: bool,
    dtype: Any,
    device: Any,
    values: Callable[[Any, int], Any],
) -> Any:
    """`values(n, N)` of the elements n = 0, 1, ... (float64) and the period N, rounded."""
    if isinstance(length, bool) or not isinstance(length, int) or length < 0:
        fail(name, f"window_length must be an int of at least 0, got {length!r}")
    dtype = DEFAULT_FLOAT if dtype is None else dtype
    if dtype.name not in FLOATS:
        fail(name, f"dtype must be one of {', '.join(sorted(FLOATS))}, got {dtype.name}")
    if length <= 1:
        return ops.ones(length, dtype=dtype, device=device)
    n = ops.arange(0, length, 1, dtype=dtypes.float64, device=device)
    return ops.cast(values(n, length if periodic else length - 1), dtype)


def _finite(name: str, **numbers: float) -> None:
    for word, value in numbers.items():
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not math.isfinite(value)
        ):
            fail(name, f"{word} must be a finite number, got {value!r}")


def _cosines(coefficients: Sequence[float]) -> Callable[[Any, int], Any]:
    def values(n: Any, period: int) -> Any:
        result = ops.full((n.shape[0],), float(coefficients[0]), dtype=n.dtype, device=n.device)
        for i, factor in enumerate(coefficients[1:], 1):
            wave = ops.cos(ops.mul(n, 2 * math.pi * i / period))
            result = ops.add(result, ops.mul(wave, factor if i % 2 == 0 else -factor))
        return result

    return values


def general_cosine_window(
    window_length: int,
    periodic: bool = True,
    *,
    a: Sequence[float],
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """The sum over i of (-1)^i a[i] cos(2 pi i n / N).

    Example: ``ops.general_cosine_window(3, False, a=[0.5, 0.5])`` is ``[0, 1, 0]``.
    """
    name = "general_cosine_window"
    if not isinstance(a, (list, tuple)) or not a:
        fail(name, f"a must be a list of at least one number, got {a!r}")
    _finite(name, **{f"a[{i}]": value for i, value in enumerate(a)})
    return _window(name, window_length, periodic, dtype, device, _cosines(a))


def general_hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """alpha - (1 - alpha) cos(2 pi n / N)."""
    name = "general_hamming_window"
    _finite(name, alpha=alpha)
    return _window(name, window_length, periodic, dtype, device, _cosines([alpha, 1 - alpha]))


def hann_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None
) -> Any:
    """1/2 - 1/2 cos(2 pi n / N)."""
    return _window("hann_window", window_length, periodic, dtype, device, _cosines([0.5, 0.5]))


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """alpha - beta cos(2 pi n / N)."""
    _finite("hamming_window", alpha=alpha, beta=beta)
    return _window(
        "hamming_window", window_length, periodic, dtype, device, _cosines([alpha, beta])
    )


def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None
) -> Any:
    """0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)."""
    values = _cosines([0.42, 0.5, 0.08])
    return _window("blackman_window", window_length, periodic, dtype, device, values)


def nuttall_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None
) -> Any:
    """The cosine sum of four terms with the lowest side lobes.

    Nuttall, Some Windows with Very Good Sidelobe Behavior, IEEE Trans. ASSP 29 (1981).
    """
    values = _cosines([0.3635819, 0.4891775, 0.1365995, 0.0106411])
    return _window("nuttall_window", window_length, periodic, dtype, device, values)


def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None
) -> Any:
    """The triangle 1 - |2 n / N - 1|."""

    def values(n: Any, period: int) -> Any:
        return ops.sub(1.0, ops.abs(ops.sub(ops.mul(n, 2 / period), 1.0)))

    return _window("bartlett_window", window_length, periodic, dtype, device, values)


def cosine_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None
) -> Any:
    """sin(pi (n + 1/2) / (N + 1))."""

    def values(n: Any, period: int) -> Any:
        return ops.sin(ops.mul(ops.add(n, 0.5), math.pi / (period + 1)))

    return _window("cosine_window", window_length, periodic, dtype, device, values)


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """i0(beta sqrt(1 - (2 n / N - 1)^2)) / i0(beta), with i0 the modified Bessel function."""
    name = "kaiser_window"
    _finite(name, beta=beta)

    def values(n: Any, period: int) -> Any:
        x = ops.sub(ops.mul(n, 2 / period), 1.0)
        height = ops.mul(ops.sqrt(ops.clamp_min(ops.sub(1.0, ops.square(x)), 0.0)), abs(beta))
        # i0e(x) = exp(-x) i0(x) does not overflow for a large beta.
        top = ops.i0e(ops.full((1,), float(abs(beta)), dtype=n.dtype, device=n.device))
        return ops.div(ops.mul(ops.i0e(height), ops.exp(ops.sub(height, abs(beta)))), top)

    return _window(name, window_length, periodic, dtype, device, values)


def gaussian_window(
    window_length: int,
    periodic: bool = True,
    std: float = 1.0,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """exp(-((n - N / 2) / std)^2 / 2)."""
    name = "gaussian_window"
    _finite(name, std=std)
    if std <= 0:
        fail(name, f"std must be positive, got {std}")

    def values(n: Any, period: int) -> Any:
        x = ops.div(ops.sub(n, period / 2), std)
        return ops.exp(ops.mul(ops.square(x), -0.5))

    return _window(name, window_length, periodic, dtype, device, values)


def exponential_window(
    window_length: int,
    periodic: bool = True,
    center: float | None = None,
    tau: float = 1.0,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """exp(-|n - center| / tau); center is N / 2 unless given, which a periodic window may be."""
    name = "exponential_window"
    _finite(name, tau=tau, center=0.0 if center is None else center)
    if tau <= 0:
        fail(name, f"tau must be positive, got {tau}")
    if center is not None and not periodic:
        fail(name, f"a symmetric window has its center in the middle; leave out center {center}")

    def values(n: Any, period: int) -> Any:
        middle = period / 2 if center is None else center
        return ops.exp(ops.div(ops.abs(ops.sub(n, middle)), -tau))

    return _window(name, window_length, periodic, dtype, device, values)
