"""clika_runtime: an inference runtime for models on your own hardware.

    import clika_runtime as crt

    x = crt.tensor([[1.0, 2.0], [3.0, 4.0]])
    print(crt.matmul(x, x))

Importing the package reads no plugin, no native code and no NumPy. Operators, ``Tensor`` and the
sub-packages arrive with the first attribute access that asks for them.
"""

from __future__ import annotations

import importlib as _importlib
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING, Any

from ._size import Size
from ._version import __version__
from .device import (
    Device,
    DeviceProperties,
    accelerator,
    cuda,
    enumerate_devices,
    get_device_properties,
    is_available,
    meta_init,
    metal,
    vulkan,
)
from .dtypes import (
    bfloat16,
    bool,
    dtype,
    finfo,
    float4_e2m1,
    float6_e2m3,
    float6_e3m2,
    float8_e4m3,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0,
    float16,
    float32,
    float64,
    iinfo,
    int2,
    int4,
    int8,
    int16,
    int32,
    int64,
    uint1,
    uint2,
    uint4,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .errors import (
    ClikaRTError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OutOfMemoryError,
    UnavailableError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from . import graph, io, modelverse, nn, ops, pytree, testing, tokenizer
    from ._native._core import Stream, Tensor, empty_cache, memory_stats, synchronize
    from .graph import (
        CompiledFunction,
        CompiledModule,
        TensorSpec,
        TracedGraph,
        compile,
        eager,
        trace,
        tracing,
    )
    from .io import (
        QTensor,
        load,
        make_quantized,
        make_quantized_mxfp4,
        quantized_view,
        save,
    )

__all__ = [
    "ClikaRTError",
    "CompiledFunction",
    "CompiledModule",
    "Device",
    "DeviceProperties",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "OutOfMemoryError",
    "QTensor",
    "Size",
    "Stream",
    "Tensor",
    "TensorSpec",
    "TracedGraph",
    "UnavailableError",
    "UnsupportedError",
    "__version__",
    "accelerator",
    "bfloat16",
    "bool",
    "compile",
    "cuda",
    "device",
    "dtype",
    "eager",
    "empty_cache",
    "enumerate_devices",
    "finfo",
    "float16",
    "float32",
    "float4_e2m1",
    "float64",
    "float6_e2m3",
    "float6_e3m2",
    "float8_e4m3",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0",
    "get_device_properties",
    "get_include",
    "graph",
    "iinfo",
    "int16",
    "int2",
    "int32",
    "int4",
    "int64",
    "int8",
    "io",
    "is_available",
    "load",
    "make_quantized",
    "make_quantized_mxfp4",
    "memory_stats",
    "meta_init",
    "metal",
    "modelverse",
    "nn",
    "ops",
    "pytree",
    "quantized_view",
    "save",
    "synchronize",
    "testing",
    "tokenizer",
    "trace",
    "tracing",
    "uint1",
    "uint16",
    "uint2",
    "uint32",
    "uint4",
    "uint64",
    "uint8",
    "version",
    "vulkan",
]

# Names that come from the native core whatever it publishes; other public names are looked up among
# the operators, then among what the native core lists in its ``__all__``.
_NATIVE = frozenset({"Stream", "Tensor", "empty_cache", "memory_stats", "synchronize"})
_GRAPH = frozenset(
    {
        "CompiledFunction",
        "CompiledModule",
        "TensorSpec",
        "TracedGraph",
        "compile",
        "eager",
        "trace",
        "tracing",
    }
)
# Names of ``io``; its ``dequantize`` is the operator, and takes a ``QTensor`` too.
_IO = frozenset(
    {
        "QTensor",
        "dequantize",
        "load",
        "make_quantized",
        "make_quantized_mxfp4",
        "quantized_view",
        "save",
    }
)


def version() -> str:
    """The version of the runtime.

    >>> version() == __version__
    True
    """
    return __version__


def get_include() -> str:
    """The directory to give to a compiler that builds a plugin: it holds
    ``clika_runtime/plugin.h``."""
    import os

    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module 'clika_runtime' has no attribute {name!r}")
    # `from clika_runtime import plugins` asks here first: a submodule must not wake the native
    # core.
    if _find_spec(f"clika_runtime.{name}") is not None:
        return _importlib.import_module(f"clika_runtime.{name}")
    room = _room_of(name)
    if room is None:
        raise AttributeError(f"module 'clika_runtime' has no attribute {name!r}")
    value = getattr(room, name)
    globals()[name] = value
    return value


def _room_of(name: str) -> Any:
    """The module that publishes a lazy name, or None."""
    if name in _GRAPH:
        return _importlib.import_module("clika_runtime.graph")
    if name in _IO:
        return _importlib.import_module("clika_runtime.io")
    if name not in _NATIVE:
        ops = _importlib.import_module("clika_runtime.ops")
        if name in ops.__all__:
            return ops
    core = _importlib.import_module("clika_runtime._native._core")
    return core if name in _NATIVE or name in getattr(core, "__all__", ()) else None


def __dir__() -> list[str]:
    ops = _importlib.import_module("clika_runtime.ops")
    return sorted({*__all__, *ops.__all__})
