// Special and elementary functions, computed in double for every dtype and rounded once. A line of the tables is
// X(operator, expression over x, or a and b, and the numbers k).
#pragma once

#define CLIKA_SPECIAL(X)                                            \
  X(tan, tan(x)) \
  X(asin, asin(x)) \
  X(acos, acos(x)) \
  X(atan, atan(x)) \
  X(sinh, sinh(x)) \
  X(cosh, cosh(x)) \
  X(asinh, asinh(x)) \
  X(acosh, acosh(x)) \
  X(atanh, atanh(x)) \
  X(sinc, sinc_of(x)) \
  X(logit, logit_of(x, k)) \
  X(erfc, erfc(x)) \
  X(erfcx, erfcx_of(x)) \
  X(erfinv, erfinv_of<2>(x)) \
  X(ndtr, ndtr_of(x)) \
  X(ndtri, ndtri_of<2>(x)) \
  X(log_ndtr, log_ndtr_of(x)) \
  X(lgamma, log_gamma(x)) \
  X(digamma, digamma_of(x)) \
  X(polygamma, polygamma_of(x, k)) \
  X(mvlgamma, mvlgamma_of(x, k)) \
  X(i0, i0_of(x)) \
  X(i0e, i0e_of(x)) \
  X(i1, i1_of(x)) \
  X(i1e, i1e_of(x)) \
  X(entr, entr_of(x))
#define CLIKA_SPECIAL_OF_TWO(X) \
  X(xlogy, xlogy_of(a, b)) \
  X(xlog1py, xlog1py_of(a, b)) \
  X(logaddexp, logaddexp_of(a, b)) \
  X(logaddexp2, logaddexp2_of(a, b)) \
  X(ldexp, ldexp_of(a, b)) \
  X(atan2, atan2(a, b)) \
  X(hypot, hypot(a, b)) \
  X(float_power, pow(a, b))

#if defined(CLIKA_INLINE)
#define CLIKA_WIDE_INFINITY static_cast<double>(CLIKA_INFINITY)
#define CLIKA_WIDE_NAN static_cast<double>(CLIKA_NAN)
constexpr double kPi = 3.14159265358979323846;
constexpr double kSqrtPi = 1.77245385090551602730;
constexpr double kSqrtHalf = 0.70710678118654752440;

