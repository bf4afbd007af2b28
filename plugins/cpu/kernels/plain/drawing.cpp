// Random numbers over tensors: randint, randperm, bernoulli, normal, multinomial, dropout. The scalars seed and
// offset come last; element i of a call takes its words from the Philox blocks that the operator's text names.
#include "level.hpp"
#include "elementwise.hpp"
#include "philox.hpp"

struct Draws {
  uint64_t seed;
  uint64_t offset;

  // `at` is the number of the scalar seed.
  Draws(const clika_call* call, uint32_t at)
      : seed(static_cast<uint64_t>(scalar_int(call, at, 0))),
        offset(static_cast<uint64_t>(scalar_int(call, at + 1, 0))) {}
  uint32_t word(int64_t i) const { return philox(seed, static_cast<uint64_t>(i) / 4, offset).word[i % 4]; }
  uint64_t long_word(int64_t i) const {
    const Philox block = philox(seed, static_cast<uint64_t>(i) / 2, offset);
    return block.word[2 * (i % 2)] | static_cast<uint64_t>(block.word[2 * (i % 2) + 1]) << 32;
  }
  // Uniform numbers of the n elements from `first` on.
  void uniform(int64_t first, int64_t n, float* u) const {
    for (int64_t i = 0; i < n;) {
      const Philox block = philox(seed, static_cast<uint64_t>(first + i) / 4, offset);
      for (int64_t k = (first + i) % 4; k < 4 && i < n; ++k) u[i++] = unit(block.word[k]);
    }
  }
};

// ------------------------------------------------------------------ whole numbers
uint64_t high_product(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
}

// Attributes low, high, shape, dtype, device, as the caller gave them.
int32_t run_randint(const clika_call* call) {
  clika_value& out = call->outputs[0];
  const clika_attr* low = &call->attrs[0];
  const clika_attr* high = &call->attrs[1];
  if (call->attrs[2].kind == CLIKA_ATTR_NONE || high->kind == CLIKA_ATTR_NONE) {  // one bound, and the size
    high = low;
    low = nullptr;
  }
  const auto bound = [](const clika_attr* a) {
    return a == nullptr || a->kind == CLIKA_ATTR_NONE ? int64_t{0} : a->kind == CLIKA_ATTR_INTS ? a->v.ints[0] : a->v.i;
  };
  const uint64_t first = static_cast<uint64_t>(bound(low));
  const uint64_t range = static_cast<uint64_t>(bound(high)) - first;
  const Draws draws(call, 0);
  const Compute compute = compute_of(out.dtype);
  parallel(call, elements(out), 4096, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t x = static_cast<int64_t>(first + high_product(draws.long_word(i), range));
      if (compute == kFloat) {
        const float y = static_cast<float>(x);
        Tiles<float>::storer(out.dtype)(&y, out.data, i, 1, 1);
      } else if (compute == kDouble) {
        data_of<double>(out)[i] = static_cast<double>(x);
      } else {
        Tiles<int64_t>::storer(out.dtype)(&x, out.data, i, 1, 1);
      }
    }
  });
  return CLIKA_OK;
}

int32_t run_randperm(const clika_call* call) {
  clika_value& out = call->outputs[0];
  const int64_t n = elements(out);
  struct Key {
    uint64_t key;
    int64_t number;
  };
  Key* keys = static_cast<Key*>(call->core->scratch(call, static_cast<size_t>(n) * sizeof(Key) + 64));
  if (keys == nullptr) return CLIKA_UNAVAILABLE;
  const Draws draws(call, 0);
  for (int64_t i = 0; i < n; ++i) keys[i] = {draws.long_word(i), i};
  std::sort(keys, keys + n, [](const Key& a, const Key& b) {
    return a.key != b.key ? a.key < b.key : a.number < b.number;
  });
  const StoreTile<int64_t> storer = Tiles<int64_t>::storer(out.dtype);
  for (int64_t i = 0; i < n; ++i) storer(&keys[i].number, out.data, i, 1, 1);
  return CLIKA_OK;
}

