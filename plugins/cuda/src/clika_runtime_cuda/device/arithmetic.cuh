// Operations of two operands. A line is X(operator, dtypes, result, expression over a, b and the numbers k); the host
// makes the table of kernels of it, the device the functions. Results: SAME as the operands, TRUTH for bool.
#define CLIKA_ARITHMETIC(X)                                                                   \
  X(add, ALL, SAME, plus(a, scaled(k, b)))                                                    \
  X(sub, NUMBERS, SAME, minus(a, scaled(k, b)))                                               \
  X(mul, ALL, SAME, times(a, b))                                                              \
  X(div, NUMBERS, SAME, divided(a, b, k))                                                     \
  X(pow, NUMBERS, SAME, power(a, b))                                                          \
  X(maximum, ALL, SAME, larger(a, b))                                                         \
  X(minimum, ALL, SAME, smaller(a, b))                                                        \
  X(remainder, NUMBERS, SAME, remainder_of(a, b, k))                                          \
  X(floor_divide, NUMBERS, SAME, floor_quotient(a, b, k))                                     \
  X(fmod, NUMBERS, SAME, fmod_of(a, b, k))                                                    \
  X(fmax, ALL, SAME, a > b || b != b ? a : b)                                                 \
  X(fmin, ALL, SAME, a < b || b != b ? a : b)                                                 \
  X(heaviside, ALL, SAME, a == C{} ? b : static_cast<C>(a > C{}))                             \
  X(copysign, FLOATS, SAME, with_sign(a, b))                                                  \
  X(gcd, INTEGERS, SAME, static_cast<C>(divisor(magnitude(a), magnitude(b))))                 \
  X(lcm, INTEGERS, SAME, multiple(a, b))                                                      \
  X(bitwise_and, BITS, SAME, bits_and(a, b))                                                  \
  X(bitwise_or, BITS, SAME, bits_or(a, b))                                                    \
  X(bitwise_xor, BITS, SAME, bits_xor(a, b))                                                  \
  X(bitwise_left_shift, INTEGERS, SAME, shifted_left(a, b, k))                                \
  X(bitwise_right_shift, INTEGERS, SAME, shifted_right(a, b, k))                              \
  X(logical_and, BOOLS, SAME, static_cast<C>(a != C{} && b != C{}))                           \
  X(logical_or, BOOLS, SAME, static_cast<C>(a != C{} || b != C{}))                            \
  X(logical_xor, BOOLS, SAME, static_cast<C>((a != C{}) != (b != C{})))                       \
  X(eq, ALL, TRUTH, static_cast<C>(a == b))                                                   \
  X(ne, ALL, TRUTH, static_cast<C>(!(a == b)))                                                \
  X(lt, ALL, TRUTH, static_cast<C>(a < b))                                                    \
  X(le, ALL, TRUTH, static_cast<C>(a <= b))                                                   \
  X(gt, ALL, TRUTH, static_cast<C>(a > b))                                                    \
  X(ge, ALL, TRUTH, static_cast<C>(a >= b))
