// full and arange.
#include "level.hpp"
#include "elementwise.hpp"

template <class T>
void fill(const clika_call* call, clika_value& out, const void* value) {
  T x;
  std::memcpy(&x, value, sizeof(T));
  T* to = static_cast<T*>(out.data);
  parallel(call, elements(out), kParallelFrom,
           [&](int64_t begin, int64_t end, int32_t) { std::fill(to + begin, to + end, x); });
}

// fill_value (0-d, in the result's dtype).
int32_t run_full(const clika_call* call) {
  const void* value = call->inputs[0].data;
  clika_value& out = call->outputs[0];
  switch (bytes_of(out.dtype)) {
    case 1: fill<uint8_t>(call, out, value); break;
    case 2: fill<uint16_t>(call, out, value); break;
    case 4: fill<uint32_t>(call, out, value); break;
    default: fill<uint64_t>(call, out, value); break;
  }
  return CLIKA_OK;
}

double number(const clika_attr& attr) {
  return attr.kind == CLIKA_ATTR_FLOAT ? attr.v.f : static_cast<double>(attr.v.i);
}

// attrs start, end (may be absent: start is the end), step: element i is start + i * step.
int32_t run_arange(const clika_call* call) {
  clika_value& out = call->outputs[0];
  const bool one = call->attrs[1].kind == CLIKA_ATTR_NONE;
  const clika_attr& step = call->attrs[2];
  const bool whole = (one || call->attrs[0].kind == CLIKA_ATTR_INT) && step.kind == CLIKA_ATTR_INT;
  const int64_t n = elements(out);
  const auto put = [&](auto tag, auto make) {
    auto* to = static_cast<decltype(tag)*>(out.data);
    for (int64_t i = 0; i < n; ++i) to[i] = make(i);
  };
  const int64_t first = one || !whole ? 0 : call->attrs[0].v.i;
  const double start = one ? 0.0 : number(call->attrs[0]);
  const double stride = number(step);
  const auto integer = [&](int64_t i) { return whole ? first + i * step.v.i : static_cast<int64_t>(start + static_cast<double>(i) * stride); };
  const auto real = [&](int64_t i) { return start + static_cast<double>(i) * stride; };
  switch (out.dtype) {
    case CLIKA_INT8: put(int8_t{}, [&](int64_t i) { return static_cast<int8_t>(integer(i)); }); break;
    case CLIKA_INT16: put(int16_t{}, [&](int64_t i) { return static_cast<int16_t>(integer(i)); }); break;
    case CLIKA_INT32: put(int32_t{}, [&](int64_t i) { return static_cast<int32_t>(integer(i)); }); break;
    case CLIKA_INT64: put(int64_t{}, integer); break;
    case CLIKA_UINT8: put(uint8_t{}, [&](int64_t i) { return static_cast<uint8_t>(integer(i)); }); break;
    case CLIKA_UINT16: put(uint16_t{}, [&](int64_t i) { return static_cast<uint16_t>(integer(i)); }); break;
    case CLIKA_UINT32: put(uint32_t{}, [&](int64_t i) { return static_cast<uint32_t>(integer(i)); }); break;
    case CLIKA_UINT64: put(uint64_t{}, [&](int64_t i) { return static_cast<uint64_t>(integer(i)); }); break;
    case CLIKA_FLOAT64: put(double{}, real); break;
    case CLIKA_FLOAT32: put(float{}, [&](int64_t i) { return static_cast<float>(real(i)); }); break;
    case CLIKA_BFLOAT16: put(bf16{}, [&](int64_t i) { return to_bf16(static_cast<float>(real(i))); }); break;
    default: put(f16{}, [&](int64_t i) { return to_f16(static_cast<float>(real(i))); }); break;
  }
  return CLIKA_OK;
}

constexpr uint64_t kWhole = F64 | FLOATS | FLOATS8 | INTS | BOOL;

CLIKA_KERNELS(full,
              Entry("full", run_full).in(kWhole).out(kWhole),
              Entry("arange", run_arange).in(kWhole).out(F64 | FLOATS | INTS))
#include "level_end.hpp"
