// Copies of elements by their size, over any strides. Included after elementwise.hpp.

template <class U>
void copy_run(void* to, int64_t to_step, const void* from, int64_t from_step, int64_t n) {
  U* d = static_cast<U*>(to);
  const U* s = static_cast<const U*>(from);
  for (int64_t i = 0; i < n; ++i) d[i * to_step] = s[i * from_step];
}

inline void copy_elements(int64_t size, void* to, int64_t to_step, const void* from, int64_t from_step,
                          int64_t n) {
  if (to_step == 1 && from_step == 1) {
    std::memcpy(to, from, static_cast<size_t>(n * size));
    return;
  }
  switch (size) {
    case 1:
      copy_run<uint8_t>(to, to_step, from, from_step, n);
      return;
    case 2:
      copy_run<uint16_t>(to, to_step, from, from_step, n);
      return;
    case 4:
      copy_run<uint32_t>(to, to_step, from, from_step, n);
      return;
    default:
      copy_run<uint64_t>(to, to_step, from, from_step, n);
      return;
  }
}

// A matrix whose rows lie side by side in `to` and whose columns do in `from`, in squares that fit the cache.
template <class U>
void copy_turned(U* to, int64_t to_row, const U* from, int64_t from_column, int64_t rows, int64_t columns) {
  constexpr int64_t kSide = 32;
  U square[kSide][kSide + 1];
  for (int64_t i = 0; i < rows; i += kSide) {
    const int64_t i_end = std::min(rows, i + kSide);
    for (int64_t j = 0; j < columns; j += kSide) {
      const int64_t j_end = std::min(columns, j + kSide);
      // By way of a buffer: each line of either side is touched once, whatever set of the cache it falls
      // into.
      for (int64_t c = j; c < j_end; ++c) {
        for (int64_t r = i; r < i_end; ++r) square[r - i][c - j] = from[r + c * from_column];
      }
      for (int64_t r = i; r < i_end; ++r) {
        std::memcpy(to + r * to_row + j, square[r - i], static_cast<size_t>(j_end - j) * sizeof(U));
      }
    }
  }
}

inline bool copy_matrix(const clika_call* call, const clika_value& to, const clika_value& from,
                        const Walk<2>& walk, int64_t size) {
  if (walk.rank != 1 || walk.step[0] != 1 || walk.strides[1][0] != 1 || walk.outer < 8 || walk.length < 8)
    return false;
  parallel(call, walk.outer, std::max<int64_t>(32, (int64_t{1} << 18) / walk.length),
           [&](int64_t begin, int64_t end, int32_t) {
             char* t = static_cast<char*>(to.data) + begin * walk.strides[0][0] * size;
             const char* f = static_cast<const char*>(from.data) + begin * size;
             const auto turn = [&](auto tag) {
               using U = decltype(tag);
               copy_turned(reinterpret_cast<U*>(t), walk.strides[0][0], reinterpret_cast<const U*>(f),
                           walk.step[1], end - begin, walk.length);
             };
             switch (size) {
               case 1:
                 return turn(uint8_t{});
               case 2:
                 return turn(uint16_t{});
               case 4:
                 return turn(uint32_t{});
               default:
                 return turn(uint64_t{});
             }
           });
  return true;
}

// to = from, broadcast to the shape of `to`; both in one dtype.
inline void copy_tensor(const clika_call* call, const clika_value& to, const clika_value& from) {
  const int64_t size = bytes_of(to.dtype);
  const Walk<2> walk({&to, &from});
  if (copy_matrix(call, to, from, walk, size)) return;
  const bool whole = walk.step[0] == 1 && walk.step[1] == 1;
  const int64_t most = whole ? std::numeric_limits<int64_t>::max() / 2 : 4096;
  parallel(call, walk.outer * walk.length, int64_t{1} << 18, [&](int64_t begin, int64_t end, int32_t) {
    walk.run(begin, end, most, [&](const int64_t* at, int64_t n) {
      copy_elements(size, static_cast<char*>(to.data) + at[0] * size, walk.step[0],
                    static_cast<const char*>(from.data) + at[1] * size, walk.step[1], n);
    });
  });
}

// The dtypes whose elements are whole bytes.
constexpr uint64_t kWholeBytes = FLOATS | F64 | INTS | BOOL | FLOATS8 | CLIKA_BIT(CLIKA_FLOAT8_E8M0);
