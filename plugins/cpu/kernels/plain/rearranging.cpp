// flip, roll, repeat, tril, triu, diag_embed: entries at other places, as copies of boxes.
#include "level.hpp"
#include "elementwise.hpp"
#include "copying.hpp"

// A tensor of the strides of `like` (or other ones) and a box's shape.
clika_value box(const clika_value& like, const int64_t* shape, const int64_t* strides, int64_t offset) {
  clika_value v = like;
  v.shape = shape;
  v.strides = strides;
  v.data = static_cast<char*>(like.data) + offset * bytes_of(like.dtype);
  return v;
}

int32_t from_front(int64_t dim, int32_t rank) { return static_cast<int32_t>(dim < 0 ? dim + rank : dim); }

// attr dims.
int32_t run_flip(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  if (elements(out) == 0) return CLIKA_OK;
  int64_t strides[CLIKA_MAX_RANK];
  std::copy(in.strides, in.strides + in.rank, strides);
  int64_t offset = 0;
  const clika_attr& dims = call->attrs[0];
  for (int32_t i = 0; i < dims.n && in.rank > 0; ++i) {
    const int32_t d = from_front(dims.v.ints[i], in.rank);
    offset += (in.shape[d] - 1) * in.strides[d];
    strides[d] = -in.strides[d];
  }
  copy_tensor(call, out, box(in, in.shape, strides, offset));
  return CLIKA_OK;
}

// Copies what a shift by `shift[d]` along every dim leaves in one piece: from dim d on.
void roll_boxes(const clika_call* call, const clika_value& out, const clika_value& in, const int64_t* shift,
                int32_t d, int64_t* shape, int64_t to, int64_t from) {
  if (d == in.rank) {
    copy_tensor(call, box(out, shape, out.strides, to), box(in, shape, in.strides, from));
    return;
  }
  const int64_t size = in.shape[d];
  const int64_t by = shift[d];
  shape[d] = size - by;  // entries 0 .. size - by - 1 go to by ..
  roll_boxes(call, out, in, shift, d + 1, shape, to + by * out.strides[d], from);
  if (by == 0) return;
  shape[d] = by;
  roll_boxes(call, out, in, shift, d + 1, shape, to, from + (size - by) * in.strides[d]);
}

// attrs shifts, dims. Without dims the tensors, which are contiguous, are one dim.
int32_t run_roll(const clika_call* call) {
  const int64_t n = elements(call->outputs[0]);
  if (n == 0) return CLIKA_OK;
  const clika_attr& shifts = call->attrs[0];
  const clika_attr& dims = call->attrs[1];
  const int64_t one[1] = {1};
  clika_value in = call->inputs[0];
  clika_value out = call->outputs[0];
  const bool flat = dims.kind == CLIKA_ATTR_NONE || dims.n == 0;
  if (flat || in.rank == 0) {
    in.rank = out.rank = 1;
    in.shape = out.shape = &n;
    in.strides = out.strides = one;
  }
  int64_t shift[CLIKA_MAX_RANK] = {};
  for (int32_t i = 0; i < shifts.n; ++i) {
    const int32_t d = flat ? 0 : from_front(dims.v.ints[i], in.rank);
    const int64_t size = in.shape[d];
    shift[d] = (shift[d] + (shifts.v.ints[i] % size + size) % size) % size;
  }
  int64_t shape[CLIKA_MAX_RANK];
  roll_boxes(call, out, in, shift, 0, shape, 0, 0);
  return CLIKA_OK;
}

