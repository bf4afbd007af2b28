# Declarations of the C++ core.
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset
from libcpp cimport bool as cbool
from libcpp.map cimport map as cpp_map
from libcpp.memory cimport make_shared, shared_ptr, unique_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector
from cpython.object cimport PyObject
from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_ND, PyBUF_SIMPLE, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
cimport cython

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1

cdef extern from "clika_runtime/plugin.h" nogil:
    int CLIKA_PLUGIN_ABI
    int CLIKA_MAX_RANK
    int CLIKA_DENSE
    int CLIKA_TENSOR
    int CLIKA_SEQUENCE
    int CLIKA_NONE
    int CLIKA_BOOL
    int CLIKA_INT64
    int CLIKA_FLOAT32
    const char* CLIKA_CORE_CAPSULE
    const char* CLIKA_BACKEND_CAPSULE
    ctypedef struct clika_block:
        int32_t columns
        int32_t bytes
    clika_block clika_block_of(int32_t scheme)
    ctypedef struct clika_value:
        void* data
        const int64_t* shape
        const int64_t* strides
        int32_t rank
        int32_t dtype
        int32_t scheme
        int32_t layout
        int32_t kind
        int32_t n_items
        clika_value* items
        int64_t nbytes
    ctypedef union clika_attr_value "decltype(clika_attr::v)":
        int64_t i
        double f
        const int64_t* ints
        const double* floats
        const char* text
    ctypedef struct clika_attr:
        int32_t kind
        int32_t n
        clika_attr_value v
    ctypedef struct clika_scalar:
        int64_t i
        double f
        int32_t is_float
        int32_t is_none
    ctypedef struct clika_call:
        uint32_t n_inputs
        uint32_t n_outputs
        uint32_t n_attrs
        uint32_t n_scalars
        const clika_value* inputs
        clika_value* outputs
        const clika_attr* attrs
        const clika_scalar* scalars
    ctypedef struct clika_core:
        pass
    ctypedef struct clika_kernel:
        const char* op
        const char* name
        uint32_t flags
    int CLIKA_STRIDED
    int CLIKA_PARALLEL
    ctypedef struct clika_device_properties:
        uint32_t size
        char* name
        char* driver
        char* runtime
        int64_t memory_bytes
        int32_t units
        int32_t compute_capability
        int32_t warp
        int32_t max_threads_per_block
        int64_t shared_memory_bytes
        int32_t tensor_cores
        int32_t fp16
        int32_t bf16
        int32_t fp8_e4m3
        char* isa
    ctypedef void* clika_stream
    ctypedef struct clika_backend:
        uint32_t size
        uint32_t abi
        const char* name
        uint32_t n_kernels
        int32_t (*device_count)()
        int32_t (*device_properties)(int32_t, clika_device_properties*)
        int32_t (*memory_info)(int32_t, int64_t*, int64_t*)
        void* (*stream_native_handle)(clika_stream)
        int32_t (*stream_query)(clika_stream)
        int32_t (*stream_join)(clika_stream, void*, int32_t)

cdef extern from "runtime.hpp" namespace "clika" nogil:
    cdef cppclass Error:
        int32_t status
        string code
        string message
    ctypedef shared_ptr[const Error] ErrorPtr
    ErrorPtr make_error(int32_t, string, string)
    cdef struct MemoryStats_ "clika::MemoryStats":
        int64_t active_bytes
        int64_t cached_bytes
        int64_t peak_bytes
        int64_t allocations
        int64_t system_allocations
    cdef cppclass Allocator:
        size_t trim()
        MemoryStats_ stats()
    Allocator& host_allocator()
    cdef enum StorageKind "clika::Storage::Kind":
        kOwned "clika::Storage::kOwned"
        kBorrowed "clika::Storage::kBorrowed"
        kMapped "clika::Storage::kMapped"
    cdef cppclass Storage:
        @staticmethod
        Storage* create(Allocator&, size_t, int32_t, cbool)
        @staticmethod
        Storage* borrow(void*, size_t, int32_t, StorageKind, void (*)(void*) noexcept, void*, cbool)
        void retain()
        void drop()
        cbool allocate()
        void* data()
        size_t nbytes()
        cbool writable()
        StorageKind kind()
        cbool ready_for_read()
        cbool ready_for_write()
        void wait_for_write()
        ErrorPtr poison()
        void set_poison(ErrorPtr)
    void run_deferred_releases()
    cbool has_deferred_releases()
    cdef cppclass Lane:
        @staticmethod
        Lane& current()
        @staticmethod
        Lane* create()
        void retire()
        void synchronize()
        cbool idle()
        void cancel()
    void drain_all_lanes()
    cdef cppclass Pool:
        @staticmethod
        Pool& get()
        int32_t size()
    void install_fork_handlers()

