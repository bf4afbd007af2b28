// Calls in the form of general_arguments.cuh.
#pragma once

#include "general_arguments.cuh"
#include "launch.hpp"

namespace clika_cuda {

using clika_device::General;
using clika_device::Item;
using clika_device::View;

View view_of(const clika_value& v);
// The same with `dim` behind the others; every dim as one if there is none.
View lines_of(const clika_value& v, int32_t dim);
// Inputs 0 to 3 that are present, outputs 0 to 2, the first scalars, and the number of elements of output 0.
General general_of(const clika_call* call, const char* op);
// A thread per g.n elements. Nothing to do where there are none.
int32_t launch_each(const clika_call* call, const char* op, Program* program, const General& g);
// Room on the device; null after an error has been set.
template <class T>
T* room_for(const clika_call* call, int64_t n) {
  return static_cast<T*>(call->core->device_scratch(call, static_cast<size_t>(n) * sizeof(T)));
}
// What the kernels of the call have written there, for a result whose shape depends on it: waits for them.
int32_t read_back(const clika_call* call, const void* from, void* to, size_t bytes);
// to = from, broadcast, elements as they are.
int32_t move(const clika_call* call, const char* op, const clika_value& to, const clika_value& from);
// Zeros in all of a tensor in one piece.
int32_t clear(const clika_call* call, const char* op, void* data, int64_t bytes);

// Puts every line of items in order; they lie in *items afterwards, which may be other room.
int32_t sort_items(const clika_call* call, const char* op, Item** items, int64_t lines, int64_t n);

// The bits of a float, rounded to the nearest, halves to even.
inline uint16_t bfloat_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
uint16_t half_of(float x);

inline int32_t from_front(int64_t dim, int32_t rank) { return static_cast<int32_t>(dim < 0 ? dim + rank : dim); }
inline double real_of(const clika_attr& a) {
  return a.kind == CLIKA_ATTR_FLOAT ? a.v.f : static_cast<double>(a.v.i);
}

}  // namespace clika_cuda
