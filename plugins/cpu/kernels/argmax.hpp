// The walk of argmax and argmin over lines. Attributes: dim, keepdim, index_dtype. Included after elementwise.hpp
// and lines.hpp.

inline void put_index(clika_value& out, int64_t line, int64_t index) {
  if (out.dtype == CLIKA_INT64) {
    data_of<int64_t>(out)[line] = index;
  } else {
    data_of<int32_t>(out)[line] = static_cast<int32_t>(index);
  }
}

// Lines that lie side by side: many at a time, so that memory is read in order.
template <class C, int kSign>
void search_columns(const clika_call* call, const Lines& lines) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const LoadTile<C> loader = Tiles<C>::loader(in.dtype);
  const bool direct = Tiles<C>::direct(in.dtype);
  const int64_t run = lines.shape[lines.rank - 1];
  const int64_t blocks = (run + kTile - 1) / kTile;
  const int64_t grain = std::max<int64_t>(1, kParallelFrom / (lines.length * std::min(run, kTile)));
  parallel(call, lines.count / run * blocks, grain, [&](int64_t begin, int64_t end, int32_t) {
    alignas(64) C copy[kTile];
    alignas(64) C best[kTile];
    alignas(64) int32_t index[kTile];
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b / blocks * run + b % blocks * kTile;
      const int64_t width = std::min(kTile, run - b % blocks * kTile);
      const int64_t at = lines.offset(first);
      loader(best, in.data, at, 1, width);
      std::fill(index, index + width, 0);
      for (int32_t i = 1; i < static_cast<int32_t>(lines.length); ++i) {
        const C* x = direct ? data_of<C>(in) + at + i * lines.step : copy;
        if (!direct) loader(copy, in.data, at + i * lines.step, 1, width);
        for (int64_t k = 0; k < width; ++k) {
          const bool further = (kSign > 0 ? x[k] > best[k] : x[k] < best[k]) | (x[k] != x[k]);
          const bool take = further & (best[k] == best[k]);
          best[k] = take ? x[k] : best[k];
          index[k] = take ? i : index[k];
        }
      }
      for (int64_t k = 0; k < width; ++k) put_index(out, first + k, index[k]);
    }
  });
}

template <class C, int kSign>
int32_t search(const clika_call* call, int64_t (*find)(const C*, int64_t)) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const LoadTile<C> loader = Tiles<C>::loader(in.dtype);
  const bool flat = call->n_attrs == 0 || call->attrs[0].kind == CLIKA_ATTR_NONE;
  if (flat) {
    const int64_t n = elements(in);
    const bool direct = Tiles<C>::direct(in.dtype) && is_contiguous(in);
    C* copy = nullptr;
    if (!direct) {
      copy = static_cast<C*>(call->core->scratch(call, static_cast<size_t>(n) * sizeof(C) + 64));
      if (copy == nullptr) return CLIKA_UNAVAILABLE;
      const Walk<1> walk({&in});
      int64_t done = 0;
      walk.run(0, n, n, [&](const int64_t* at, int64_t count) {
        loader(copy + done, in.data, at[0], walk.step[0], count);
        done += count;
      });
    }
    put_index(out, 0, find(direct ? data_of<C>(in) : copy, n));
    return CLIKA_OK;
  }
  const Lines lines(in, call->attrs[0].v.i);
  const int64_t n = lines.length;
  if (lines.rank > 0 && lines.strides[lines.rank - 1] == 1 && lines.step != 1 && lines.count > 0 &&
      n <= std::numeric_limits<int32_t>::max()) {
    search_columns<C, kSign>(call, lines);
    return CLIKA_OK;
  }
  const bool direct = Tiles<C>::direct(in.dtype) && lines.step == 1;
  C* scratch = nullptr;
  if (!direct) {
    const size_t bytes = static_cast<size_t>(n * call->core->num_threads()) * sizeof(C) + 64;
    scratch = static_cast<C*>(call->core->scratch(call, bytes));
    if (scratch == nullptr) return CLIKA_UNAVAILABLE;
  }
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, n));
  parallel(call, lines.count, grain, [&](int64_t begin, int64_t end, int32_t worker) {
    C* copy = scratch + worker * n;
    for (int64_t line = begin; line < end; ++line) {
      const int64_t at = lines.offset(line);
      if (!direct) loader(copy, in.data, at, lines.step, n);
      put_index(out, line, find(direct ? data_of<C>(in) + at : copy, n));
    }
  });
  return CLIKA_OK;
}
