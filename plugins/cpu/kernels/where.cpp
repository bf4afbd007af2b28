// where: input where condition is true, else other; masked_fill: a number where the mask is true; and clamp:
// min(max(x, low), high).
#include "level.hpp"
#include "elementwise.hpp"

// Both are read before one is chosen, so that the loop has no branch. kYes, kNo: operands of step 1, not 0.
template <class U, bool kYes, bool kNo>
void choose_rows(const uint8_t* condition, const U* yes, const U* no, U* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const U a = yes[kYes ? i : 0];
    const U b = no[kNo ? i : 0];
    to[i] = condition[i] != 0 ? a : b;
  }
}
template <class U>
void choose(const uint8_t* condition, int64_t c_step, const void* yes, int64_t y_step, const void* no,
            int64_t n_step, void* out, int64_t o_step, int64_t n) {
  const U* y = static_cast<const U*>(yes);
  const U* x = static_cast<const U*>(no);
  U* to = static_cast<U*>(out);
  if (c_step == 1 && o_step == 1) {
    if (y_step == 1 && n_step == 1) return choose_rows<U, true, true>(condition, y, x, to, n);
    if (y_step == 0 && n_step == 1) return choose_rows<U, false, true>(condition, y, x, to, n);
    if (y_step == 1 && n_step == 0) return choose_rows<U, true, false>(condition, y, x, to, n);
  }
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

// out = max(x, bound) or min(x, bound); a bound of one element for all of them.
template <class C, bool kLow>
void bounded(const C* x, const C* bound, bool single, C* out, int64_t n) {
  if (single) {
    const C b = bound[0];
    for (int64_t i = 0; i < n; ++i) out[i] = kLow ? larger(x[i], b) : smaller(x[i], b);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = kLow ? larger(x[i], bound[i]) : smaller(x[i], bound[i]);
  }
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
  const bool direct = Tiles<C>::direct(in.dtype);
  parallel(call, walk.outer * walk.length, kParallelFrom, [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) C x[kTile];
    alignas(64) C lowest[kTile];
    alignas(64) C highest[kTile];
    alignas(64) C y[kTile];
    walk.run(begin, end, kTile, [&](const int64_t* at, int64_t n) {
      const C* from = direct && walk.step[1] == 1 ? static_cast<const C*>(in.data) + at[1] : x;
      C* to = direct && walk.step[0] == 1 ? static_cast<C*>(out.data) + at[0] : y;
      if (from == x) loader(x, in.data, at[1], walk.step[1], n);
      // Both bounds are read before anything is written: the output may be one of them.
      const bool single_low = walk.step[2] == 0;
      const bool single_high = walk.step[3] == 0;
      if (has_low) loader(lowest, low.data, at[2], walk.step[2], single_low ? 1 : n);
      if (has_high) loader(highest, high.data, at[3], walk.step[3], single_high ? 1 : n);
      if (has_low) {
        bounded<C, true>(from, lowest, single_low, to, n);
        from = to;
      }
      if (has_high) bounded<C, false>(from, highest, single_high, to, n);
      if (to == y) storer(y, out.data, at[0], walk.step[0], n);
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
