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

// to = from, broadcast to the shape of `to`; both in one dtype.
inline void copy_tensor(const clika_call* call, const clika_value& to, const clika_value& from) {
  const int64_t size = bytes_of(to.dtype);
  const Walk<2> walk({&to, &from});
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
