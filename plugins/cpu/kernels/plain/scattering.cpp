// Writing elements to places that indices name. The result begins as a copy of the input; places are written in
// row-major order of the indices, by one thread, so that the last of several writes stays.
#include "level.hpp"
#include "elementwise.hpp"
#include "copying.hpp"
#include "indices.hpp"

// ------------------------------------------------------------------ places
// A pairing of indices with source elements: `index` and `source` have one shape, and an index counts along
// `axis` of the result, whose other dimensions are those of `base`.
struct Pairs {
  int64_t index_shape[CLIKA_MAX_RANK];
  int64_t index_strides[CLIKA_MAX_RANK];
  int64_t source_strides[CLIKA_MAX_RANK];
  int64_t base_strides[CLIKA_MAX_RANK];
  clika_value index;
  clika_value source;
  clika_value base;
  Axis axis;

  // index names a place for every element of it (scatter), or for every slice of the source along the dimension
  // (index_add and its like). `source` may be one number.
  Pairs(const clika_value& out, int64_t along, const clika_value& given, const clika_value& from, bool slices) {
    const int32_t dim = front_of(along, out);
    axis = axis_of(out, dim);
    index = given;
    source = from;
    base = out;
    const int32_t rank = std::max(out.rank, 1);
    index.rank = rank;
    source.rank = rank;
    base.rank = rank;
    for (int32_t d = 0; d < rank; ++d) {
      if (slices) {
        const int64_t count = given.rank == 0 ? 1 : given.shape[0];
        const bool here = out.rank == 0 || d == dim;
        index_shape[d] = here ? count : out.shape[d];
        index_strides[d] = here && given.rank > 0 ? given.strides[0] : 0;
      } else {
        index_shape[d] = given.rank == 0 ? 1 : given.shape[d];
        index_strides[d] = given.rank == 0 ? 0 : given.strides[d];
      }
      source_strides[d] = from.rank == 0 ? 0 : from.strides[std::min(d, from.rank - 1)];
      base_strides[d] = out.rank == 0 || d == dim ? 0 : out.strides[d];
    }
    index.shape = index_shape;
    index.strides = index_strides;
    source.shape = index_shape;
    source.strides = source_strides;
    base.shape = index_shape;
    base.strides = base_strides;
  }

  // Calls body(place, element): where to in the result and where from in the source, in elements.
  template <class Body>
  int32_t each(const clika_call* call, const char* op, const Body& body) const {
    const Walk<3> walk({&index, &base, &source});
    int32_t status = CLIKA_OK;
    walk.run(0, walk.outer * walk.length, walk.length, [&](const int64_t* at, int64_t n) {
      for (int64_t i = 0; i < n && status == CLIKA_OK; ++i) {
        const int64_t k = index_at(index, at[0] + i * walk.step[0]);
        if (k < 0 || k >= axis.size) {
          status = outside(call, op, k, axis.size);
          return;
        }
        body(at[1] + i * walk.step[1] + k * axis.stride, at[2] + i * walk.step[2]);
      }
    });
    return status;
  }
};

// ------------------------------------------------------------------ replacing
// Copies the elements of `source` to their places; each(body) calls body(place, element) for all of them.
template <class Each>
int32_t replace(const clika_call* call, const clika_value& source, const Each& each) {
  clika_value& out = call->outputs[0];
  copy_tensor(call, out, call->inputs[0]);
  int32_t status = CLIKA_OK;
  by_size(bytes_of(out.dtype), [&](auto tag) {
    using U = decltype(tag);
    status = each([&](int64_t place, int64_t element) { data_of<U>(out)[place] = data_of<U>(source)[element]; });
  });
  return status;
}

// ------------------------------------------------------------------ combining
enum Combine { kSum, kProduct, kMean, kLargest, kSmallest };

template <class C>
C combined(int64_t how, C a, C b) {
  switch (how) {
    case kProduct:
      if constexpr (std::is_integral<C>::value) {
        return static_cast<C>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      } else {
        return a * b;
      }
    case kLargest:
      return a != a || a > b ? a : b;
    case kSmallest:
      return a != a || a < b ? a : b;
    default:
      if constexpr (std::is_integral<C>::value) {
        return static_cast<C>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      } else {
        return a + b;
      }
  }
}
template <class C>
C divided(C sum, int64_t n) {
  if constexpr (std::is_integral<C>::value) {  // rounded down
    return sum / n - (sum % n != 0 && (sum < 0) != (n < 0) ? 1 : 0);
  } else {
    return sum / static_cast<C>(n);
  }
}

