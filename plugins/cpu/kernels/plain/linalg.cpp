// Decompositions and solvers of batches of matrices [.., M, N]. A matrix is copied into double, worked on
// there and rounded once. Signs that are free are fixed by what the records say.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <new>

#include "level.hpp"
#include "elementwise.hpp"

using Room = std::unique_ptr<double[]>;
Room room(int64_t n) { return Room(new (std::nothrow) double[static_cast<size_t>(std::max<int64_t>(1, n))]); }

int64_t rows_of(const clika_value& v) { return v.shape[v.rank - 2]; }
int64_t columns_of(const clika_value& v) { return v.shape[v.rank - 1]; }
int64_t batch_of(const clika_value& v, int32_t inner) {
  int64_t n = 1;
  for (int32_t d = 0; d < v.rank - inner; ++d) n *= v.shape[d];
  return n;
}

// Matrix number `at`, row by row.
void take(const clika_value& v, int64_t at, int64_t size, double* to) {
  if (v.dtype == CLIKA_FLOAT64) {
    const double* from = data_of<double>(v) + at * size;
    for (int64_t i = 0; i < size; ++i) to[i] = from[i];
  } else {
    const float* from = data_of<float>(v) + at * size;
    for (int64_t i = 0; i < size; ++i) to[i] = static_cast<double>(from[i]);
  }
}
void give(const double* from, const clika_value& v, int64_t at, int64_t size) {
  if (v.dtype == CLIKA_FLOAT64) {
    double* to = static_cast<double*>(v.data) + at * size;
    for (int64_t i = 0; i < size; ++i) to[i] = from[i];
  } else {
    float* to = static_cast<float*>(v.data) + at * size;
    for (int64_t i = 0; i < size; ++i) to[i] = static_cast<float>(from[i]);
  }
}

// Runs body(matrix, space) for every matrix of the batch, with `space` doubles of its own for each worker;
// the body gives false where its matrix has no result. `work`: about how many operations one takes.
template <class Body>
int32_t each_matrix(const clika_call* call, int64_t batch, double work, int64_t space, const char* problem,
                    const Body& body) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> bad{kNone};
  std::atomic<bool> starved{false};
  const int64_t grain = static_cast<int64_t>(std::max(1.0, 65536 / std::max(1.0, work)));
  parallel(call, batch, grain, [&](int64_t begin, int64_t end, int32_t) {
    const Room own = room(space);
    if (own == nullptr) {
      starved = true;
      return;
    }
    for (int64_t i = begin; i < end; ++i) {
      if (body(i, own.get())) continue;
      int64_t seen = bad;
      while (i < seen && !bad.compare_exchange_weak(seen, i)) {
      }
    }
  });
  if (starved) return fail(call, CLIKA_UNAVAILABLE, "OUT_OF_MEMORY", "linalg: no memory for a matrix");
  if (bad == kNone) return CLIKA_OK;
  return refuse(call, "%s (matrix %lld of the batch)", problem, static_cast<long long>(bad));
}
double cube(int64_t n) { return static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n); }

// Whether a matrix has a result. The `_ex` operators have one more output, which tells what is wrong with each
// matrix (0: nothing); there the result of a bad one is NaN.
bool settle(const clika_call* call, uint32_t info_at, int64_t at, int64_t wrong, double* result, int64_t size) {
  if (call->n_outputs <= info_at) return wrong == 0;
  static_cast<int32_t*>(call->outputs[info_at].data)[at] = static_cast<int32_t>(wrong);
  if (wrong != 0) std::fill_n(result, size, std::numeric_limits<double>::quiet_NaN());
  return true;
}
// Of matrices without elements; gives whether they are.
bool settle_empty(const clika_call* call, uint32_t info_at) {
  if (elements(call->outputs[0]) != 0) return false;
  if (call->n_outputs <= info_at) return true;
  const clika_value& info = call->outputs[info_at];
  std::fill_n(static_cast<int32_t*>(info.data), elements(info), 0);
  return true;
}

