// matmul over float64 and integers (which wrap around): plain loops over ascending k.
#include "level.hpp"
#include "elementwise.hpp"
#include "product.hpp"

template <class C>
int32_t multiply(const clika_call* call) {
  const MatrixProduct p(call);
  const int64_t results = p.batches * p.m * p.n;
  if (results == 0) return CLIKA_OK;
  const LoadTile<C> loader = Tiles<C>::loader(p.left->dtype);
  const StoreTile<C> storer = Tiles<C>::storer(p.out->dtype);
  using U = typename std::conditional<std::is_integral<C>::value, uint64_t, double>::type;
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, p.k * p.n));
  parallel(call, p.batches * p.m, grain, [&](int64_t begin, int64_t end, int32_t) {
    C x[kTile];
    C y[kTile];
    for (int64_t task = begin; task < end; ++task) {
      const MatrixProduct::Batch batch = p.batch(task / p.m);
      const int64_t row = task % p.m;
      for (int64_t column = 0; column < p.n; ++column) {
        U sum = 0;
        for (int64_t k = 0; k < p.k; k += kTile) {
          const int64_t count = std::min(kTile, p.k - k);
          loader(x, p.left->data, batch.left + row * p.left_row + k * p.left_column, p.left_column, count);
          loader(y, p.right->data, batch.right + k * p.right_row + column * p.right_column, p.right_row,
                 count);
          for (int64_t i = 0; i < count; ++i) sum += static_cast<U>(x[i]) * static_cast<U>(y[i]);
        }
        const C value = static_cast<C>(sum);
        storer(&value, p.out->data, batch.out + row * p.n + column, 1, 1);
      }
    }
  });
  return CLIKA_OK;
}

int32_t run(const clika_call* call) {
  return call->inputs[0].dtype == CLIKA_FLOAT64 ? multiply<double>(call) : multiply<int64_t>(call);
}

CLIKA_KERNELS(matmul, Entry("matmul", run).in(F64 | INTS).out(F64 | INTS).parallel())
#include "level_end.hpp"
