// The walk of argmax and argmin over lines. Attributes: dim, keepdim, index_dtype. Included after elementwise.hpp and lines.hpp.

template <class C>
int32_t search(const clika_call* call, int64_t (*find)(const C*, int64_t)) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const auto put = [&](int64_t line, int64_t index) {
    if (out.dtype == CLIKA_INT64) {
      data_of<int64_t>(out)[line] = index;
    } else {
      data_of<int32_t>(out)[line] = static_cast<int32_t>(index);
    }
  };
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
    put(0, find(direct ? data_of<C>(in) : copy, n));
    return CLIKA_OK;
  }
  const Lines lines(in, call->attrs[0].v.i);
  const int64_t n = lines.length;
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
      put(line, find(direct ? data_of<C>(in) + at : copy, n));
    }
  });
  return CLIKA_OK;
}
