// Special and elementary functions over all floating-point dtypes, computed in double and rounded once.
#include "level.hpp"
#include "elementwise.hpp"
#include "each.hpp"

constexpr double kPi = 3.14159265358979323846;
constexpr double kSqrtPi = 1.77245385090551602730;
constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kSpecialGrain = 2048;  // an element costs some ten nanoseconds

// ------------------------------------------------------------------ error functions
// e^(x^2) erfc(x) for x >= 0 is g(y) / (1 + 2x) with y = (x - 3) / (x + 3): a Chebyshev series of our own.
double erfcx_positive(double x) {
  static const double c[] = {
      1.17756257419656,       0.0053539045396156768,  -0.093775503422842091,  0.05436652555744322,
      -0.018976596707845207,  0.0044534260614627116,  -0.00063355317105531469, 1.7661719523171592e-5,
      1.2841532864056671e-5,  -2.0072285659059914e-6, -1.8075227904148371e-7, 7.5498283438250928e-8,
      1.8856685238386028e-9,  -2.699519049798364e-9,  -1.4600791199391049e-11, 1.036160744596949e-10,
      1.475715976623473e-12,  -4.2773400643969108e-12, -2.07922492859799e-13, 1.8134502003176962e-13,
      1.9734255745447388e-14, -7.2879437375926732e-15, -1.5169878690228116e-15, 2.3514112258781404e-16,
      1.0006111691821668e-16, -2.0572528169538546e-18, -5.6086082188631829e-18, -5.5468847259944304e-19};
  if (x > 1e300) return 1.0 / (kSqrtPi * x);
  const double y = (x - 3.0) / (x + 3.0);
  double b1 = 0, b2 = 0;
  for (int k = 27; k > 0; --k) {
    const double b = 2.0 * y * b1 - b2 + c[k];
    b2 = b1;
    b1 = b;
  }
  return (y * b1 - b2 + c[0]) / (1.0 + 2.0 * x);
}
double erfcx(double x) {
  if (x >= 0) return erfcx_positive(x);
  return x < -26.7 ? kInf : x == x ? 2.0 * std::exp(x * x) - erfcx_positive(-x) : x;
}
double erfc(double x) { return std::erfc(x); }

