/* The plugin ABI of clika-runtime: what a backend gives to the core, and what the core gives back.
 *
 * One header, plain C, append-only. Every table starts with its own size in bytes: a reader looks at
 * a field only if the table is large enough to hold it. Both tables cross in a PyCapsule:
 *   core    -> plugin   "clika_runtime.core"     holds a clika_core
 *   plugin  -> core     "clika_runtime.backend"  holds a clika_backend
 *
 * Rules for kernels: they run without the GIL, never throw through the boundary, start no threads,
 * and write only to their outputs, their workspace and scratch of the core.
 */
#ifndef CLIKA_RUNTIME_PLUGIN_H
#define CLIKA_RUNTIME_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CLIKA_PLUGIN_ABI 1
#define CLIKA_MAX_RANK 8
#define CLIKA_CORE_CAPSULE "clika_runtime.core"
#define CLIKA_BACKEND_CAPSULE "clika_runtime.backend"

/* Storage dtypes. The numbers are ABI: append only. */
enum clika_dtype {
  CLIKA_UNDEFINED = 0,
  CLIKA_BOOL = 1,
  CLIKA_INT2 = 2,
  CLIKA_INT4 = 3,
  CLIKA_INT8 = 4,
  CLIKA_INT16 = 5,
  CLIKA_INT32 = 6,
  CLIKA_INT64 = 7,
  CLIKA_UINT1 = 8,
  CLIKA_UINT2 = 9,
  CLIKA_UINT4 = 10,
  CLIKA_UINT8 = 11,
  CLIKA_UINT16 = 12,
  CLIKA_UINT32 = 13,
  CLIKA_UINT64 = 14,
  CLIKA_FLOAT16 = 15,
  CLIKA_BFLOAT16 = 16,
  CLIKA_FLOAT32 = 17,
  CLIKA_FLOAT64 = 18,
  CLIKA_FLOAT8_E4M3 = 19,
  CLIKA_FLOAT8_E5M2 = 20,
  CLIKA_FLOAT8_E4M3FNUZ = 21,
  CLIKA_FLOAT8_E5M2FNUZ = 22,
  CLIKA_FLOAT8_E8M0 = 23,
  CLIKA_FLOAT6_E2M3 = 24,
  CLIKA_FLOAT6_E3M2 = 25,
  CLIKA_FLOAT4_E2M1 = 26,
  CLIKA_DTYPE_COUNT = 27
};
#define CLIKA_BIT(x) (UINT64_C(1) << (x))
#define CLIKA_ANY (~UINT64_C(0))

/* Schemes of packed weights: 0 is dense; a GGUF block type t is t + 1; from 48 on stand forms of our own,
 * which other published forms are converted to when they are loaded. One line per scheme,
 * X(name, number, columns of a block, bytes of a block), is the one declaration that everything else
 * derives from. The blocks of a row lie one after the other, a row is whole blocks. Numbers are below 64. */
#define CLIKA_GGUF_SCHEMES(X) \
  X(Q4_0, 3, 32, 18)          \
  X(Q4_1, 4, 32, 20)          \
  X(Q5_0, 7, 32, 22)          \
  X(Q5_1, 8, 32, 24)          \
  X(Q8_0, 9, 32, 34)          \
  X(Q2_K, 11, 256, 84)        \
  X(Q3_K, 12, 256, 110)       \
  X(Q4_K, 13, 256, 144)       \
  X(Q5_K, 14, 256, 176)       \
  X(Q6_K, 15, 256, 210)       \
  X(IQ2_XXS, 17, 256, 66)     \
  X(IQ2_XS, 18, 256, 74)      \
  X(IQ3_XXS, 19, 256, 98)     \
  X(IQ1_S, 20, 256, 50)       \
  X(IQ4_NL, 21, 32, 18)       \
  X(IQ3_S, 22, 256, 110)      \
  X(IQ2_S, 23, 256, 82)       \
  X(IQ4_XS, 24, 256, 136)     \
  X(IQ1_M, 30, 256, 56)       \
  X(TQ1_0, 35, 256, 54)       \
  X(TQ2_0, 36, 256, 66)       \
  X(MXFP4, 40, 32, 17)        \
  X(NVFP4, 41, 64, 36)
/* Floats of a block come first, then the codes.
 * MXFP4_E8M0: 16 bytes of e2m1 pairs, the even column low, and the scale 2^(e - 127) behind them.
 * NVFP4_E4M3: float d, 4 e4m3 scales for 16 columns each, e2m1 pairs as in MXFP4_E8M0.
 * NF4: float d, pairs, the even column high; values of the 16-entry table of QLoRA.
 * FP8_*: float d, bytes. INT8_G32: float d, signed bytes.
 * INT4_G*: float d, float m (d * q + m), for each 32 columns 16 bytes: i low, 16 + i high in byte i. */
