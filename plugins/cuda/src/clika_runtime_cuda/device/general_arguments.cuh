// The argument of kernels that take tensors of any strides and a few numbers. Plain C++ for host and device.
#pragma once

#include "arguments.cuh"

namespace clika_device {

// A tensor; a number of the host rides along.
struct View {
  void* data;
  i64 shape[kMaxRank], strides[kMaxRank];
  i64 number;
  int rank, dtype, is_number;
};

struct General {
  View in[4], out[3];
  i64 n;
  double f[8];
  i64 i[32];
  void* room[4];
  Reporter reporter;
};

// An element that is put in order: by its key, among equals by its index.
struct Item {
  u64 key;
  i64 index;
};

// Items [lines, n], sorted line by line.
struct Sorting {
  Item* from;
  Item* to;
  i64 lines, n;
  i64 width;  // runs of this length are sorted
};

}  // namespace clika_device