// ------------------------------------------------------------------ cholesky
// Attribute upper.
int32_t run_cholesky(const clika_call* call) {
  clika_value& out = call->outputs[0];
  if (settle_empty(call, 1)) return CLIKA_OK;
  const int64_t n = rows_of(out);
  const bool upper = attr_int(call, 0, 0) != 0;
  constexpr const char* kProblem = "cholesky: the matrix is not positive definite";
  return each_matrix(call, batch_of(out, 2), cube(n), 2 * n * n, kProblem,
                     [&](int64_t at, double* a) {
                       double* l = a + n * n;
                       take(call->inputs[0], at, n * n, a);
                       for (int64_t i = 0; i < n * n; ++i) l[i] = 0;
                       int64_t wrong = 0;  // the order of the first minor that is not positive
                       for (int64_t i = 0; i < n && wrong == 0; ++i) {
                         for (int64_t j = 0; j <= i; ++j) {
                           double sum = upper ? a[j * n + i] : a[i * n + j];
                           for (int64_t k = 0; k < j; ++k) sum -= l[i * n + k] * l[j * n + k];
                           if (i == j) {
                             if (!(sum > 0)) wrong = i + 1;
                             l[i * n + i] = std::sqrt(sum);
                           } else {
                             l[i * n + j] = sum / l[j * n + j];
                           }
                         }
                       }
                       if (upper) {
                         for (int64_t i = 0; i < n; ++i) {
                           for (int64_t j = 0; j < n; ++j) a[i * n + j] = l[j * n + i];
                         }
                       }
                       if (!settle(call, 1, at, wrong, upper ? a : l, n * n)) return false;
                       give(upper ? a : l, out, at, n * n);
                       return true;
                     });
}

// ------------------------------------------------------------------ LU with partial pivoting
// In place; pivots[k] is the row that came to k. Gives the sign of the permutation.
int factor(double* a, int64_t m, int64_t n, double* pivots) {
  int sign = 1;
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    int64_t p = k;
    for (int64_t i = k + 1; i < m; ++i) {
      if (std::abs(a[i * n + k]) > std::abs(a[p * n + k])) p = i;
    }
    pivots[k] = static_cast<double>(p);
    if (p != k) {
      sign = -sign;
      for (int64_t j = 0; j < n; ++j) std::swap(a[k * n + j], a[p * n + j]);
    }
    const double top = a[k * n + k];
    if (top == 0) continue;
    for (int64_t i = k + 1; i < m; ++i) {
      const double f = a[i * n + k] / top;
      a[i * n + k] = f;
      if (f == 0) continue;
      for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= f * a[k * n + j];
    }
  }
  return sign;
}

// The first pivot that is 0, counted from 1; 0 where there is none.
int64_t zero_pivot(const double* a, int64_t least, int64_t n) {
  for (int64_t k = 0; k < least; ++k) {
    if (a[k * n + k] == 0) return k + 1;
  }
  return 0;
}

// x = a^-1 x for a square factored matrix without a pivot of 0 and x of `width` columns.
void substitute(const double* a, const double* pivots, int64_t n, double* x, int64_t width) {
  for (int64_t k = 0; k < n; ++k) {
    const int64_t p = static_cast<int64_t>(pivots[k]);
    if (p == k) continue;
    for (int64_t j = 0; j < width; ++j) std::swap(x[k * width + j], x[p * width + j]);
  }
  for (int64_t i = 1; i < n; ++i) {
    for (int64_t k = 0; k < i; ++k) {
      const double f = a[i * n + k];
      for (int64_t j = 0; j < width; ++j) x[i * width + j] -= f * x[k * width + j];
    }
  }
  for (int64_t i = n - 1; i >= 0; --i) {
    for (int64_t k = i + 1; k < n; ++k) {
      const double f = a[i * n + k];
      for (int64_t j = 0; j < width; ++j) x[i * width + j] -= f * x[k * width + j];
    }
    for (int64_t j = 0; j < width; ++j) x[i * width + j] /= a[i * n + i];
  }
}

