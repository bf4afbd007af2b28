// gather and index_select; index and index_put_. An index outside is reported, and nothing is read or written there.
#include "prelude.cuh"
#include "general.cuh"

CLIKA_INLINE i64 index_at(const void* p, int dtype, i64 offset) {
  return dtype == kInt64 ? static_cast<const i64*>(p)[offset] : static_cast<const int*>(p)[offset];
}

extern "C" __global__ void gather_elements(const __grid_constant__ Gather g) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; at < g.n; at += step) {
    const i64 index = index_at(g.index, g.index_dtype, offset_of<i64>(at, g.rank, g.shape, g.index_strides));
    if (index < 0 || index >= g.size) {
      report(g.reporter.to, kIndexOutside, g.reporter.op, index, g.size);
      continue;
    }
    const i64 from = offset_of<i64>(at, g.rank, g.shape, g.in_strides) + index * g.stride;
    const i64 to = offset_of<i64>(at, g.rank, g.shape, g.out_strides);
    move_element(static_cast<char*>(g.out) + to * g.bytes, static_cast<const char*>(g.in) + from * g.bytes, g.bytes);
  }
}

// The offset that the indices give to element `at`, and its place among the places that they can name; false where one
// is outside.
CLIKA_INLINE bool settled(const Picked& p, i64 at, i64* offset, i64* place) {
  i64 here = 0, named = 0;
  for (int k = 0; k < p.count; ++k) {
    const i64 given = index_at(p.indices[k], p.index_dtypes[k], offset_of<i64>(at, p.rank, p.shape, p.index_strides[k]));
    const i64 index = given < 0 ? given + p.sizes[k] : given;
    if (index < 0 || index >= p.sizes[k]) {
      report(p.reporter.to, kIndexOutside, p.reporter.op, given, p.sizes[k]);
      return false;
    }
    here += index * p.steps[k];
    named = named * p.sizes[k] + index;
  }
  *offset = here;
  *place = named;
  return true;
}

extern "C" __global__ void read_picked(const __grid_constant__ Picked p) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; at < p.n; at += step) {
    i64 offset, place;
    if (!settled(p, at, &offset, &place)) continue;
    const i64 from = offset_of<i64>(at, p.rank, p.shape, p.picked_strides) + offset;
    const i64 to = offset_of<i64>(at, p.rank, p.shape, p.other_strides);
    move_element(static_cast<char*>(p.other) + to * p.bytes, static_cast<const char*>(p.picked) + from * p.bytes, p.bytes);
  }
}

// A write: each place goes to the last of the positions that name it.
extern "C" __global__ void claim_places(const __grid_constant__ Picked p) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; at < p.n; at += step) {
    i64 offset, place;
    if (!settled(p, at, &offset, &place)) continue;
    atomicMax(&p.winners[place], offset_of<i64>(at, p.rank, p.shape, p.position_strides));
  }
}
extern "C" __global__ void clear_places(const __grid_constant__ Picked p) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; at < p.positions; at += step) p.winners[at] = -1;
}
extern "C" __global__ void write_picked(const __grid_constant__ Picked p) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; at < p.n; at += step) {
    i64 offset, place;
    if (!settled(p, at, &offset, &place)) continue;
    if (p.winners[place] != offset_of<i64>(at, p.rank, p.shape, p.position_strides)) continue;
    const i64 to = offset_of<i64>(at, p.rank, p.shape, p.picked_strides) + offset;
    const i64 from = offset_of<i64>(at, p.rank, p.shape, p.other_strides);
    const char* value = p.other == nullptr ? reinterpret_cast<const char*>(&p.number)
                                           : static_cast<const char*>(p.other) + from * p.bytes;
    move_element(static_cast<char*>(p.picked) + to * p.bytes, value, p.bytes);
  }
}

// Sums: items by places, and a thread for each place that adds in the order of the values.
extern "C" __global__ void picked_items(const __grid_constant__ Picked p) {
  Item* items = static_cast<Item*>(p.items);
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; at < p.n; at += step) {
    i64 offset, place;
    const bool inside = settled(p, at, &offset, &place);
    const i64 to = inside ? offset_of<i64>(at, p.rank, p.shape, p.picked_strides) + offset : 0;
    items[at] = {inside ? static_cast<u64>(to) : ~u64{0}, at};
  }
}
template <class C>
CLIKA_INLINE void add_all(const Picked& p) {
  const Item* items = static_cast<const Item*>(p.items);
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; at < p.n; at += step) {
    const u64 key = items[at].key;
    if (key == ~u64{0} || (at > 0 && items[at - 1].key == key)) continue;
    char* to = static_cast<char*>(p.picked) + static_cast<i64>(key) * p.bytes;
    for (i64 k = at; k < p.n && items[k].key == key; ++k) {  // rounded after each, as one after the other would be
      const void* value = &p.number;
      if (p.other != nullptr) {
        value = static_cast<const char*>(p.other) + offset_of<i64>(items[k].index, p.rank, p.shape, p.other_strides) * p.bytes;
      }
      const C a = load<C>(to, p.dtype), b = load<C>(value, p.dtype);
      if constexpr (C(0.5) == C(0)) store<C>(to, p.dtype, static_cast<C>(static_cast<u64>(a) + static_cast<u64>(b)));
      else store<C>(to, p.dtype, a + b);
    }
  }
}
extern "C" __global__ void add_picked(const __grid_constant__ Picked p) {
  if (p.dtype == kFloat64) add_all<double>(p);
  else if (p.dtype == kFloat32 || p.dtype == kBfloat16 || p.dtype == kFloat16) add_all<float>(p);
  else add_all<i64>(p);
}
