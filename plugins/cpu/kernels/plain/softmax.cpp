// softmax and log_softmax along a dimension over float64.
#include "level.hpp"
#include "elementwise.hpp"
#include "lines.hpp"

template <bool kLog>
int32_t run(const clika_call* call) {
  const clika_value& in = call->inputs[0];
  clika_value& out = call->outputs[0];
  const int64_t dim = attr_int(call, 0, -1);
  const Lines from(in, dim);
  const Lines to(out, dim);
  const int64_t n = from.length;
  parallel(call, from.count, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, n)),
           [&](int64_t begin, int64_t end, int32_t) {
             for (int64_t line = begin; line < end; ++line) {
               const double* x = data_of<double>(in) + from.offset(line);
               double* y = data_of<double>(out) + to.offset(line);
               double top = -std::numeric_limits<double>::infinity();
               for (int64_t i = 0; i < n; ++i) top = std::max(top, x[i * from.step]);
               double sum = 0;
               for (int64_t i = 0; i < n; ++i) {
                 const double shifted = x[i * from.step] - top;
                 const double power = std::exp(shifted);
                 sum += power;
                 y[i * to.step] = kLog ? shifted : power;
               }
               const double log_sum = kLog ? std::log(sum) : 0;
               for (int64_t i = 0; i < n; ++i) {
                 y[i * to.step] = kLog ? y[i * to.step] - log_sum : y[i * to.step] / sum;
               }
             }
           });
  return CLIKA_OK;
}

CLIKA_KERNELS(softmax,
              Entry("softmax", run<false>).in(F64).out(F64),
              Entry("log_softmax", run<true>).in(F64).out(F64))
#include "level_end.hpp"
