"""Twins of products, windows, Fourier transforms and decompositions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clika_runtime import ops
from tests.oracles.opinfo import Twin


def window(call: Callable[..., Any]) -> Callable[..., Any]:
    """torch.signal.windows: `sym` is the opposite of `periodic`, and the default."""

    def made(length: int, *, sym: bool = True, **options: Any) -> Any:
        return call(length, not sym, **options)

    return made


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
        f"signal.windows.{name}": window(getattr(ops, f"{name}_window"))
        for name in (
            "bartlett blackman cosine exponential gaussian general_cosine general_hamming hamming "
            "hann kaiser nuttall"
        ).split()
    },
}