// Outputs: the factors in one matrix, and pivots counted from 1 (int32).
int32_t run_lu_factor(const clika_call* call) {
  clika_value& out = call->outputs[0];
  if (settle_empty(call, 2)) return CLIKA_OK;
  const int64_t m = rows_of(out);
  const int64_t n = columns_of(out);
  const int64_t least = std::min(m, n);
  int32_t* pivots = static_cast<int32_t*>(call->outputs[1].data);
  return each_matrix(call, batch_of(out, 2), cube(std::max(m, n)), m * n + least, "lu_factor",
                     [&](int64_t at, double* a) {
                       double* found = a + m * n;
                       take(call->inputs[0], at, m * n, a);
                       factor(a, m, n, found);
                       give(a, out, at, m * n);
                       for (int64_t k = 0; k < least; ++k) {
                         pivots[at * least + k] = static_cast<int32_t>(found[k]) + 1;
                       }
                       settle(call, 2, at, zero_pivot(a, least, n), nullptr, 0);
                       return true;
                     });
}

// Outputs: sign, and the logarithm of the absolute value.
int32_t run_slogdet(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const int64_t n = rows_of(in);
  return each_matrix(call, batch_of(in, 2), cube(n), n * n + n, "slogdet", [&](int64_t at, double* a) {
    take(in, at, n * n, a);
    double sign = factor(a, n, n, a + n * n);
    double sum = 0;
    for (int64_t k = 0; k < n; ++k) {
      const double top = a[k * n + k];
      sign = top == 0 ? 0 : top < 0 ? -sign : top > 0 ? sign : top;
      sum += std::log(std::abs(top));
    }
    give(&sign, call->outputs[0], at, 1);
    give(&sum, call->outputs[1], at, 1);
    return true;
  });
}
int32_t run_det(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const int64_t n = rows_of(in);
  return each_matrix(call, batch_of(in, 2), cube(n), n * n + n, "det", [&](int64_t at, double* a) {
    take(in, at, n * n, a);
    double product = factor(a, n, n, a + n * n);
    for (int64_t k = 0; k < n; ++k) product *= a[k * n + k];
    give(&product, call->outputs[0], at, 1);
    return true;
  });
}
int32_t run_inv(const clika_call* call) {
  clika_value& out = call->outputs[0];
  if (settle_empty(call, 1)) return CLIKA_OK;
  const int64_t n = rows_of(out);
  return each_matrix(call, batch_of(out, 2), cube(n), 2 * n * n + n, "inv: the matrix is singular",
                     [&](int64_t at, double* a) {
                       double* pivots = a + n * n;
                       double* x = pivots + n;
                       take(call->inputs[0], at, n * n, a);
                       factor(a, n, n, pivots);
                       for (int64_t i = 0; i < n * n; ++i) x[i] = i % (n + 1) == 0 ? 1 : 0;
                       const int64_t wrong = zero_pivot(a, n, n);
                       if (wrong == 0) substitute(a, pivots, n, x, n);
                       if (!settle(call, 1, at, wrong, x, n * n)) return false;
                       give(x, out, at, n * n);
                       return true;
                     });
}
// Inputs A [.., N, N] and B [.., N, K] of one batch.
int32_t run_solve(const clika_call* call) {
  clika_value& out = call->outputs[0];
  if (settle_empty(call, 1)) return CLIKA_OK;
  const int64_t n = rows_of(out);
  const int64_t width = columns_of(out);
  constexpr const char* kProblem = "solve: the matrix is singular";
  return each_matrix(call, batch_of(out, 2), cube(n), n * n + n + n * width, kProblem,
                     [&](int64_t at, double* a) {
                       double* pivots = a + n * n;
                       double* x = pivots + n;
                       take(call->inputs[0], at, n * n, a);
                       take(call->inputs[1], at, n * width, x);
                       factor(a, n, n, pivots);
                       const int64_t wrong = zero_pivot(a, n, n);
                       if (wrong == 0) substitute(a, pivots, n, x, width);
                       if (!settle(call, 1, at, wrong, x, n * width)) return false;
                       give(x, out, at, n * width);
                       return true;
                     });
}
// Inputs A [.., N, N] and B [.., N, K] of one batch; attributes upper, unitriangular.
// A 0 on the diagonal divides.
int32_t run_solve_triangular(const clika_call* call) {
  clika_value& out = call->outputs[0];
  if (elements(out) == 0) return CLIKA_OK;
  const int64_t n = rows_of(out);
  const int64_t width = columns_of(out);
  const bool upper = attr_int(call, 0, 0) != 0;
  const bool unit = attr_int(call, 1, 0) != 0;
  return each_matrix(call, batch_of(out, 2), cube(n), n * n + n * width, "solve_triangular",
                     [&](int64_t at, double* a) {
                       double* x = a + n * n;
                       take(call->inputs[0], at, n * n, a);
                       take(call->inputs[1], at, n * width, x);
                       for (int64_t step = 0; step < n; ++step) {
                         const int64_t i = upper ? n - 1 - step : step;
                         const int64_t begin = upper ? i + 1 : 0;
                         const int64_t end = upper ? n : i;
                         for (int64_t k = begin; k < end; ++k) {
                           const double f = a[i * n + k];
                           for (int64_t j = 0; j < width; ++j) x[i * width + j] -= f * x[k * width + j];
                         }
                         if (unit) continue;
                         for (int64_t j = 0; j < width; ++j) x[i * width + j] /= a[i * n + i];
                       }
                       give(x, out, at, n * width);
                       return true;
                     });
}

