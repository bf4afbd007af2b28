"""NumPy kernels: enough to carry a model, since other operators run their composed form.

A kernel gets one call with ``inputs`` and ``outputs`` (NumPy views), ``attrs`` and ``scalars``, and
fills the outputs; shapes and dtypes are settled before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from clika_runtime.errors import UnsupportedError


class Kernel:
    """A function of a call's arguments, and what it takes; else the core composes or declines."""

    dtypes = frozenset(("bool", "int32", "int64", "float32"))
    schemes = frozenset[int]()  # no packed weights

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, call: Any) -> None:
        with np.errstate(all="ignore"):
            result = self.function(*call.inputs, **call.attrs, **call.scalars)
        if result is not None:  # None: written in place
            call.outputs[0][...] = result


def reduces(function: Callable[..., Any]) -> Kernel:
    def run(x: Any, dim: Any, keepdim: bool, dtype: Any = None) -> Any:
        return function(x, axis=dim if dim and x.ndim else None, keepdims=keepdim)

    return Kernel(run)


KERNELS = {
    "abs": Kernel(np.abs),
    "add": Kernel(lambda x, y, alpha: x + y * alpha),
    "amax": reduces(np.max),
    "amin": reduces(np.min),
    "cast": Kernel(lambda x, dtype: x),
    "cat": Kernel(lambda tensors, dim: np.concatenate(tensors, dim)),
    "copy": Kernel(lambda x: x),
    "copy_": Kernel(lambda target, source: source),
    "cos": Kernel(np.cos),
    "dequantize": Kernel(lambda weight, dtype: weight),
    "eq": Kernel(np.equal),
    "exp": Kernel(np.exp),
    "full": Kernel(lambda value, **placement: value),
    "index_select": Kernel(lambda x, index, dim: np.take(x, index, dim)),
    "le": Kernel(np.less_equal),
    "log": Kernel(np.log),
    "lt": Kernel(np.less),
    "matmul": Kernel(np.matmul),
    "maximum": Kernel(np.maximum),
    "minimum": Kernel(np.minimum),
    "mul": Kernel(np.multiply),
    "neg": Kernel(np.negative),
    "sin": Kernel(np.sin),
    "sqrt": Kernel(np.sqrt),
    "sub": Kernel(lambda x, y, alpha: x - y * alpha),
    "sum": reduces(np.sum),
    "tanh": Kernel(np.tanh),
    "where": Kernel(np.where),
}


def kernel(function: Callable[..., Any]) -> None:
    """Registers a function as the kernel of the operator that bears its name."""
    KERNELS[function.__name__] = Kernel(function)


@kernel
def div(x: Any, y: Any, rounding_mode: str) -> Any:
    if rounding_mode != "none":
        raise UnsupportedError("div: the abacus does not round", "NOT_IMPLEMENTED_FOR_PARAM")
    return x / y


@kernel
def kv_append(pool: Any, value: Any, slots: Any) -> None:
    pool.reshape(-1, *value.shape[1:])[slots] = value


@kernel
def paged_attention(
    query: Any, key_pool: Any, value_pool: Any, table: Any, starts: Any, lengths: Any, sinks: Any,
    *, causal: bool, window: int, mode: str, scale: float, softcap: float,
) -> Any:  # fmt: skip
    if sinks is not None or softcap or window or not causal:
        raise UnsupportedError("paged_attention: causal only", "NOT_IMPLEMENTED_FOR_PARAM")
    group = query.shape[1] // key_pool.shape[2]  # query heads of a key head
    out = np.zeros((*query.shape[:2], value_pool.shape[3]), np.float32)
    for row, begin, end, length in zip(table, starts, starts[1:], lengths, strict=False):
        if begin == end:
            continue
        k = np.concatenate(key_pool[row])[:length].repeat(group, axis=1)
        v = np.concatenate(value_pool[row])[:length].repeat(group, axis=1)
        scores = np.einsum("thd,jhd->htj", query[begin:end], k) * scale
        places = np.arange(length - (end - begin), length)[:, None]
        scores[:, np.arange(length) > places] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        out[begin:end] = np.einsum("htj,jhd->thd", weights / weights.sum(-1, keepdims=True), v)
    return out


@kernel
def sample(logits: Any, temperature: Any, *filters: Any) -> Any:
    if np.any(temperature):
        raise UnsupportedError("sample: greedy only, pass 0", "NOT_IMPLEMENTED_FOR_PARAM")
    return np.where(logits.max(-1) > -np.inf, np.argmax(logits, axis=-1), -1)  # -1: NaN too


class Abacus:
    name = "NumPy " + np.__version__
    kernels = KERNELS
