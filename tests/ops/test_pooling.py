"""Cases, oracles and refusals of pooling."""

from __future__ import annotations

from typing import Any

import pytest

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError
from clika_runtime.testing import cases
from tests.ops.channels import back, images
from tests.ops.support import check_backend, check_oracle

KINDS = ("max_pool", "avg_pool", "lp_pool", "adaptive_avg_pool", "adaptive_max_pool", "max_unpool")
NAMES = [f"{kind}{n}d" for kind in KINDS for n in (1, 2, 3)]
CASES = [case for name in NAMES for case in cases(name)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backend(case: Any) -> None:
    check_backend(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan(case: Any) -> None:
    check_backend(case, planned=True)


def _options(name: str, n: int, more: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Our arguments behind the tensors as torch's."""
    if name.startswith("max_pool"):
        kernel, stride, padding, dilation, ceil, indices = more
        return (kernel, stride or kernel, padding, dilation, ceil, indices), {}
    if name.startswith("avg_pool"):
        kernel, stride, *rest = more
        return (kernel, stride or kernel, *rest), {}
    if name.startswith("adaptive"):
        size, *rest = more
        if isinstance(size, tuple):
            size = tuple(None if extent == -1 else extent for extent in size)
        return (size, *rest), {}
    if name.startswith("max_unpool"):
        kernel, stride, padding, size = more
        size = size[-n - 1 : -1] if size is not None and len(size) == n + 2 else size
        return (kernel, stride or kernel, padding, size), {}
    p, kernel, stride, ceil = more
    return (float(p), kernel, stride or kernel, ceil), {}


def oracle(torch: Any, name: str, x: Any, *more: Any) -> Any:
    n = int(name[-2])
    dtype = x.dtype
    function = getattr(torch.nn.functional, name)
    x = images(x, n)
    if dtype in (torch.float16, torch.bfloat16) and "max" not in name:
        x = x.float()  # as it is computed here
    if name.startswith("max_unpool"):
        at, *more = more  # type: ignore[assignment]
        given, options = _options(name, n, tuple(more))
        result = function(x, images(at, n).to(torch.int64), *given, **options)
    else:
        given, options = _options(name, n, more)
        result = function(x, *given, **options)
    if isinstance(result, tuple):
        return tuple(back(part, n) for part in result)
    return back(result, n).to(dtype)


def _served(case: Any) -> bool:
    """What torch's kernels do not take, or take for an error, is left to the reference."""
    n, name = int(case.op[-2]), case.name
    if case.op.startswith("max_unpool") and n == 1 and "size" in name:
        return False
    whole = case.dtype in ("int32", "int64")
    if whole and (
        n == 1 or case.dtype == "int32" or case.op.startswith(("adaptive", "max_unpool"))
    ):
        return False
    if case.op.startswith("lp_pool") and name == "no-batch":
        return False
    short = case.dtype in ("float16", "bfloat16")
    return not (short and case.op.startswith(("max_unpool", "max_pool3", "adaptive_max_pool3")))


@pytest.mark.parametrize("case", [case for case in CASES if _served(case)], ids=str)
def test_oracle(case: Any) -> None:
    check_oracle(case, lambda torch, *given: oracle(torch, case.op, *given))


def test_sizes_that_stay() -> None:
    x = crt.arange(24, dtype=crt.float32).reshape(1, 4, 6, 1)
    assert crt.adaptive_avg_pool2d(x, (None, 3)).shape == (1, 4, 3, 1)
    assert crt.adaptive_max_pool2d(x, (2, None)).shape == (1, 2, 6, 1)
    assert crt.adaptive_avg_pool2d(x, None).tolist() == x.tolist()


X = crt.zeros(1, 5, 5, 2)
PLACES = crt.tensor([[[[9], [0]]]])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: crt.max_pool2d(X, 2, padding=2), "at most half of kernel_size"),
        (lambda: crt.max_pool2d(X, 7), "does not fit size 5"),
        (lambda: crt.max_pool2d(X, 0), "kernel_size [0, 0] must be integers"),
        (lambda: crt.max_pool2d(X, (2, 2, 2)), "kernel_size [2, 2, 2] must be one number or 2"),
        (lambda: crt.max_pool2d(X, 2, stride=-1), "stride [-1, -1] must be integers"),
        (lambda: crt.max_pool2d(crt.zeros(5, 5), 2), "must be [N, H, W, C] or [H, W, C]"),
        (lambda: crt.max_pool2d(crt.zeros(1, 0, 5, 2), 1), "is empty in a dim"),
        (lambda: crt.avg_pool2d(X, 2, divisor_override=0), "divisor_override must not be 0"),
        (lambda: crt.lp_pool2d(X, 0, 2), "norm_type must not be 0"),
        (lambda: crt.adaptive_avg_pool2d(X, (2, -2)), "output_size [2, -2] must be integers"),
        (lambda: crt.max_unpool2d(X, X.to(crt.int64), 2, output_size=(90, 90)), "between 9 and 11"),
        (lambda: crt.max_unpool2d(X, X, 2), "indices has dtype float32"),
        (
            lambda: crt.max_unpool2d(crt.zeros(1, 1, 2, 1), PLACES, 2).numpy(),
            "index 9 is outside the 8 places",
        ),
    ],
)
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        call().numpy()
    assert text in str(caught.value)