// ------------------------------------------------------------------ QR
// Householder: the diagonal of R has the opposite sign of what it eliminates.
// Attribute mode: reduced, complete, r.
int32_t run_qr(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  clika_value& q_out = call->outputs[0];
  clika_value& r_out = call->outputs[1];
  const int64_t m = rows_of(in);
  const int64_t n = columns_of(in);
  const int64_t least = std::min(m, n);
  const int64_t mode = attr_int(call, 0, 0);
  const int64_t wide = mode == 2 ? 0 : columns_of(q_out);
  const int64_t tall = rows_of(r_out);
  return each_matrix(
      call, batch_of(in, 2), cube(std::max(m, n)),
      m * n + least + m * std::max<int64_t>(wide, 1) + tall * n, "qr",
      [&](int64_t at, double* a) {
        double* scales = a + m * n;
        double* q = scales + least;
        double* r = q + m * std::max<int64_t>(wide, 1);
        take(in, at, m * n, a);
        const auto reflect = [&](int64_t k, double* x, int64_t columns, int64_t from) {
          for (int64_t j = from; j < columns; ++j) {
            double sum = x[k * columns + j];
            for (int64_t i = k + 1; i < m; ++i) sum += a[i * n + k] * x[i * columns + j];
            sum *= scales[k];
            x[k * columns + j] -= sum;
            for (int64_t i = k + 1; i < m; ++i) x[i * columns + j] -= a[i * n + k] * sum;
          }
        };
        for (int64_t k = 0; k < least; ++k) {
          double rest = 0;
          for (int64_t i = k + 1; i < m; ++i) rest = std::hypot(rest, a[i * n + k]);
          scales[k] = 0;
          if (rest == 0) continue;
          const double top = a[k * n + k];
          const double beta = -std::copysign(std::hypot(top, rest), top);
          scales[k] = (beta - top) / beta;
          for (int64_t i = k + 1; i < m; ++i) a[i * n + k] /= top - beta;
          a[k * n + k] = beta;
          reflect(k, a, n, k + 1);
        }
        for (int64_t i = 0; i < tall; ++i) {
          for (int64_t j = 0; j < n; ++j) r[i * n + j] = j < i ? 0 : a[i * n + j];
        }
        give(r, r_out, at, tall * n);
        if (wide == 0) return true;
        for (int64_t i = 0; i < m * wide; ++i) q[i] = i / wide == i % wide ? 1 : 0;
        for (int64_t k = least - 1; k >= 0; --k) reflect(k, q, wide, 0);
        give(q, q_out, at, m * wide);
        return true;
      });
}

