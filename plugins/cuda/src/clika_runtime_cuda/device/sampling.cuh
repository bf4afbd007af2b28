// A row of logits in a block: weights, the order of tokens, the draw. Sums of weights are whole numbers of 2^-scale, so
// they are the same in every order of addition.
#pragma once

#include "philox.cuh"
#include "sampling_arguments.cuh"

// ---------------------------------------------------------------- the best token
struct Best {
  float value;
  int index;  // -1: none yet
};
CLIKA_INLINE Best better(Best a, Best b) {  // NaN before all numbers, then the lower index
  if (a.index < 0) return b;
  if (b.index < 0) return a;
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan != b_nan) return a_nan ? a : b;
  if (!a_nan && a.value != b.value) return a.value > b.value ? a : b;
  return a.index < b.index ? a : b;
}

// exp(x) for x <= 0 by the polynomial of the CPU's kernels, to the same bits: 0 below -87.
CLIKA_INLINE float exp_negative(float x) {
  if (x < -87.0f) return 0.0f;
  const float n = rintf(x * 1.44269504f);
  float r = fmaf(n, -0.693145751953125f, x);
  r = fmaf(n, -1.42860677e-6f, r);
  float p = 0.00139262034f;
  p = fmaf(p, r, 0.00836319488f);
  p = fmaf(p, r, 0.0416665545f);
  p = fmaf(p, r, 0.166665769f);
  p = fmaf(p, r, 0.5f);
  p = fmaf(p, r * r, r) + 1.0f;
  return p * __uint_as_float(static_cast<u32>(static_cast<int>(n) + 127) << 23);
}

// Whole numbers in the order of falling logits.
CLIKA_INLINE u32 falling(float x) {
  const u32 bits = __float_as_uint(x + 0.0f);  // -0 is 0
  return (bits & 0x80000000u) != 0 ? bits : ~bits & 0x7fffffffu;
}

// ---------------------------------------------------------------- a row
// Beyond it every token that may be chosen has the same weight, and infinity would give one to those that may not: 2^126.
constexpr float kMostTemperature = 85070591730234615865843651857942052864.0f;
struct Row {
  const char* data;
  i64 step, n;
  int dtype, scale;
  float top, temperature, inverse;
  int best;
  float* weights;  // null: computed from the logits

  CLIKA_INLINE float logit(i64 i) const { return load<float>(data + i * step * bytes_of(dtype), dtype); }
  CLIKA_INLINE void warm(float t) {
    temperature = t > kMostTemperature ? kMostTemperature : t;
    inverse = 1.0f / temperature;
  }
  // (top - x) / temperature, rounded once: the quotient by the inverse is corrected by what it leaves (Markstein, 1990).
  CLIKA_INLINE float distance(float x) const {
    const float gap = top - x, q = gap * inverse;
    return isinf(q) || isinf(inverse) ? gap / temperature : fmaf(fmaf(-q, temperature, gap), inverse, q);
  }
  CLIKA_INLINE float weight(i64 i, float x) const {
    return weights != nullptr ? weights[i] : exp_negative(-distance(x));
  }
  CLIKA_INLINE u64 counted(float w) const { return static_cast<u64>(w * __uint_as_float(static_cast<u32>(scale + 127) << 23)); }

  // Calls body(i, logit) for the tokens of this thread: the same ones in every walk.
  template <class Body>
  CLIKA_INLINE void each(const Body& body) const {
    if (dtype == kFloat32 && step == 1 && (reinterpret_cast<u64>(data) & 15) == 0) {
      struct alignas(16) Four {
        float x[4];
      };
      const i64 fours = n / 4;
      for (i64 at = threadIdx.x; at < fours; at += blockDim.x) {
        const Four four = reinterpret_cast<const Four*>(data)[at];
#pragma unroll
        for (int k = 0; k < 4; ++k) body(4 * at + k, four.x[k]);
      }
      for (i64 i = 4 * fours + threadIdx.x; i < n; i += blockDim.x) body(i, logit(i));
      return;
    }
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) body(i, logit(i));
  }
};

