// Discrete Fourier transforms along one dimension. Complex numbers are pairs in the last dimension.
//
// A length whose prime factors are small is transformed by decimation in time, one factor after the other
// (Cooley and Tukey 1965); any other by Bluestein's chirp, a convolution of a power of two (1970). Everything
// between loading and storing is double.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <new>

#include "level.hpp"
#include "elementwise.hpp"

constexpr double kPi = 3.14159265358979323846;
constexpr int64_t kLargestFactor = 31;
constexpr int64_t kLongest = int64_t{1} << 40;

struct Complex {
  double re;
  double im;
};
inline Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
inline Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
inline Complex operator*(Complex a, Complex b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
inline Complex conjugate(Complex a) { return {a.re, -a.im}; }

// exp(-2 pi i k / n); the angle is taken in the first octant, so that the quarters are exact.
Complex root(int64_t k, int64_t n) {
  const int64_t eighth = 8 * k / n;  // 0 .. 7
  const auto at = [&](double turns) { return 2 * kPi * turns; };
  const double size = static_cast<double>(n);
  double c;
  double s;
  // The distance to the nearest multiple of a quarter turn, in turns.
  const int64_t quarter = (eighth + 1) / 2;
  const double rest = static_cast<double>(4 * k - quarter * n) / (4 * size);
  const double cr = std::cos(at(rest));
  const double sr = std::sin(at(rest));
  switch (quarter & 3) {
    case 0:
      c = cr, s = sr;
      break;
    case 1:
      c = -sr, s = cr;
      break;
    case 2:
      c = -cr, s = -sr;
      break;
    default:
      c = sr, s = -cr;
  }
  return {c, -s};
}

using Array = std::unique_ptr<Complex[]>;
Array array_of(int64_t n) {
  return Array(new (std::nothrow) Complex[static_cast<size_t>(std::max<int64_t>(1, n))]);
}

// The forward transform of one smooth length.
struct Smooth {
  int64_t n = 0;
  int64_t factors[64];
  int count = 0;
  Array roots;

  // What is left of n when its small factors are taken out.
  int64_t factorize(int64_t size) {
    n = size;
    count = 0;
    int64_t left = size;
    while (left % 4 == 0) factors[count++] = 4, left /= 4;
    for (int64_t p = 2; p <= kLargestFactor && p <= left; ++p) {
      while (left % p == 0) factors[count++] = p, left /= p;
    }
    return left;
  }
  bool prepare() {
    roots = array_of(n);
    if (roots == nullptr) return false;
    for (int64_t k = 0; k < n; ++k) roots[k] = root(k, n);
    return true;
  }
  void run(const Complex* in, Complex* out) const { step(in, out, n, 1, 0); }

  void step(const Complex* in, Complex* out, int64_t size, int64_t stride, int level) const {
    if (size == 1) {
      out[0] = in[0];
      return;
    }
    const int64_t p = factors[level];
    const int64_t m = size / p;
    for (int64_t r = 0; r < p; ++r) step(in + r * stride, out + r * m, m, stride * p, level + 1);
    const int64_t turn = n / size;  // roots of this size among those of n
    Complex t[kLargestFactor + 1];
    for (int64_t k = 0; k < m; ++k) {
      for (int64_t r = 0; r < p; ++r) {
        t[r] = r * k == 0 ? out[r * m + k] : out[r * m + k] * roots[r * k * turn];
      }
      if (p == 2) {
        out[k] = t[0] + t[1];
        out[m + k] = t[0] - t[1];
      } else if (p == 4) {
        const Complex a = t[0] + t[2];
        const Complex b = t[0] - t[2];
        const Complex c = t[1] + t[3];
        const Complex d = t[1] - t[3];
        out[k] = a + c;
        out[m + k] = {b.re + d.im, b.im - d.re};
        out[2 * m + k] = a - c;
        out[3 * m + k] = {b.re - d.im, b.im + d.re};
      } else {
        for (int64_t q = 0; q < p; ++q) {
          Complex sum = t[0];
          for (int64_t r = 1; r < p; ++r) sum = sum + t[r] * roots[(r * q % p) * (n / p)];
          out[q * m + k] = sum;
        }
      }
    }
  }
};

// The forward transform of any length.
struct Transform {
  int64_t n = 0;
  bool chirped = false;
  Smooth smooth;   // of n, or of the chirp's convolution
  Array chirp;     // exp(-pi i k^2 / n)
  Array spectrum;  // of the conjugate chirp, over the convolution's length

  bool prepare(int64_t size) {
    n = size;
    chirped = smooth.factorize(size) != 1;
    if (!chirped) return smooth.prepare();
    int64_t length = 1;
    while (length < 2 * n - 1) length *= 2;
    smooth.factorize(length);
    chirp = array_of(n);
    spectrum = array_of(length);
    Array conjugates = array_of(length);
    if (!smooth.prepare() || chirp == nullptr || spectrum == nullptr || conjugates == nullptr) return false;
    for (int64_t k = 0; k < length; ++k) conjugates[k] = {0, 0};
    int64_t square = 0;  // k^2 modulo 2 n
    for (int64_t k = 0; k < n; ++k) {
      chirp[k] = root(square, 2 * n);
      conjugates[k] = conjugate(chirp[k]);
      if (k > 0) conjugates[length - k] = conjugates[k];
      square = (square + 2 * k + 1) % (2 * n);
    }
    smooth.run(conjugates.get(), spectrum.get());
    return true;
  }
  int64_t room() const { return chirped ? 2 * smooth.n : 0; }

  void run(const Complex* in, Complex* out, Complex* spare) const {
    if (!chirped) return smooth.run(in, out);
    const int64_t length = smooth.n;
    Complex* a = spare;
    Complex* b = spare + length;
    for (int64_t k = 0; k < n; ++k) a[k] = in[k] * chirp[k];
    for (int64_t k = n; k < length; ++k) a[k] = {0, 0};
    smooth.run(a, b);
    for (int64_t k = 0; k < length; ++k) b[k] = conjugate(b[k] * spectrum[k]);
    smooth.run(b, a);
    const double scale = 1 / static_cast<double>(length);
    for (int64_t k = 0; k < n; ++k) {
      const Complex x = conjugate(a[k]) * chirp[k];
      out[k] = {x.re * scale, x.im * scale};
    }
  }
};

enum Norm { kBackward, kOrtho, kForward };

// Attributes: n, dim, norm. A real side lacks the dimension of pairs.
template <class C, bool kRealIn, bool kRealOut, bool kInverse>
int32_t lines(const clika_call* call, const char* name) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  if (elements(out) == 0) return CLIKA_OK;
  const int32_t rank = in.rank - (kRealIn ? 0 : 1);
  const int64_t given = attr_int(call, 1, -1);
  const int32_t dim = static_cast<int32_t>(given < 0 ? given + rank : given);
  int64_t outer = 1;
  int64_t inner = 1;
  for (int32_t d = 0; d < dim; ++d) outer *= in.shape[d];
  for (int32_t d = dim + 1; d < rank; ++d) inner *= in.shape[d];
  const int64_t held = in.shape[dim];
  const int64_t made = out.shape[dim];
  const int64_t n = kRealOut || !kRealIn ? made : attr_int(call, 0, held);
  if (n < 1 || n > kLongest) {
    return refuse(call, "%s: length %lld is not taken", name, static_cast<long long>(n));
  }
  Transform transform;
  if (!transform.prepare(n)) {
    return fail(call, CLIKA_UNAVAILABLE, "OUT_OF_MEMORY", "fft: no memory for the tables of the length");
  }
  const int64_t norm = attr_int(call, 2, kBackward);
  const bool scaled = norm == (kInverse ? kBackward : kForward);
  const double size = static_cast<double>(n);
  const double scale = norm == kOrtho ? 1 / std::sqrt(size) : scaled ? 1 / size : 1;
  const LoadTile<C> load = Tiles<C>::loader(in.dtype);
  const StoreTile<C> store = Tiles<C>::storer(out.dtype);
  std::atomic<bool> starved{false};
  parallel(call, outer * inner, std::max<int64_t>(1, 4096 / n), [&](int64_t begin, int64_t end, int32_t) {
    const Array space = array_of(2 * n + transform.room());
    if (space == nullptr) {
      starved = true;
      return;
    }
    Complex* from = space.get();
    Complex* to = from + n;
    Complex* spare = to + n;
    for (int64_t line = begin; line < end; ++line) {
      const int64_t row = line / inner;
      const int64_t column = line % inner;
      const int64_t used = std::min(held, kRealOut ? n / 2 + 1 : n);
      for (int64_t k = 0; k < used; ++k) {
        const int64_t at = (row * held + k) * inner + column;
        C pair[2] = {};
        load(pair, in.data, kRealIn ? at : 2 * at, 1, kRealIn ? 1 : 2);
        from[k] = {static_cast<double>(pair[0]), static_cast<double>(pair[1])};
      }
      for (int64_t k = used; k < n; ++k) from[k] = {0, 0};
      if (kRealOut) {  // the other half is the conjugate; what has no partner counts as real
        from[0].im = 0;
        if (n % 2 == 0) from[n / 2].im = 0;
        for (int64_t k = n / 2 + 1; k < n; ++k) from[k] = conjugate(from[n - k]);
      }
      if (kInverse) {
        for (int64_t k = 0; k < n; ++k) from[k] = conjugate(from[k]);
      }
      transform.run(from, to, spare);
      for (int64_t k = 0; k < made; ++k) {
        const int64_t at = (row * made + k) * inner + column;
        const double im = kInverse ? -to[k].im : to[k].im;
        const C pair[2] = {static_cast<C>(to[k].re * scale), static_cast<C>(im * scale)};
        store(pair, out.data, kRealOut ? at : 2 * at, 1, kRealOut ? 1 : 2);
      }
    }
  });
  if (starved) return fail(call, CLIKA_UNAVAILABLE, "OUT_OF_MEMORY", "fft: no memory for a line");
  return CLIKA_OK;
}
template <bool kRealIn, bool kRealOut, bool kInverse>
int32_t run(const clika_call* call) {
  const char* name = kRealIn ? "rfft" : kRealOut ? "irfft" : kInverse ? "ifft" : "fft";
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? lines<double, kRealIn, kRealOut, kInverse>(call, name)
                                                : lines<float, kRealIn, kRealOut, kInverse>(call, name);
}

constexpr Entry entry(const char* op, clika_kernel_fn function) {
  return Entry(op, function).in(FLOATS | F64).out(FLOATS | F64).contiguous();
}
CLIKA_KERNELS(fft, entry("fft", run<false, false, false>), entry("ifft", run<false, false, true>),
              entry("rfft", run<true, false, false>), entry("irfft", run<false, true, true>))
#include "level_end.hpp"
