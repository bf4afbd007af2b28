// What looks into floating-point numbers: frexp and nextafter; differences in the compute type.
#include "prelude.cuh"
#include "general.cuh"

// x = mantissa * 2^exponent with 1/2 <= |mantissa| < 1; 0, infinities and NaN have exponent 0.
extern "C" __global__ void split_floats(const __grid_constant__ General g) {
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    double x = value_of<double>(g.in[0], at);
    int power = 0;
    if (x == x && !isinf(x)) x = frexp(x, &power);
    put<double>(g.out[0], at, x);
    put<i64>(g.out[1], at, power);
  }
}

// The neighbour of a in the direction of b. Bits count up with the magnitude, in every dtype.
extern "C" __global__ void next_floats(const __grid_constant__ Elementwise e) {
  const int bytes = bytes_of(e.out_dtype);
  for (i64 at = first_of_thread(); at < e.n; at += threads_of_grid()) {
    const void* from[2];
    for (int k = 0; k < 2; ++k) {
      const i64 offset = offset_of<i64>(at, e.rank, e.shape, e.in[k].strides);
      from[k] = e.in[k].is_number != 0 ? static_cast<const void*>(&e.in[k].number)
                                       : static_cast<const char*>(e.in[k].data) + offset * bytes;
    }
    const double x = load<double>(from[0], e.out_dtype), y = load<double>(from[1], e.out_dtype);
    u64 bits = 0;
    memcpy(&bits, x == y || x == x ? from[1] : from[0], static_cast<size_t>(bytes));
    if (x < y || x > y) {
      const bool up = y > x;
      memcpy(&bits, from[0], static_cast<size_t>(bytes));
      if (x == 0.0) bits = up ? 1 : u64{1} << (8 * bytes - 1) | 1;
      else bits += (x < 0.0) == up ? ~u64{0} : u64{1};
    }
    move_element(static_cast<char*>(e.out) + offset_of<i64>(at, e.rank, e.shape, e.out_strides) * bytes, &bits, bytes);
  }
}

extern "C" __global__ void differences(const __grid_constant__ Elementwise e) {
  for (i64 at = first_of_thread(); at < e.n; at += threads_of_grid()) {
    double x[2];
    for (int k = 0; k < 2; ++k) {
      const Operand& in = e.in[k];
      const i64 offset = offset_of<i64>(at, e.rank, e.shape, in.strides);
      x[k] = in.is_number != 0 ? load<double>(&in.number, in.dtype)
                               : load<double>(static_cast<const char*>(in.data) + offset * bytes_of(in.dtype), in.dtype);
    }
    store<double>(static_cast<char*>(e.out) + at * bytes_of(e.out_dtype), e.out_dtype, x[0] - x[1]);
  }
}