// ------------------------------------------------------------------ over tensors
// Calls body(x, u, count) over tiles: the elements of input 0 in float64, which it may change, and uniform
// numbers; then stores x.
template <class C, class Body>
void each_tile(const clika_call* call, const Draws& draws, const Body& body) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const Walk<2> walk({&out, &in});
  const LoadTile<C> loader = Tiles<C>::loader(in.dtype);
  const StoreTile<C> storer = Tiles<C>::storer(out.dtype);
  parallel(call, walk.outer * walk.length, 4096, [&](int64_t begin, int64_t end, int32_t) {
    C x[kTile];
    float u[kTile];
    int64_t number = begin;
    walk.run(begin, end, kTile, [&](const int64_t* at, int64_t n) {
      loader(x, in.data, at[1], walk.step[1], n);
      draws.uniform(number, n, u);
      body(x, u, n);
      storer(x, out.data, at[0], walk.step[0], n);
      number += n;
    });
  });
}

// Scalars p, seed, offset.
template <class C>
int32_t bernoulli(const clika_call* call) {
  const Draws draws(call, 1);
  const bool given = !call->scalars[0].is_none;
  const double p = scalar_float(call, 0, 0);
  if (given && !(p >= 0 && p <= 1)) return refuse(call, "bernoulli: p must be between 0 and 1, got %g", p);
  if (!given) {
    const clika_value& in = call->inputs[0];
    const Walk<1> walk({&in});
    const LoadTile<C> loader = Tiles<C>::loader(in.dtype);
    C bad{};
    bool fits = true;
    walk.run(0, walk.outer * walk.length, kTile, [&](const int64_t* at, int64_t n) {
      C x[kTile];
      loader(x, in.data, at[0], walk.step[0], n);
      for (int64_t i = 0; i < n && fits; ++i) {
        fits = x[i] >= 0 && x[i] <= 1;
        bad = x[i];
      }
    });
    if (!fits) {
      return refuse(call, "bernoulli: probabilities must be between 0 and 1, got %g", static_cast<double>(bad));
    }
  }
  each_tile<C>(call, draws, [&](C* x, const float* u, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const double chance = given ? p : static_cast<double>(x[i]);
      x[i] = static_cast<C>(static_cast<double>(u[i]) < chance);
    }
  });
  return CLIKA_OK;
}
int32_t run_bernoulli(const clika_call* call) {
  switch (compute_of(call->inputs[0].dtype)) {
    case kFloat:
      return bernoulli<float>(call);
    case kDouble:
      return bernoulli<double>(call);
    case kUint:
      return bernoulli<uint64_t>(call);
    default:
      return bernoulli<int64_t>(call);
  }
}

// Scalars p, seed, offset.
template <class C>
int32_t dropout(const clika_call* call) {
  const double p = scalar_float(call, 0, 0.5);
  const C kept = static_cast<C>(1.0 / (1.0 - p));
  each_tile<C>(call, Draws(call, 1), [&](C* x, const float* u, int64_t n) {
    for (int64_t i = 0; i < n; ++i) x[i] = static_cast<double>(u[i]) >= p ? x[i] * kept : C{0};
  });
  return CLIKA_OK;
}
int32_t run_dropout(const clika_call* call) {
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? dropout<double>(call) : dropout<float>(call);
}

// Inputs mean, std?.
template <class C>
int32_t normal(const clika_call* call) {
  const clika_value& mean = call->inputs[0];
  const bool has_std = present(call, 1);
  const clika_value& std = has_std ? call->inputs[1] : mean;
  clika_value& out = call->outputs[0];
  const Draws draws(call, 0);
  const Walk<3> walk({&out, &mean, &std});
  const LoadTile<C> load_mean = Tiles<C>::loader(mean.dtype);
  const LoadTile<C> load_std = Tiles<C>::loader(std.dtype);
  const StoreTile<C> storer = Tiles<C>::storer(out.dtype);
  const int64_t total = walk.outer * walk.length;
  C bad = 0;
  const auto each = [&](const auto& body) {
    int64_t number = 0;
    walk.run(0, total, kTile, [&](const int64_t* at, int64_t n) {
      body(at, n, number);
      number += n;
    });
  };
  each([&](const int64_t* at, int64_t n, int64_t) {
    C scale[kTile];
    if (!has_std) return;
    load_std(scale, std.data, at[2], walk.step[2], n);
    for (int64_t i = 0; i < n; ++i) bad = scale[i] >= 0 ? bad : scale[i];
  });
  if (bad != 0) return refuse(call, "normal: std must be 0 or more, got %g", static_cast<double>(bad));
  each([&](const int64_t* at, int64_t n, int64_t number) {
    C x[kTile];
    C scale[kTile];
    load_mean(x, mean.data, at[1], walk.step[1], n);
    std::fill(scale, scale + n, C{1});
    if (has_std) load_std(scale, std.data, at[2], walk.step[2], n);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t pair = (number + i) / 2 * 2;
      const float u = (static_cast<float>(draws.word(pair) >> 8) + 1.0f) * 5.9604644775390625e-8f;
      const float radius = std::sqrt(-2.0f * std::log(u));
      const float angle = 6.28318531f * unit(draws.word(pair + 1));
      const float z = radius * ((number + i) % 2 == 0 ? std::cos(angle) : std::sin(angle));
      x[i] += scale[i] * static_cast<C>(z);
    }
    storer(x, out.data, at[0], walk.step[0], n);
  });
  return CLIKA_OK;
}
int32_t run_normal(const clika_call* call) {
  return call->outputs[0].dtype == CLIKA_FLOAT64 ? normal<double>(call) : normal<float>(call);
}

