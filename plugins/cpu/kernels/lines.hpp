// Lines of a tensor along one dimension. Included after level.hpp.
struct Lines {
  int64_t count = 1;   // lines
  int64_t length = 1;  // elements of a line
  int64_t step = 1;    // between elements of a line
  int32_t rank = 0;    // of the dimensions that number the lines
  int64_t shape[CLIKA_MAX_RANK];
  int64_t strides[CLIKA_MAX_RANK];

  // `dim` may be negative; a tensor of rank 0 is one line of one element.
  Lines(const clika_value& v, int64_t dim) {
    if (v.rank == 0) return;
    const int32_t at = static_cast<int32_t>(dim < 0 ? dim + v.rank : dim);
    length = v.shape[at];
    step = v.strides[at];
    for (int32_t d = 0; d < v.rank; ++d) {
      if (d == at) continue;
      shape[rank] = v.shape[d];
      strides[rank++] = v.strides[d];
      count *= v.shape[d];
    }
    if (length == 1) step = 1;
  }
  int64_t offset(int64_t line) const {
    int64_t at = 0;
    for (int32_t d = rank - 1; d >= 0; --d) {
      at += (line % shape[d]) * strides[d];
      line /= shape[d];
    }
    return at;
  }
};
