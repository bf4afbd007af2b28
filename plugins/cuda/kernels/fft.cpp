// fft, ifft, rfft, irfft: complex numbers are pairs in the last dim.
#include <cmath>

#include "general.hpp"

namespace clika_cuda {

namespace {

Program *load_lines, *join_transforms, *make_chirp, *multiply_lines, *store_lines;

constexpr int64_t kLargestFactor = 31;
constexpr int64_t kLongest = int64_t{1} << 30;  // k^2 modulo 2 n stays within 64 bits

// Transforms `lines` lines of length n, whose prime factors are small, back and forth between two rooms of the device;
// *from has the result.
int32_t transform(const clika_call* call, const char* op, void** from, void** to, int64_t lines, int64_t n) {
  General g{};
  g.i[0] = n;
  g.i[1] = 1;
  g.n = lines * n;
  int64_t left = n;
  int64_t p = 4;
  for (int step = 0; left > 1; p = step++ == 0 ? 2 : p + 1) {
    for (; left % p == 0; left /= p) {
      g.room[0] = *from;
      g.room[1] = *to;
      g.i[2] = p;
      if (const int32_t status = launch_each(call, op, join_transforms, g)) return status;
      g.i[1] *= p;
      std::swap(*from, *to);
    }
  }
  return CLIKA_OK;
}

enum Norm { kBackward, kOrtho, kForward };

// Attributes: n, dim, norm. A real side lacks the dim of pairs.
template <bool kRealIn, bool kRealOut, bool kInverse>
int32_t run(const clika_call* call) {
  const char* op = kRealIn ? "rfft" : kRealOut ? "irfft" : kInverse ? "ifft" : "fft";
  const clika_value& in = call->inputs[0];
  const clika_value& out = call->outputs[0];
  General g = general_of(call, op);
  if (g.n == 0) return CLIKA_OK;
  const int32_t rank = in.rank - (kRealIn ? 0 : 1);
  const int32_t dim = from_front(attr_int(call, 1, -1), rank);
  int64_t lines = 1;
  g.i[1] = 1;
  for (int32_t d = 0; d < rank; ++d) {
    if (d != dim) lines *= in.shape[d];
    if (d > dim) g.i[1] *= in.shape[d];
  }
  const int64_t held = in.shape[dim], made = out.shape[dim];
  const int64_t n = kRealOut || !kRealIn ? made : attr_int(call, 0, held);
  if (n < 1 || n > kLongest) return refuse(call, std::string(op) + ": length " + std::to_string(n) + " is not taken");
  int64_t left = n, length = n;
  for (int64_t p = 2; p <= kLargestFactor; ++p) {
    while (left % p == 0) left /= p;
  }
  if (left != 1) {
    for (length = 1; length < 2 * n - 1;) length *= 2;
  }
  struct Complex {
    double re, im;
  };
  void* from = room_for<Complex>(call, lines * length);
  void* to = room_for<Complex>(call, lines * length);
  if (from == nullptr || to == nullptr) return CLIKA_UNAVAILABLE;
  g.i[0] = n;
  g.i[2] = held;
  g.i[3] = kRealIn;
  g.i[4] = kRealOut;
  g.i[5] = kInverse;
  g.i[6] = std::min(held, kRealOut ? n / 2 + 1 : n);
  g.i[7] = length;
  g.room[1] = from;
  g.n = lines * length;
  if (const int32_t status = launch_each(call, op, load_lines, g)) return status;
  if (const int32_t status = transform(call, op, &from, &to, lines, length)) return status;
  if (length != n) {  // a convolution with the conjugate chirp
    void* spectrum = room_for<Complex>(call, length);
    void* other = room_for<Complex>(call, length);
    if (spectrum == nullptr || other == nullptr) return CLIKA_UNAVAILABLE;
    General c = g;
    c.n = length;
    c.room[1] = spectrum;
    if (const int32_t status = launch_each(call, op, make_chirp, c)) return status;
    if (const int32_t status = transform(call, op, &spectrum, &other, 1, length)) return status;
    g.room[0] = from;
    g.room[1] = to;
    g.room[2] = spectrum;
    if (const int32_t status = launch_each(call, op, multiply_lines, g)) return status;
    std::swap(from, to);
    if (const int32_t status = transform(call, op, &from, &to, lines, length)) return status;
  }
  const int64_t norm = attr_int(call, 2, kBackward);
  const double size = static_cast<double>(n);
  g.f[0] = norm == kOrtho ? 1.0 / std::sqrt(size) : norm == (kInverse ? kBackward : kForward) ? 1.0 / size : 1.0;
  g.room[0] = from;
  g.i[2] = made;
  g.i[3] = kRealOut;
  g.n = lines * made;
  return launch_each(call, op, store_lines, g);
}

}  // namespace

void add_fft(Registry& registry) {
  load_lines = registry.program("fft", "", "load_lines");
  join_transforms = registry.program("fft", "", "join_transforms");
  make_chirp = registry.program("fft", "", "make_chirp");
  multiply_lines = registry.program("fft", "", "multiply_lines");
  store_lines = registry.program("fft", "", "store_lines");
  registry.entry("fft", run<false, false, false>, {kFloats4}, kFloats4, 0);
  registry.entry("ifft", run<false, false, true>, {kFloats4}, kFloats4, 0);
  registry.entry("rfft", run<true, false, false>, {kFloats4}, kFloats4, 0);
  registry.entry("irfft", run<false, true, true>, {kFloats4}, kFloats4, 0);
}

}  // namespace clika_cuda
