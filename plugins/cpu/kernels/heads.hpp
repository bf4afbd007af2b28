// The operands of scaled_dot_product_attention: one product of queries, keys and values for each index over
// the leading dimensions of the result. Included after elementwise.hpp.

struct Heads {
  const clika_value* query;
  const clika_value* key;
  const clika_value* value;
  const clika_value* mask = nullptr;
  clika_value* out;
  int32_t rank;  // of the leading dimensions
  int64_t shape[CLIKA_MAX_RANK];
  int64_t count = 1;  // of products
  int64_t length;     // queries
  int64_t positions;  // keys
  int64_t size;       // of a key
  int64_t value_size;
  int64_t group = 1;  // query heads that share a key head
  bool causal;
  double scale;
  double softcap;

  // query, key, value, mask?; attrs is_causal, enable_gqa; scalars dropout_p, scale, softcap.
  explicit Heads(const clika_call* call)
      : query(&call->inputs[0]), key(&call->inputs[1]), value(&call->inputs[2]), out(&call->outputs[0]) {
    if (present(call, 3)) mask = &call->inputs[3];
    rank = out->rank - 2;
    for (int32_t d = 0; d < rank; ++d) {
      shape[d] = out->shape[d];
      count *= shape[d];
    }
    length = query->shape[query->rank - 2];
    size = query->shape[query->rank - 1];
    positions = key->shape[key->rank - 2];
    value_size = value->shape[value->rank - 1];
    causal = attr_int(call, 0, 0) != 0;
    const bool grouped = attr_int(call, 1, 0) != 0 && rank > 0;
    if (grouped) group = query->shape[query->rank - 3] / key->shape[key->rank - 3];
    scale = scalar_float(call, 1, 1.0 / std::sqrt(static_cast<double>(std::max<int64_t>(1, size))));
    softcap = scalar_float(call, 2, 0.0);
  }
  // Offset of product `index` in an operand, in elements; `shared` neighbouring heads have one.
  int64_t offset(const clika_value& v, int64_t index, int64_t shared) const {
    int64_t at = 0;
    for (int32_t d = rank - 1; d >= 0; --d) {
      int64_t i = index % shape[d];
      index /= shape[d];
      const int32_t own = d - (rank - (v.rank - 2));
      if (d == rank - 1) i /= shared;
      if (own >= 0 && v.shape[own] != 1) at += i * v.strides[own];
    }
    return at;
  }
  // The same of row i of the mask, which may have fewer than two dimensions, and the step within the row.
  int64_t mask_row(int64_t index, int64_t i) const {
    const auto stride = [&](int32_t from_end) {
      const int32_t d = mask->rank - from_end;
      return d >= 0 && mask->shape[d] != 1 ? mask->strides[d] : 0;
    };
    int64_t at = i * stride(2);
    for (int32_t d = rank - 1; d >= 0; --d) {
      at += index % shape[d] * stride(rank - d + 2);
      index /= shape[d];
    }
    return at;
  }
  int64_t mask_step() const {
    const int32_t d = mask->rank - 1;
    return d >= 0 && mask->shape[d] != 1 ? mask->strides[d] : 0;
  }
  // How many keys query i sees at most.
  int64_t seen(int64_t i) const { return causal ? std::min(positions, i + 1) : positions; }
};