#define CLIKA_OWN_SCHEMES(X) \
  X(MXFP4_E8M0, 48, 32, 17)  \
  X(NVFP4_E4M3, 49, 64, 40)  \
  X(NF4, 50, 64, 36)         \
  X(FP8_E4M3, 51, 32, 36)    \
  X(FP8_E5M2, 52, 32, 36)    \
  X(INT4_G32, 53, 32, 24)    \
  X(INT4_G128, 54, 128, 72)  \
  X(INT8_G32, 55, 32, 36)
#define CLIKA_SCHEMES(X) CLIKA_GGUF_SCHEMES(X) CLIKA_OWN_SCHEMES(X)

enum clika_scheme {
  CLIKA_DENSE = 0,
#define CLIKA_X(name, number, columns, bytes) CLIKA_GGUF_##name = number,
  CLIKA_GGUF_SCHEMES(CLIKA_X)
#undef CLIKA_X
#define CLIKA_X(name, number, columns, bytes) CLIKA_##name = number,
  CLIKA_OWN_SCHEMES(CLIKA_X)
#undef CLIKA_X
};

/* The published block of a scheme; zeros for dense and for a number that no scheme has. */
typedef struct clika_block {
  int32_t columns;
  int32_t bytes;
} clika_block;

static inline clika_block clika_block_of(int32_t scheme) {
  clika_block block = {0, 0};
  switch (scheme) {
#define CLIKA_X(name, number, columns_, bytes_) \
  case number:                                  \
    block.columns = columns_;                   \
    block.bytes = bytes_;                       \
    break;
    CLIKA_SCHEMES(CLIKA_X)
#undef CLIKA_X
    default: break;
  }
  return block;
}

/* Layouts of a weight: as published, or the backend's own numbers from 1 up (see `pack`). */
enum { CLIKA_LAYOUT_PUBLISHED = 0 };

/* Status classes of the error contract. */
enum clika_status {
  CLIKA_OK = 0,
  CLIKA_INVALID_ARGUMENT = 1,
  CLIKA_NOT_FOUND = 2,
  CLIKA_UNSUPPORTED = 3,
  CLIKA_INTERNAL = 4,
  CLIKA_UNAVAILABLE = 5
};

enum clika_value_kind {
  CLIKA_NONE = 0,     /* an optional argument that is absent */
  CLIKA_TENSOR = 1,
  CLIKA_SEQUENCE = 2, /* items, n_items */
  CLIKA_OBJECT = 3,   /* a host object (a PyObject*) in data */
  CLIKA_NUMBER = 4    /* a Python number as an operand of rank 0: its value, in the operand's dtype, lies at data in
                         memory of the host. Only kernels of a device backend see this kind; others get a tensor. */
};

/* One argument or result of a call. Shapes and strides count elements; `shape` of a packed weight is
 * logical ([rows, columns]) and its strides are NULL. */
typedef struct clika_value {
  void *data;             /* first element; the payload bytes of a packed weight */
  const int64_t *shape;
  const int64_t *strides;
  int32_t rank;
  int32_t dtype;
  int32_t scheme;
  int32_t layout;
  int32_t kind;
  int32_t n_items;
  struct clika_value *items;
  int64_t nbytes;         /* bytes that may be read from data on */
} clika_value;

/* A static attribute, in the order of the record's static arguments. */
enum clika_attr_kind {
  CLIKA_ATTR_NONE = 0,
  CLIKA_ATTR_INT = 1,    /* i; bools and string modes too (the mode's index) */
  CLIKA_ATTR_FLOAT = 2,  /* f */
  CLIKA_ATTR_INTS = 3,   /* ints, n */
  CLIKA_ATTR_FLOATS = 4, /* floats, n */
  CLIKA_ATTR_STRING = 5  /* text, n */
};
typedef struct clika_attr {
  int32_t kind;
  int32_t n;
  union {
    int64_t i;
    double f;
    const int64_t *ints;
    const double *floats;
    const char *text;
  } v;
} clika_attr;

/* A runtime scalar: rides in the call, is in no cache key. `is_float` tells which member holds it. */
typedef struct clika_scalar {
  int64_t i;
  double f;
  int32_t is_float;
  int32_t is_none;
} clika_scalar;

typedef struct clika_call clika_call;
typedef void (*clika_range_fn)(void *arg, int64_t begin, int64_t end, int32_t worker);