// The result in compute type C: its own memory where it has that type, else scratch that is stored at the end.
// Floats of 16 bits so are rounded once.
template <class C, class Each>
int32_t combine_as(const clika_call* call, const clika_value& source, int64_t how, bool include_self, C factor,
                   const Each& each) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const int64_t n = elements(out);
  const bool direct = Tiles<C>::direct(out.dtype);
  C* total = direct ? data_of<C>(out)
                    : static_cast<C*>(call->core->scratch(call, static_cast<size_t>(n) * sizeof(C) + 64));
  const bool counted = how == kMean || !include_self;
  int64_t* counts = counted ? static_cast<int64_t*>(call->core->scratch(call, static_cast<size_t>(n) * 8 + 64))
                            : nullptr;
  if (total == nullptr || (counted && counts == nullptr)) return CLIKA_UNAVAILABLE;
  if (counted) std::fill(counts, counts + n, int64_t{0});
  const LoadTile<C> loader = Tiles<C>::loader(in.dtype);
  const Walk<1> walk({&in});
  int64_t done = 0;
  walk.run(0, n, n, [&](const int64_t* at, int64_t count) {
    loader(total + done, in.data, at[0], walk.step[0], count);
    done += count;
  });
  const int32_t status = each([&](int64_t place, int64_t element) {
    C x;
    loader(&x, source.data, element, 1, 1);
    if (factor != C{1}) x = combined<C>(kProduct, x, factor);
    total[place] = counted && counts[place] == 0 && !include_self ? x : combined(how, total[place], x);
    if (counted) ++counts[place];
  });
  if (status != CLIKA_OK) return status;
  if (how == kMean) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t parts = counts[i] + (include_self ? 1 : 0);
      if (counts[i] != 0 && parts > 1) total[i] = divided(total[i], parts);
    }
  }
  if (!direct) Tiles<C>::storer(out.dtype)(total, out.data, 0, 1, n);
  return CLIKA_OK;
}

// `factor` is a runtime scalar that the elements are multiplied with, by its number; -1: none.
template <class Each>
int32_t combine(const clika_call* call, const clika_value& source, int64_t how, bool include_self, int factor,
                const Each& each) {
  const auto with = [&](auto one) {
    using C = decltype(one);
    if (factor >= 0 && std::is_integral<C>::value && call->scalars[factor].is_float) {
      return refuse(call, "the factor %g must be a whole number for integers and bool", call->scalars[factor].f);
    }
    if (factor >= 0) {
      one = std::is_integral<C>::value ? static_cast<C>(scalar_int(call, static_cast<uint32_t>(factor), 1))
                                       : static_cast<C>(scalar_float(call, static_cast<uint32_t>(factor), 1.0));
    }
    return combine_as<C>(call, source, how, include_self, one, each);
  };
  switch (compute_of(call->inputs[0].dtype)) {
    case kFloat:
      return with(1.0f);
    case kDouble:
      return with(1.0);
    default:
      return with(int64_t{1});
  }
}

// ------------------------------------------------------------------ scatter
// Inputs x, index, src; attributes dim, reduce (none, add, multiply).
int32_t run_scatter(const clika_call* call) {
  const Pairs pairs(call->outputs[0], attr_int(call, 0, 0), call->inputs[1], call->inputs[2], false);
  const auto each = [&](const auto& body) { return pairs.each(call, "scatter", body); };
  const int64_t reduce = attr_int(call, 1, 0);
  if (reduce == 0) return replace(call, call->inputs[2], each);
  return combine(call, call->inputs[2], reduce == 1 ? kSum : kProduct, true, -1, each);
}
// Attribute dim.
int32_t run_scatter_add(const clika_call* call) {
  const Pairs pairs(call->outputs[0], attr_int(call, 0, 0), call->inputs[1], call->inputs[2], false);
  return combine(call, call->inputs[2], kSum, true, -1,
                 [&](const auto& body) { return pairs.each(call, "scatter_add", body); });
}
// Attributes dim, reduce, include_self.
template <bool kSlices>
int32_t run_reduce(const clika_call* call) {
  const Pairs pairs(call->outputs[0], attr_int(call, 0, 0), call->inputs[1], call->inputs[2], kSlices);
  return combine(call, call->inputs[2], attr_int(call, 1, kSum), attr_int(call, 2, 1) != 0, -1,
                 [&](const auto& body) {
                   return pairs.each(call, kSlices ? "index_reduce" : "scatter_reduce", body);
                 });
}

