// Products of tiles of 16-bit floats on tensor cores, what feeds them from shared memory, and copies into shared memory
// that go on in the background. The emulator of the tests has twins of what is written in PTX here.
#pragma once

#include "prelude.cuh"

struct alignas(16) Words4 {
  u32 x[4];
};

#if !defined(CLIKA_EMULATED)
CLIKA_INLINE u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

// Four 8 x 8 matrices: lanes 8 i .. 8 i + 7 name the rows of matrix i, 16 bytes each. A lane gets elements 2 (lane % 4)
// and the next of row lane / 4.
CLIKA_INLINE void load_matrices(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
// The same, each matrix transposed.
CLIKA_INLINE void load_transposed(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
// d += a b: a is 16 x 16, b 16 x 8, d 16 x 8 in float32.
CLIKA_INLINE void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, bf16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
CLIKA_INLINE void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, f16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// d = c + a b. Not volatile: the compiler may have several on their way.
CLIKA_INLINE void multiply_from(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, float c0, float c1, float c2, float c3, bf16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c0), "f"(c1), "f"(c2), "f"(c3));
}
CLIKA_INLINE void multiply_from(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, float c0, float c1, float c2, float c3, f16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c0), "f"(c1), "f"(c2), "f"(c3));
}
// 16 bytes of `from`, or of zeros: then nothing is read. Both are aligned to 16 bytes.
CLIKA_INLINE void copy_async(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(there ? 16 : 0)
               : "memory");
}
CLIKA_INLINE void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until all but the last n sets of copies are there, for the thread that asked for them.
template <int n>
CLIKA_INLINE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}
CLIKA_INLINE float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
CLIKA_INLINE float reciprocal_of(float x) {
  float y;
  asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
CLIKA_INLINE u32 pair(float low, float high, bf16) {
  u32 y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
CLIKA_INLINE u32 pair(float low, float high, f16) {
  u32 y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
#else
template <class T>
CLIKA_INLINE void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, T) {
  multiply_emulated(d, a, b0, b1, [](u32 bits) { return to_float(T{static_cast<u16>(bits)}); });
}
template <class T>
CLIKA_INLINE void multiply_from(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, float c0, float c1, float c2, float c3, T type) {
  const float c[4] = {c0, c1, c2, c3};
  for (int i = 0; i < 4; ++i) d[i] = c[i];
  multiply(d, a, b0, b1, type);
}
template <class T>
CLIKA_INLINE u32 pair(float low, float high, T) {
  return from_float<T>(low).bits | static_cast<u32>(from_float<T>(high).bits) << 16;
}
CLIKA_INLINE float exp2_of(float x) { return exp2f(x); }
CLIKA_INLINE float reciprocal_of(float x) { return 1.0f / x; }
#endif

// Rows of D 16-bit elements in shared memory. Chunks of 16 bytes of neighbouring rows lie in different banks.
template <int D>
struct Rows {
  static constexpr int kStride = (2 * D + 127) / 128 * 128;
  static constexpr int kChunks = D / 8;
  static CLIKA_INLINE int at(int row, int chunk) { return row * kStride + ((chunk ^ (row & 7)) << 4); }
};