/* What the core gives to kernels and backends. */
typedef struct clika_core {
  uint32_t size;
  uint32_t abi;
  /* Runs fn over [0, n) in pieces of at least `grain`, on the workers that are free (maybe the
   * caller alone). `worker` is in [0, num_threads). A nested call runs in place. */
  void (*parallel_for)(const clika_call *call, int64_t n, int64_t grain, clika_range_fn fn, void *arg);
  int32_t (*num_threads)(void);
  /* 64-byte aligned scratch that lives until the kernel returns; NULL after an out-of-memory error
   * has been set. Call it from the kernel's own thread, not inside parallel_for. */
  void *(*scratch)(const clika_call *call, size_t bytes);
  /* Gives output i its shape when the shape depends on data; fills call->outputs[i]. */
  int32_t (*allocate_output)(const clika_call *call, uint32_t i, int32_t rank, const int64_t *shape);
  /* Records an error and returns `status`, so a kernel can `return core->set_error(...)`. */
  int32_t (*set_error)(const clika_call *call, int32_t status, const char *code, const char *message);
  int32_t (*cancelled)(const clika_call *call);
  void (*log)(int32_t level, const char *message); /* 0 debug, 1 info, 2 warning, 3 error */
  /* For kernels of a device backend: memory of the call's device that belongs to the call until what it has put on
   * its stream has run; NULL after an out-of-memory error has been set. */
  void *(*device_scratch)(const clika_call *call, size_t bytes);
} clika_core;

typedef void *clika_stream; /* the backend's own stream, NULL where the core's lanes are used */

struct clika_call {
  uint32_t size;
  uint32_t n_inputs;
  uint32_t n_outputs;
  uint32_t n_attrs;
  uint32_t n_scalars;
  uint32_t device;            /* index among the backend's devices */
  const clika_value *inputs;
  clika_value *outputs;
  const clika_attr *attrs;
  const clika_scalar *scalars;
  void *workspace;
  size_t workspace_bytes;
  clika_stream stream;
  const clika_core *core;
  void *context; /* the core's own */
};
typedef int32_t (*clika_kernel_fn)(const clika_call *call);

/* What a kernel entry demands of its inputs and outputs. */
enum clika_kernel_flags {
  CLIKA_STRIDED = 1u << 0,      /* takes any strides (else every dense input is made contiguous) */
  CLIKA_INPLACE = 1u << 1,      /* output 0 may share memory with an input of its shape and dtype */
  CLIKA_PARALLEL = 1u << 2,     /* uses parallel_for: worth a queue even when small */
  CLIKA_REFERENCE = 1u << 3     /* slow but right: does not count as native */
};

/* One kernel: the operator's name and what it serves. Masks are CLIKA_BIT(dtype or scheme); input i
 * uses input_dtypes[min(i, 7)]. A scheme mask of 0 means dense tensors as published; any other mask
 * names schemes (CLIKA_BIT(CLIKA_DENSE) among them), in every layout of the backend. The first entry of
 * an operator that fits wins. */
typedef struct clika_kernel {
  const char *op;
  const char *name;
  clika_kernel_fn run;
  size_t (*workspace)(const clika_call *call); /* bytes wanted beside the outputs; may be NULL */
  uint64_t input_dtypes[8];
  uint64_t input_schemes[8];
  uint64_t output_dtypes;
  int32_t min_rank;
  int32_t max_rank;
  uint32_t flags;
  uint32_t reserved;
} clika_kernel;

typedef struct clika_device_properties {
  uint32_t size;
  char name[128];
  char driver[64];
  char runtime[64];
  int64_t memory_bytes;
  int32_t units;               /* cores or multiprocessors */
  int32_t compute_capability;  /* major * 10 + minor, 0 where it means nothing */
  int32_t warp;
  int32_t max_threads_per_block;
  int64_t shared_memory_bytes;
  int32_t tensor_cores;
  int32_t fp16;
  int32_t bf16;
  int32_t fp8_e4m3;
  char isa[32];                /* "avx512", "neon", "sm_90" */
} clika_device_properties;

/* The size and layout that `pack` will write for a weight. */
typedef struct clika_pack_info {
  uint32_t size;
  int32_t layout; /* 0: this backend keeps the weight as published */
  int64_t nbytes;
} clika_pack_info;

/* What a backend gives. Optional members may be NULL; the default is stated.
 *
 * Without `default_stream` it is a host backend: its memory is the host's, kernels run on the core's lanes, and a call is
 * done when its kernel returns.
 *
 * With it, it is a device backend. The host cannot address what `allocate` gives. A call of the core's rides on the
 * device's default stream: the kernel puts its work there and returns at once, with `call->stream` set and `workspace` in
 * the device's memory. What is on one stream runs in the order of the calls, so memory that was released may be given
 * to the next call at once. Work that goes wrong later is reported by whatever waits for the stream. */
