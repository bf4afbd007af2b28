"""Leaf modules. Each is a thin holder of parameters over one operator."""

from __future__ import annotations

from typing import Any

import clika_runtime as crt
from clika_runtime.errors import InvalidArgumentError

from . import functional as F
from .module import Module, declare

__all__ = [
    "GELU",
    "Dropout",
    "Embedding",
    "Flatten",
    "Identity",
    "LayerNorm",
    "Linear",
    "QLinearWoQ",
    "RMSNorm",
    "ReLU",
    "Sigmoid",
    "SiLU",
    "Softmax",
    "Tanh",
]


class Linear(Module):
    """``y = activation(x @ weight.T + bias)``; weight ``[out_features, in_features]``, dense or
    packed.

    ``mode`` is "exact" (a packed weight decodes to the input's precision, float products) or "fast"
    (integer products over activations quantized by row block). It matters for packed weights only.
    ``input_order``, int32 [in_features], says which input feature each column of the weight means;
    None: their order is the same.

        layer = nn.Linear(4, 2, bias=False)
        layer(x)  # [..., 4] -> [..., 2]
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        dtype: Any = None,
        activation: str | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.mode = "exact"
        self.input_order: Any = None
        self.activation = F.check_activation("Linear", activation)
        self.weight = declare((out_features, in_features), dtype)
        if bias:
            self.bias = declare((out_features,), dtype)
        else:
            self.register_parameter("bias", None)

    def forward(self, x: Any) -> Any:
        if self.input_order is not None:
            x = crt.index_select(x, -1, self.input_order)
        y = crt.linear(x, self.weight, self.bias, mode=self.mode)
        return y if self.activation is None else F.activate(y, self.activation)

    def extra_repr(self) -> str:
        parts = [f"in_features={self.in_features}", f"out_features={self.out_features}"]
        parts.append(f"bias={self.bias is not None}")
        if self.activation is not None:
            parts.append(f"activation='{self.activation}'")
        return ", ".join(parts)


class QLinearWoQ(Linear):
    """A ``Linear`` over a packed weight that keeps its scheme; the product equals
    dequantize-then-linear.

    layer = nn.QLinearWoQ(64, 32)
    layer.set_weights(packed)  # a packed [32, 64] tensor
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = False,
        dtype: Any = None,
        activation: str | None = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, dtype, activation)

    def set_weights(self, weight: Any) -> None:
        """Binds a packed tensor ``[out_features, in_features]``, or a ``QTensor`` of one."""
        weight = getattr(weight, "tensor", weight)
        expected = (self.out_features, self.in_features)
        if tuple(weight.shape) != expected:
            raise InvalidArgumentError(
                f"QLinearWoQ.set_weights: the weight has shape {list(weight.shape)}, the layer "
                "takes "
                f"{list(expected)}"
            )
        if not weight.scheme:
            raise InvalidArgumentError(
                "QLinearWoQ.set_weights: the weight is dense; use nn.Linear, or quantize it first"
            )
        self.weight = weight


class Embedding(Module):
    """Rows of a table: ids ``[...]`` -> ``[..., embedding_dim]``; weight ``[num_embeddings,
    embedding_dim]``."""

    def __init__(self, num_embeddings: int, embedding_dim: int, dtype: Any = None) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        # dtype of the gathered rows; None: the weight's own, float32 for a packed table
        self.output_dtype: Any = None
        # how a head that is tied to the table multiplies with it, see Linear
        self.mode = "exact"
        self.weight = declare((num_embeddings, embedding_dim), dtype)

    def forward(self, ids: Any) -> Any:
        return crt.embedding(self.weight, ids, dtype=self.output_dtype)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"


class RMSNorm(Module):
    """``x / sqrt(mean(x^2) + eps) * (offset + weight)`` over the last dim, in float32; ``offset`` 1
    is for checkpoints that store weight - 1."""

    def __init__(
        self, normalized_size: int, eps: float = 1e-6, dtype: Any = None, offset: float = 0.0
    ) -> None:
        super().__init__()
        self.normalized_size = normalized_size
        self.eps = eps
        self.offset = offset
        self.weight = declare((normalized_size,), dtype)

    def forward(self, x: Any) -> Any:
        return crt.rms_norm(x, self.normalized_size, self.weight, self.eps, self.offset)

    def add(self, x: Any, residual: Any) -> tuple[Any, Any]:
        """``(x + residual, rms_norm(x + residual))`` in one operator."""
        normed, total = crt.add_rms_norm(
            x, residual, weight=self.weight, offset=self.offset, eps=self.eps
        )
        return total, normed

    def extra_repr(self) -> str:
        offset = f", offset={self.offset:g}" if self.offset else ""
        return f"{self.normalized_size}, eps={self.eps}{offset}"


class LayerNorm(Module):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over the last dim, in float32."""

    def __init__(
        self, normalized_size: int, eps: float = 1e-5, bias: bool = True, dtype: Any = None
    ) -> None:
        super().__init__()
        self.normalized_size = normalized_size
        self.eps = eps
        self.weight = declare((normalized_size,), dtype)
        if bias:
            self.bias = declare((normalized_size,), dtype)
        else:
            self.register_parameter("bias", None)

    def forward(self, x: Any) -> Any:
        return crt.layer_norm(x, self.normalized_size, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_size}, eps={self.eps}"


class Identity(Module):
    """Returns its input."""

    def forward(self, x: Any) -> Any:
        return x


class Dropout(Module):
    """Returns its input: dropout acts in training only. ``p`` is kept for printing."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Any) -> Any:
        return x

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Flatten(Module):
    """Joins dims ``start_dim`` (1) to ``end_dim`` (-1) into one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, x: Any) -> Any:
        rank = len(x.shape)
        start, end = self.start_dim % rank, self.end_dim % rank
        if start > end:
            raise InvalidArgumentError(
                f"Flatten: start_dim {self.start_dim} stands after end_dim {self.end_dim} at rank "
                f"{rank}"
            )
        size = 1
        for extent in x.shape[start : end + 1]:
            size = size * extent
        return x.reshape((*x.shape[:start], size, *x.shape[end + 1 :]))


class _Activation(Module):
    name = ""

    def forward(self, x: Any) -> Any:
        return F.activate(x, self.name)


class ReLU(_Activation):
    """``max(x, 0)``."""

    name = "relu"


class SiLU(_Activation):
    """``x * sigmoid(x)``."""

    name = "silu"


class Sigmoid(_Activation):
    """``1 / (1 + exp(-x))``."""

    name = "sigmoid"


class Tanh(_Activation):
    """``tanh(x)``."""

    name = "tanh"


class GELU(Module):
    """``x * Phi(x)``; ``approximate`` is "none" or "tanh"."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, x: Any) -> Any:
        return F.gelu(x, approximate=self.approximate)


class Softmax(Module):
    """``exp(x) / sum(exp(x))`` along ``dim``."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Any) -> Any:
        return crt.softmax(x, dim=self.dim)
