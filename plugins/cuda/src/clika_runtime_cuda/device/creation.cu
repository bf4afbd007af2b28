// Tensors made from numbers: eye, linspace, logspace, the indices of triangles, random numbers.
#include "prelude.cuh"
#include "general.cuh"
#include "philox.cuh"

// Towards zero; what does not fit gives the smallest integer.
CLIKA_INLINE i64 truncated(double x) {
  return fabs(x) < 9.2233720368547758e18 ? static_cast<i64>(x) : static_cast<i64>(u64{1} << 63);
}
CLIKA_INLINE void put_real(const View& v, i64 at, double x) {
  if (v.dtype == kFloat64) put<double>(v, at, x);
  else if (is_real(v.dtype)) put<float>(v, at, static_cast<float>(x));
  else put<i64>(v, at, truncated(x));
}

// i[0]: columns.
extern "C" __global__ void eye(const __grid_constant__ General g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    put<i64>(g.out[0], at, static_cast<i64>(at / g.i[0] == at % g.i[0]));
  }
}
// From f[0] to f[1] by f[2], the second half counted from the end; i[0]: as powers of f[3].
extern "C" __global__ void spaced(const __grid_constant__ General g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const bool front = at < g.n / 2 || g.n == 1;
    const double x = front ? __dadd_rn(g.f[0], __dmul_rn(g.f[2], static_cast<double>(at)))
                           : __dadd_rn(g.f[1], -__dmul_rn(g.f[2], static_cast<double>(g.n - 1 - at)));
    put_real(g.out[0], at, g.i[0] != 0 ? pow(g.f[3], x) : x);
  }
}
// i[0]: rows, i[1]: columns, i[2]: offset, i[3]: the lower one. Places before row r are found by bisection.
CLIKA_INLINE i64 places_of_row(const General& g, i64 row) {
  const i64 cut = row + g.i[2] + (g.i[3] != 0 ? 1 : 0);
  const i64 inside = cut < 0 ? 0 : at_most(cut, g.i[1]);
  return g.i[3] != 0 ? inside : g.i[1] - inside;
}
// The sum over rows before `row` of min(max(i + shift, 0), columns).
CLIKA_INLINE i64 rising(i64 row, i64 shift, i64 columns) {
  const i64 begin = at_least(0, at_most(row, -shift)), full = at_least(begin, at_most(row, columns - shift));
  const i64 count = full - begin;
  return count * (begin + shift) + count * (count - 1) / 2 + (row - full) * columns;
}
extern "C" __global__ void triangle_indices(const __grid_constant__ General g) {
  const i64 shift = g.i[2] + (g.i[3] != 0 ? 1 : 0);
  const auto before = [&](i64 row) {
    const i64 inside = rising(row, shift, g.i[1]);
    return g.i[3] != 0 ? inside : row * g.i[1] - inside;
  };
  const i64 count = g.n;
  for (i64 at = first_of_thread(); at < count; at += threads_of_grid()) {
    i64 low = 0, high = g.i[0] - 1;
    while (low < high) {  // the last row that begins at or before the place
      const i64 middle = (low + high + 1) / 2;
      if (before(middle) <= at) low = middle;
      else high = middle - 1;
    }
    const i64 start = g.i[3] != 0 ? 0 : g.i[1] - places_of_row(g, low);
    put<i64>(g.out[0], at, low);
    put<i64>(g.out[0], count + at, start + at - before(low));
  }
}

