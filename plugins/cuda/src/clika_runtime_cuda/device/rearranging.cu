// Elements at other places: flip, roll, repeat, tril, triu, diag_embed, pad.
#include "prelude.cuh"
#include "general.cuh"

enum { kFlip, kRoll, kRepeat, kPad, kTriangle, kDiagonal };

// i[0]: what it is; i[1]: bytes of an element; room[0]: unused. Per dim d of the result:
// i[8 + d]: flip: turned; roll: the shift; pad: elements in front. i[2]: mode of pad; i[3]: the padding's bits;
// triangle: i[2] diagonal, i[3] the lower one; diagonal: i[2] offset, i[3], i[4] its dims.
CLIKA_INLINE i64 padded(i64 i, i64 size, i64 first, i64 last, i64 mode) {  // -1: the constant
  if (i >= first && i < last) return i;
  switch (mode) {
    case 1: return i < 0 ? -i : i < size ? i : 2 * (size - 1) - i;
    case 2: return i < 0 ? 0 : at_most(i, size - 1);
    case 3: return i < first ? i + (last - first) : i - (last - first);
    default: return -1;
  }
}

extern "C" __global__ void rearrange(const __grid_constant__ General g) {
  const View& in = g.in[0];
  const View& out = g.out[0];
  const int bytes = static_cast<int>(g.i[1]);
  for (i64 at = first_of_thread(); at < g.n; at += threads_of_grid()) {
    i64 c[kMaxRank];
    i64 rest = at, to = 0;
    for (int d = out.rank - 1; d >= 0; --d) {
      c[d] = rest % out.shape[d];
      rest /= out.shape[d];
      to += c[d] * out.strides[d];
    }
    i64 from = 0;
    bool inside = true;
    switch (g.i[0]) {
      case kFlip:
      case kRoll:
        for (int d = 0; d < out.rank; ++d) {
          i64 x = c[d];
          if (g.i[0] == kFlip) x = g.i[8 + d] != 0 ? out.shape[d] - 1 - x : x;
          else x = x >= g.i[8 + d] ? x - g.i[8 + d] : x - g.i[8 + d] + out.shape[d];
          from += x * in.strides[d];
        }
        break;
      case kRepeat:
        for (int d = 0; d < in.rank; ++d) from += c[d + out.rank - in.rank] % in.shape[d] * in.strides[d];
        break;
      case kPad:
        for (int d = 0; d < out.rank; ++d) {
          const i64 front = g.i[8 + d];
          const i64 x = padded(c[d] - front, in.shape[d], at_least(0, -front), at_most(in.shape[d], out.shape[d] - front), g.i[2]);
          inside = inside && x >= 0;
          from += x * in.strides[d];
        }
        break;
      case kTriangle: {
        const i64 row = c[out.rank - 2], column = c[out.rank - 1];
        inside = g.i[3] != 0 ? column - row <= g.i[2] : column - row >= g.i[2];
        for (int d = 0; d < out.rank; ++d) from += c[d] * in.strides[d];
        break;
      }
      default: {
        const i64 row = c[g.i[3]], column = c[g.i[4]];
        inside = column - row == g.i[2];
        int own = 0;
        for (int d = 0; d < out.rank; ++d) {
          if (d != g.i[3] && d != g.i[4]) from += c[d] * in.strides[own++];
        }
        from += (g.i[2] > 0 ? row : column) * in.strides[own];
      }
    }
    const i64 filling = g.i[0] == kPad ? g.i[3] : 0;
    const void* source = inside ? static_cast<const void*>(static_cast<const char*>(in.data) + from * bytes) : &filling;
    move_element(static_cast<char*>(out.data) + to * bytes, source, bytes);
  }
}
