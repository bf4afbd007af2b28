"""Short-time Fourier transforms against torch, mel weights against ONNX's reference."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime import ops
from clika_runtime.errors import InvalidArgumentError

torch = pytest.importorskip("torch")

# float32 sums of up to 64 products of numbers up to 3: a few roundings (2^-24) of their size.
CLOSE = {"rtol": 1e-5, "atol": 5e-5}


def ours(x: Any) -> Any:
    return None if x is None else crt.from_dlpack(x)


def theirs(x: Any) -> Any:
    return torch.from_numpy(x.numpy().copy())


def window_of(length: int, kind: str) -> Any:
    return None if kind == "none" else torch.hann_window(length) + 0.1


@pytest.mark.filterwarnings("ignore")  # torch's, about missing windows and padded results
@pytest.mark.parametrize(
    ("shape", "center", "normalized", "onesided", "kind"),
    list(
        itertools.product(
            [(100,), (2, 100)], [True, False], [True, False], [True, False], ["none", "hann"]
        )
    ),
)
def test_there_and_back(
    shape: tuple[int, ...], center: bool, normalized: bool, onesided: bool, kind: str
) -> None:
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(shape, generator=generator)
    for n_fft, hop, length in ((16, None, None), (20, 5, 12), (9, 4, 9)):
        window = window_of(length or n_fft, kind)
        options = {
            "center": center,
            "normalized": normalized,
            "onesided": onesided,
        }
        want = torch.stft(
            x, n_fft, hop, length, window, pad_mode="reflect", return_complex=True, **options
        )
        got = ops.stft(ours(x), n_fft, hop, length, ours(window), **options)
        torch.testing.assert_close(theirs(got), torch.view_as_real(want), **CLOSE)
        for size in (None, 60, 110):
            try:
                back = torch.istft(want, n_fft, hop, length, window, length=size, **options)
            except RuntimeError:  # the windows leave samples out
                with pytest.raises(InvalidArgumentError, match="add up to 0"):
                    ops.istft(got, n_fft, hop, length, ours(window), length=size, **options)
                continue
            mine = ops.istft(got, n_fft, hop, length, ours(window), length=size, **options)
            torch.testing.assert_close(theirs(mine), back, **CLOSE)


@pytest.mark.parametrize("mode", ["constant", "replicate", "circular"])
def test_padding(mode: str) -> None:
    x = torch.arange(30.0)
    want = torch.stft(x, 8, pad_mode=mode, return_complex=True, window=torch.ones(8))
    got = ops.stft(ours(x), 8, pad_mode=mode)
    torch.testing.assert_close(theirs(got), torch.view_as_real(want), **CLOSE)


def test_float64() -> None:
    x = torch.randn(50, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    want = torch.stft(x, 10, return_complex=True, window=torch.ones(10, dtype=torch.float64))
    got = ops.stft(ours(x), 10, return_complex=True)
    torch.testing.assert_close(theirs(got), torch.view_as_real(want), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda x: ops.stft(x, 0), "stft: n_fft must be an int of at least 1"),
        (lambda x: ops.stft(x, 8, 0), "hop_length must be"),
        (lambda x: ops.stft(x, 8, 2, 9), "win_length 9 must be at most n_fft 8"),
        (lambda x: ops.stft(x, 8, window=crt.ones(7)), r"window must be \[win_length\] = \[8\]"),
        (lambda x: ops.stft(x, 200, center=False), "longer than the signal, 100 samples"),
        (lambda x: ops.stft(x, 400), "reflect"),
        (lambda x: ops.stft(x.to(crt.int32), 8), "int32"),
        (lambda x: ops.stft(x.reshape(2, 5, 10), 8), r"\[2, 5, 10\]"),
        (lambda x: ops.istft(x, 8), r"istft: input must be \[5, frames, 2\]"),
        (lambda x: ops.istft(crt.zeros(5, 0, 2), 8), "no frames"),
        (lambda x: ops.istft(crt.zeros(5, 3, 2), 8, window=crt.zeros(8)), "add up to 0"),
        (lambda x: ops.istft(crt.zeros(5, 3, 2), 8, return_complex=True), "signal is real"),
        (lambda x: ops.istft(crt.zeros(5, 1 << 20, 2), 8, 1 << 20), "are too many"),
    ],
)
def test_refusals(call: Any, problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=problem):
        call(crt.zeros(100))


@pytest.mark.parametrize(
    "arguments",
    [
        (8, 16, 8192, 0, 4096),
        (40, 512, 16000, 20, 7600),
        (80, 400, 16000, 0, 8000),
        (3, 7, 50, 5, 20),
    ],
)
def test_mel_weights(arguments: Any) -> None:
    pytest.importorskip("onnx")
    from onnx.reference.ops.op_mel_weight_matrix import MelWeightMatrix

    bands, size, rate, low, high = arguments
    operator = MelWeightMatrix.__new__(MelWeightMatrix)
    (want,) = operator._run(
        *(np.array(v) for v in (bands, size, rate, float(low), float(high))), output_datatype=1
    )
    got = ops.mel_weight_matrix(*arguments)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((0, 16, 8192, 0.0, 4096.0), "num_mel_bins"),
        ((8, 16, 8192, 100.0, 50.0), "must lie in"),
        ((8, 16, 8192, 0.0, 5000.0), "half the rate"),
        ((8, 16, 8192, float("nan"), 5000.0), "must lie in"),
        ((1 << 20, 1 << 20, 8192, 0.0, 5.0), "too many"),
    ],
)
def test_mel_refusals(arguments: Any, problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=problem):
        ops.mel_weight_matrix(*arguments)
