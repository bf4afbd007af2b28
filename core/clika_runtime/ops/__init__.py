"""Operators: one record each, declared in the module that bears its name or its group's.

``clika_runtime.ops.softmax`` is the callable that the native core makes from the record
``softmax``. Records load on first use, so that importing this package costs next to nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .record import RANDOM, RECORDS, told

if TYPE_CHECKING:
    from collections.abc import Callable

    from .record import Record

# Module -> the names it declares. A module with one operator bears the operator's name.
_GROUPS = {
    "elementwise": (
        "neg abs exp log sqrt rsqrt sin cos tanh sigmoid silu gelu relu erf reciprocal square "
        "floor ceil round sign trunc frac exp2 expm1 log2 log10 log1p tan asin acos atan sinh cosh "
        "asinh acosh atanh deg2rad rad2deg nan_to_num"
    ),
    "special": (
        "sinc logit erfc erfcx erfinv ndtr ndtri log_ndtr lgamma digamma polygamma mvlgamma i0 i0e "
        "i1 i1e entr xlogy xlog1py"
    ),
    "activations": (
        "softplus elu celu selu hardtanh relu6 hardsigmoid hardswish hardshrink softshrink "
        "tanhshrink softsign mish logsigmoid leaky_relu threshold prelu glu"
    ),
    "gated": "swiglu geglu reglu situ",
    "linears": "linears gated_linear",
    "arithmetic": (
        "add sub mul div pow maximum minimum remainder fmod floor_divide fmax fmin heaviside "
        "copysign gcd lcm atan2 hypot logaddexp logaddexp2 nextafter float_power ldexp frexp"
    ),
    "ternary": "lerp addcmul addcdiv masked_fill",
    "comparison": (
        "eq ne lt le gt ge isnan isinf isfinite isposinf isneginf isreal signbit isclose isin"
    ),
    "logical": "logical_not logical_and logical_or logical_xor",
    "bitwise": (
        "bitwise_not bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift"
    ),
    "reductions": (
        "sum mean prod amax amin any all nansum nanmean aminmax count_nonzero var std var_mean "
        "std_mean logsumexp vector_norm dist trace"
    ),
    "cumulative": ("cumsum cumprod cummax cummin logcumsumexp diff trapezoid cumulative_trapezoid"),
    "sorting": (
        "argsort msort kthvalue median nanmedian mode quantile nanquantile searchsorted bucketize "
        "unique unique_consecutive"
    ),
    "counting": "bincount histc histogram",
    "selecting": "nonzero nonzero_static masked_select take take_along_dim one_hot",
    "scattering": (
        "scatter scatter_add scatter_reduce index_add index_copy index_fill index_reduce put "
        "masked_scatter"
    ),
    "segments": "segment_reduce",
    "statistics": "cov corrcoef",
    "boxes": "box_iou nms",
    "drawing": "randint randperm bernoulli normal multinomial dropout",
    "views": "view unflatten slice movedim t adjoint diagonal sliding_window",
    "rearranging": "flip roll repeat tril triu diag_embed",
    "convolution": ("conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d"),
    "pooling": (
        "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d lp_pool1d lp_pool2d "
        "lp_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
        "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d max_unpool1d max_unpool2d "
        "max_unpool3d"
    ),
    "resampling": "interpolate resize grid_sample affine_grid",
    "spatial": "pixel_shuffle pixel_unshuffle channel_shuffle im2col col2im pad",
    "normalization": "batch_norm instance_norm group_norm local_response_norm normalize",
    "quantization": (
        "quantize_linear dequantize_linear dynamic_quantize_linear quantize_per_tensor "
        "quantize_per_channel fake_quantize_per_tensor_affine fake_quantize_per_channel_affine"
    ),
    "packed": "packed_slots rotary_embedding",
    "creation": "eye linspace logspace tril_indices triu_indices",
    "advanced_indexing": "index index_put_",
    "fourier": "fft ifft rfft irfft",
    "decompositions": (
        "cholesky cholesky_ex lu_factor lu_factor_ex det slogdet inv inv_ex solve solve_ex "
        "solve_triangular qr eigh svd"
    ),
}
# Module -> Python functions over operators: they have no record and no node of their own.
_FUNCTIONS = {
    "split": "split split_with_sizes chunk",
    "extremes": "max min",
    "norms": "norm",
    "gradients": "gradient",
    "putting": "index_put",
    "random_likes": "rand_like randn_like randint_like",
    "parts": (
        "unbind tensor_split hsplit vsplit dsplit select_scatter slice_scatter diagonal_scatter "
        "as_strided as_strided_scatter"
    ),
    "reshaping": (
        "contiguous ravel view_as reshape_as expand_as fliplr flipud rot90 tile diag diagflat "
        "narrow_copy repeat_interleave unravel_index sum_to_size fill to"
    ),
    "joining": (
        "atleast_1d atleast_2d atleast_3d hstack vstack dstack column_stack block_diag "
        "broadcast_tensors broadcast_shapes meshgrid cartesian_prod combinations"
    ),
    "likes": (
        "full_like zeros_like ones_like empty_like new_full new_zeros new_ones new_empty "
        "new_empty_strided"
    ),
    "factories": "empty empty_strided empty_permuted scalar_tensor",
    "upsample": "upsample_nearest upsample_bilinear",
    "multi_head": "multi_head_attention_forward",
    "attention": (
        "multi_head_attention generate_rotary_cache qk_rms_norm group_query_attention_varlen "
        "attention_over_cache"
    ),
    "shorthands": (
        "positive real conj angle rsub clamp_min clamp_max equal allclose rrelu softmin"
    ),
    "inplace": "add_ sub_ mul_ div_ relu_ clamp_",
    "distances": "l2_normalize cosine_similarity pairwise_distance cdist",
    "losses": (
        "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy "
        "binary_cross_entropy_with_logits kl_div poisson_nll_loss soft_margin_loss "
        "margin_ranking_loss hinge_embedding_loss cosine_embedding_loss triplet_margin_loss "
        "triplet_margin_with_distance_loss multi_margin_loss multilabel_margin_loss "
        "multilabel_soft_margin_loss nll_loss cross_entropy gaussian_nll_loss"
    ),
    "products": (
        "mm bmm mv dot vdot inner outer addmm addmv addbmm baddbmm addr tensordot kron cross "
        "vecdot chain_matmul matrix_power vander"
    ),
    "einsum": "einsum",
    "matrices": (
        "lu lu_unpack lu_solve logdet eig eigvals eigvalsh svdvals pinv matrix_rank matrix_norm "
        "linalg_norm cond lstsq cholesky_solve cholesky_inverse tensorinv tensorsolve matrix_exp"
    ),
    "transforms": (
        "fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn hfft ihfft hfft2 ihfft2 hfftn ihfftn "
        "fftfreq rfftfreq fftshift ifftshift"
    ),
    "windows": (
        "hann_window hamming_window blackman_window bartlett_window kaiser_window cosine_window "
        "gaussian_window exponential_window nuttall_window general_cosine_window "
        "general_hamming_window"
    ),
    "spectra": "stft istft mel_weight_matrix",
    "_seed": "manual_seed",
}
# Modules whose functions are not methods of Tensor.
_NO_METHODS = frozenset(
    {
        "_seed",
        "gradients",
        "inplace",
        "random_likes",
        "distances",
        "losses",
        "upsample",
        "attention",
        "multi_head",
        "joining",
        "factories",
        "einsum",
        "transforms",
        "windows",
        "spectra",
    }
)
# Further names of operators and functions, as PyTorch has them.
_ALIASES = {
    "clone": "copy",
    "argwhere": "nonzero",
    "trapz": "trapezoid",
    "absolute": "abs",
    "conj_physical": "conj",
    "resolve_conj": "conj",
    "resolve_neg": "conj",
    "negative": "neg",
    "sgn": "sign",
    "fix": "trunc",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "expit": "sigmoid",
    "gammaln": "lgamma",
    "psi": "digamma",
    "multigammaln": "mvlgamma",
    "clip": "clamp",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "true_divide": "div",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "not_equal": "ne",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "moveaxis": "movedim",
    "broadcast_to": "expand",
    "unfold": "sliding_window",
    "row_stack": "vstack",
    "unsafe_split": "split",
    "unsafe_split_with_sizes": "split_with_sizes",
    "unsafe_chunk": "chunk",
    "ger": "outer",
    "multi_dot": "chain_matmul",
    "inverse": "inv",
    "pinverse": "pinv",
}
_SINGLE = (
    "where clamp cast bitcast copy copy_ reshape permute transpose squeeze unsqueeze expand narrow "
    "select flatten cat stack index_select gather sort topk argmax argmin softmax log_softmax "
    "matmul full arange rand randn zeros ones linear embedding dequantize rms_norm add_rms_norm "
    "layer_norm rotary kv_append rotary_append paged_attention sample embedding_bag bilinear "
    "scaled_dot_product_attention bias_logits penalize_logits mask_logits mirostat top_logprobs"
)
_HOME = {name: name for name in _SINGLE.split()}
_HOME.update((name, group) for group, names in _GROUPS.items() for name in names.split())
_HOME.update((name, group) for group, names in _FUNCTIONS.items() for name in names.split())
_HELPERS = frozenset(" ".join(_FUNCTIONS.values()).split())

__all__ = sorted({*_HOME, *_ALIASES})


def record(name: str) -> Record:
    """The record of an operator, from the core or a plugin; loads its module if needed.

    >>> record("relu").summary
    'max(x, 0), element by element.'
    """
    name = _ALIASES.get(name, name)
    if name not in RECORDS and name in _HOME:
        import_module(f"{__name__}.{_HOME[name]}")
    if name not in RECORDS and not _declared_by_a_plugin(name):
        from ..errors import NotFoundError

        raise NotFoundError(f"ops: there is no operator '{name}'", "NOT_FOUND")
    return RECORDS[name]


def _declared_by_a_plugin(name: str) -> bool:
    """Loads the records of the plugin that announced the operator."""
    from .. import plugins

    return plugins.load_operator(name) and name in RECORDS


def records() -> dict[str, Record]:
    """All records by name, sorted; loads every module."""
    for module in set(_HOME.values()):
        import_module(f"{__name__}.{module}")
    return dict(sorted(RECORDS.items()))


def operator_names() -> list[str]:
    """The names of all operators, those that plugins announce included, sorted; loads no record."""
    from .. import plugins

    announced = (name for row in plugins.operators().values() for name in row.spec.operators)
    return sorted({*_HOME.keys() - _HELPERS, *RECORDS, *announced})


class Helper:
    """Stands where a record would for a function that is made of operators."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Helper) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