// ---------------------------------------------------------------- random numbers: i[0] seed, i[1] offset
struct Draws {
  u64 seed, offset;
  CLIKA_INLINE explicit Draws(const General& g) : seed(static_cast<u64>(g.i[0])), offset(static_cast<u64>(g.i[1])) {}
  CLIKA_INLINE u32 word(i64 i) const { return philox(seed, static_cast<u64>(i) / 4, offset).word[i % 4]; }
  CLIKA_INLINE u64 long_word(i64 i) const {
    const Philox block = philox(seed, static_cast<u64>(i) / 2, offset);
    const u32 low = i % 2 == 0 ? block.word[0] : block.word[2], high = i % 2 == 0 ? block.word[1] : block.word[3];
    return low | static_cast<u64>(high) << 32;
  }
  // Box and Muller's, of the pair of words that element i is in.
  CLIKA_INLINE float normal(i64 i) const {
    const Philox block = philox(seed, static_cast<u64>(i) / 4, offset);
    const bool front = i % 4 < 2;
    const float u = (static_cast<float>((front ? block.word[0] : block.word[2]) >> 8) + 1.0f) * 5.9604644775390625e-8f;
    const float radius = sqrtf(-2.0f * logf(u));
    const float angle = 6.28318531f * unit(front ? block.word[1] : block.word[3]);
    return radius * (i % 2 == 0 ? cosf(angle) : sinf(angle));
  }
};
extern "C" __global__ void rand_numbers(const __grid_constant__ General g) {
  const Draws draws(g);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) put<float>(g.out[0], at, unit(draws.word(at)));
}
extern "C" __global__ void randn_numbers(const __grid_constant__ General g) {
  const Draws draws(g);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) put<float>(g.out[0], at, draws.normal(at));
}
CLIKA_INLINE u64 high_product(u64 a, u64 b) {
  const u64 al = a & 0xffffffffu, ah = a >> 32, bl = b & 0xffffffffu, bh = b >> 32;
  const u64 middle = ah * bl + (al * bl >> 32);
  const u64 other = al * bh + (middle & 0xffffffffu);
  return ah * bh + (middle >> 32) + (other >> 32);
}
// i[2]: the first number, i[3]: how many.
extern "C" __global__ void randint_numbers(const __grid_constant__ General g) {
  const Draws draws(g);
  const bool real = is_real(g.out[0].dtype);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const u64 step = high_product(draws.long_word(at), static_cast<u64>(g.i[3]));
    const i64 x = static_cast<i64>(static_cast<u64>(g.i[2]) + step);
    if (g.out[0].dtype == kFloat64) put<double>(g.out[0], at, static_cast<double>(x));
    else if (real) put<float>(g.out[0], at, static_cast<float>(x));
    else put<i64>(g.out[0], at, x);
  }
}
extern "C" __global__ void randperm_items(const __grid_constant__ General g) {
  const Draws draws(g);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    static_cast<Item*>(g.room[0])[at] = {draws.long_word(at), at};
  }
}
// Indices of items, i[2] of each line of i[3].
extern "C" __global__ void write_indices(const __grid_constant__ General g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    put<i64>(g.out[0], at, static_cast<const Item*>(g.room[0])[at / g.i[2] * g.i[3] + at % g.i[2]].index);
  }
}
// f[0]: p; i[2]: it is given, else the elements are the chances.
extern "C" __global__ void bernoulli(const __grid_constant__ General g) {
  const Draws draws(g);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const double chance = g.i[2] != 0 ? g.f[0] : value_of<double>(g.in[0], at);
    if (!(chance >= 0.0 && chance <= 1.0)) report(g.reporter.to, kRefusedValue, g.reporter.op, 0, 0);
    put<i64>(g.out[0], at, static_cast<i64>(static_cast<double>(unit(draws.word(at))) < chance));
  }
}
template <class C>
CLIKA_INLINE void drop(const General& g) {
  const Draws draws(g);
  const C kept = static_cast<C>(1.0 / (1.0 - g.f[0]));
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const bool keeps = static_cast<double>(unit(draws.word(at))) >= g.f[0];
    put<C>(g.out[0], at, keeps ? value_of<C>(g.in[0], at) * kept : C(0));
  }
}
extern "C" __global__ void dropout(const __grid_constant__ General g) {
  if (g.in[0].dtype == kFloat64) drop<double>(g);
  else drop<float>(g);
}
template <class C>
CLIKA_INLINE void normal_of(const General& g) {
  const Draws draws(g);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const C scale = g.in[1].dtype != 0 ? value_of<C>(g.in[1], at) : C(1);
    if (!(scale >= C(0))) report(g.reporter.to, kRefusedValue, g.reporter.op, 0, 0);
    put<C>(g.out[0], at, value_of<C>(g.in[0], at) + scale * static_cast<C>(draws.normal(at)));
  }
}
extern "C" __global__ void normal(const __grid_constant__ General g) {
  if (g.out[0].dtype == kFloat64) normal_of<double>(g);
  else normal_of<float>(g);
}

// ---------------------------------------------------------------- multinomial: i[2] categories, i[3] samples
// Running sums of a row's weights to room[0]; i[4]: without replacement, items to room[1]. A block per row.
extern "C" __global__ void __launch_bounds__(256) weigh_rows(const __grid_constant__ General g) {
  const Draws draws(g);
  const i64 n = g.i[2], first = blockIdx.x * n;
  const auto add = [](double a, double b) { return a + b; };
  double carry = 0.0, possible = 0.0;
  bool bad = false;
  for (i64 begin = 0; begin < n; begin += blockDim.x) {
    const i64 c = begin + threadIdx.x;
    const double weight = c < n ? item_of<double>(g.in[0], first + c) : 0.0;
    bad = bad || !(weight >= 0.0) || isinf(weight);
    double all;
    const double sum = scan_block(weight, 0.0, add, &all);
    possible += weight > 0.0;
    if (c < n && g.i[4] == 0) static_cast<double*>(g.room[0])[first + c] = carry + sum;
    if (c < n && g.i[4] != 0) {
      const double v = (static_cast<double>(draws.word(first + c) >> 8) + 1.0) * (1.0 / 16777216.0);
      static_cast<Item*>(g.room[1])[first + c] = {weight > 0.0 ? key_of(-log(v) / weight) : kNanKey, c};
    }
    carry += all;
  }
  possible = over_block(possible, 0.0, add);
  const double least = g.i[4] != 0 ? static_cast<double>(g.i[3]) : 1.0;
  if (bad || (threadIdx.x == 0 && (possible < least || isinf(carry)))) {
    report(g.reporter.to, kRefusedValue, g.reporter.op, 0, 0);
  }
}
extern "C" __global__ void draw_categories(const __grid_constant__ General g) {
  const Draws draws(g);
  const i64 n = g.i[2];
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const double* running = static_cast<const double*>(g.room[0]) + at / g.i[3] * n;
    const double point = static_cast<double>(unit(draws.word(at))) * running[n - 1];
    i64 low = 0, high = n - 1;
    while (low < high) {
      const i64 middle = (low + high) / 2;
      if (running[middle] > point) high = middle;
      else low = middle + 1;
    }
    put<i64>(g.out[0], at, low);
  }
}
