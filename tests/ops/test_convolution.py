"""Cases, oracles and refusals of convolutions."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.testing import cases
from tests.ops.channels import back, first, images
from tests.ops.support import check_backend, check_oracle

NAMES = [f"conv{n}d" for n in (1, 2, 3)] + [f"conv_transpose{n}d" for n in (1, 2, 3)]
CASES = [case for name in NAMES for case in cases(name)]


def _wide(torch: Any, x: Any) -> Any:
    """16-bit operands in float32, as they are computed here; int32, which torch lacks, in int64."""
    if x is None:
        return None
    wide = {torch.bfloat16: torch.float32, torch.float16: torch.float32, torch.int32: torch.int64}
    return x.to(wide.get(x.dtype, x.dtype))


def oracle(torch: Any, name: str, x: Any, w: Any, b: Any, *more: Any) -> Any:
    n = w.ndim - 2
    function = getattr(torch.nn.functional, name)
    given = images(_wide(torch, x), n), first(_wide(torch, w)), _wide(torch, b)
    if "transpose" not in name:
        stride, padding, *rest = more
        if isinstance(padding, tuple) and len(padding) == 2 * n and n > 0 and padding[0] == 0:
            # Padding behind only, which torch's convolution does not take.
            grow = [size for after in reversed(padding[n:]) for size in (0, after)]
            given = (torch.nn.functional.pad(given[0], grow), *given[1:])
            padding = 0
        more = (stride, padding, *rest)
    return back(function(*given, *more), n).to(x.dtype)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, lambda torch, *given: oracle(torch, case.op, *given))


def _compare(torch: Any, got: Any, want: Any) -> None:
    # A chain of a few hundred float32 terms of size 1: an error of some 1e-5 at most.
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(40))
def test_random_geometry(seed: int) -> None:
    """Any kernel, stride, padding, dilation and groups agree with torch."""
    torch = pytest.importorskip("torch")
    rng = random.Random(seed)
    torch.manual_seed(seed)
    n = rng.choice([1, 2, 3])
    groups = rng.choice([1, 1, 2, 3])
    inner, outer = rng.choice([1, 2, 5, 33]), rng.choice([1, 3, 40])
    kernel, stride, dilation = ([rng.randint(1, 3) for _ in range(n)] for _ in range(3))
    padding = [rng.randint(0, 2) for _ in range(n)]
    size = [rng.randint(7, 11) for _ in range(n)]
    x = torch.randn(rng.choice([1, 2]), inner * groups, *size)
    bias = torch.randn(outer * groups) if rng.random() < 0.5 else None
    ours = None if bias is None else crt.tensor(bias.numpy())
    mine = crt.tensor(back(x, n).contiguous().numpy())
    w = torch.randn(outer * groups, inner, *kernel)
    want = getattr(torch.nn.functional, f"conv{n}d")(x, w, bias, stride, padding, dilation, groups)
    got = getattr(crt, f"conv{n}d")(
        mine, crt.tensor(w.movedim(1, -1).contiguous().numpy()), ours, stride, padding, dilation,
        groups,
    )  # fmt: skip
    _compare(torch, got, back(want, n))
    extra = [rng.randint(0, max(s, d) - 1) for s, d in zip(stride, dilation, strict=True)]
    w = torch.randn(inner * groups, outer, *kernel)
    name = f"conv_transpose{n}d"
    want = getattr(torch.nn.functional, name)(x, w, bias, stride, padding, extra, groups, dilation)
    got = getattr(crt, name)(
        mine, crt.tensor(w.movedim(1, -1).contiguous().numpy()), ours, stride, padding, extra,
        groups, dilation,
    )  # fmt: skip
    _compare(torch, got, back(want, n))


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2])
def test_padding_by_word(kernel: int, dilation: int) -> None:
    torch = pytest.importorskip("torch")
    x, w = torch.randn(2, 3, 7, 8), torch.randn(5, 3, kernel, kernel)
    mine = crt.tensor(x.movedim(1, -1).contiguous().numpy())
    ours = crt.tensor(w.movedim(1, -1).contiguous().numpy())
    for word in ("same", "valid"):
        want = torch.nn.functional.conv2d(x, w, padding=word, dilation=dilation)
        got = crt.conv2d(mine, ours, padding=word, dilation=dilation)
        _compare(torch, got, want.movedim(1, -1))


def test_large_products_change_no_bit() -> None:
    """The same pixel has the same bits in a large image and alone."""
    rng = np.random.default_rng(0)
    w = crt.tensor(rng.standard_normal((40, 3, 3, 20)).astype(np.float32))
    image = rng.standard_normal((2, 30, 31, 20)).astype(np.float32)
    whole = crt.conv2d(crt.tensor(image), w).numpy()
    part = crt.conv2d(crt.tensor(image[1:, 7:12, 9:15].copy()), w).numpy()
    assert (whole[1:, 7:10, 9:13] == part).all()


X, W = crt.zeros(1, 5, 5, 4), crt.zeros(6, 3, 3, 2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: crt.conv2d(X, W), "does not fit weight [6, 3, 3, 2]"),
        (lambda: crt.conv2d(X, crt.zeros(6, 7, 7, 4)), "does not fit size 5"),
        (lambda: crt.conv2d(X, W, groups=0), "groups 0 must be at least 1"),
        (lambda: crt.conv2d(X, W, groups=2, stride=0), "stride [0, 0] must be integers"),
        (lambda: crt.conv2d(X, W, groups=2, padding=-1), "padding [-1, -1] must be integers"),
        (lambda: crt.conv2d(X, W, groups=2, stride=(1, 2, 3)), "stride [1, 2, 3] must be one"),
        (lambda: crt.conv2d(X, W, groups=2, padding=2**41), "at most 2^40"),
        (lambda: crt.conv2d(X, W, groups=2, padding="full"), "'full' is not a Padding"),
        (lambda: crt.conv2d(X, W, groups=2, padding="same", stride=2), "'same' needs stride 1"),
        (lambda: crt.conv2d(X, W, crt.zeros(5), groups=2), "bias [5] must be [6]"),
        (lambda: crt.conv2d(X, W.to(crt.float16), groups=2), "convert one with .to()"),
        (lambda: crt.conv2d(crt.zeros(5, 4), W, groups=2), "input [5, 4] must be [N, H, W, C]"),
        (lambda: crt.conv2d(X, crt.zeros(6, 3, 4)), "weight [6, 3, 4] must be [O, K..., C"),
        (lambda: crt.conv2d(X, crt.zeros(6, 0, 3, 4)), "kernel of size 0"),
        (
            lambda: crt.conv_transpose2d(X, crt.zeros(4, 3, 3, 6), output_padding=1),
            "output_padding [1, 1] must be smaller",
        ),
        (
            lambda: crt.conv_transpose2d(X, crt.zeros(4, 1, 1, 6), padding=3),
            "leaves nothing of the result",
        ),
        (lambda: crt.conv_transpose2d(X, crt.zeros(3, 3, 3, 6)), "does not fit weight"),
    ],
)
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    assert text in str(caught.value)


def test_a_huge_stride_of_a_transposed_convolution_takes_no_time() -> None:
    got = crt.conv_transpose2d(crt.ones(1, 1, 1, 1), crt.ones(1, 2, 2, 1), stride=2**40)
    assert got.reshape(-1).tolist() == [1.0, 1.0, 1.0, 1.0]