typedef struct clika_backend {
  uint32_t size;
  uint32_t abi;
  const char *name;                        /* "cpu", "cuda", ... */
  const clika_kernel *kernels;
  uint32_t n_kernels;
  uint32_t kernel_size;                    /* sizeof(clika_kernel) in the plugin */
  int32_t (*device_count)(void);           /* default: 1 */
  int32_t (*device_properties)(int32_t device, clika_device_properties *out);
  /* Memory. Default: the core's pooled host allocator. */
  void *(*allocate)(int32_t device, size_t bytes, clika_stream stream);
  void (*release)(int32_t device, void *data, size_t bytes, clika_stream stream);
  int32_t (*memory_info)(int32_t device, int64_t *free_bytes, int64_t *total_bytes);
  /* Streams. Default: the core's lanes (host threads). Events are opaque. */
  clika_stream (*stream_create)(int32_t device);
  void (*stream_destroy)(clika_stream stream);
  int32_t (*stream_synchronize)(clika_stream stream);
  void *(*stream_native_handle)(clika_stream stream);
  void *(*event_record)(clika_stream stream);
  int32_t (*event_wait)(clika_stream stream, void *event); /* stream NULL: the host waits */
  int32_t (*event_query)(void *event);                     /* 1 done, 0 not yet, < 0 failed */
  void (*event_destroy)(void *event);
  /* Copies; kind 0 host to device (the host's bytes may change as soon as it returns), 1 device to host (they are there
   * when it returns), 2 within a device, 3 as 0, from memory of `host_allocate` whose bytes stay as they are until the
   * stream has passed the copy. Default: memcpy. */
  int32_t (*copy)(int32_t device, void *to, const void *from, size_t bytes, int32_t kind,
                  clika_stream stream);
  /* Repacking of a weight [rows, columns], once, at load. `mode` 0 exact, 1 fast, 2 both, 3 table
   * (an embedding that is only gathered from). Default: none. */
  int32_t (*pack_info)(const clika_value *weight, int32_t mode, clika_pack_info *out);
  int32_t (*pack)(const clika_call *call, int32_t mode); /* inputs[0] published, outputs[0] packed */
  /* The way back, exact to the bit: inputs[0] packed, outputs[0] published. Default: none, and what
   * needs the published payload of a packed weight is refused by name. */
  int32_t (*unpack)(const clika_call *call);
  /* The stream that calls of the core ride on; NULL where the device cannot be used (see `failure`). */
  clika_stream (*default_stream)(int32_t device);
  /* What the calling thread's last call of this table that did not return CLIKA_OK (or returned NULL) failed with:
   * its status, a code of the error contract and a message. Default: the status alone. */
  int32_t (*failure)(char *code, size_t code_bytes, char *message, size_t message_bytes);
  int32_t (*stream_query)(clika_stream stream); /* 1 idle, 0 not yet, < 0 failed */
  /* Order against a stream of another library, given by its native handle. `direction` 0: what that stream gets from
   * now on waits for what is in ours; 1: ours waits for it. */
  int32_t (*stream_join)(clika_stream stream, void *native, int32_t direction);
  /* A copy between two devices of this backend, in order on both default streams. Default: through the host. */
  int32_t (*copy_peer)(int32_t to_device, void *to, int32_t from_device, const void *from, size_t bytes);
  /* Gives released memory that the backend still keeps back to the system. */
  void (*trim)(int32_t device);
  /* Graphs: calls that are issued once and run often. `capture_begin` gives a stream on which what the calling thread
   * issues is recorded instead of run, until that thread calls `capture_end`; NULL where nothing can be recorded now. Other
   * threads and other streams go on as before. `capture_end` gives the graph, or NULL where a call cannot be recorded, and
   * ends the stream either way. `graph_launch` runs a graph in the order of a stream, over the addresses that its calls were
   * issued with. `graph_destroy` may be called while it runs. Memory of the backend is neither asked for nor released by
   * the core between begin and end on the same thread. Default: none, calls are issued anew each time. */
  clika_stream (*capture_begin)(int32_t device);
  void *(*capture_end)(clika_stream stream);
  int32_t (*graph_launch)(clika_stream stream, void *graph);
  void (*graph_destroy)(void *graph);
  /* Memory of the host that the device reads by itself (see `copy`, kind 3). Default: none, ordinary memory is copied. */
  void *(*host_allocate)(int32_t device, size_t bytes);
  void (*host_release)(int32_t device, void *data, size_t bytes);
} clika_backend;

#ifdef __cplusplus
}
#endif
#endif