// ------------------------------------------------------------------ slices along a dimension
// Attribute dim; scalar alpha.
int32_t run_index_add(const clika_call* call) {
  const Pairs pairs(call->outputs[0], attr_int(call, 0, 0), call->inputs[1], call->inputs[2], true);
  return combine(call, call->inputs[2], kSum, true, 0,
                 [&](const auto& body) { return pairs.each(call, "index_add", body); });
}
int32_t run_index_copy(const clika_call* call) {
  const Pairs pairs(call->outputs[0], attr_int(call, 0, 0), call->inputs[1], call->inputs[2], true);
  return replace(call, call->inputs[2], [&](const auto& body) { return pairs.each(call, "index_copy", body); });
}
int32_t run_index_fill(const clika_call* call) {
  const Pairs pairs(call->outputs[0], attr_int(call, 0, 0), call->inputs[1], call->inputs[2], true);
  return replace(call, call->inputs[2], [&](const auto& body) { return pairs.each(call, "index_fill", body); });
}

// ------------------------------------------------------------------ anywhere
// Inputs x, index, source; attribute accumulate.
int32_t run_put(const clika_call* call) {
  const clika_value& source = call->inputs[2];
  const int64_t size = elements(call->outputs[0]);
  const auto each = [&](const auto& body) {
    int64_t bad = 0;
    int64_t element = 0;
    const bool inside = each_index(call->inputs[1], size, true, &bad, [&](int64_t k) { body(k, element++); });
    return inside ? static_cast<int32_t>(CLIKA_OK) : outside(call, "put", bad, size);
  };
  return attr_int(call, 0, 0) != 0 ? combine(call, source, kSum, true, -1, each) : replace(call, source, each);
}

// Inputs x, mask, source.
int32_t run_masked_scatter(const clika_call* call) {
  const clika_value& mask = call->inputs[1];
  const clika_value& source = call->inputs[2];
  clika_value& out = call->outputs[0];
  const int64_t available = elements(source);
  return replace(call, source, [&](const auto& body) {
    const Walk<2> walk({&out, &mask});
    int64_t used = 0;
    bool enough = true;
    walk.run(0, walk.outer * walk.length, walk.length, [&](const int64_t* at, int64_t n) {
      for (int64_t i = 0; i < n && enough; ++i) {
        if (!data_of<uint8_t>(mask)[at[1] + i * walk.step[1]]) continue;
        enough = used < available;
        if (enough) body(at[0] + i * walk.step[0], used++);
      }
    });
    if (enough) return static_cast<int32_t>(CLIKA_OK);
    return refuse(call, "masked_scatter: mask has more true elements than the %lld of source",
                  static_cast<long long>(available));
  });
}

constexpr uint64_t kAll = FLOATS | F64 | INTS | BOOL;
constexpr uint64_t kIndex = I32 | I64;

constexpr uint64_t kOrdered = kAll & ~CLIKA_BIT(CLIKA_UINT64);  // whose order int64 keeps

constexpr Entry over(const char* name, clika_kernel_fn run, uint64_t dtypes = kAll) {
  return Entry(name, run).in(dtypes, kIndex, dtypes).out(dtypes);
}

CLIKA_KERNELS(scattering,
              over("scatter", run_scatter),
              over("scatter_add", run_scatter_add),
              over("scatter_reduce", run_reduce<false>, kOrdered),
              over("index_reduce", run_reduce<true>, kOrdered),
              over("index_add", run_index_add),
              over("index_copy", run_index_copy),
              over("index_fill", run_index_fill),
              over("put", run_put).contiguous(),
              Entry("masked_scatter", run_masked_scatter).in(kAll, BOOL, kAll).out(kAll).contiguous())
#include "level_end.hpp"