template <class T>
CLIKA_INLINE T column(const Sampling& s, int c, i64 row, T otherwise) {
  const Column& of = s.columns[c];
  return of.data == nullptr ? otherwise : static_cast<const T*>(of.data)[row * of.stride];
}

// The row of this block with its best token, from what `best_parts` has found, or found here.
CLIKA_INLINE Row row_of(const Sampling& s, i64 number) {
  Row row{};
  row.data = static_cast<const char*>(s.logits) + number * s.row_stride * bytes_of(s.dtype);
  row.step = s.step;
  row.n = s.n;
  row.dtype = s.dtype;
  row.scale = s.scale;
  Best best = {0.0f, -1};
  if (s.parts == nullptr) {
    row.each([&](i64 i, float x) { best = better(best, {x, static_cast<int>(i)}); });
  } else {
    const Best* parts = static_cast<const Best*>(s.parts) + number * s.splits;
    for (i64 i = threadIdx.x; i < s.splits; i += blockDim.x) best = better(best, parts[i]);
  }
  best = over_block(best, Best{0.0f, -1}, [](Best a, Best b) { return better(a, b); });
  row.best = best.index;
  row.top = best.value;
  return row;
}
CLIKA_INLINE bool no_choice(const Row& row) { return !(row.top > -CLIKA_INFINITY); }

// ---------------------------------------------------------------- heads of an order
// An order of tokens: by bucket, by `first`, by falling logit where that is equal, by index. The bucket is only a coarser
// form of what follows.
struct Place {
  u32 word[4];
};
constexpr int kBuckets = 2048;
CLIKA_INLINE u32 bucket_of(float key) {
  const float at = key * 23.5f;  // weights are 0 from a distance of 87 on
  return at < static_cast<float>(kBuckets - 1) ? static_cast<u32>(at) : kBuckets - 1;
}
CLIKA_INLINE Place by_logit(const Row& row, i64 i, float x) {
  return {{bucket_of(row.distance(x)), 0, falling(x), static_cast<u32>(i)}};
}

// Where a head of the order ends: the digits of its last token, as many as are needed.
struct Border {
  u32 word[4], mask[4];
  CLIKA_INLINE bool keeps(const Place& p) const {
    for (int w = 0; w < 4; ++w) {
      const u32 digits = p.word[w] & mask[w];
      if (digits != word[w]) return digits < word[w];
    }
    return true;
  }
  CLIKA_INLINE bool holds(const Place& p) const {  // at the border itself
    for (int w = 0; w < 4; ++w) {
      if ((p.word[w] & mask[w]) != word[w]) return false;
    }
    return true;
  }
};

// What the threads of a block share, once for all that use it.
struct Candidate {
  Place place;
  u64 weight;
};
constexpr u32 kFew = 512;
struct Room {
  u64 mass[kBuckets];
  u32 count[kBuckets];
  Candidate few[kFew];
  u64 before_it, all;
  u32 digit, held, filled;
  int chosen;
};
CLIKA_INLINE Room& shared_room() {
  __shared__ Room room;
  return room;
}

// A part of a sum of weights, which a head is to reach.
CLIKA_INLINE u64 share(u64 all, float part) {
  const double wanted = ceil(static_cast<double>(all) * static_cast<double>(part));
  if (!(wanted >= 1.0)) return 1;
  return wanted < static_cast<double>(all) ? static_cast<u64>(wanted) : all;
}

