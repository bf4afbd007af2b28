"""Twins of elementwise operators, activations and losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clika_runtime import ops
from tests.oracles.opinfo import CLOSE, Skip, Twin, entries


def wider(
    name: str, call: Callable[..., Any], dtype: str = "bfloat16", to: str = "float32"
) -> Twin:
    """For functions of which torch gives few right bits in ``dtype``: our results are compared
    with those that torch gives for the same numbers in a wider dtype, rounded."""

    def compare(got: Any, want: Any, sample: Any) -> None:
        import torch

        narrow, wide = getattr(torch, dtype), getattr(torch, to)
        if want.dtype == narrow:
            given = sample.transform(
                lambda x: x.to(wide) if isinstance(x, torch.Tensor) and x.dtype == narrow else x
            )
            want = entries()[name](given.input, *given.args, **given.kwargs).to(narrow)
        assert got.shape == want.shape, f"shape {list(got.shape)}, torch has {list(want.shape)}"
        assert got.dtype == want.dtype, f"dtype {got.dtype}, torch has {want.dtype}"
        relative, absolute = CLOSE.get(str(want.dtype).removeprefix("torch."), (0, 0))
        torch.testing.assert_close(got, want, rtol=relative, atol=absolute, equal_nan=True)

    return Twin(call, compare=compare)


def triplet(*tensors: Any, distance_function: Any = None, **options: Any) -> Any:
    """Distances of torch as ours."""
    import torch

    if isinstance(distance_function, torch.nn.PairwiseDistance):
        given = distance_function

        def distance(a: Any, b: Any) -> Any:
            return ops.pairwise_distance(a, b, given.norm, given.eps, given.keepdim)

        options["distance_function"] = distance
    elif distance_function is not None:
        raise Skip("a distance function that computes with torch's tensors")
    return ops.triplet_margin_with_distance_loss(*tensors, **options)


def polygamma(x: Any, n: int) -> Any:
    return ops.polygamma(n, x)


def method(name: str) -> Callable[..., Any]:
    return lambda x: getattr(x, name)()


# torch rounds to bfloat16 after every step, and close numbers are subtracted.
ROUNDED = {
    "div.trunc_rounding": ops.div,
    "lerp": ops.lerp,
    "logit": ops.logit,
    "special.ndtr": ops.ndtr,
    "nn.functional.tanhshrink": ops.tanhshrink,
    "nn.functional.cosine_similarity": ops.cosine_similarity,
    "nn.functional.binary_cross_entropy_with_logits": ops.binary_cross_entropy_with_logits,
    "nn.functional.multilabel_soft_margin_loss": ops.multilabel_soft_margin_loss,
    "nn.functional.nll_loss": ops.nll_loss,
    "nn.functional.hinge_embedding_loss": ops.hinge_embedding_loss,
    "nn.functional.poisson_nll_loss": ops.poisson_nll_loss,
    "nn.functional.gaussian_nll_loss": ops.gaussian_nll_loss,
    "nn.functional.kl_div": ops.kl_div,
    "nn.functional.soft_margin_loss": ops.soft_margin_loss,
    "nn.functional.cross_entropy": ops.cross_entropy,
}
# torch's order 1 in float32 has a relative error of 2e-5 below 0.
POLYGAMMA = (
    *(f"polygamma.polygamma_n_{n}" for n in range(5)),
    "special.polygamma.special_polygamma_n_0",
)
CASTS = ("bfloat16", "bool", "byte", "char", "double", "float", "half", "int", "long", "short")

TWINS: dict[str, Any] = {
    **{name: wider(name, call) for name, call in ROUNDED.items()},
    **{name: wider(name, polygamma, "float32", "float64") for name in POLYGAMMA},
    **{name: method(name) for name in CASTS},
    "__radd__": lambda x, other: other + x,
    "__rdiv__": lambda x, other: other / x,
    "__rmul__": lambda x, other: other * x,
    "__rand__": lambda x, other: other & x,
    "__ror__": lambda x, other: other | x,
    "__rxor__": lambda x, other: other ^ x,
    "__rmod__": lambda x, other: other % x,
    "__rpow__": lambda x, other: other**x,
    "__rsub__": lambda x, other: other - x,
    "where": lambda x, condition, other: ops.where(condition, x, other),
    "nn.functional.triplet_margin_with_distance_loss": triplet,
}
