// Operations of one operand, in the form of arithmetic.cuh: X(operator, dtypes, result, expression over x and k).
#define CLIKA_UNARY(X)                                                                        \
  X(neg, NUMBERS, SAME, minus(C{}, x, true))                                                  \
  X(abs, NUMBERS, SAME, absolute(x))                                                          \
  X(square, NUMBERS, SAME, times(x, x))                                                       \
  X(relu, NUMBERS, SAME, x < C{} ? C{} : x)                                                   \
  X(sign, ALL, SAME, static_cast<C>(static_cast<int>(x > C{}) - static_cast<int>(x < C{})))   \
  X(floor, NUMBERS, SAME, rounded(x, [](auto v) { return floor(v); }))                        \
  X(ceil, NUMBERS, SAME, rounded(x, [](auto v) { return ceil(v); }))                          \
  X(round, NUMBERS, SAME, rounded_to(x, k))                                                   \
  X(trunc, NUMBERS, SAME, rounded(x, [](auto v) { return trunc(v); }))                        \
  X(nan_to_num, ALL, SAME, finite_or(x, k))                                                   \
  X(frac, FLOATS, SAME, x - trunc(x))                                                         \
  X(deg2rad, FLOATS, SAME, x * C(0.017453292519943295))                                       \
  X(rad2deg, FLOATS, SAME, x * C(57.295779513082320877))                                      \
  X(reciprocal, FLOATS, SAME, C(1) / x)                                                       \
  X(sin, FLOATS, SAME, sin(x))                                                                \
  X(cos, FLOATS, SAME, cos(x))                                                                \
  X(exp, FLOATS, SAME, exp(x))                                                                \
  X(exp2, FLOATS, SAME, exp2(x))                                                              \
  X(expm1, FLOATS, SAME, expm1(x))                                                            \
  X(log, FLOATS, SAME, log(x))                                                                \
  X(log2, FLOATS, SAME, log2(x))                                                              \
  X(log10, FLOATS, SAME, log10(x))                                                            \
  X(log1p, FLOATS, SAME, log1p(x))                                                            \
  X(sqrt, FLOATS, SAME, sqrt(x))                                                              \
  X(rsqrt, FLOATS, SAME, C(1) / sqrt(x))                                                      \
  X(tanh, FLOATS, SAME, tanh(x))                                                              \
  X(erf, FLOATS, SAME, erf(x))                                                                \
  X(sigmoid, FLOATS, SAME, sigmoid(x))                                                        \
  X(silu, FLOATS, SAME, x / (C(1) + exp(-x)))                                                 \
  X(gelu, FLOATS, SAME, k.i[0] == 1 ? gelu_tanh(x) : gelu(x))                                 \
  X(elu, FLOATS, SAME, x > C{} ? x : C(k.f[0]) * expm1(x))                                    \
  X(celu, FLOATS, SAME, x > C{} ? x : C(k.f[0]) * expm1(x / C(k.f[0])))                       \
  X(selu, FLOATS, SAME, x > C{} ? C(1.0507009873554805) * x : C(1.7580993408473766) * expm1(x)) \
  X(hardsigmoid, FLOATS, SAME, bounded(x + C(3), C{}, C(6)) / C(6))                           \
  X(hardswish, FLOATS, SAME, x * bounded(x + C(3), C{}, C(6)) / C(6))                         \
  X(hardshrink, FLOATS, SAME, x >= -C(k.f[0]) && x <= C(k.f[0]) ? C{} : x)                    \
  X(softshrink, FLOATS, SAME, softshrunk(x, C(k.f[0])))                                       \
  X(softsign, FLOATS, SAME, x / (C(1) + fabs(x)))                                             \
  X(tanhshrink, FLOATS, SAME, tanhshrunk(x))                                                  \
  X(leaky_relu, FLOATS, SAME, x > C{} ? x : x * C(k.f[0]))                                    \
  X(softplus, FLOATS, SAME, x * C(k.f[0]) > C(k.f[1]) ? x : log1p(exp(x * C(k.f[0]))) / C(k.f[0])) \
  X(logsigmoid, FLOATS, SAME, x == x ? (x < C{} ? x : C{}) - log1p(exp(-fabs(x))) : x)        \
  X(mish, FLOATS, SAME, mish(x))                                                              \
  X(hardtanh, NUMBERS, SAME, bounded(x, C(k.f[0]), C(k.f[1])))                                 \
  X(relu6, NUMBERS, SAME, bounded(x, C{}, C(6)))                                               \
  X(threshold, NUMBERS, SAME, x <= C(k.f[0]) ? C(k.f[1]) : x)                                  \
  X(bitwise_not, BITS, SAME, bits_not(x, k))                                                  \
  X(logical_not, ALL, TRUTH, static_cast<C>(x == C{}))                                        \
  X(isnan, ALL, TRUTH, static_cast<C>(x != x))                                                \
  X(isinf, ALL, TRUTH, static_cast<C>(is_infinite(x)))                                        \
  X(isfinite, ALL, TRUTH, static_cast<C>(x == x && !is_infinite(x)))                          \
  X(isposinf, ALL, TRUTH, static_cast<C>(x > C{} && is_infinite(x)))                          \
  X(isneginf, ALL, TRUTH, static_cast<C>(x < C{} && is_infinite(x)))                          \
  X(isreal, ALL, TRUTH, C(1))                                                                 \
  X(signbit, ALL, TRUTH, static_cast<C>(is_signed(x)))
// Of a gate and another operand.
#define CLIKA_GATED(X)                                                                        \
  X(glu, FLOATS, SAME, a * sigmoid(b))                                                        \
  X(swiglu, FLOATS, SAME, a / (C(1) + exp(-a)) * b)                                           \
  X(geglu, FLOATS, SAME, (k.i[0] == 1 ? gelu_tanh(a) : gelu(a)) * b)                          \
  X(reglu, FLOATS, SAME, (a < C{} ? C{} : a) * b)                                             \
  X(situ, FLOATS, SAME, C(k.f[0]) * tanh(a / C(k.f[0])) * sigmoid(a) * (C(k.f[1]) * tanh(b / C(k.f[1]))))
