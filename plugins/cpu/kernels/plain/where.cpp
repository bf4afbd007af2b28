// where: input where condition is true, else other; masked_fill: a number where the mask is true; and clamp:
// min(max(x, low), high).
#include "level.hpp"
#include "elementwise.hpp"

template <class U>
void choose(const uint8_t* condition, int64_t c_step, const void* yes, int64_t y_step, const void* no,
            int64_t n_step, void* out, int64_t o_step, int64_t n) {
  const U* y = static_cast<const U*>(yes);
  const U* x = static_cast<const U*>(no);
  U* to = static_cast<U*>(out);
  for (int64_t i = 0; i < n; ++i) to[i * o_step] = condition[i * c_step] ? y[i * y_step] : x[i * n_step];
}

int32_t select_by(const clika_call* call, const clika_value& condition, const clika_value& yes,
                  const clika_value& no) {
  clika_value& out = call->outputs[0];
  const int64_t size = bytes_of(out.dtype);
  const Walk<4> walk({&out, &condition, &yes, &no});
  const auto fn = size == 1   ? choose<uint8_t>
                  : size == 2 ? choose<uint16_t>
                  : size == 4 ? choose<uint32_t>
                              : choose<uint64_t>;
  parallel(call, walk.outer * walk.length, kParallelFrom, [&](int64_t begin, int64_t end, int32_t) {
    walk.run(begin, end, 4096, [&](const int64_t* at, int64_t n) {
      fn(data_of<uint8_t>(condition) + at[1], walk.step[1], data_of<char>(yes) + at[2] * size, walk.step[2],
         data_of<char>(no) + at[3] * size, walk.step[3], data_of<char>(out) + at[0] * size, walk.step[0], n);
    });
  });
  return CLIKA_OK;
}

int32_t run_where(const clika_call* call) {
  return select_by(call, call->inputs[0], call->inputs[1], call->inputs[2]);
}
int32_t run_masked_fill(const clika_call* call) {  // input, mask, value
  return select_by(call, call->inputs[1], call->inputs[2], call->inputs[0]);
}

template <class C>
CLIKA_INLINE C larger(C a, C b) {
  return a != a ? a : (a > b ? a : b);
}
template <class C>
CLIKA_INLINE C smaller(C a, C b) {
  return a != a ? a : (a < b ? a : b);
}

template <class C>
int32_t clamp(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const bool has_low = present(call, 1);
  const bool has_high = present(call, 2);
  const clika_value& low = has_low ? call->inputs[1] : in;
  const clika_value& high = has_high ? call->inputs[2] : in;
  clika_value& out = call->outputs[0];
  const Walk<4> walk({&out, &in, &low, &high});
  const LoadTile<C> loader = Tiles<C>::loader(in.dtype);
  const StoreTile<C> storer = Tiles<C>::storer(out.dtype);
  parallel(call, walk.outer * walk.length, kParallelFrom, [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) C x[kTile];
    alignas(64) C bound[kTile];
    walk.run(begin, end, kTile, [&](const int64_t* at, int64_t n) {
      loader(x, in.data, at[1], walk.step[1], n);
      if (has_low) {
        loader(bound, low.data, at[2], walk.step[2], n);
        for (int64_t i = 0; i < n; ++i) x[i] = larger(x[i], bound[i]);
      }
      if (has_high) {
        loader(bound, high.data, at[3], walk.step[3], n);
        for (int64_t i = 0; i < n; ++i) x[i] = smaller(x[i], bound[i]);
      }
      storer(x, out.data, at[0], walk.step[0], n);
    });
  });
  return CLIKA_OK;
}

// input, min?, max? in one dtype.
int32_t run_clamp(const clika_call* call) {
  switch (compute_of(call->inputs[0].dtype)) {
    case kFloat:
      return clamp<float>(call);
    case kDouble:
      return clamp<double>(call);
    case kInt:
      return clamp<int64_t>(call);
    case kUint:
      return clamp<uint64_t>(call);
    default:
      return no_compute(call);
  }
}

constexpr uint64_t kAll = FLOATS | F64 | INTS | BOOL;

CLIKA_KERNELS(where,
              Entry("where", run_where).in(BOOL, kAll, kAll).out(kAll),
              Entry("masked_fill", run_masked_fill).in(kAll, BOOL, kAll).out(kAll).inplace(),
              Entry("clamp", run_clamp).in(kAll).out(kAll).inplace())
#include "level_end.hpp"