// The inverse of erf near 0 and of erfc in the tail: a first guess, then steps of Halley's method, each of
// which gives three times as many right digits. One is enough for float32.
template <int kSteps>
double erfinv_near(double y) {  // |y| <= 1/2
  const double w = 0.5 * kSqrtPi * y;
  const double u = w * w;
  double x = w * (1.0 + u * (1.0 / 3.0 + u * (7.0 / 30.0 + u * (127.0 / 630.0))));
  for (int k = 0; k < kSteps; ++k) {
    const double step = (std::erf(x) - y) * (0.5 * kSqrtPi) * std::exp(x * x);
    x -= step / (1.0 + x * step);
  }
  return x;
}
template <int kSteps>
double erfcinv_tail(double c) {  // 0 < c <= 1/2
  // Abramowitz and Stegun 26.2.23 for the quantile z of the normal distribution.
  const double t = std::sqrt(-2.0 * std::log(0.5 * c));
  const double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                           (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  double x = z * kSqrtHalf;
  for (int k = 0; k < kSteps; ++k) {
    const double step = (std::erfc(x) - c) * (0.5 * kSqrtPi) * std::exp(x * x);
    x += step / (1.0 - x * step);
  }
  return x;
}
template <int kSteps>
double erfinv(double y) {
  const double a = std::fabs(y);
  if (!(a < 1.0)) return a == 1.0 ? y * kInf : kNan;
  return a <= 0.5 ? erfinv_near<kSteps>(y) : std::copysign(erfcinv_tail<kSteps>(1.0 - a), y);
}

double ndtr(double x) { return 0.5 * std::erfc(-x * kSqrtHalf); }
template <int kSteps>
double ndtri(double p) {
  if (!(p > 0.0 && p < 1.0)) return p == 0.0 ? -kInf : p == 1.0 ? kInf : kNan;
  if (p < 0.25) return -erfcinv_tail<kSteps>(2.0 * p) / kSqrtHalf;
  if (p > 0.75) return erfcinv_tail<kSteps>(2.0 * (1.0 - p)) / kSqrtHalf;
  return erfinv_near<kSteps>(2.0 * p - 1.0) / kSqrtHalf;
}
double log_ndtr(double x) {
  const double t = x * kSqrtHalf;
  if (x < -1.0) return std::log(0.5 * erfcx_positive(-t)) - t * t;
  return std::log1p(-0.5 * std::erfc(t));
}

// ------------------------------------------------------------------ gamma functions
double log_gamma(double x) {
#if defined(_WIN32)
  return std::lgamma(x);
#else
  int sign;  // not the global one, which threads would share
  return ::lgamma_r(x, &sign);
#endif
}

// Bernoulli numbers B_2k.
constexpr double kBernoulli[] = {1.0 / 6,   -1.0 / 30,     1.0 / 42, -1.0 / 30,      5.0 / 66,
                                 -691.0 / 2730, 7.0 / 6, -3617.0 / 510, 43867.0 / 798, -174611.0 / 330};

double digamma_positive(double x) {
  double sum = 0.0;
  for (; x < 10.0; x += 1.0) sum -= 1.0 / x;
  // ln x - 1/(2x) - sum of B_2k / (2k x^2k)
  const double u = 1.0 / (x * x);
  double power = u;
  double series = 0.0;
  for (int k = 0; k < 10; ++k) {
    series += kBernoulli[k] / (2.0 * (k + 1)) * power;
    power *= u;
  }
  return sum + std::log(x) - 0.5 / x - series;
}
double digamma(double x) {
  if (x > 0.0) return digamma_positive(x);
  if (x == 0.0) return std::copysign(kInf, -x);
  double whole;
  const double part = std::modf(x, &whole);
  if (!(part != 0.0)) return kNan;  // a pole, -inf or NaN
  return digamma_positive(1.0 - x) - kPi / std::tan(kPi * part);
}

// The Hurwitz zeta function, the sum of (a + k)^-s over k >= 0, for a > 0 and s from 2 to 171: the first
// terms, then the Euler-Maclaurin formula.
double zeta_positive(double s, double a) {
  double sum = 0.0;
  for (const double from = std::max(10.0, s); a < from; a += 1.0) sum += std::pow(a, -s);
  double power = std::pow(a, -s);
  sum += power * (a / (s - 1.0) + 0.5);
  double factor = s;  // s (s + 1) ... (s + 2k) / (2k + 2)!
  power /= a;
  for (int k = 0; k < 10; ++k) {
    const double divisor = (2.0 * k + 1.0) * (2.0 * k + 2.0);
    factor /= divisor;
    sum += kBernoulli[k] * factor * power;
    factor *= (s + 2.0 * k + 1.0) * (s + 2.0 * k + 2.0);
    power /= a * a;
  }
  return sum;
}
// For negative a, terms of both signs of a + k are summed apart; s is whole.
double zeta(double s, double a) {
  if (a > 0.0) return a == kInf ? 0.0 : zeta_positive(s, a);
  const double floor = std::floor(a);
  if (!(a != floor)) return a == a && a > -kInf ? kInf : kNan;
  const double r = a - floor;
  const double negative = zeta_positive(s, 1.0 - r) - zeta_positive(s, 1.0 - a);
  return zeta_positive(s, r) + (std::fmod(s, 2.0) == 0.0 ? negative : -negative);
}
// Numbers: n.
double polygamma(double x, const Numbers& k) {
  if (k.i[0] == 0) return digamma(x);
  const double s = static_cast<double>(k.i[0]) + 1.0;
  return (k.i[0] % 2 == 0 ? -1.0 : 1.0) * std::tgamma(s) * zeta(s, x);
}
// Numbers: p.
double mvlgamma(double x, const Numbers& k) {
  const double p = static_cast<double>(k.i[0]);
  double sum = 0.25 * p * (p - 1.0) * 1.14472988584940017414;  // ln pi
  for (int64_t i = 0; i < k.i[0]; ++i) sum += log_gamma(x - 0.5 * static_cast<double>(i));
  return sum;
}

// ------------------------------------------------------------------ modified Bessel functions
// e^-|x| I_order(|x|): the power series below 20, the asymptotic series above, both to full precision.
double bessel(int order, double x) {
  if (x < 20.0) {
    const double u = 0.25 * x * x;
    double term = order == 0 ? 1.0 : 0.5 * x;
    double sum = term;
    for (int k = 1; k < 80 && term > sum * 1e-18; ++k) {
      term *= u / (static_cast<double>(k) * (k + order));
      sum += term;
    }
    return sum * std::exp(-x);
  }
  const double m = 4.0 * order;
  double term = 1.0;
  double sum = 1.0;
  for (int k = 1; k < 60 && std::fabs(term) > 1e-18; ++k) {
    const double odd = 2.0 * k - 1.0;
    term *= (odd * odd - m) / (8.0 * k * x);
    sum += term;
  }
  return sum / std::sqrt(2.0 * kPi * x);
}
double grown(double scaled, double x) {  // e^x scaled, which is finite a little longer than e^x
  const double half = std::exp(0.5 * x);
  return half == kInf ? kInf : scaled * half * half;
}
double i0e(double x) { return bessel(0, std::fabs(x)); }
double i1e(double x) { return std::copysign(bessel(1, std::fabs(x)), x); }
double i0(double x) { return grown(i0e(x), std::fabs(x)); }
double i1(double x) { return std::copysign(grown(bessel(1, std::fabs(x)), std::fabs(x)), x); }

// ------------------------------------------------------------------ logarithms and what is made of them
double entr(double x) { return x > 0.0 ? -x * std::log(x) : x == 0.0 ? 0.0 : x < 0.0 ? -kInf : x; }
double sinc(double x) { return x == 0.0 ? 1.0 : std::sin(kPi * x) / (kPi * x); }
// Numbers: eps, below 0 where there is none.
double logit(double x, const Numbers& k) {
  const double eps = k.f[0];
  if (eps >= 0.0) x = x < eps ? eps : x > 1.0 - eps ? 1.0 - eps : x;
  return std::log(x / (1.0 - x));
}
double xlogy(double x, double y) { return y != y ? y : x == 0.0 ? 0.0 : x * std::log(y); }
double xlog1py(double x, double y) { return y != y ? y : x == 0.0 ? 0.0 : x * std::log1p(y); }
double logaddexp(double a, double b) {
  if (a == b) return a + 0.69314718055994530942;  // infinities among them
  return std::fmax(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
}
double logaddexp2(double a, double b) {
  if (a == b) return a + 1.0;
  return std::fmax(a, b) + std::log1p(std::exp2(-std::fabs(a - b))) * 1.44269504088896340736;
}
double ldexp(double x, double exponent) {
  if (!(std::fabs(exponent) < 5000.0)) return x * std::exp2(exponent);
  const double whole = std::floor(exponent);
  return std::ldexp(x * std::exp2(exponent - whole), static_cast<int>(whole));
}

// ------------------------------------------------------------------ the standard library's
#define CLIKA_STANDARD(name, expression) \
  double name##_of(double x) { return expression; }
CLIKA_STANDARD(tan, std::tan(x))
CLIKA_STANDARD(asin, std::asin(x))
CLIKA_STANDARD(acos, std::acos(x))
CLIKA_STANDARD(atan, std::atan(x))
CLIKA_STANDARD(sinh, std::sinh(x))
CLIKA_STANDARD(cosh, std::cosh(x))
CLIKA_STANDARD(asinh, std::asinh(x))
CLIKA_STANDARD(acosh, std::acosh(x))
CLIKA_STANDARD(atanh, std::atanh(x))
#undef CLIKA_STANDARD
double atan2_of(double a, double b) { return std::atan2(a, b); }
double hypot_of(double a, double b) { return std::hypot(a, b); }
double hypot_of_floats(double a, double b) {  // whose squares are no trouble for a double
  return std::isinf(a) || std::isinf(b) ? kInf : std::sqrt(a * a + b * b);
}
double power_of(double a, double b) { return std::pow(a, b); }

// ------------------------------------------------------------------ kernels
template <double (*fn)(double)>
void tile(const double* const* in, double* out, int64_t n, const Numbers&) {
  for (int64_t i = 0; i < n; ++i) out[i] = fn(in[0][i]);
}
template <double (*fn)(double, const Numbers&)>
void tile_with(const double* const* in, double* out, int64_t n, const Numbers& numbers) {
  for (int64_t i = 0; i < n; ++i) out[i] = fn(in[0][i], numbers);
}
template <double (*fn)(double, double)>
void tile_of_two(const double* const* in, double* out, int64_t n, const Numbers&) {
  for (int64_t i = 0; i < n; ++i) out[i] = fn(in[0][i], in[1][i]);
}

int32_t drive_one(const clika_call* call, EachTile<double> fn, const Numbers& numbers) {
  return drive_each<double, Doubles>(call, {&call->inputs[0]}, fn, numbers, kSpecialGrain);
}
template <double (*fn)(double)>
int32_t run(const clika_call* call) {
  return drive_one(call, tile<fn>, Numbers());
}
int32_t drive_two(const clika_call* call, EachTile<double> fn) {
  return drive_each<double, Doubles>(call, {&call->inputs[0], &call->inputs[1]}, fn, Numbers(),
                                     kSpecialGrain);
}
template <double (*fn)(double, double)>
int32_t run_two(const clika_call* call) {
  return drive_two(call, tile_of_two<fn>);
}
// What needs less work where the result is no float64.
template <double (*narrow)(double), double (*wide)(double)>
int32_t run_by_width(const clika_call* call) {
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? run<wide>(call) : run<narrow>(call);
}
int32_t run_hypot(const clika_call* call) {
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? run_two<hypot_of>(call) : run_two<hypot_of_floats>(call);
}
int32_t run_logit(const clika_call* call) {
  Numbers numbers;
  numbers.f[0] = scalar_float(call, 0, -1.0);
  return drive_one(call, tile_with<logit>, numbers);
}
// The order or the dimension is attribute 0.
template <double (*fn)(double, const Numbers&)>
int32_t run_order(const clika_call* call) {
  Numbers numbers;
  numbers.i[0] = attr_int(call, 0, 0);
  return drive_one(call, tile_with<fn>, numbers);
}

constexpr uint64_t kFloats = FLOATS | F64;
constexpr Entry over(const char* name, clika_kernel_fn run) {
  return Entry(name, run).in(kFloats).out(kFloats).inplace();
}

CLIKA_KERNELS(special,
              over("tan", run<tan_of>),
              over("asin", run<asin_of>),
              over("acos", run<acos_of>),
              over("atan", run<atan_of>),
              over("sinh", run<sinh_of>),
              over("cosh", run<cosh_of>),
              over("asinh", run<asinh_of>),
              over("acosh", run<acosh_of>),
              over("atanh", run<atanh_of>),
              over("sinc", run<sinc>),
              over("logit", run_logit),
              over("erfc", run<erfc>),
              over("erfcx", run<erfcx>),
              over("erfinv", run_by_width<erfinv<1>, erfinv<2>>),
              over("ndtr", run<ndtr>),
              over("ndtri", run_by_width<ndtri<1>, ndtri<2>>),
              over("log_ndtr", run<log_ndtr>),
              over("lgamma", run<log_gamma>),
              over("digamma", run<digamma>),
              over("polygamma", run_order<polygamma>),
              over("mvlgamma", run_order<mvlgamma>),
              over("i0", run<i0>),
              over("i0e", run<i0e>),
              over("i1", run<i1>),
              over("i1e", run<i1e>),
              over("entr", run<entr>),
              over("xlogy", run_two<xlogy>),
              over("xlog1py", run_two<xlog1py>),
              over("logaddexp", run_two<logaddexp>),
              over("logaddexp2", run_two<logaddexp2>),
              over("ldexp", run_two<ldexp>),
              over("atan2", run_two<atan2_of>),
              over("hypot", run_hypot),
              over("float_power", run_two<power_of>))
#include "level_end.hpp"