// The shortest head of the order that has `count` tokens or, where that is 0, the part `part` of the weights, digit by
// digit; all of it where there are not so many. `place(i, x, &p)` says whether a token takes part, and where it stands.
// Once few tokens are at the border, they alone are looked at.
template <class PlaceOf>
CLIKA_INLINE Border head(const Row& row, u64 count, float part, bool typical, const PlaceOf& place) {
  Room& room = shared_room();
  Border border{};
  u64 sum = 0, wanted = count;
  bool listed = false;
  for (int d = 0; d < 10; ++d) {
    const int word = d == 0 ? 0 : (d + 2) / 3;
    const int shift = d == 0 ? 0 : d % 3 == 1 ? 21 : d % 3 == 2 ? 10 : 0;
    const u32 digits = d != 0 && d % 3 == 0 ? 1023u : 2047u;
    if (word == 1 && !typical) continue;
    __syncthreads();
    for (int b = threadIdx.x; b < kBuckets; b += blockDim.x) {
      room.mass[b] = 0;
      room.count[b] = 0;
    }
    __syncthreads();
    const auto add = [&](const Place& p, u64 weight) {
      const u32 b = (p.word[word] >> shift) & digits;
      atomicAdd(&room.count[b], 1u);
      if (count == 0) atomicAdd(&room.mass[b], weight);
    };
    if (listed) {
      for (u32 c = threadIdx.x; c < room.filled; c += blockDim.x) {
        if (border.holds(room.few[c].place)) add(room.few[c].place, room.few[c].weight);
      }
    } else {
      row.each([&](i64 i, float x) {
        Place p;
        if (place(i, x, &p) && border.holds(p)) add(p, count == 0 ? row.counted(row.weight(i, x)) : 0);
      });
    }
    __syncthreads();
    if (threadIdx.x < 32) {
      constexpr int kEach = kBuckets / 32;
      const int lane = threadIdx.x, begin = lane * kEach;
      const auto in_bucket = [&](int b) { return count != 0 ? room.count[b] : room.mass[b]; };
      u64 own = 0;
      for (int b = begin; b < begin + kEach; ++b) own += in_bucket(b);
      const u64 up_to = over_lanes(own);
      if (d == 0 && count == 0) wanted = share(from_lane(up_to, 31), part);
      const u64 start = sum + up_to - own;
      if (lane == 31 && sum + up_to < wanted) room.held = 0;
      if (start < wanted && start + own >= wanted) {
        u64 at = start;
        int b = begin;
        for (; b < begin + kEach - 1 && at + in_bucket(b) < wanted; ++b) at += in_bucket(b);
        room.digit = static_cast<u32>(b);
        room.before_it = at;
        room.held = room.count[b];
      }
    }
    __syncthreads();
    if (room.held == 0) return border;
    border.word[word] |= room.digit << shift;
    border.mask[word] |= digits << shift;
    sum = room.before_it;
    if (room.held == 1) return border;
    if (listed || room.held > kFew) continue;
    listed = true;
    if (threadIdx.x == 0) room.filled = 0;
    __syncthreads();
    row.each([&](i64 i, float x) {
      Place p;
      if (!place(i, x, &p) || !border.holds(p)) return;
      room.few[atomicAdd(&room.filled, 1u)] = {p, count == 0 ? row.counted(row.weight(i, x)) : 0};
    });
  }
  return border;
}

// ---------------------------------------------------------------- sums and the draw
// The sum of the weights that `keeps` leaves.
template <class Keeps>
CLIKA_INLINE u64 sum_of(const Row& row, const Keeps& keeps) {
  u64 sum = 0;
  row.each([&](i64 i, float x) {
    if (keeps(i, x)) sum += row.counted(row.weight(i, x));
  });
  return over_block(sum, u64{0}, [](u64 a, u64 b) { return a + b; });
}
template <class Value>
CLIKA_INLINE double double_sum(const Row& row, const Value& value) {
  double sum = 0.0;
  row.each([&](i64 i, float x) { sum += value(i, x); });
  return over_block(sum, 0.0, [](double a, double b) { return a + b; });
}

