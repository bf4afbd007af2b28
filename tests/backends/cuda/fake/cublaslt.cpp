// cuBLASLt for tests: products on the host, in the order of the stream. It refuses what the library refuses:
// leading dimensions that are too short, and alignments that the pointers do not have.
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <utility>

#define API extern "C" __attribute__((visibility("default")))

namespace {

struct Product {
  int compute, scale, turn[2] = {0, 0};
  uint32_t epilogue = 1;
  const void* bias = nullptr;
};
struct Layout {
  int type;
  int64_t rows, columns, ld, step = 0;
  int32_t batches = 1;
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t reductions = 7, alignment[4] = {256, 256, 256, 256};
};
struct Heuristic {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
int done;

float half(uint16_t bits) {
  _Float16 x;
  std::memcpy(&x, &bits, 2);
  return static_cast<float>(x);
}
double load(const void* p, int type, int64_t i) {
  switch (type) {
    case 0: return static_cast<const float*>(p)[i];
    case 1: return static_cast<const double*>(p)[i];
    case 2: return half(static_cast<const uint16_t*>(p)[i]);
    default: {
      const uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t*>(p)[i]) << 16;
      float x;
      std::memcpy(&x, &bits, 4);
      return x;
    }
  }
}
void store(void* p, int type, int64_t i, double x) {
  if (type == 1) {
    static_cast<double*>(p)[i] = x;
    return;
  }
  const float y = static_cast<float>(x);
  if (type == 0) {
    static_cast<float*>(p)[i] = y;
  } else if (type == 2) {
    const _Float16 h = static_cast<_Float16>(y);
    std::memcpy(static_cast<uint16_t*>(p) + i, &h, 2);
  } else {
    uint32_t bits;
    std::memcpy(&bits, &y, 4);
    static_cast<uint16_t*>(p)[i] = static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
}
int64_t bytes_of(int type) { return type == 1 ? 8 : type == 0 ? 4 : 2; }
bool aligned(const void* p, uint32_t to) { return reinterpret_cast<uintptr_t>(p) % to == 0; }
Preference last;

// The product as the library writes it: column by column.
void multiply(const Product& p, const Layout& x, const Layout& y, const Layout& z, const void* a, const void* b, void* d) {
  const int64_t k = p.turn[0] ? x.rows : x.columns;
  for (int32_t batch = 0; batch < z.batches; ++batch) {
    const char* left = static_cast<const char*>(a) + batch * x.step * bytes_of(x.type);
    const char* right = static_cast<const char*>(b) + batch * y.step * bytes_of(y.type);
    char* out = static_cast<char*>(d) + batch * z.step * bytes_of(z.type);
    for (int64_t i = 0; i < z.rows; ++i) {
      for (int64_t j = 0; j < z.columns; ++j) {
        double sum = p.epilogue == 4 ? load(p.bias, z.type, i) : 0;
        for (int64_t e = 0; e < k; ++e) {
          sum += load(left, x.type, p.turn[0] ? e + i * x.ld : i + e * x.ld) *
                 load(right, y.type, p.turn[1] ? j + e * y.ld : e + j * y.ld);
        }
        store(out, z.type, i + j * z.ld, sum);
      }
    }
  }
}

// In the stream's own order: when the driver comes to it, or each time that a recording runs; so it is kept.
int enqueue(void* stream, std::function<void()> work) {
  static void* driver = dlopen(std::getenv("CLIKA_RT_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
  static const auto put = reinterpret_cast<int (*)(void*, int (*)(void*), void*)>(dlsym(driver, "fake_put"));
  const auto call = [](void* context) {
    (*static_cast<std::function<void()>*>(context))();
    return 0;
  };
  return put(stream, call, new std::function<void()>(std::move(work))) == 0 ? 0 : 14;
}

}  // namespace

API int fake_products() { return done; }

API int cublasLtCreate(void** handle) {
  *handle = &done;
  return 0;
}
API int cublasLtMatmulDescCreate(void** product, int compute, int scale) {
  *product = new Product{compute, scale};
  return 0;
}
API int cublasLtMatmulDescSetAttribute(void* product, int attribute, const void* value, size_t bytes) {
  if (attribute == 7 && bytes == 4) {
    std::memcpy(&static_cast<Product*>(product)->epilogue, value, 4);
    return 0;
  }
  if (attribute == 8 && bytes == 8) {
    std::memcpy(&static_cast<Product*>(product)->bias, value, 8);
    return 0;
  }
  if (bytes != 4 || attribute < 3 || attribute > 4) return 7;
  std::memcpy(&static_cast<Product*>(product)->turn[attribute - 3], value, 4);
  return 0;
}
API int cublasLtMatmulDescDestroy(void* product) {
  delete static_cast<Product*>(product);
  return 0;
}
API int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  *layout = new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), ld};
  return 0;
}
API int cublasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value, size_t bytes) {
  auto* l = static_cast<Layout*>(layout);
  if (attribute == 5 && bytes == 4) std::memcpy(&l->batches, value, 4);
  else if (attribute == 6 && bytes == 8) std::memcpy(&l->step, value, 8);
  else return 7;
  return 0;
}
API int cublasLtMatrixLayoutDestroy(void* layout) {
  delete static_cast<Layout*>(layout);
  return 0;
}
API int cublasLtMatmulPreferenceCreate(void** preference) {
  *preference = new Preference();
  return 0;
}
API int cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value, size_t bytes) {
  auto* p = static_cast<Preference*>(preference);
  if (attribute == 1 && bytes == 8) std::memcpy(&p->workspace, value, 8);
  else if (attribute == 3 && bytes == 4) std::memcpy(&p->reductions, value, 4);
  else if (attribute >= 5 && attribute <= 8 && bytes == 4) std::memcpy(&p->alignment[attribute - 5], value, 4);
  else return 7;
  return 0;
}
API int cublasLtMatmulPreferenceDestroy(void* preference) {
  delete static_cast<Preference*>(preference);
  return 0;
}
API int cublasLtMatmulAlgoGetHeuristic(void*, void* product, void* a, void* b, void* c, void*, void* preference, int wanted,
                                       Heuristic* found, int* count) {
  const auto *p = static_cast<Product*>(product);
  const auto *x = static_cast<Layout*>(a), *y = static_cast<Layout*>(b), *z = static_cast<Layout*>(c);
  const bool wide = x->type == 1;
  last = *static_cast<Preference*>(preference);
  *count = 0;
  for (const Layout* l : {x, y, z}) {
    if (l->ld < (l->rows > 1 ? l->rows : 1) || l->rows < 1 || l->columns < 1) return 7;
  }
  const int64_t m = p->turn[0] ? x->columns : x->rows, k = p->turn[0] ? x->rows : x->columns;
  const int64_t k2 = p->turn[1] ? y->columns : y->rows, n = p->turn[1] ? y->rows : y->columns;
  if (m != z->rows || n != z->columns || k != k2 || p->compute != (wide ? 70 : 68) || p->scale != (wide ? 1 : 0)) return 7;
  std::memset(found, 0, sizeof(*found));
  found->algorithm[0] = last.alignment[0];
  found->algorithm[1] = last.alignment[1];
  found->algorithm[2] = last.alignment[3];
  found->workspace = 1024;
  *count = wanted;
  return 0;
}
API int cublasLtMatmul(void*, void* product, const void* alpha, const void* a, void* a_layout, const void* b, void* b_layout,
                       const void* beta, const void*, void*, void* d, void* d_layout, const uint64_t* algorithm,
                       void* workspace, size_t workspace_bytes, void* stream) {
  const auto *p = static_cast<Product*>(product);
  const auto *x = static_cast<Layout*>(a_layout), *y = static_cast<Layout*>(b_layout), *z = static_cast<Layout*>(d_layout);
  const double one = z->type == 1 ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
  const double zero = z->type == 1 ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
  if (one != 1.0 || zero != 0.0 || workspace == nullptr || workspace_bytes < 1024) return 7;
  if (!aligned(a, static_cast<uint32_t>(algorithm[0])) || !aligned(b, static_cast<uint32_t>(algorithm[1])) ||
      !aligned(d, static_cast<uint32_t>(algorithm[2]))) {
    return 7;
  }
  if (p->epilogue != 1 && (p->epilogue != 4 || p->bias == nullptr)) return 7;
  const Product turns = *p;
  const Layout first = *x, second = *y, third = *z;
  ++done;
  return enqueue(stream, [=] { multiply(turns, first, second, third, a, b, d); });
}