// ------------------------------------------------------------------ categories
// Attributes num_samples, replacement.
template <class C>
int32_t multinomial(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const int64_t categories = in.shape[in.rank - 1];
  const int64_t rows = in.rank == 1 ? 1 : in.shape[0];
  const int64_t samples = attr_int(call, 0, 1);
  const bool replacement = attr_int(call, 1, 0) != 0;
  const Draws draws(call, 0);
  struct Key {
    double key;
    int64_t category;
  };
  C* x = static_cast<C*>(call->core->scratch(call, static_cast<size_t>(categories) * sizeof(C) + 64));
  Key* keys = static_cast<Key*>(call->core->scratch(call, static_cast<size_t>(categories) * sizeof(Key) + 64));
  if (x == nullptr || keys == nullptr) return CLIKA_UNAVAILABLE;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t* out = data_of<int64_t>(call->outputs[0]) + row * samples;
    Tiles<C>::loader(in.dtype)(x, in.data, row * categories, 1, categories);
    double sum = 0;
    int64_t possible = 0;
    for (int64_t c = 0; c < categories; ++c) {
      const double weight = static_cast<double>(x[c]);
      if (!(weight >= 0) || std::isinf(weight)) {
        return refuse(call, "multinomial: weights must be finite and 0 or more, got %g", weight);
      }
      sum += weight;
      if (weight > 0) {
        const double v = (static_cast<double>(draws.word(row * categories + c) >> 8) + 1) * 0x1p-24;
        if (!replacement) keys[possible] = {-std::log(v) / weight, c};
        ++possible;
      }
    }
    if (std::isinf(sum)) return refuse(call, "multinomial: the sum of the weights is not finite");
    if (possible < (replacement ? 1 : samples)) {
      return refuse(call, "multinomial: %lld categories have a weight, too few to draw %lld samples",
                    static_cast<long long>(possible), static_cast<long long>(samples));
    }
    if (!replacement) {
      std::partial_sort(keys, keys + samples, keys + possible, [](const Key& a, const Key& b) {
        return a.key != b.key ? a.key < b.key : a.category < b.category;
      });
      for (int64_t j = 0; j < samples; ++j) out[j] = keys[j].category;
      continue;
    }
    double running = 0;
    for (int64_t c = 0; c < categories; ++c) {
      running += static_cast<double>(x[c]);
      keys[c] = {running, c};
    }
    for (int64_t j = 0; j < samples; ++j) {
      const double point = static_cast<double>(unit(draws.word(row * samples + j))) * sum;
      const Key* found = std::upper_bound(keys, keys + categories, point,
                                          [](double value, const Key& key) { return value < key.key; });
      out[j] = found->category;  // point is below the last one, which is the sum
    }
  }
  return CLIKA_OK;
}
int32_t run_multinomial(const clika_call* call) {
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? multinomial<double>(call) : multinomial<float>(call);
}

constexpr uint64_t kAll = FLOATS | F64 | INTS | BOOL;

CLIKA_KERNELS(drawing,
              Entry("randint", run_randint).out(FLOATS | F64 | INTS),
              Entry("randperm", run_randperm).out(INTS),
              Entry("bernoulli", run_bernoulli).in(kAll).out(kAll),
              Entry("dropout", run_dropout).in(FLOATS | F64).out(FLOATS | F64),
              Entry("normal", run_normal).in(FLOATS | F64).out(FLOATS | F64),
              Entry("multinomial", run_multinomial).in(FLOATS | F64).out(I64).contiguous())
#include "level_end.hpp"
