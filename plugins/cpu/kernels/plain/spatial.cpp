// pad, im2col and col2im: elements by their size, except for the sums of col2im.
#include "level.hpp"
#include "elementwise.hpp"

// ------------------------------------------------------------------ pad
enum PadMode { kConstant = 0, kReflect, kReplicate, kCircular };

// Where element i of a padded dimension comes from, -1 for the constant. The elements from `first` to `last`
// are kept.
int64_t source_of(int64_t i, int64_t size, int64_t first, int64_t last, int64_t mode) {
  if (i >= first && i < last) return i;
  switch (mode) {
    case kReflect:
      return i < 0 ? -i : i < size ? i : 2 * (size - 1) - i;
    case kReplicate:
      return i < 0 ? 0 : std::min(i, size - 1);
    case kCircular:
      return i < first ? i + (last - first) : i - (last - first);
    default:
      return -1;
  }
}

// The constant in the tensor's dtype: a scalar, 0 where there is none.
void constant_of(const clika_call* call, int32_t dtype, char* to) {
  const clika_scalar& s = call->scalars[0];
  const bool real = s.is_none == 0 && s.is_float != 0;
  const double f = s.is_none != 0 ? 0.0 : real ? s.f : static_cast<double>(s.i);
  const int64_t i = s.is_none != 0 ? 0 : s.i;
  switch (compute_of(dtype)) {
    case kFloat: {
      const float x = static_cast<float>(f);
      Tiles<float>::storer(dtype)(&x, to, 0, 1, 1);
      return;
    }
    case kDouble:
      std::memcpy(to, &f, 8);
      return;
    default: {
      const int64_t x = dtype == CLIKA_BOOL ? f != 0.0 : i;
      Tiles<int64_t>::storer(dtype)(&x, to, 0, 1, 1);
    }
  }
}

// attrs pad, mode; scalar value.
int32_t run_pad(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const int64_t all = elements(out);
  if (all == 0) return CLIKA_OK;
  const clika_attr& pad = call->attrs[0];
  const int64_t mode = attr_int(call, 1, kConstant);
  const int64_t size = bytes_of(in.dtype);
  const int32_t padded = pad.kind == CLIKA_ATTR_INTS ? pad.n / 2 : 0;
  const auto before = [&](int32_t d) {
    const int32_t i = in.rank - 1 - d;
    return i < padded ? pad.v.ints[2 * i] : 0;
  };
  // Dimensions behind `last` are copied whole.
  int32_t last = in.rank - 1;
  int64_t run = size;
  while (last >= 0 && before(last) == 0 && in.shape[last] == out.shape[last]) run *= in.shape[last--];
  if (last < 0) {
    std::memcpy(out.data, in.data, static_cast<size_t>(run));
    return CLIKA_OK;
  }
  int64_t* tables[CLIKA_MAX_RANK];
  int64_t rows = 1;
  for (int32_t d = 0; d <= last; ++d) {
    rows *= d < last ? out.shape[d] : 1;
    tables[d] = static_cast<int64_t*>(call->core->scratch(call, static_cast<size_t>(out.shape[d]) * 8));
    if (tables[d] == nullptr) return CLIKA_UNAVAILABLE;
    const int64_t start = -before(d);
    const int64_t first = std::max<int64_t>(0, start);
    const int64_t last_kept = std::min(in.shape[d], start + out.shape[d]);
    for (int64_t i = 0; i < out.shape[d]; ++i) {
      tables[d][i] = source_of(start + i, in.shape[d], first, last_kept, mode);
    }
  }
  char value[8] = {};
  constant_of(call, in.dtype, value);
  const int64_t width = out.shape[last];
  const auto fill = [&](char* to, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += size) std::memcpy(to + i, value, static_cast<size_t>(size));
  };
  const int64_t grain = std::max<int64_t>(1, 65536 / (width * run));
  parallel(call, rows, grain, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t rest = row;
      int64_t from = 0;
      int64_t step = in.shape[last];
      bool outside = false;
      for (int32_t d = last - 1; d >= 0; --d) {
        const int64_t at = tables[d][rest % out.shape[d]];
        rest /= out.shape[d];
        outside = outside || at < 0;
        from += at * step;
        step *= in.shape[d];
      }
      char* to = data_of<char>(out) + row * width * run;
      if (outside) {
        fill(to, width * run);
        continue;
      }
      const char* source = data_of<char>(in) + from * run;
      for (int64_t i = 0; i < width;) {
        const int64_t at = tables[last][i];
        if (at < 0) {
          fill(to + i * run, run);
          ++i;
          continue;
        }
        int64_t n = 1;  // neighbours that stay neighbours
        while (i + n < width && tables[last][i + n] == at + n) ++n;
        std::memcpy(to + i * run, source + at * run, static_cast<size_t>(n * run));
        i += n;
      }
    }
  });
  return CLIKA_OK;
}

// ------------------------------------------------------------------ windows as columns
struct Columns {
  int64_t batch = 1;
  int64_t channels;
  int64_t size[3] = {1, 1, 1};    // of the image
  int64_t counts[3] = {1, 1, 1};  // of windows
  int64_t kernel[3] = {1, 1, 1};
  int64_t dilation[3] = {1, 1, 1};
  int64_t pad[3] = {0, 0, 0};
  int64_t stride[3] = {1, 1, 1};