// The first token whose cumulative weight is above u * the sum, in the order of indices. Every thread owns the sum of a
// stretch of the row; a warp reads one stretch at a time.
template <class Keeps>
CLIKA_INLINE int pick(const Row& row, float u, const Keeps& keeps, u64* total) {
  Room& room = shared_room();
  u64* stretches = room.mass;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const i64 length = (row.n + 32 * static_cast<i64>(blockDim.x) - 1) / (32 * static_cast<i64>(blockDim.x)) * 32;
  const auto weight = [&](i64 i) -> u64 {
    if (i >= row.n) return 0;
    const float x = row.logit(i);
    return keeps(i, x) ? row.counted(row.weight(i, x)) : 0;
  };
  __syncthreads();
  for (int k = 0; k < 32; ++k) {
    const i64 begin = (warp * 32 + k) * length;
    u64 sum = 0;
    for (i64 i = begin + lane; i < begin + length && begin < row.n; i += 32) sum += weight(i);
    for (int step = 16; step > 0; step >>= 1) sum += shuffle_xor(sum, step);
    if (lane == 0) stretches[warp * 32 + k] = sum;
  }
  __syncthreads();
  if (warp == 0) {
    const int each = static_cast<int>(blockDim.x) / 32;
    u64 own = 0;
    for (int k = 0; k < each; ++k) own += stretches[lane * each + k];
    const u64 up_to = over_lanes(own);
    if (lane == 31) {
      room.all = up_to;
      room.chosen = row.best;
    }
    __syncwarp();
    const u64 wanted = static_cast<u64>(static_cast<double>(u) * static_cast<double>(room.all));
    u64 before_it = up_to - own;
    int found = -1;  // the stretch
    if (before_it <= wanted && up_to > wanted) {
      for (int k = 0; k < each; ++k) {
        found = lane * each + k;
        if (before_it + stretches[found] > wanted) break;
        before_it += stretches[found];
      }
    }
    // One lane has found it; all of them look through it.
    int owner = found >= 0 ? lane : 32;
    for (int step = 16; step > 0; step >>= 1) {
      const int other = shuffle_xor(owner, step);
      owner = other < owner ? other : owner;
    }
    if (owner < 32) {
      found = from_lane(found, owner);
      u64 sum = from_lane(before_it, owner);
      for (i64 begin = found * length; begin < (found + 1) * length; begin += 32) {
        const u64 here = weight(begin + lane);
        const u64 reached = sum + over_lanes(here);
        if (reached - here <= wanted && reached > wanted) room.chosen = static_cast<int>(begin + lane);
        sum = from_lane(reached, 31);
        if (sum > wanted) break;
      }
    }
  }
  __syncthreads();
  *total = room.all;
  return room.chosen;
}
CLIKA_INLINE double as_weight(const Row& row, u64 counted) {
  return static_cast<double>(counted) / static_cast<double>(u64{1} << row.scale);
}

// The first `most` tokens of the order, sorted; which of them there are is up to the border.
CLIKA_INLINE i64 in_order(const Row& row, const Border& border, bool finite, Best* unsorted, Best* sorted, i64 most) {
  u32& filled = shared_room().filled;
  __syncthreads();
  if (threadIdx.x == 0) filled = 0;
  __syncthreads();
  row.each([&](i64 i, float x) {
    if (finite && !(x > -CLIKA_INFINITY)) return;
    if (!border.keeps(by_logit(row, i, x))) return;
    const u32 at = atomicAdd(&filled, 1u);
    if (at < most) unsorted[at] = {x, static_cast<int>(i)};
  });
  __syncthreads();
  const i64 n = static_cast<i64>(filled) < most ? static_cast<i64>(filled) : most;
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
    const Best own = unsorted[i];
    i64 rank = 0;
    for (i64 k = 0; k < n; ++k) {
      const Best other = unsorted[k];
      rank += other.value > own.value || (other.value == own.value && other.index < own.index);
    }
    sorted[rank] = own;
  }
  __syncthreads();
  return n;
}
