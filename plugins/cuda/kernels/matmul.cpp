// matmul: by cuBLASLt for floating-point dtypes, by our own tiles for integers and for what the library does not take.
#include "blas.hpp"
#include "launch.hpp"

namespace clika_cuda {

namespace {

using clika_device::Matmul;

Program* tiles[4];

// Sizes and strides of a product with broadcast batches; neighbouring batch dims that lie as one are merged.
Matmul matmul_of(const clika_call* call) {
  const clika_value& left = call->inputs[0];
  const clika_value& right = call->inputs[1];
  const int32_t a = left.rank, b = right.rank;
  Matmul p{};
  p.left = left.data;
  p.right = right.data;
  p.out = call->outputs[0].data;
  p.dtype = left.dtype;
  p.m = a > 1 ? left.shape[a - 2] : 1;
  p.k = left.shape[a - 1];
  p.n = b > 1 ? right.shape[b - 1] : 1;
  p.left_row = a > 1 ? left.strides[a - 2] : p.k;
  p.left_column = left.strides[a - 1];
  p.right_row = right.strides[b > 1 ? b - 2 : 0];
  p.right_column = b > 1 ? right.strides[b - 1] : 1;
  const int32_t left_batch = a > 2 ? a - 2 : 0, right_batch = b > 2 ? b - 2 : 0;
  const int32_t rank = std::max(left_batch, right_batch);
  p.batches = 1;
  for (int32_t d = 0; d < rank; ++d) {
    const int32_t i = d - (rank - left_batch), j = d - (rank - right_batch);
    const int64_t x = i >= 0 ? left.shape[i] : 1, y = j >= 0 ? right.shape[j] : 1;
    const int64_t size = x == 1 ? y : x;
    p.batches *= size;
    if (size == 1) continue;
    const int64_t left_step = x == 1 ? 0 : left.strides[i], right_step = y == 1 ? 0 : right.strides[j];
    const int last = p.batch_rank - 1;
    if (last >= 0 && p.left_batch[last] == left_step * size && p.right_batch[last] == right_step * size) {
      p.batch_shape[last] *= size;
      p.left_batch[last] = left_step;
      p.right_batch[last] = right_step;
      continue;
    }
    p.batch_shape[p.batch_rank] = size;
    p.left_batch[p.batch_rank] = left_step;
    p.right_batch[p.batch_rank++] = right_step;
  }
  // Batches that share the right operand, and whose left ones lie below each other, are more rows.
  if (p.batch_rank == 1 && p.right_batch[0] == 0 && p.left_batch[0] == p.m * p.left_row) {
    p.m *= p.batch_shape[0];
    p.batch_rank = 0;
    p.batches = 1;
  }
  return p;
}

void* scratch(size_t bytes, void* call) {
  const auto* known = static_cast<const clika_call*>(call);
  return known->core->device_scratch(known, bytes);
}

// The library takes one step between batches: the dims before the last are walked here.
Blas by_library(const clika_call* call, const Matmul& p) {
  auto* queue = static_cast<Queue*>(call->stream);
  const int last = p.batch_rank - 1;
  const int64_t inner = last < 0 ? 1 : p.batch_shape[last];
  const int64_t bytes = size_of(p.dtype);
  Product product{p.left, p.right, p.out, p.dtype, p.m, p.n, p.k, p.left_row, p.left_column, p.right_row,
                  p.right_column, inner, last < 0 ? 0 : p.left_batch[last], last < 0 ? 0 : p.right_batch[last]};
  for (int64_t outer = 0; outer < p.batches / inner; ++outer) {
    int64_t rest = outer, left = 0, right = 0;
    for (int d = last - 1; d >= 0; --d) {
      left += rest % p.batch_shape[d] * p.left_batch[d];
      right += rest % p.batch_shape[d] * p.right_batch[d];
      rest /= p.batch_shape[d];
    }
    product.left = static_cast<const char*>(p.left) + left * bytes;
    product.right = static_cast<const char*>(p.right) + right * bytes;
    product.out = static_cast<char*>(p.out) + outer * inner * p.m * p.n * bytes;
    queue->note("matmul");
    const Blas result = multiply(*queue->device, queue->stream, product, scratch, const_cast<clika_call*>(call));
    if (result != Blas::kDone) return result;
  }
  return Blas::kDone;
}

int32_t run(const clika_call* call) {
  const Matmul p = matmul_of(call);
  if (p.batches * p.m * p.n == 0) return CLIKA_OK;
  Device& device = device_of(call);
  if (const int32_t status = device.usable()) return pass_on(call, status);
  const Compute compute = compute_of(p.dtype);
  if (compute == kFloat || compute == kDouble) {
    const Blas result = by_library(call, p);
    if (result == Blas::kDone) return CLIKA_OK;
    if (result == Blas::kFailed) return pass_on(call, last_failure(nullptr, 0, nullptr, 0));
    static std::atomic<bool> said{false};
    if (!blas_missing().empty() && !said.exchange(true)) {
      call->core->log(2, ("matmul on CUDA is slow here: cuBLASLt is missing; install it with: pip install "
                          "'clika-runtime[cuda]' (" + blas_missing() + ")").c_str());
    }
  }
  const int64_t blocks = ((p.m + 31) / 32) * ((p.n + 31) / 32);
  const Grid grid{static_cast<unsigned>(blocks), static_cast<unsigned>(std::min<int64_t>(p.batches, 65535))};
  return launch(call, "matmul", tiles[compute], grid, 256, &p);
}

}  // namespace

void add_matmul(Registry& registry) {
  for (int c = 0; c < 4; ++c) tiles[c] = registry.program("matmul", std::string("CLIKA_C=") + kComputeNames[c], "tiles");
  registry.entry("matmul", run, {kFloats4 | kInts}, kFloats4 | kInts);
}

}  // namespace clika_cuda