// ---------------------------------------------------------------- error functions
// e^(x^2) erfc(x) for x >= 0 is g(y) / (1 + 2x) with y = (x - 3) / (x + 3): a Chebyshev series of our own.
CLIKA_INLINE double erfcx_positive_of(double x) {
  constexpr double c[] = {
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
CLIKA_INLINE double erfcx_of(double x) {
  if (x >= 0) return erfcx_positive_of(x);
  return x < -26.7 ? CLIKA_WIDE_INFINITY : x == x ? 2.0 * exp(x * x) - erfcx_positive_of(-x) : x;
}

// The inverse of erf near 0 and of erfc in the tail: a first guess, then steps of Halley's method, each of
// which gives three times as many right digits. One is enough for float32.
template <int kSteps>
CLIKA_INLINE double erfinv_near(double y) {  // |y| <= 1/2
  const double w = 0.5 * kSqrtPi * y;
  const double u = w * w;
  double x = w * (1.0 + u * (1.0 / 3.0 + u * (7.0 / 30.0 + u * (127.0 / 630.0))));
  for (int k = 0; k < kSteps; ++k) {
    const double step = (erf(x) - y) * (0.5 * kSqrtPi) * exp(x * x);
    x -= step / (1.0 + x * step);
  }
  return x;
}
template <int kSteps>
CLIKA_INLINE double erfcinv_tail(double c) {  // 0 < c <= 1/2
  // Abramowitz and Stegun 26.2.23 for the quantile z of the normal distribution.
  const double t = sqrt(-2.0 * log(0.5 * c));
  const double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                           (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  double x = z * kSqrtHalf;
  for (int k = 0; k < kSteps; ++k) {
    const double step = (erfc(x) - c) * (0.5 * kSqrtPi) * exp(x * x);
    x += step / (1.0 - x * step);
  }
  return x;
}
template <int kSteps>
CLIKA_INLINE double erfinv_of(double y) {
  const double a = fabs(y);
  if (!(a < 1.0)) return a == 1.0 ? y * CLIKA_WIDE_INFINITY : CLIKA_WIDE_NAN;
  return a <= 0.5 ? erfinv_near<kSteps>(y) : copysign(erfcinv_tail<kSteps>(1.0 - a), y);
}

CLIKA_INLINE double ndtr_of(double x) { return 0.5 * erfc(-x * kSqrtHalf); }
template <int kSteps>
CLIKA_INLINE double ndtri_of(double p) {
  if (!(p > 0.0 && p < 1.0)) return p == 0.0 ? -CLIKA_WIDE_INFINITY : p == 1.0 ? CLIKA_WIDE_INFINITY : CLIKA_WIDE_NAN;
  if (p < 0.25) return -erfcinv_tail<kSteps>(2.0 * p) / kSqrtHalf;
  if (p > 0.75) return erfcinv_tail<kSteps>(2.0 * (1.0 - p)) / kSqrtHalf;
  return erfinv_near<kSteps>(2.0 * p - 1.0) / kSqrtHalf;
}
CLIKA_INLINE double log_ndtr_of(double x) {
  const double t = x * kSqrtHalf;
  if (x < -1.0) return log(0.5 * erfcx_positive_of(-t)) - t * t;
  return log1p(-0.5 * erfc(t));
}

// ---------------------------------------------------------------- gamma functions
CLIKA_INLINE double log_gamma(double x) {
  return lgamma(x);
}

// Bernoulli numbers B_2k.
CLIKA_INLINE double bernoulli_number(int k) {
  constexpr double numbers[] = {1.0 / 6,   -1.0 / 30,     1.0 / 42, -1.0 / 30,      5.0 / 66,
                                 -691.0 / 2730, 7.0 / 6, -3617.0 / 510, 43867.0 / 798, -174611.0 / 330};
  return numbers[k];
}

CLIKA_INLINE double digamma_positive(double x) {
  double sum = 0.0;
  for (; x < 10.0; x += 1.0) sum -= 1.0 / x;
  // ln x - 1/(2x) - sum of B_2k / (2k x^2k)
  const double u = 1.0 / (x * x);
  double power = u;
  double series = 0.0;
  for (int k = 0; k < 10; ++k) {
    series += bernoulli_number(k) / (2.0 * (k + 1)) * power;
    power *= u;
  }
  return sum + log(x) - 0.5 / x - series;
}
CLIKA_INLINE double digamma_of(double x) {
  if (x > 0.0) return digamma_positive(x);
  if (x == 0.0) return copysign(CLIKA_WIDE_INFINITY, -x);
  double whole;
  const double part = modf(x, &whole);
  if (!(part != 0.0)) return CLIKA_WIDE_NAN;  // a pole, -inf or NaN
  return digamma_positive(1.0 - x) - kPi / tan(kPi * part);
}

// The Hurwitz zeta function, the sum of (a + k)^-s over k >= 0, for a > 0 and s from 2 to 171: the first
// terms, then the Euler-Maclaurin formula.
CLIKA_INLINE double zeta_positive(double s, double a) {
  double sum = 0.0;
  for (const double from = s > 10.0 ? s : 10.0; a < from; a += 1.0) sum += pow(a, -s);
  double power = pow(a, -s);
  sum += power * (a / (s - 1.0) + 0.5);
  double factor = s;  // s (s + 1) ... (s + 2k) / (2k + 2)!
  power /= a;
  for (int k = 0; k < 10; ++k) {
    const double divisor = (2.0 * k + 1.0) * (2.0 * k + 2.0);
    factor /= divisor;
    sum += bernoulli_number(k) * factor * power;
    factor *= (s + 2.0 * k + 1.0) * (s + 2.0 * k + 2.0);
    power /= a * a;
  }
  return sum;
}
// For negative a, terms of both signs of a + k are summed apart; s is whole.
CLIKA_INLINE double zeta_of(double s, double a) {
  if (a > 0.0) return a == CLIKA_WIDE_INFINITY ? 0.0 : zeta_positive(s, a);
  const double down = floor(a);
  if (!(a != down)) return a == a && a > -CLIKA_WIDE_INFINITY ? CLIKA_WIDE_INFINITY : CLIKA_WIDE_NAN;
  const double r = a - down;
  const double negative = zeta_positive(s, 1.0 - r) - zeta_positive(s, 1.0 - a);
  return zeta_positive(s, r) + (fmod(s, 2.0) == 0.0 ? negative : -negative);
}
// Numbers: n.
CLIKA_INLINE double polygamma_of(double x, const Numbers& k) {
  if (k.i[0] == 0) return digamma_of(x);
  const double s = static_cast<double>(k.i[0]) + 1.0;
  return (k.i[0] % 2 == 0 ? -1.0 : 1.0) * tgamma(s) * zeta_of(s, x);
}
// Numbers: p.
CLIKA_INLINE double mvlgamma_of(double x, const Numbers& k) {
  const double p = static_cast<double>(k.i[0]);
  double sum = 0.25 * p * (p - 1.0) * 1.14472988584940017414;  // ln pi
  for (i64 i = 0; i < k.i[0]; ++i) sum += log_gamma(x - 0.5 * static_cast<double>(i));
  return sum;
}

// ---------------------------------------------------------------- modified Bessel functions
// e^-|x| I_order(|x|): the power series below 20, the asymptotic series above, both to full precision.
CLIKA_INLINE double bessel_of(int order, double x) {
  if (x < 20.0) {
    const double u = 0.25 * x * x;
    double term = order == 0 ? 1.0 : 0.5 * x;
    double sum = term;
    for (int k = 1; k < 80 && term > sum * 1e-18; ++k) {
      term *= u / (static_cast<double>(k) * (k + order));
      sum += term;
    }
    return sum * exp(-x);
  }
  const double m = 4.0 * order;
  double term = 1.0;
  double sum = 1.0;
  for (int k = 1; k < 60 && fabs(term) > 1e-18; ++k) {
    const double odd = 2.0 * k - 1.0;
    term *= (odd * odd - m) / (8.0 * k * x);
    sum += term;
  }
  return sum / sqrt(2.0 * kPi * x);
}
CLIKA_INLINE double grown_of(double scaled, double x) {  // e^x scaled, which is finite a little longer than e^x
  const double half = exp(0.5 * x);
  return half == CLIKA_WIDE_INFINITY ? CLIKA_WIDE_INFINITY : scaled * half * half;
}
CLIKA_INLINE double i0e_of(double x) { return bessel_of(0, fabs(x)); }
CLIKA_INLINE double i1e_of(double x) { return copysign(bessel_of(1, fabs(x)), x); }
CLIKA_INLINE double i0_of(double x) { return grown_of(i0e_of(x), fabs(x)); }
CLIKA_INLINE double i1_of(double x) { return copysign(grown_of(bessel_of(1, fabs(x)), fabs(x)), x); }

// ---------------------------------------------------------------- logarithms and what is made of them
CLIKA_INLINE double entr_of(double x) { return x > 0.0 ? -x * log(x) : x == 0.0 ? 0.0 : x < 0.0 ? -CLIKA_WIDE_INFINITY : x; }
CLIKA_INLINE double sinc_of(double x) { return x == 0.0 ? 1.0 : sin(kPi * x) / (kPi * x); }
// Numbers: eps, below 0 where there is none.
CLIKA_INLINE double logit_of(double x, const Numbers& k) {
  const double eps = k.f[0];
  if (eps >= 0.0) x = x < eps ? eps : x > 1.0 - eps ? 1.0 - eps : x;
  return log(x / (1.0 - x));
}
CLIKA_INLINE double xlogy_of(double x, double y) { return y != y ? y : x == 0.0 ? 0.0 : x * log(y); }
CLIKA_INLINE double xlog1py_of(double x, double y) { return y != y ? y : x == 0.0 ? 0.0 : x * log1p(y); }
CLIKA_INLINE double logaddexp_of(double a, double b) {
  if (a == b) return a + 0.69314718055994530942;  // infinities among them
  return fmax(a, b) + log1p(exp(-fabs(a - b)));
}
CLIKA_INLINE double logaddexp2_of(double a, double b) {
  if (a == b) return a + 1.0;
  return fmax(a, b) + log1p(exp2(-fabs(a - b))) * 1.44269504088896340736;
}
CLIKA_INLINE double ldexp_of(double x, double exponent) {
  if (!(fabs(exponent) < 5000.0)) return x * exp2(exponent);
  const double whole = floor(exponent);
  return ldexp(x * exp2(exponent - whole), static_cast<int>(whole));
}
#endif
