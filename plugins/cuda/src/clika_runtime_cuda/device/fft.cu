// Discrete Fourier transforms of lines, in double: one factor of the length after the other (Stockham's order), or
// Bluestein's chirp where a prime factor is large. Complex numbers are pairs.
#include "prelude.cuh"
#include "general.cuh"

struct Complex {
  double re, im;
};
CLIKA_INLINE Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
CLIKA_INLINE Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
CLIKA_INLINE Complex conjugate(Complex a) { return {a.re, -a.im}; }

// exp(-2 pi i k / n); the angle is taken from the nearest quarter, so that the quarters are exact.
CLIKA_INLINE Complex root(i64 k, i64 n) {
  const i64 quarter = (8 * k / n + 1) / 2;
  const double rest = 6.28318530717958647692 * (static_cast<double>(4 * k - quarter * n) / (4.0 * static_cast<double>(n)));
  const double c = cos(rest), s = sin(rest);
  switch (quarter & 3) {
    case 0: return {c, -s};
    case 1: return {-s, -c};
    case 2: return {-c, s};
    default: return {s, c};
  }
}
// exp(-pi i k^2 / n).
CLIKA_INLINE Complex chirp(i64 k, i64 n) { return root(k % (2 * n) * (k % (2 * n)) % (2 * n), 2 * n); }

// room[0] -> room[1], [lines, i[0]] each. Lines of tensors: i[1] elements after one along the dim.
CLIKA_INLINE const Complex* source(const General& g) { return static_cast<const Complex*>(g.room[0]); }
CLIKA_INLINE Complex* target(const General& g) { return static_cast<Complex*>(g.room[1]); }

// in[0]: i[2] elements along the dim, i[3]: real ones; i[4]: half of a line that is real otherwise; i[5]: inverse; the
// elements from i[6] on are not there. i[7]: padded length of a chirp's line, or i[0].
extern "C" __global__ void load_lines(const __grid_constant__ General g) {
  const i64 n = g.i[0], length = g.i[7], inner = g.i[1];
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 line = at / length, i = at % length;
    const bool mirrored = g.i[4] != 0 && i > n / 2;
    const i64 k = mirrored ? n - i : i;
    Complex x = {0.0, 0.0};
    if (i < n && k < g.i[6]) {
      const i64 element = (line / inner * g.i[2] + k) * inner + line % inner;
      x.re = item_of<double>(g.in[0], g.i[3] != 0 ? element : 2 * element);
      if (g.i[3] == 0) x.im = item_of<double>(g.in[0], 2 * element + 1);
      if (g.i[4] != 0 && (i == 0 || 2 * i == n)) x.im = 0.0;  // what has no partner counts as real
      if (mirrored != (g.i[5] != 0)) x.im = -x.im;
    }
    if (length != n && i < n) x = x * chirp(i, n);
    target(g)[at] = x;
  }
}
// Transforms of length i[1] become such of i[1] * i[2]; i[0]: the length of a line.
extern "C" __global__ void join_transforms(const __grid_constant__ General g) {
  const i64 n = g.i[0], size = g.i[1], p = g.i[2], m = n / (size * p);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 line = at / n * n, i = at - line;
    const i64 whole = i % (size * p), k = i / (size * p), j = whole % size;
    const Complex* x = source(g) + line + k * size + j;
    Complex sum = x[0];
    for (i64 r = 1; r < p; ++r) sum = sum + x[r * m * size] * root(r * whole % (size * p), size * p);
    target(g)[at] = sum;
  }
}
// The conjugate chirp of length i[0], around in a line of n.
extern "C" __global__ void make_chirp(const __grid_constant__ General g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 k = at < g.n - at ? at : g.n - at;
    target(g)[at] = k < g.i[0] ? conjugate(chirp(k, g.i[0])) : Complex{0.0, 0.0};
  }
}
// The conjugate of the product with room[2], a line of i[7].
extern "C" __global__ void multiply_lines(const __grid_constant__ General g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    target(g)[at] = conjugate(source(g)[at] * static_cast<const Complex*>(g.room[2])[at % g.i[7]]);
  }
}
// out[0]: i[2] elements along the dim, i[3]: real ones; f[0]: the scale.
extern "C" __global__ void store_lines(const __grid_constant__ General g) {
  const i64 n = g.i[0], length = g.i[7], inner = g.i[1];
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    const i64 line = at / g.i[2], k = at % g.i[2];
    Complex x = source(g)[line * length + k];
    double scale = g.f[0];
    if (length != n) {
      x = conjugate(x) * chirp(k, n);
      scale /= static_cast<double>(length);
    }
    const i64 element = (line / inner * g.i[2] + k) * inner + line % inner;
    put_item<double>(g.out[0], g.i[3] != 0 ? element : 2 * element, x.re * scale);
    if (g.i[3] == 0) put_item<double>(g.out[0], 2 * element + 1, (g.i[5] != 0 ? -x.im : x.im) * scale);
  }
}
