"""Readers and writers of checkpoint files: GGUF and safetensors.

``open_gguf`` and ``open_safetensors`` give names, shapes and byte views over a memory map and need neither NumPy
nor the native core.
"""

from __future__ import annotations

from .gguf import GgufArray, GgufFile, open_gguf
from .safetensors import SafetensorsFile, open_safetensors, write_safetensors
from .tensor_info import TensorInfo

__all__ = [
    "GgufArray",
    "GgufFile",
    "SafetensorsFile",
    "TensorInfo",
    "open_gguf",
    "open_safetensors",
    "write_safetensors",
]