// ------------------------------------------------------------------ rotations of Jacobi
constexpr int kSweeps = 60;
constexpr double kEps = std::numeric_limits<double>::epsilon();

// Turns columns p and q of x (rows of `step` numbers) by the angle of cosine c and sine s.
void turn(double* x, int64_t rows, int64_t step, int64_t p, int64_t q, double c, double s) {
  for (int64_t i = 0; i < rows; ++i) {
    const double a = x[i * step + p];
    const double b = x[i * step + q];
    x[i * step + p] = c * a - s * b;
    x[i * step + q] = s * a + c * b;
  }
}
// The rotation that makes [[a, b], [b, d]] diagonal, b != 0.
void angle(double a, double b, double d, double* c, double* s) {
  const double theta = (d - a) / (2 * b);
  const double t = std::copysign(1.0, theta) / (std::abs(theta) + std::hypot(1.0, theta));
  *c = 1 / std::hypot(1.0, t);
  *s = t * *c;
}
bool finite(const double* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(a[i])) return false;
  }
  return true;
}
// order = the places of values from the smallest (or the largest) on; equal ones stay in order.
void sort_places(const double* values, int64_t n, bool descending, double* order) {
  for (int64_t i = 0; i < n; ++i) order[i] = static_cast<double>(i);
  std::stable_sort(order, order + n, [&](double a, double b) {
    const double x = values[static_cast<int64_t>(a)];
    const double y = values[static_cast<int64_t>(b)];
    return descending ? x > y : x < y;
  });
}
// Whether the largest element of a column is negative.
bool points_down(const double* x, int64_t rows, int64_t step, int64_t column) {
  double most = 0;
  for (int64_t i = 0; i < rows; ++i) {
    if (std::abs(x[i * step + column]) > std::abs(most) * (1 + 1e-6)) most = x[i * step + column];
  }
  return most < 0;
}

// Outputs values (ascending) and vectors; attribute upper: the triangle that is read.
int32_t run_eigh(const clika_call* call) {
  clika_value& out = call->outputs[1];
  if (elements(out) == 0) return CLIKA_OK;
  const int64_t n = rows_of(out);
  const bool upper = attr_int(call, 0, 0) != 0;
  return each_matrix(call, batch_of(out, 2), 20 * cube(n), 3 * n * n + 3 * n,
                     "eigh: the matrix is not finite or does not converge", [&](int64_t at, double* a) {
                       double* v = a + n * n;
                       double* sorted = v + n * n;
                       double* values = sorted + n * n;
                       double* order = values + n;
                       double* diagonal = order + n;
                       take(call->inputs[0], at, n * n, a);
                       for (int64_t i = 0; i < n; ++i) {
                         for (int64_t j = 0; j < i; ++j) {
                           if (upper) a[i * n + j] = a[j * n + i];
                           else a[j * n + i] = a[i * n + j];
                         }
                       }
                       if (!finite(a, n * n)) return false;
                       for (int64_t i = 0; i < n * n; ++i) v[i] = i % (n + 1) == 0 ? 1 : 0;
                       double size = 0;
                       for (int64_t i = 0; i < n * n; ++i) size = std::hypot(size, a[i]);
                       const double least = size * kEps * 1e-3 / static_cast<double>(n);
                       bool moved = true;
                       for (int sweep = 0; moved; ++sweep) {
                         if (sweep == kSweeps) return false;
                         moved = false;
                         for (int64_t p = 0; p < n; ++p) {
                           for (int64_t q = p + 1; q < n; ++q) {
                             const double b = a[p * n + q];
                             if (std::abs(b) <= least) continue;
                             moved = true;
                             double c;
                             double s;
                             angle(a[p * n + p], b, a[q * n + q], &c, &s);
                             turn(a, n, n, p, q, c, s);
                             for (int64_t j = 0; j < n; ++j) {
                               const double x = a[p * n + j];
                               const double y = a[q * n + j];
                               a[p * n + j] = c * x - s * y;
                               a[q * n + j] = s * x + c * y;
                             }
                             a[p * n + q] = 0;
                             a[q * n + p] = 0;
                             turn(v, n, n, p, q, c, s);
                           }
                         }
                       }
                       for (int64_t i = 0; i < n; ++i) diagonal[i] = a[i * n + i];
                       sort_places(diagonal, n, false, order);
                       for (int64_t j = 0; j < n; ++j) {
                         const int64_t from = static_cast<int64_t>(order[j]);
                         const double sign = points_down(v, n, n, from) ? -1 : 1;
                         values[j] = diagonal[from];
                         for (int64_t i = 0; i < n; ++i) sorted[i * n + j] = sign * v[i * n + from];
                       }
                       give(values, call->outputs[0], at, n);
                       give(sorted, out, at, n * n);
                       return true;
                     });
}