def method_record(name: str) -> Record | Helper | None:
    """What is behind the ``Tensor`` method of that name: the record of an operator (also by one of
    its aliases), a helper, or None.

    >>> method_record("relu").name
    'relu'
    """
    name = _ALIASES.get(name, name)
    if name in _HELPERS:
        return None if _HOME[name] in _NO_METHODS else Helper(name)
    if name in _HOME or name in RECORDS:
        found = record(name)
        return found if found.method else None
    return None


def _callable(name: str) -> Callable[..., Any]:
    if name in _HELPERS:
        from ._functions import named

        return named(name, getattr(import_module(f"{__name__}.{_HOME[name]}"), name))
    found = record(name)
    from .._native._core import Op

    call: Any = Op(found)
    if RANDOM in found.traits and "seed" in {arg.name for arg in found.scalars}:
        from ._seed import seeded

        call = seeded(call)
    return call if found.front is None else _fronted(found, call)


def _fronted(found: Record, call: Callable[..., Any]) -> Callable[..., Any]:
    assert found.front is not None
    function = told(found.name, found.front(call))
    function.__name__ = function.__qualname__ = found.name
    function.__doc__ = found.help
    return function


def __getattr__(name: str) -> Any:
    if name not in _HOME and name not in RECORDS and name not in _ALIASES:
        if name.startswith("_") or not _declared_by_a_plugin(name):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(sys.modules[__name__], _ALIASES[name]) if name in _ALIASES else _callable(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *RECORDS})


class _Operators(ModuleType):
    """Keeps an operator's name for its callable: importing the module ``ops.softmax`` would
    otherwise put that module in the place of the function ``ops.softmax``."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and name in _HOME:
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Operators
