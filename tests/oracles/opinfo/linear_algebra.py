"""Twins of products, windows, Fourier transforms and decompositions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clika_runtime import dtypes, ops
from tests.oracles.opinfo import Twin

# torch decomposes in float32, and the condition of its samples is up to a few hundred.
_FACTORS = {"float32": (1e-3, 1e-4)}


def factors(call: Callable[..., Any]) -> Twin:
    """Results that do not depend on a choice of signs."""
    return Twin(call, close=_FACTORS)


def shapes_and(rebuilt: Callable[..., Any]) -> Callable[..., None]:
    """Compares what is built from results whose signs are free, and shapes and dtypes."""

    def compare(got: Any, want: Any, sample: Any) -> None:
        import torch

        for one, other in zip(got, want, strict=True):
            assert one.shape == other.shape, f"{list(one.shape)}, torch has {list(other.shape)}"
            assert one.dtype == other.dtype, f"{one.dtype}, torch has {other.dtype}"
        for one, other in zip(rebuilt(*got), rebuilt(*want), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)

    return compare


def _of_eigh(values: Any, vectors: Any) -> Any:
    square = vectors.mT @ vectors
    return values, vectors * values.unsqueeze(-2) @ vectors.mT, square


def _of_svd(u: Any, s: Any, vh: Any) -> Any:
    k = s.shape[-1]
    return s, u[..., :k] * s.unsqueeze(-2) @ vh[..., :k, :], u.mT @ u, vh @ vh.mT


def _of_qr(q: Any, r: Any) -> Any:
    return (q @ r, q.mT @ q) if q.ndim > 1 else (r.mT @ r,)


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


def infos(call: Callable[..., Any]) -> Twin:
    """Forms with an info for each matrix; what a bad one leaves behind is LAPACK's affair."""

    def compare(got: Any, want: Any, sample: Any) -> None:
        import torch

        assert torch.equal(got[-1], want[-1]), f"info {got[-1]}, torch has {want[-1]}"
        for one, other in zip(got[:-1], want[:-1], strict=True):
            assert one.shape == other.shape and one.dtype == other.dtype
            if not bool(want[-1].any()):
                torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)

    return Twin(call, compare=compare)


def _of_exponential(got: Any, want: Any, sample: Any) -> None:
    """torch's own bfloat16 overflows on the way: its float64 says what is right."""
    import torch

    exact = torch.matrix_exp(sample.input.double()).to(want.dtype)
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, exact, rtol=1.6e-2 if got.itemsize == 2 else 1e-5, atol=1e-5)


def _of_lstsq(got: Any, want: Any, sample: Any) -> None:
    import torch

    got = got if isinstance(want, (list, tuple)) else [got]
    want = want if isinstance(want, (list, tuple)) else [want]
    for one, other in zip(got, want, strict=True):
        assert one.shape == other.shape, f"{list(one.shape)}, torch has {list(other.shape)}"
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


TWINS: dict[str, Any] = {
    "cdist": Twin(ops.cdist, close={"float32": (1e-5, 1e-3)}),  # torch's squares cancel
    "linalg.cholesky_ex": infos(
        lambda x, upper=False, check_errors=False: ops.cholesky_ex(x, upper=upper)
    ),
    "linalg.inv_ex": infos(lambda x, check_errors=False: ops.inv_ex(x)),
    "linalg.solve_ex": infos(
        lambda a, b, left=True, check_errors=False: ops.solve_ex(a, b, left=left)
    ),
    "linalg.lu_factor_ex": infos(lambda x, pivot=True, check_errors=False: ops.lu_factor_ex(x)),
    "linalg.norm": factors(ops.linalg_norm),
    "linalg.cond": Twin(ops.cond, close={"float32": (1e-3, 1e-2)}),  # as far as float32 tells
    "linalg.lstsq": Twin(ops.lstsq, compare=_of_lstsq),
    "linalg.lstsq.grad_oriented": Twin(
        lambda a, b, driver=None: ops.lstsq(a, b, driver=driver)[:2], compare=_of_lstsq
    ),
    "linalg.tensorinv": factors(ops.tensorinv),
    "linalg.tensorsolve": factors(ops.tensorsolve),
    "lu_unpack": factors(ops.lu_unpack),
    "matrix_exp": Twin(ops.matrix_exp, compare=_of_exponential),
    "linalg.eig": None,  # complex results
    "linalg.eigvals": None,
    "stft": Twin(ops.stft, close={"float32": (1e-5, 5e-5)}),
    "addmm.decomposed": ops.addmm,
    "addbmm": sums(ops.addbmm, narrow=2.0),
    "addr": sums(ops.addr),
    "cross": sums(ops.cross),
    "__rmatmul__": sums(lambda x, other: ops.matmul(other, x)),
    "einsum": lambda operands, equation: ops.einsum(equation, *operands),
    "linalg.cross": sums(lambda x, other, dim=-1: ops.cross(x, other, dim)),
    "linalg.matrix_power": factors(ops.matrix_power),
    "linalg.multi_dot": sums(ops.multi_dot),
    "matmul": sums(ops.matmul),
    "linalg.vander": ops.vander,
    "linalg.vecdot": sums(ops.vecdot),
    **{
        f"linalg.{name}": factors(getattr(ops, name))
        for name in "det slogdet inv solve eigvalsh svdvals lu_solve".split()
    },
    "linalg.lu_factor": factors(lambda x, pivot=True: ops.lu_factor(x)),
    "linalg.lu": factors(lambda x, pivot=True: ops.lu(x)),
    "linalg.pinv.singular": None,  # its second operand is a factor of the first
    "lu": None,  # torch's older form gives the packed factors, as lu_factor does
    "svd": None,  # torch's older form gives V instead of Vh
    "cholesky": factors(lambda x, upper=False: ops.cholesky(x, upper=upper)),
    "linalg.cholesky": factors(ops.cholesky),
    "linalg.solve_triangular": factors(
        lambda a, b, *, upper, left=True, unitriangular=False: ops.solve_triangular(
            a, b, upper, unitriangular, left=left
        )
    ),
    "lu_solve": factors(lambda b, factors, pivots: ops.lu_solve(factors, pivots, b)),
    "logdet": factors(ops.logdet),
    "cholesky_solve": factors(ops.cholesky_solve),
    "cholesky_inverse": factors(ops.cholesky_inverse),
    "pinverse": factors(ops.pinv),
    "linalg.pinv": factors(ops.pinv),
    "linalg.matrix_rank": ops.matrix_rank,
    "linalg.matrix_norm": factors(ops.matrix_norm),
    "linalg.eigh": Twin(ops.eigh, compare=shapes_and(_of_eigh)),
    "linalg.svd": Twin(ops.svd, compare=shapes_and(_of_svd)),
    "linalg.qr": Twin(ops.qr, compare=shapes_and(_of_qr)),
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