// attr repeats. The copies lie at every multiple of the input's size along each dim; along a dim of size 1
// they are one box that the input is broadcast to.
int32_t run_repeat(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  if (elements(out) == 0) return CLIKA_OK;
  int64_t shape[CLIKA_MAX_RANK];
  int64_t strides[CLIKA_MAX_RANK];
  int64_t count[CLIKA_MAX_RANK];
  int64_t total = 1;
  const int32_t front = out.rank - in.rank;
  for (int32_t d = 0; d < out.rank; ++d) {
    const int64_t size = d < front ? 1 : in.shape[d - front];
    shape[d] = size == 1 ? out.shape[d] : size;
    strides[d] = size == 1 ? 0 : in.strides[d - front];
    count[d] = out.shape[d] / shape[d];
    total *= count[d];
  }
  clika_value from = box(in, shape, strides, 0);
  from.rank = out.rank;
  for (int64_t i = 0; i < total; ++i) {
    int64_t left = i;
    int64_t offset = 0;
    for (int32_t d = out.rank - 1; d >= 0; --d) {
      offset += left % count[d] * shape[d] * out.strides[d];
      left /= count[d];
    }
    copy_tensor(call, box(out, shape, out.strides, offset), from);
  }
  return CLIKA_OK;
}

// attr diagonal. Row i keeps the columns up to i + diagonal, or from there on.
template <bool kLower>
int32_t run_triangle(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  if (elements(out) == 0) return CLIKA_OK;
  const int64_t rows = out.shape[out.rank - 2];
  const int64_t columns = out.shape[out.rank - 1];
  const int64_t diagonal = std::max(-rows, std::min(columns, attr_int(call, 0, 0)));
  const int64_t step = in.strides[in.rank - 1];
  const int64_t size = bytes_of(in.dtype);
  parallel(call, elements(out) / columns, std::max<int64_t>(1, (int64_t{1} << 18) / columns),
           [&](int64_t begin, int64_t end, int32_t) {
             for (int64_t r = begin; r < end; ++r) {
               int64_t left = r;
               int64_t offset = 0;
               for (int32_t d = out.rank - 2; d >= 0; --d) {
                 offset += left % in.shape[d] * in.strides[d];
                 left /= in.shape[d];
               }
               const int64_t place = r % rows + diagonal + (kLower ? 1 : 0);
               const int64_t cut = std::max<int64_t>(0, std::min(columns, place));
               const int64_t first = kLower ? 0 : cut;
               const int64_t last = kLower ? cut : columns;
               char* to = data_of<char>(out) + r * columns * size;
               std::memset(to, 0, static_cast<size_t>(columns * size));
               copy_elements(size, to + first * size, 1,
                             static_cast<const char*>(in.data) + (offset + first * step) * size, step,
                             last - first);
             }
           });
  return CLIKA_OK;
}

// attrs offset, dim1, dim2.
int32_t run_diag_embed(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  if (elements(out) == 0) return CLIKA_OK;
  std::memset(out.data, 0, static_cast<size_t>(elements(out) * bytes_of(out.dtype)));
  const int64_t offset = attr_int(call, 0, 0);
  const int32_t rows = from_front(attr_int(call, 1, -2), out.rank);
  const int32_t columns = from_front(attr_int(call, 2, -1), out.rank);
  int64_t strides[CLIKA_MAX_RANK];
  int32_t n = 0;
  for (int32_t d = 0; d < out.rank; ++d) {
    if (d != rows && d != columns) strides[n++] = out.strides[d];
  }
  strides[n] = out.strides[rows] + out.strides[columns];
  const int64_t start = offset > 0 ? offset * out.strides[columns] : -offset * out.strides[rows];
  clika_value diagonal = box(out, in.shape, strides, start);
  diagonal.rank = in.rank;
  copy_tensor(call, diagonal, in);
  return CLIKA_OK;
}

CLIKA_KERNELS(rearranging,
              Entry("flip", run_flip).in(kWholeBytes).out(kWholeBytes),
              Entry("roll", run_roll).in(kWholeBytes).out(kWholeBytes).contiguous(),
              Entry("repeat", run_repeat).in(kWholeBytes).out(kWholeBytes),
              Entry("tril", run_triangle<true>).in(kWholeBytes).out(kWholeBytes),
              Entry("triu", run_triangle<false>).in(kWholeBytes).out(kWholeBytes),
              Entry("diag_embed", run_diag_embed).in(kWholeBytes).out(kWholeBytes))
#include "level_end.hpp"
