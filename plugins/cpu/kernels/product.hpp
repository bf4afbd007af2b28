// The sizes and strides of a matrix product with broadcast batches. Included after level.hpp.
struct MatrixProduct {
  const clika_value* left;
  const clika_value* right;
  clika_value* out;
  int64_t m = 1;
  int64_t k;
  int64_t n = 1;
  int64_t left_row = 0;
  int64_t left_column;
  int64_t right_row;
  int64_t right_column = 0;
  int64_t batches = 1;
  int32_t rank = 0;  // of the batch dimensions
  int64_t shape[CLIKA_MAX_RANK];
  int64_t left_strides[CLIKA_MAX_RANK];
  int64_t right_strides[CLIKA_MAX_RANK];

  struct Batch {
    int64_t left;
    int64_t right;
    int64_t out;
  };

  // An operand of rank 1 is a row on the left and a column on the right. The result is contiguous.
  explicit MatrixProduct(const clika_call* call)
      : left(&call->inputs[0]), right(&call->inputs[1]), out(&call->outputs[0]) {
    const int32_t a = left->rank;
    const int32_t b = right->rank;
    k = left->shape[a - 1];
    left_column = left->strides[a - 1];
    if (a > 1) {
      m = left->shape[a - 2];
      left_row = left->strides[a - 2];
    }
    right_row = right->strides[b > 1 ? b - 2 : 0];
    if (b > 1) {
      n = right->shape[b - 1];
      right_column = right->strides[b - 1];
    }
    if (n == 1) right_column = 1;
    if (k == 1) left_column = 1;
    const int32_t left_batch = a > 2 ? a - 2 : 0;
    const int32_t right_batch = b > 2 ? b - 2 : 0;
    rank = std::max(left_batch, right_batch);
    for (int32_t d = 0; d < rank; ++d) {
      const int32_t at_left = d - (rank - left_batch);
      const int32_t at_right = d - (rank - right_batch);
      const int64_t x = at_left >= 0 ? left->shape[at_left] : 1;
      const int64_t y = at_right >= 0 ? right->shape[at_right] : 1;
      shape[d] = x == 1 ? y : x;
      left_strides[d] = x == 1 ? 0 : left->strides[at_left];
      right_strides[d] = y == 1 ? 0 : right->strides[at_right];
      batches *= shape[d];
    }
  }

  Batch batch(int64_t index) const {
    Batch at = {0, 0, index * m * n};
    for (int32_t d = rank - 1; d >= 0; --d) {
      const int64_t i = index % shape[d];
      index /= shape[d];
      at.left += i * left_strides[d];
      at.right += i * right_strides[d];
    }
    return at;
  }
};
