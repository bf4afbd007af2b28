"""Readers and writers of checkpoint files: GGUF and safetensors.

``open_gguf`` and ``open_safetensors`` give names, shapes and byte views over a memory map and need
neither NumPy nor the native core; ``load_*`` and ``save_*`` go to and from tensors.
"""

from __future__ import annotations

from ._files import read_json
from .arrays import load_npy, save_npy
from .gguf import GgufArray, GgufFile, open_gguf
from .quantized import (
    QTensor,
    dequantize,
    make_quantized,
    make_quantized_mxfp4,
    quantized_view,
)
from .safetensors import SafetensorsFile, open_safetensors, write_safetensors
from .schemes import SCHEMES, SCHEMES_BY_NAME, Scheme
from .tensor_info import TensorInfo
from .tensors import load, load_gguf, load_safetensors, make_tensor, save, save_safetensors

__all__ = [
    "GgufArray",
    "GgufFile",
    "QTensor",
    "SCHEMES",
    "SCHEMES_BY_NAME",
    "Scheme",
    "SafetensorsFile",
    "TensorInfo",
    "dequantize",
    "load",
    "load_gguf",
    "load_npy",
    "load_safetensors",
    "make_quantized",
    "make_quantized_mxfp4",
    "make_tensor",
    "open_gguf",
    "open_safetensors",
    "quantized_view",
    "read_json",
    "save",
    "save_npy",
    "save_safetensors",
    "write_safetensors",
]