  // `image` is the tensor of pixels; attrs from `first` on: kernel, dilation, padding, stride.
  Columns(const clika_call* call, const clika_value& image, int32_t n, uint32_t first) {
    channels = image.shape[image.rank - 1];
    if (image.rank == n + 2) batch = image.shape[0];
    for (int32_t i = 0; i < n; ++i) {
      const int32_t d = 3 - n + i;
      const auto number = [&](uint32_t a) {
        const clika_attr& attr = call->attrs[first + a];
        return attr.v.ints[attr.n == 1 ? 0 : i];
      };
      size[d] = image.shape[image.rank - 1 - n + i];
      kernel[d] = number(0);
      dilation[d] = number(1);
      pad[d] = number(2);
      stride[d] = number(3);
      counts[d] = (size[d] + 2 * pad[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d] + 1;
    }
  }
  int64_t windows() const { return counts[0] * counts[1] * counts[2]; }
  int64_t places() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t pixels() const { return size[0] * size[1] * size[2]; }

  // The pixel under place k of window l, -1 in the padding.
  int64_t pixel(int64_t l, int64_t k) const {
    int64_t at[3];
    for (int d = 2; d >= 0; --d) {
      at[d] = l % counts[d] * stride[d] - pad[d] + k % kernel[d] * dilation[d];
      l /= counts[d];
      k /= kernel[d];
      if (at[d] < 0 || at[d] >= size[d]) return -1;
    }
    return (at[0] * size[1] + at[1]) * size[2] + at[2];
  }
};

template <class U>
void windows_to_rows(const clika_call* call, const Columns& c) {
  const U* in = data_of<U>(call->inputs[0]);
  U* out = data_of<U>(call->outputs[0]);
  const int64_t places = c.places();
  const int64_t row = c.channels * places;
  parallel(call, c.batch * c.windows(), std::max<int64_t>(1, 16384 / (row + 1)),
           [&](int64_t begin, int64_t end, int32_t) {
             for (int64_t i = begin; i < end; ++i) {
               const U* image = in + i / c.windows() * c.pixels() * c.channels;
               for (int64_t k = 0; k < places; ++k) {
                 const int64_t at = c.pixel(i % c.windows(), k);
                 U* to = out + i * row + k;
                 for (int64_t ch = 0; ch < c.channels; ++ch) {
                   to[ch * places] = at < 0 ? U{0} : image[at * c.channels + ch];
                 }
               }
             }
           });
}

// attrs kernel_size, dilation, padding, stride.
int32_t run_im2col(const clika_call* call) {
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  const int32_t given = call->attrs[0].n;
  const Columns c(call, call->inputs[0], given == 1 ? 2 : given, 0);
  switch (bytes_of(call->inputs[0].dtype)) {
    case 1:
      windows_to_rows<uint8_t>(call, c);
      return CLIKA_OK;
    case 2:
      windows_to_rows<uint16_t>(call, c);
      return CLIKA_OK;
    case 4:
      windows_to_rows<uint32_t>(call, c);
      return CLIKA_OK;
    default:
      windows_to_rows<uint64_t>(call, c);
      return CLIKA_OK;
  }
}

template <class C, class U>
int32_t rows_to_image(const clika_call* call, const Columns& c) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const LoadTile<C> loader = Tiles<C>::loader(in.dtype);
  const StoreTile<C> storer = Tiles<C>::storer(out.dtype);
  const int64_t places = c.places();
  const int64_t row = c.channels * places;
  const int64_t image = c.pixels() * c.channels;
  C* memory = static_cast<C*>(call->core->scratch(call, static_cast<size_t>(image + row) * sizeof(C)));
  if (memory == nullptr) return CLIKA_UNAVAILABLE;
  C* values = memory + image;
  for (int64_t b = 0; b < c.batch; ++b) {
    std::memset(memory, 0, static_cast<size_t>(image) * sizeof(C));
    for (int64_t l = 0; l < c.windows(); ++l) {
      loader(values, in.data, (b * c.windows() + l) * row, 1, row);
      for (int64_t k = 0; k < places; ++k) {
        const int64_t at = c.pixel(l, k);
        if (at < 0) continue;
        C* to = memory + at * c.channels;
        for (int64_t ch = 0; ch < c.channels; ++ch) {
          to[ch] = static_cast<C>(static_cast<U>(to[ch]) + static_cast<U>(values[ch * places + k]));
        }
      }
    }
    storer(memory, out.data, b * image, 1, image);
  }
  return CLIKA_OK;
}

// attrs output_size, kernel_size, dilation, padding, stride.
int32_t run_col2im(const clika_call* call) {
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  const int32_t given = call->attrs[0].n;
  const Columns c(call, call->outputs[0], given == 1 ? 2 : given, 1);
  switch (compute_of(call->inputs[0].dtype)) {
    case kFloat:
      return rows_to_image<float, float>(call, c);
    case kDouble:
      return rows_to_image<double, double>(call, c);
    default:
      return rows_to_image<int64_t, uint64_t>(call, c);
  }
}

constexpr uint64_t kEvery = FLOATS | F64 | INTS | BOOL;

CLIKA_KERNELS(spatial,
              Entry("pad", run_pad).in(kEvery).out(kEvery).contiguous(),
              Entry("im2col", run_im2col).in(kEvery).out(kEvery).contiguous(),
              Entry("col2im", run_col2im).in(kEvery).out(kEvery).contiguous())
#include "level_end.hpp"
