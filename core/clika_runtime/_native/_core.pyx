# distutils: language = c++
# cython: language_level=3, boundscheck=False, freethreading_compatible=False, emit_code_comments=False
# cython: allow_none_for_extension_args=False
"""The native core: tensors, operator dispatch, recording, plans, streams and memory.

One extension module in parts, one part a concern; they share the C++ types declared in `native.pxi`.
"""

include "native.pxi"
cdef class Tensor
cdef class Recording
cdef class GraphRecorder
cdef class SymInt
cdef class Op
cdef class _GraphScalar
cdef class Tracer

include "seal.pxi"
include "support.pxi"
include "tensor.pxi"
include "exchange.pxi"
include "indexing.pxi"
include "dispatch.pxi"
include "graph.pxi"
include "tracer.pxi"
include "mirror.pxi"
include "runtime.pxi"

__all__ = [
    "GraphRecorder", "Mirror", "Op", "Parameter", "Plan", "Port", "Stream", "SymInt", "Tensor", "Tracer", "active_tracer",
    "async_eval", "device_count", "device_number", "device_of", "device_properties", "dispatch_counters",
    "empty_cache", "eval", "free_memory", "from_blob", "from_bytes", "from_dlpack", "from_numpy", "memory_stats", "num_threads",
    "pack_mode", "pack_weight", "plain_op", "register_backend", "synchronize", "synchronous", "tensor", "tracing_scope",
    "unpack_weight",
]
