// Pooling of float32, bfloat16 and float16. The other dtypes stand in plain/pooling.cpp.
#include "level.hpp"
#include "elementwise.hpp"
#include "pooling.hpp"

constexpr Entry entry(const char* op, clika_kernel_fn function) {
  return Entry(op, function).in(FLOATS).out(FLOATS | I64).contiguous().parallel();
}

CLIKA_KERNELS(pooling, entry("max_pool1d", run_max<1, float>), entry("max_pool2d", run_max<2, float>),
              entry("max_pool3d", run_max<3, float>), entry("avg_pool1d", run_average<1, float>),
              entry("avg_pool2d", run_average<2, float>), entry("avg_pool3d", run_average<3, float>),
              entry("lp_pool1d", run_power<1, float>), entry("lp_pool2d", run_power<2, float>),
              entry("lp_pool3d", run_power<3, float>),
              entry("adaptive_avg_pool1d", run_adaptive_average<1, float>),
              entry("adaptive_avg_pool2d", run_adaptive_average<2, float>),
              entry("adaptive_avg_pool3d", run_adaptive_average<3, float>),
              entry("adaptive_max_pool1d", run_adaptive_max<1, float>),
              entry("adaptive_max_pool2d", run_adaptive_max<2, float>),
              entry("adaptive_max_pool3d", run_adaptive_max<3, float>))
#include "level_end.hpp"
