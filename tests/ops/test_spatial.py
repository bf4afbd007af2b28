"""Cases, oracles and refusals of shuffles, windows as columns and padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.testing import cases
from tests.ops.channels import back, first, images, last
from tests.ops.support import check_backend, check_oracle

NAMES = ("pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "im2col", "col2im", "pad")
CASES = [case for name in NAMES for case in cases(name)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


def im2col(torch: Any, x: Any, *window: Any) -> Any:
    return torch.nn.functional.unfold(images(x, 2), *window).transpose(-1, -2)


def col2im(torch: Any, x: Any, size: Any, *window: Any) -> Any:
    return back(torch.nn.functional.fold(x.transpose(-1, -2), size, *window), 2)


ORACLES: dict[str, Any] = {
    "pixel_shuffle": lambda torch, x, r: back(torch.pixel_shuffle(images(x, 2), r), 2),
    "pixel_unshuffle": lambda torch, x, r: back(torch.pixel_unshuffle(images(x, 2), r), 2),
    "channel_shuffle": lambda torch, x, groups: last(torch.channel_shuffle(first(x), groups)),
    "im2col": im2col,
    "col2im": col2im,
}


def _served(case: Any) -> bool:
    if case.op not in ORACLES or case.name == "volume" or case.name == "empty":
        return False
    if case.op == "col2im":  # torch adds up 16-bit numbers in their own dtype
        return case.dtype not in ("int32", "int64", "bool", "bfloat16", "float16")
    return case.op != "im2col" or case.dtype not in ("int32", "int64")


@pytest.mark.parametrize("case", [case for case in CASES if _served(case)], ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, lambda torch, *given: ORACLES[case.op](torch, *given))


def test_fold_is_the_sum_of_unfolded_windows() -> None:
    x = crt.tensor(np.random.default_rng(0).standard_normal((2, 5, 6, 3)).astype(np.float32))
    ones = crt.col2im(crt.im2col(crt.ones(2, 5, 6, 3), 3, 1, 1), (5, 6), 3, 1, 1)
    back_again = crt.col2im(crt.im2col(x, 3, 1, 1), (5, 6), 3, 1, 1)
    # Up to nine equal terms: exact but for the roundings of their sums.
    np.testing.assert_allclose((back_again / ones).numpy(), x.numpy(), rtol=1e-6)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize(
    "pad", [(1, 2), (0, 1, 2, 0), (2, 1, 0, 1, 1, 0), (-1, 2), (-1, 1, 1, -1), (-1, -1)], ids=str
)
def test_padding_agrees_with_torch(mode: str, pad: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(2, 3, 3, 4, 5)
    if mode != "constant" and len(pad) < 6:
        pad = (*pad, *[0] * (6 - len(pad)))  # torch wants all spatial dims
    want = torch.nn.functional.pad(x, pad, mode)
    assert (crt.pad(crt.tensor(x.numpy()), pad, mode).numpy() == want.numpy()).all()


def test_padding_takes_a_list_and_a_value() -> None:
    x = crt.arange(4)
    assert crt.pad(x, [2, 1], mode="reflect").tolist() == [2, 1, 0, 1, 2, 3, 2]
    assert crt.pad(x, [1, 0], value=2**60 + 1).tolist() == [2**60 + 1, 0, 1, 2, 3]
    assert crt.pad(crt.tensor([True]), [1, 1], value=True).tolist() == [True, True, True]


X = crt.zeros(1, 4, 4, 4)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: crt.pixel_shuffle(X, 3), "must be divisible by 9"),
        (lambda: crt.pixel_shuffle(X, 0), "upscale_factor 0 must be at least 1"),
        (lambda: crt.pixel_shuffle(crt.zeros(4, 4), 2), "must be [..., H, W, C]"),
        (lambda: crt.pixel_unshuffle(X, 3), "the height of input"),
        (lambda: crt.channel_shuffle(X, 3), "the channels of input"),
        (lambda: crt.im2col(X, 5), "does not fit size 4"),
        (lambda: crt.im2col(X, 2, stride=0), "stride [0, 0] must be integers"),
        (lambda: crt.col2im(crt.zeros(1, 8, 4), 4, 2), "must have 9 windows"),
        (lambda: crt.col2im(crt.zeros(1, 9, 5), 4, 2), "must be divisible by 4"),
        (lambda: crt.pad(X, [1]), "must be pairs (before, after)"),
        (lambda: crt.pad(X, [1] * 10), "must be pairs (before, after)"),
        (lambda: crt.pad(X, [-3, -2]), "leaves -1 of dim 3"),
        (lambda: crt.pad(X, [4, 0], "reflect"), "can pad dim 3"),
        (lambda: crt.pad(X, [5, 0], "circular"), "can pad dim 3"),
        (lambda: crt.pad(crt.zeros(2, 0), [1, 0], "replicate"), "by at most 0"),
        (lambda: crt.pad(X, [2**62, 2**62]), "is too large"),
        (lambda: crt.pad(X, [1, 1], "mirror"), "mode: 'mirror' is not a Mode"),
    ],
)
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    assert text in str(caught.value)