# Callable without the GIL; what it is given runs later, with the GIL held.
cdef extern from "runtime.hpp" namespace "clika":
    void defer_release(void (*)(void*) noexcept, void*) nogil

cdef extern from "backend.hpp" namespace "clika" nogil:
    cdef cppclass Backend:
        string name
        int32_t id
        const clika_backend* table
        cbool on_device()
    Backend* device_backend_of(int32_t)
    ErrorPtr synchronize_device(int32_t)
    clika_stream device_stream(int32_t, ErrorPtr*)
    ErrorPtr out_of_memory(string, int64_t, int32_t)
    int32_t register_backend_native "clika::register_backend"(string, const clika_backend*, string*)
    ErrorPtr check_environment() except +
    Backend* backend_by_id(int32_t)
    Backend* backend_by_name(string)
    Allocator& device_allocator(int32_t)
    ErrorPtr memory_info(int32_t, int64_t*, int64_t*, cbool*)
    void* mirror_allocate(int32_t, size_t, cbool*)
    void mirror_release(int32_t, void*, size_t, cbool)
    ErrorPtr mirror_send(int32_t, void*, const void*, size_t, cbool)
    const clika_kernel* choose_kernel(const Backend&, string, const clika_value*, size_t,
                                      const clika_value*, size_t, string*)
    cdef cppclass Attrs:
        vector[clika_attr] items
        void add_none()
        void add_int(int64_t)
        void add_float(double)
        void add_ints(vector[int64_t])
        void add_floats(vector[double])
        void add_text(string)
    const clika_core* core_table()
    cbool is_contiguous(int32_t, const int64_t*, const int64_t*)
    int32_t dtype_bits(int32_t)
    int64_t dense_bytes(int32_t, const int64_t*, int32_t)

cdef extern from "tensor.hpp" namespace "clika" nogil:
    cdef cppclass TensorRecord:
        Storage* storage
        int64_t offset
        int64_t shape[8]
        int64_t strides[8]
        int32_t rank
        int32_t dtype
        int32_t scheme
        int32_t layout
        int32_t pack_mode
        int32_t device
        int32_t value
        char* data()
        cbool dense()
        int64_t numel()
        cbool contiguous()
        void set_contiguous_strides()
        void fill(clika_value*, void*)

cdef extern from "dispatch.hpp" namespace "clika" nogil:
    cdef enum class OutputKind(int):
        kNew
        kView
        kMutated
        kSettled
    cdef cppclass OutputPlan:
        OutputKind kind
        int32_t source
        int64_t offset
        TensorRecord record
        int64_t nbytes
    cdef cppclass Binding:
        string key
        vector[OutputPlan] outputs
        const clika_kernel* kernel
        shared_ptr[Attrs] attrs
        vector[int32_t] enter
        vector[uint8_t] straighten
        vector[int32_t] numbers
        cbool prepare
        cbool composed
        cbool settles
        void* python_kernel
        int64_t work
        int32_t device
    cdef cppclass DispatchCounters:
        uint64_t hits
        uint64_t misses
        uint64_t evictions
        uint64_t inline_calls
        uint64_t queued_calls
        uint64_t kernel_calls
    DispatchCounters& counters()
    cdef cppclass BindingCache:
        const Binding* find(const char*, size_t)
        const Binding* insert(unique_ptr[Binding])
        size_t size()
    cdef cppclass Frame:
        size_t n_inputs
        const TensorRecord* inputs[64]
        char numbers[64][8]
        size_t n_groups
        int32_t groups[16]
        size_t n_scalars
        clika_scalar scalars[16]
    cbool store_number(char*, int32_t, cbool, double, int64_t)
    ErrorPtr run_call(const Binding&, const Frame&, cbool, TensorRecord*)
    ErrorPtr settle(const TensorRecord&)
    cbool settled(const TensorRecord&)
    ErrorPtr pack_weights_native "clika::pack_weights"(vector[TensorRecord]*, const vector[int32_t]&, cbool)
    ErrorPtr unpack_weight_native "clika::unpack_weight"(const TensorRecord&, TensorRecord*)
    ErrorPtr copy_device(const TensorRecord&, TensorRecord*)

