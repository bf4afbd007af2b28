"""Short-time spectra of signals: Python functions over Fourier transforms and windows. Complex
numbers are real pairs, [..., 2]."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .. import dtypes, ops
from ._functions import of_tensors
from ._promotion import DEFAULT_FLOAT, FLOATS
from ._shapes import fail, text

if TYPE_CHECKING:
    from .._native._core import Tensor

__all__ = ["istft", "mel_weight_matrix", "stft"]

_LARGEST = 2**31  # elements of a matrix of weights, samples of a frame


def _count(name: str, word: str, value: Any, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < _LARGEST:
        fail(name, f"{word} must be an int of at least {least} and below 2^31, got {value!r}")
    return value


def _window(name: str, window: Any, win_length: int, n_fft: int, like: Any) -> Any:
    """The window with zeros around it, [n_fft]."""
    if window is None:
        window = ops.ones(win_length, dtype=like.dtype, device=like.device)
    if tuple(window.shape) != (win_length,):
        fail(name, f"window must be [win_length] = [{win_length}], got {text(window.shape)}")
    if window.dtype is not like.dtype:
        fail(name, f"window has dtype {window.dtype.name}, input {like.dtype.name}")
    before = (n_fft - win_length) // 2
    return ops.pad(window, (before, n_fft - win_length - before))


def _lengths(name: str, n_fft: Any, hop_length: Any, win_length: Any) -> tuple[int, int, int]:
    n_fft = _count(name, "n_fft", n_fft)
    hop = _count(name, "hop_length", max(n_fft // 4, 1) if hop_length is None else hop_length)
    length = _count(name, "win_length", n_fft if win_length is None else win_length)
    if length > n_fft:
        fail(name, f"win_length {length} must be at most n_fft {n_fft}")
    return n_fft, hop, length


@of_tensors
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
) -> Tensor:
    """The Fourier transforms of windowed frames of a real signal: [..., frequencies, frames, 2].

    result[f, t] = sum over k of window[k] input[t hop_length + k] exp(-2 pi i f k / n_fft)

    input is [L] or [B, L]. Frames are `n_fft` long and `hop_length` (default n_fft // 4) apart; a
    window shorter than them stands in their middle. With `center` the signal is padded by
    n_fft // 2 on both sides (`pad_mode` of `pad`), so that frame t is centered at t hop_length.
    `normalized` divides by sqrt(n_fft). `onesided` (the default) leaves out the frequencies above
    n_fft // 2, which are conjugates. Complex numbers are pairs, whatever `return_complex` says.

    Allen and Rabiner, A Unified Approach to Short-Time Fourier Analysis and Synthesis, Proc. IEEE
    65 (1977).
    """
    name = "stft"
    n_fft, hop, length = _lengths(name, n_fft, hop_length, win_length)
    if input.ndim not in (1, 2) or input.dtype.name not in FLOATS:
        fail(
            name,
            f"input must be [L] or [B, L] of a floating-point dtype, got {text(input.shape)} of "
            f"{input.dtype.name}",
        )
    shape = _window(name, window, length, n_fft, input)
    x: Any = input
    if center:
        x = ops.pad(x, (n_fft // 2, n_fft // 2), pad_mode)  # type: ignore[arg-type]
    if x.shape[-1] < n_fft:
        fail(name, f"n_fft {n_fft} is longer than the signal, {x.shape[-1]} samples")
    frames = ops.mul(ops.sliding_window(x, -1, n_fft, hop), shape)
    norm: Any = "ortho" if normalized else "backward"
    if onesided is None or onesided:
        spectrum = ops.rfft(frames, None, -1, norm)
    else:
        spectrum = ops.fft(ops.stack([frames, ops.zeros_like(frames)], -1), None, -1, norm)
    return ops.transpose(spectrum, -3, -2)


@of_tensors
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose `stft` is nearest to input [.., frequencies, frames, 2]: [L] or [B, L].

    The frames' inverse transforms times the window are added up where they overlap, and divided by
    the sum of squared windows, which must not be 0 anywhere. With `center` the padding is cut off.
    The result has `length` samples where it is given, zeros behind what the frames cover. The other
    arguments are those of `stft`.

    Griffin and Lim, Signal Estimation from Modified Short-Time Fourier Transform, IEEE Trans. ASSP
    32 (1984).
    """
    name = "istft"
    n_fft, hop, win = _lengths(name, n_fft, hop_length, win_length)
    half = onesided is None or onesided
    bins = n_fft // 2 + 1 if half else n_fft
    if input.ndim not in (3, 4) or tuple(input.shape[-1:]) != (2,) or input.shape[-3] != bins:
        fail(
            name,
            f"input must be [{bins}, frames, 2] or [B, {bins}, frames, 2] for n_fft {n_fft}, got "
            f"{text(input.shape)}",
        )
    if return_complex:
        fail(name, "return_complex must be False: the signal is real")
    shape = _window(name, window, win, n_fft, input)
    x: Any = ops.transpose(input if input.ndim == 4 else ops.unsqueeze(input, 0), -3, -2)
    batch, count = x.shape[:2]
    if not count:
        fail(name, f"input {text(input.shape)} has no frames")
    norm: Any = "ortho" if normalized else "backward"
    if half:
        frames = ops.irfft(x, n_fft, -1, norm)
    else:
        frames = ops.select(ops.ifft(x, n_fft, -1, norm), -1, 0)
    total = n_fft + hop * (count - 1)
    if total >= _LARGEST:
        fail(name, f"{count} frames {hop} apart cover {total} samples; 2^31 are too many")
    starts = ops.arange(0, count * hop, hop, dtype=dtypes.int64, device=input.device)
    places = ops.arange(0, n_fft, 1, dtype=dtypes.int64, device=input.device)
    index = ops.reshape(ops.add(ops.unsqueeze(starts, -1), places), (-1,))

    def overlapped(parts: Any, rows: int) -> Any:
        empty = ops.zeros(rows, total, dtype=parts.dtype, device=parts.device)
        return ops.index_add(empty, 1, index, ops.reshape(parts, (rows, count * n_fft)))

    signal = overlapped(ops.mul(frames, shape), batch)
    weight = overlapped(ops.expand(ops.square(shape), (1, count, n_fft)), 1)
    begin = n_fft // 2 if center else 0
    wanted = None if length is None else _count(name, "length", length)
    end = begin + wanted if wanted is not None else total - (n_fft // 2 if center else 0)
    end = max(begin, min(end, total))
    signal, weight = (ops.narrow(v, 1, begin, end - begin) for v in (signal, weight))
    if end > begin and not float(ops.amin(weight).item()) > 1e-11:
        fail(name, "the squared windows of the frames add up to 0 somewhere; choose a shorter hop")
    result = ops.div(signal, weight)
    if wanted is not None and wanted > end - begin:
        result = ops.pad(result, (0, wanted - (end - begin)))
    return result if input.ndim == 4 else ops.squeeze(result, 0)


def _mel(hertz: float) -> float:
    return 2595.0 * math.log10(1.0 + hertz / 700.0)


def mel_weight_matrix(
    num_mel_bins: int,
    dft_length: int,
    sample_rate: int,
    lower_edge_hertz: float,
    upper_edge_hertz: float,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """Weights [dft_length // 2 + 1, num_mel_bins] that gather a spectrum into mel bands.

    Column m is a triangle over the frequencies, 1 at its peak; the corners are equally spaced on
    the scale mel(f) = 2595 log10(1 + f / 700) between the edges, and rounded down to frequencies of
    the transform. ONNX's `MelWeightMatrix`: ``spectrum @ weights`` has the bands.

    Example: ``ops.mel_weight_matrix(8, 16, 8192, 0.0, 4096.0).shape`` is ``(9, 8)``.
    """
    name = "mel_weight_matrix"
    bands = _count(name, "num_mel_bins", num_mel_bins)
    size = _count(name, "dft_length", dft_length)
    rate = _count(name, "sample_rate", sample_rate)
    if (size // 2 + 1) * bands >= _LARGEST:
        fail(name, f"{size // 2 + 1} frequencies and {bands} bands are too many: 2^31 weights")
    edges = (lower_edge_hertz, upper_edge_hertz)
    for edge in edges:
        if isinstance(edge, bool) or not isinstance(edge, (int, float)):
            fail(name, f"edges must be numbers, got {edge!r}")
    if not 0 <= edges[0] <= edges[1] <= rate / 2:
        fail(name, f"edges {edges[0]} .. {edges[1]} must lie in 0 .. {rate / 2}, half the rate")
    dtype = DEFAULT_FLOAT if dtype is None else dtype
    if dtype.name not in FLOATS:
        fail(name, f"dtype must be one of {', '.join(sorted(FLOATS))}, got {dtype.name}")
    low = _mel(edges[0])
    step = (_mel(edges[1]) - low) / (bands + 2)

    def run(start: int, end: int) -> Any:
        return ops.arange(start, end, 1, dtype=dtypes.float64, device=device)

    mels = ops.add(ops.mul(run(0, bands + 2), step), low)
    hertz = ops.mul(ops.sub(ops.pow(10.0, ops.div(mels, 2595.0)), 1.0), 700.0)
    corner = ops.floor(ops.div(ops.mul(hertz, size + 1), rate))
    left, peak, right = (ops.narrow(corner, 0, i, bands) for i in range(3))
    at = ops.unsqueeze(run(0, size // 2 + 1), -1)
    rising = ops.div(ops.sub(at, left), ops.clamp(ops.sub(peak, left), 1.0))
    falling = ops.div(ops.sub(right, at), ops.clamp(ops.sub(right, peak), 1.0))
    sides = ops.where(ops.lt(at, peak), rising, ops.where(ops.gt(at, peak), falling, 1.0))
    return ops.cast(ops.clamp(sides, 0.0), dtype)
