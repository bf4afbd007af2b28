// Activations once for both compute types: T is a vector of float (`vf`) or double. Included after each.hpp
// and math.hpp.

// The functions of math.hpp over double.
inline double vexp(double x) { return std::exp(x); }
inline double vexpm1(double x) { return std::expm1(x); }
inline double vlog1p(double x) { return std::log1p(x); }
inline double vtanh(double x) { return std::tanh(x); }
inline double vtanhshrink(double x) { return x - std::tanh(x); }
inline double vsigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
inline double vsilu(double x) { return x / (1.0 + std::exp(-x)); }
inline double vgelu(double x) { return 0.5 * x * std::erfc(x * -0.7071067811865476); }
inline double vgelu_tanh(double x) {
  return x / (1.0 + std::exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
}
inline double vabs(double x) { return std::fabs(x); }
inline double vmin(double a, double b) { return a < b ? a : b; }
inline double select(bool mask, double yes, double no) { return mask ? yes : no; }

template <class T>
CLIKA_INLINE T constant(double x) {
  if constexpr (std::is_same<T, double>::value) {
    return x;
  } else {
    return splat(static_cast<float>(x));
  }
}
template <class T>
CLIKA_INLINE T number(const Numbers& numbers, int k) {
  return constant<T>(numbers.f[k]);
}
// min(max(x, low), high) that keeps NaN.
template <class T>
CLIKA_INLINE T bounded(T x, T low, T high) {
  return select(x < low, low, select(x > high, high, x));
}

#define CLIKA_ACTIVATION(Name, body)                  \
  struct Name {                                       \
    template <class T>                                \
    static CLIKA_INLINE T apply(T x, const Numbers& k) { \
      (void)k;                                        \
      body                                            \
    }                                                 \
  };
CLIKA_ACTIVATION(Elu, return select(x > 0.0f, x, number<T>(k, 0) * vexpm1(x));)
CLIKA_ACTIVATION(Celu, const T alpha = number<T>(k, 0);
                 return select(x > 0.0f, x, alpha * vexpm1(x / alpha));)
CLIKA_ACTIVATION(Selu, const T negative = constant<T>(1.7580993408473766) * vexpm1(x);
                 return select(x > 0.0f, constant<T>(1.0507009873554805) * x, negative);)
CLIKA_ACTIVATION(Hardtanh, return bounded(x, number<T>(k, 0), number<T>(k, 1));)
CLIKA_ACTIVATION(Relu6, return bounded(x, T{}, constant<T>(6));)
CLIKA_ACTIVATION(Hardsigmoid, return bounded(x + 3.0f, T{}, constant<T>(6)) / 6.0f;)
CLIKA_ACTIVATION(Hardswish, return x * bounded(x + 3.0f, T{}, constant<T>(6)) / 6.0f;)
CLIKA_ACTIVATION(Hardshrink, const T l = number<T>(k, 0); return select((x >= -l) & (x <= l), T{}, x);)
// x * 0 keeps NaN.
CLIKA_ACTIVATION(Softshrink, const T l = number<T>(k, 0);
                 return select(x > l, x - l, select(x < -l, x + l, x * 0.0f));)
CLIKA_ACTIVATION(Softsign, return x / (1.0f + vabs(x));)
CLIKA_ACTIVATION(Tanhshrink, return vtanhshrink(x);)
CLIKA_ACTIVATION(LeakyRelu, return select(x > 0.0f, x, x * number<T>(k, 0));)
CLIKA_ACTIVATION(Threshold, return select(x <= number<T>(k, 0), number<T>(k, 1), x);)
// Numbers: beta, threshold.
CLIKA_ACTIVATION(Softplus, const T beta = number<T>(k, 0); const T scaled = x * beta;
                 return select(scaled > number<T>(k, 1), x, vlog1p(vexp(scaled)) / beta);)
CLIKA_ACTIVATION(LogSigmoid, const T y = vmin(T{}, x) - vlog1p(vexp(-vabs(x))); return select(x == x, y, x);)
// tanh(ln(1 + e)) with e = e^x is n / (n + 2) with n = e (e + 2).
CLIKA_ACTIVATION(Mish, const T e = vexp(vmin(constant<T>(20), x)); const T n = e * (e + 2.0f);
                 return select(x > 20.0f, x, x * (n / (n + 2.0f)));)
#undef CLIKA_ACTIVATION

#define CLIKA_GATED(Name, body)                              \
  struct Name {                                              \
    template <class T>                                       \
    static CLIKA_INLINE T apply(T a, T b, const Numbers& k) { \
      (void)k;                                               \
      body                                                   \
    }                                                        \
  };
CLIKA_GATED(Prelu, return select(a > 0.0f, a, a * b);)
CLIKA_GATED(Glu, return a * vsigmoid(b);)
CLIKA_GATED(Swiglu, return vsilu(a) * b;)
CLIKA_GATED(Geglu, return vgelu(a) * b;)
CLIKA_GATED(GegluTanh, return vgelu_tanh(a) * b;)
CLIKA_GATED(Reglu, return select(a < 0.0f, T{}, a) * b;)
// Numbers: beta of the gate, beta of the other half.
CLIKA_GATED(Situ, const T beta = number<T>(k, 0); const T linear = number<T>(k, 1);
            return beta * vtanh(a / beta) * vsigmoid(a) * (linear * vtanh(b / linear));)
#undef CLIKA_GATED

// ------------------------------------------------------------------ kernels, over C = float or double
template <class Op, class C, int N>
constexpr EachTile<C> tile_of() {
  if constexpr (std::is_same<C, float>::value) {
    return each_vector<Op, N>;
  } else {
    return each_tile<Op, C, N>;
  }
}
template <class Op, class C>
int32_t run_activation(const clika_call* call) {
  return drive_each<C, Own<C>>(call, {&call->inputs[0]}, tile_of<Op, C, 1>(), numbers_of(call));
}

// Numbers that an activation cannot work with.
inline int32_t check_hardtanh(const clika_call* call) {
  const Numbers k = numbers_of(call);
  if (k.f[0] <= k.f[1]) return CLIKA_OK;
  return refuse(call, "hardtanh: min_val %g must not be above max_val %g", k.f[0], k.f[1]);
}
inline int32_t check_celu(const clika_call* call) {
  return numbers_of(call).f[0] != 0.0 ? CLIKA_OK : refuse(call, "celu: alpha must not be 0");
}
inline int32_t check_softshrink(const clika_call* call) {
  const double lambd = numbers_of(call).f[0];
  return lambd >= 0.0 ? CLIKA_OK : refuse(call, "softshrink: lambd must be >= 0, got %g", lambd);
}
template <class Op, class C, int32_t (*check)(const clika_call*)>
int32_t run_checked(const clika_call* call) {
  const int32_t status = check(call);
  return status == CLIKA_OK ? run_activation<Op, C>(call) : status;
}

// A weight [channels], or of one element, as it lies along dim 1 of the input.
struct Channels {
  clika_value value;
  int64_t shape[CLIKA_MAX_RANK];
  int64_t strides[CLIKA_MAX_RANK];

  Channels(const clika_value& input, const clika_value& weight) : value(weight) {
    for (int32_t d = 0; d < input.rank; ++d) {
      const bool channel = d == 1 && weight.rank == 1;
      shape[d] = channel ? weight.shape[0] : 1;
      strides[d] = channel ? weight.strides[0] : 0;
    }
    value.rank = input.rank;
    value.shape = shape;
    value.strides = strides;
  }
};
template <class C>
int32_t run_prelu(const clika_call* call) {
  const Channels weight(call->inputs[0], call->inputs[1]);
  return drive_each<C, Own<C>>(call, {&call->inputs[0], &weight.value}, tile_of<Prelu, C, 2>(), Numbers());
}

// Gate and up, or both side by side in the last dim of one input.
template <class Op, class C>
int32_t run_gated(const clika_call* call) {
  const clika_value& gate = call->inputs[0];
  if (present(call, 1)) {
    return drive_each<C, Own<C>>(call, {&gate, &call->inputs[1]}, tile_of<Op, C, 2>(), numbers_of(call));
  }
  const Halves halves(gate, gate.rank - 1);
  return drive_each<C, Own<C>>(call, {&halves.first, &halves.second}, tile_of<Op, C, 2>(), numbers_of(call));
}
template <class C>
int32_t run_geglu(const clika_call* call) {
  return attr_int(call, 0, 0) == 1 ? run_gated<GegluTanh, C>(call) : run_gated<Geglu, C>(call);
}
template <class C>
int32_t run_glu(const clika_call* call) {
  const clika_value& input = call->inputs[0];
  const int64_t dim = attr_int(call, 0, -1);
  const Halves halves(input, static_cast<int32_t>(dim < 0 ? dim + input.rank : dim));
  return drive_each<C, Own<C>>(call, {&halves.first, &halves.second}, tile_of<Glu, C, 2>(), Numbers());
}

// The table entries, from a function that makes an entry of a name and a kernel.
#define CLIKA_ACTIVATION_ENTRIES(over, C)                                                                   \
  over("elu", run_activation<Elu, C>), over("celu", run_checked<Celu, C, check_celu>),                      \
      over("selu", run_activation<Selu, C>), over("hardsigmoid", run_activation<Hardsigmoid, C>),           \
      over("hardswish", run_activation<Hardswish, C>), over("hardshrink", run_activation<Hardshrink, C>),   \
      over("softshrink", run_checked<Softshrink, C, check_softshrink>),                                     \
      over("softsign", run_activation<Softsign, C>), over("tanhshrink", run_activation<Tanhshrink, C>),     \
      over("leaky_relu", run_activation<LeakyRelu, C>), over("softplus", run_activation<Softplus, C>),      \
      over("logsigmoid", run_activation<LogSigmoid, C>), over("mish", run_activation<Mish, C>),             \
      over("hardtanh", run_checked<Hardtanh, C, check_hardtanh>), over("relu6", run_activation<Relu6, C>),  \
      over("threshold", run_activation<Threshold, C>), over("prelu", run_prelu<C>), over("glu", run_glu<C>), \
      over("swiglu", run_gated<Swiglu, C>), over("geglu", run_geglu<C>),                                    \
      over("reglu", run_gated<Reglu, C>), over("situ", run_gated<Situ, C>)