// Columns `from` .. of u [rows, columns] become unit vectors that are orthogonal to those before them.
void complete(double* u, int64_t rows, int64_t columns, int64_t from) {
  int64_t unit = 0;
  for (int64_t j = from; j < columns; ++j) {
    for (;; ++unit) {
      for (int64_t i = 0; i < rows; ++i) u[i * columns + j] = i == unit ? 1 : 0;
      for (int pass = 0; pass < 2; ++pass) {
        for (int64_t k = 0; k < j; ++k) {
          double sum = 0;
          for (int64_t i = 0; i < rows; ++i) sum += u[i * columns + k] * u[i * columns + j];
          for (int64_t i = 0; i < rows; ++i) u[i * columns + j] -= sum * u[i * columns + k];
        }
      }
      double size = 0;
      for (int64_t i = 0; i < rows; ++i) size = std::hypot(size, u[i * columns + j]);
      // Some unit vector has at least 1 / sqrt(rows) outside of the space so far; those before it have less.
      if (size * size * static_cast<double>(rows) > 0.5 || unit + 1 >= rows) {
        for (int64_t i = 0; i < rows; ++i) u[i * columns + j] /= size;
        unit = 0;
        break;
      }
    }
  }
}

// Outputs u, values (descending), v transposed; attribute full_matrices. One-sided: columns of the tall form
// are turned until they are orthogonal.
int32_t run_svd(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  const int64_t m = rows_of(in);
  const int64_t n = columns_of(in);
  const bool flat = m < n;
  const int64_t tall = std::max(m, n);
  const int64_t least = std::min(m, n);
  const int64_t made = attr_int(call, 0, 1) != 0 ? tall : least;  // columns of the tall side
  if (tall == 0) return CLIKA_OK;
  const int64_t space = 3 * tall * std::max<int64_t>(made, least) + 2 * tall * tall + 2 * least;
  return each_matrix(
      call, batch_of(in, 2), 20 * cube(tall), space, "svd: the matrix is not finite or does not converge",
      [&](int64_t at, double* given) {
        double* a = given + tall * least;
        double* v = a + tall * least;
        double* u = v + least * least;
        double* turned = u + tall * made;
        double* values = turned + tall * tall;
        double* order = values + least;
        take(in, at, m * n, given);
        if (!finite(given, m * n)) return false;
        double scale = 0;  // squares of what is divided by it do not overflow
        for (int64_t i = 0; i < m * n; ++i) scale = std::max(scale, std::abs(given[i]));
        if (scale == 0) scale = 1;
        double whole = 0;
        for (int64_t i = 0; i < tall; ++i) {
          for (int64_t j = 0; j < least; ++j) {
            const double x = (flat ? given[j * tall + i] : given[i * least + j]) / scale;
            a[i * least + j] = x;
            whole += x * x;
          }
        }
        const double side = static_cast<double>(tall);
        const double noise = 16 * kEps * kEps * side * whole;  // a column below it is rounding
        const double aligned = 4 * kEps * std::sqrt(side);
        for (int64_t i = 0; i < least * least; ++i) v[i] = i % (least + 1) == 0 ? 1 : 0;
        bool moved = true;
        for (int sweep = 0; moved; ++sweep) {
          if (sweep == kSweeps) return false;
          moved = false;
          for (int64_t p = 0; p < least; ++p) {
            for (int64_t q = p + 1; q < least; ++q) {
              double pp = 0;
              double pq = 0;
              double qq = 0;
              for (int64_t i = 0; i < tall; ++i) {
                const double x = a[i * least + p];
                const double y = a[i * least + q];
                pp += x * x;
                pq += x * y;
                qq += y * y;
              }
              if (std::min(pp, qq) <= noise) continue;
              if (std::abs(pq) <= aligned * std::sqrt(pp) * std::sqrt(qq)) continue;
              moved = true;
              double c;
              double s;
              angle(pp, pq, qq, &c, &s);
              turn(a, tall, least, p, q, c, s);
              turn(v, least, least, p, q, c, s);
            }
          }
        }
        for (int64_t j = 0; j < least; ++j) {
          double size = 0;
          for (int64_t i = 0; i < tall; ++i) size = std::hypot(size, a[i * least + j]);
          values[j] = size;
        }
        sort_places(values, least, true, order);
        double* sorted = given;  // least numbers; the input is no longer needed
        int64_t rank = 0;
        double most = 0;
        for (int64_t j = 0; j < least; ++j) most = std::max(most, values[j]);
        for (int64_t j = 0; j < least; ++j) {
          const int64_t from = static_cast<int64_t>(order[j]);
          sorted[j] = values[from];
          if (sorted[j] <= most * kEps * static_cast<double>(tall)) continue;  // no direction of its own
          rank = j + 1;
          for (int64_t i = 0; i < tall; ++i) u[i * made + j] = a[i * least + from] / sorted[j];
        }
        complete(u, tall, made, rank);
        // `turned` takes v sorted, [least, least].
        for (int64_t j = 0; j < least; ++j) {
          const int64_t from = static_cast<int64_t>(order[j]);
          for (int64_t i = 0; i < least; ++i) turned[i * least + j] = v[i * least + from];
        }
        // Signs: the largest element of each column of U is positive.
        for (int64_t j = 0; j < made; ++j) {
          const bool paired = j < least;
          const bool down = flat && paired ? points_down(turned, least, least, j)
                                           : points_down(u, tall, made, j);
          if (!down) continue;
          for (int64_t i = 0; i < tall; ++i) u[i * made + j] = -u[i * made + j];
          if (!paired) continue;
          for (int64_t i = 0; i < least; ++i) turned[i * least + j] = -turned[i * least + j];
        }
        for (int64_t j = 0; j < least; ++j) sorted[j] *= scale;
        give(sorted, call->outputs[1], at, least);
        // The tall side is U, or, of a flat matrix, V.
        const auto transposed = [](const double* x, int64_t rows, int64_t columns, double* to) {
          for (int64_t i = 0; i < rows; ++i) {
            for (int64_t j = 0; j < columns; ++j) to[j * rows + i] = x[i * columns + j];
          }
        };
        double* other = a;  // at least tall * least
        if (flat) {
          give(turned, call->outputs[0], at, least * least);
          transposed(u, tall, made, v = turned);
          give(v, call->outputs[2], at, tall * made);
        } else {
          give(u, call->outputs[0], at, tall * made);
          transposed(turned, least, least, other);
          give(other, call->outputs[2], at, least * least);
        }
        return true;
      });
}

constexpr Entry entry(const char* op, clika_kernel_fn function) {
  return Entry(op, function).in(F32 | F64).out(F32 | F64 | I32).contiguous();
}
CLIKA_KERNELS(linalg, entry("cholesky", run_cholesky), entry("cholesky_ex", run_cholesky),
              entry("lu_factor", run_lu_factor), entry("lu_factor_ex", run_lu_factor),
              entry("inv_ex", run_inv), entry("solve_ex", run_solve),
              entry("slogdet", run_slogdet), entry("det", run_det), entry("inv", run_inv),
              entry("solve", run_solve), entry("solve_triangular", run_solve_triangular), entry("qr", run_qr),
              entry("eigh", run_eigh), entry("svd", run_svd))
#include "level_end.hpp"
