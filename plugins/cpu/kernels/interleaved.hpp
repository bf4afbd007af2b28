// The repacked form of a dense weight [rows, columns] of float32, bfloat16 or float16. Included after level.hpp,
// blocks.hpp and pack.hpp.
//
// Rows are taken in groups of 32, which is the layout's number at every level. A group is its columns one after the
// other; a column holds the values of its 32 rows. So products read one stream of memory, whole cache lines, and have a
// row in every lane: with 32 rows there are sums enough side by side that no level waits for its additions. Rows past the
// last one are zero.
#pragma once

constexpr int64_t kInterleaved = 32;
static_assert(kInterleaved % (2 * W) == 0, "products take two vectors of rows at a time");

inline bool is_interleaved(const clika_value& weight) {
  return weight.scheme == CLIKA_DENSE && weight.layout != CLIKA_LAYOUT_PUBLISHED;
}

inline int64_t element_bytes(int32_t dtype) { return dtype == CLIKA_FLOAT32 ? 4 : 2; }

inline int64_t interleaved_bytes(const clika_value& weight) {
  const int64_t columns = weight.shape[1];
  if (columns == 0) return 0;
  return group_count(weight.shape[0], kInterleaved) * kInterleaved * columns * element_bytes(weight.dtype);
}

// Checks such a weight before a kernel reads it; CLIKA_OK or the recorded error.
inline int32_t check_interleaved(const clika_call* call, const clika_value& weight, const char* operation) {
  if (weight.rank != 2 || weight.layout != kInterleaved) {
    return refuse(call, CLIKA_UNSUPPORTED,
                  "%s: a dense weight of %d dimensions in layout %d, which this backend did not make", operation,
                  static_cast<int>(weight.rank), static_cast<int>(weight.layout));
  }
  const int64_t needed = interleaved_bytes(weight);
  if (weight.nbytes < needed) {
    return refuse(call, CLIKA_INVALID_ARGUMENT,
                  "%s: a weight of %" PRId64 " columns needs %" PRId64 " bytes, its payload has %" PRId64, operation,
                  weight.shape[1], needed, weight.nbytes);
  }
  return CLIKA_OK;
}

// Where a row's first column stands; the next columns follow kInterleaved elements apart.
template <class T>
CLIKA_INLINE const T* interleaved_row(const clika_value& weight, int64_t row) {
  const int64_t group = row / kInterleaved;
  return static_cast<const T*>(weight.data) + group * kInterleaved * weight.shape[1] + row % kInterleaved;
}

// One row, rounded once where Out is shorter.
template <class In, class Out>
inline void copy_interleaved_row(const clika_value& weight, int64_t row, Out* out) {
  const In* from = interleaved_row<In>(weight, row);
  for (int64_t k = 0; k < weight.shape[1]; ++k) {
    if constexpr (std::is_same_v<In, Out>) {
      out[k] = from[k * kInterleaved];
    } else {
      from_float(to_float(from[k * kInterleaved]), out + k);
    }
  }
}

// ------------------------------------------------------------------ there and back
// Elements as bits, 16 bytes of them: the side of a square that is turned in registers.
template <class Bits>
constexpr int kSquare = 16 / static_cast<int>(sizeof(Bits));

typedef uint16_t bits16 __attribute__((vector_size(16)));
typedef uint32_t bits32 __attribute__((vector_size(16)));
CLIKA_INLINE bits16 lower_halves(bits16 a, bits16 b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
CLIKA_INLINE bits16 upper_halves(bits16 a, bits16 b) {
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}
CLIKA_INLINE bits32 lower_halves(bits32 a, bits32 b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
CLIKA_INLINE bits32 upper_halves(bits32 a, bits32 b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }

// to[j * to_step + i] = from[i * from_step + j] for a square. Each round is a perfect shuffle of all elements, which
// turns their numbers by one bit; after as many rounds as a side has bits, rows are columns.
template <class Bits>
CLIKA_INLINE void turn_square(const Bits* from, int64_t from_step, Bits* to, int64_t to_step) {
  using Line = std::conditional_t<sizeof(Bits) == 2, bits16, bits32>;
  constexpr int kSide = kSquare<Bits>;
  Line lines[kSide];
  for (int i = 0; i < kSide; ++i) std::memcpy(&lines[i], from + i * from_step, 16);
#pragma GCC unroll 3
  for (int round = 1; round < kSide; round *= 2) {
    Line shuffled[kSide];
    for (int i = 0; i < kSide / 2; ++i) {
      shuffled[2 * i] = lower_halves(lines[i], lines[i + kSide / 2]);
      shuffled[2 * i + 1] = upper_halves(lines[i], lines[i + kSide / 2]);
    }
    for (int i = 0; i < kSide; ++i) lines[i] = shuffled[i];
  }
  for (int j = 0; j < kSide; ++j) std::memcpy(to + j * to_step, &lines[j], 16);
}

// A matrix of `rows` x `columns` elements turned: to[j * to_step + i] = from[i * from_step + j].
template <class Bits>
inline void turn(const Bits* from, int64_t from_step, int64_t rows, int64_t columns, Bits* to, int64_t to_step) {
  constexpr int64_t kSide = kSquare<Bits>;
  const int64_t whole_rows = rows / kSide * kSide;
  const int64_t whole_columns = columns / kSide * kSide;
  for (int64_t j = 0; j < whole_columns; j += kSide) {
    for (int64_t i = 0; i < whole_rows; i += kSide) {
      turn_square(from + i * from_step + j, from_step, to + j * to_step + i, to_step);
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j) to[j * to_step + i] = from[i * from_step + j];
  }
}

// Calls body with a group's number, its rows and its place in both forms, for all groups of a weight.
template <class Bits, class Body>
void each_group(const clika_call* call, const clika_value& weight, const Body& body) {
  const int64_t rows = weight.shape[0];
  const int64_t columns = weight.shape[1];
  if (columns == 0) return;
  const int64_t bytes = kInterleaved * columns * static_cast<int64_t>(sizeof(Bits));
  parallel(call, group_count(rows, kInterleaved), std::max<int64_t>(1, 65536 / bytes),
           [&](int64_t begin, int64_t end, int32_t) {
             for (int64_t g = begin; g < end; ++g) {
               body(std::min(kInterleaved, rows - g * kInterleaved), g * kInterleaved * columns);
             }
           });
}

template <class Bits>
void interleave(const clika_call* call, const clika_value& weight, void* out) {
  const int64_t columns = weight.shape[1];
  each_group<Bits>(call, weight, [&](int64_t rows, int64_t at) {
    Bits* to = static_cast<Bits*>(out) + at;
    if (rows < kInterleaved) std::memset(to, 0, sizeof(Bits) * static_cast<size_t>(kInterleaved * columns));
    turn(static_cast<const Bits*>(weight.data) + at, columns, rows, columns, to, kInterleaved);
  });
}

template <class Bits>
void publish(const clika_call* call, const clika_value& weight, void* out) {
  const int64_t columns = weight.shape[1];
  each_group<Bits>(call, weight, [&](int64_t rows, int64_t at) {
    turn(static_cast<const Bits*>(weight.data) + at, kInterleaved, columns, rows, static_cast<Bits*>(out) + at, columns);
  });
}