cdef extern from "graph.hpp" namespace "clika" nogil:
    cdef enum class ValueKind(unsigned char):
        kInput
        kConstant
        kState
        kResult
    cdef cppclass Value:
        ValueKind kind
        int32_t node
        int32_t index
        int32_t dtype
        int32_t scheme
        int32_t layout
        int32_t device
        int32_t rank
        int64_t shape[8]
        int64_t strides[8]
        int64_t offset
        int32_t alias
        cbool write
        Storage* storage
        int64_t storage_offset
        string name
        vector[int32_t] users
    cdef cppclass const_Control "const clika::Control":
        pass
    cdef cppclass ScalarRef:
        clika_scalar constant
        int32_t input
    cdef cppclass Patch "clika::Node::Patch":
        int32_t attr
        int32_t element
        int64_t size
    cdef cppclass Node:
        string op
        vector[int32_t] inputs
        vector[int32_t] groups
        vector[int32_t] outputs
        shared_ptr[Attrs] attrs
        vector[Patch] patches
        vector[ScalarRef] scalars
        cbool view
        void* python_kernel
        cbool move
        shared_ptr[const_Control] control
    cdef cppclass Sizes:
        int64_t symbol(string, int64_t, int64_t)
        int64_t add(int64_t, int64_t)
        int64_t negate(int64_t)
        int64_t multiply(int64_t, int64_t)
        int64_t floor_divide(int64_t, int64_t)
        int64_t modulo(int64_t, int64_t)
        int64_t minimum(int64_t, int64_t)
        int64_t take(const Sizes&, int64_t, const cpp_map[string, int64_t]&) except +
        size_t symbol_count()
        void bounds(int64_t, int64_t*, int64_t*)
        int32_t as_symbol(int64_t)
        void symbol_bounds(size_t, int64_t*, int64_t*)
        string text(int64_t)
    cdef cppclass Graph:
        Sizes sizes
        vector[Value] values
        vector[Node] nodes
        vector[int32_t] inputs
        vector[string] scalar_inputs
        int32_t add_value(Value)
        int32_t add_input(string, Value)
        int32_t capture(Value, cbool)
        int32_t add_node(Node)
        int32_t latest(int32_t)

cdef extern from "plan.hpp" namespace "clika" nogil:
    cdef enum class PlanCode "clika::OpCode"(uint8_t):
        kIf
        kLoop
        kScan
    cdef cppclass Control:
        PlanCode code
        vector[shared_ptr[NativePlan]] bodies
        int32_t carried
        int32_t scanned
    cdef cppclass Instruction:
        string op
        int32_t node
    cdef struct PlanCounters:
        uint64_t runs
        uint64_t resizes
        uint64_t evictions
        uint64_t instructions
        uint64_t recordings
        uint64_t replays
    cdef cppclass NativePlan "clika::Plan":
        @staticmethod
        unique_ptr[NativePlan] compile(shared_ptr[Graph], vector[int32_t], ErrorPtr*)
        ErrorPtr run(const TensorRecord* const*, size_t, const clika_scalar*, size_t, cbool, vector[TensorRecord]*)
        const Graph& graph()
        size_t instruction_count()
        int64_t arena_bytes()
        int64_t lower_bound_bytes()
        PlanCounters counters()
        void profile(cbool)
        const vector[int64_t]& profiled()
        int64_t profiled_runs()
        const vector[int64_t]& symbols()
        const Instruction& instruction(size_t)
