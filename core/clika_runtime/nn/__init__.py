"""Modules, parameters and functional forms.

A module declares its parameters as slots: shapes and dtypes without bytes. ``load_state_dict``
binds tensors to them by dotted name. There are no gradients, so ``eval()`` changes nothing."""

from __future__ import annotations

from . import functional
from .containers import ModuleDict, ModuleList, Sequential
from .fuse import fuse_linears
from .kv_cache import KVCache, KVCacheConfig, KVLayerSpec, StepIndices
from .layers import (
    GELU,
    Dropout,
    Embedding,
    Flatten,
    Identity,
    LayerNorm,
    Linear,
    QLinearWoQ,
    ReLU,
    RMSNorm,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
)
from .module import LoadReport, Module, Parameter

__all__ = [
    "GELU",
    "Dropout",
    "Embedding",
    "Flatten",
    "Identity",
    "KVCache",
    "KVCacheConfig",
    "KVLayerSpec",
    "LayerNorm",
    "Linear",
    "LoadReport",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "QLinearWoQ",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "StepIndices",
    "Tanh",
    "functional",
    "fuse_linears",
]
