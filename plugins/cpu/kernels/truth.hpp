// Truth values of any dtype as tiles of uint8_t, 0 or 1. Included after elementwise.hpp.

// 1 where an element is not zero. A sign does not count for floats.
template <class U>
void load_truth(uint8_t* to, const void* data, int64_t offset, int64_t step, int64_t n, U bits) {
  const U* p = static_cast<const U*>(data) + offset;
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = (p[i] & bits) != 0;
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i] = (p[i * step] & bits) != 0;
}
template <class U, bool kFloating>
void load_truth_of(uint8_t* to, const void* data, int64_t offset, int64_t step, int64_t n) {
  constexpr U all = std::numeric_limits<U>::max();
  load_truth<U>(to, data, offset, step, n, kFloating ? static_cast<U>(all >> 1) : all);
}
template <>
struct Tiles<uint8_t> {
  static LoadTile<uint8_t> loader(int32_t dtype) {
    switch (dtype) {
      case CLIKA_FLOAT16:
      case CLIKA_BFLOAT16:
        return load_truth_of<uint16_t, true>;
      case CLIKA_FLOAT32:
        return load_truth_of<uint32_t, true>;
      case CLIKA_FLOAT64:
        return load_truth_of<uint64_t, true>;
      default:
        break;
    }
    switch (bytes_of(dtype)) {
      case 1:
        return load_truth_of<uint8_t, false>;
      case 2:
        return load_truth_of<uint16_t, false>;
      case 4:
        return load_truth_of<uint32_t, false>;
      default:
        return load_truth_of<uint64_t, false>;
    }
  }
  static bool direct(int32_t) { return false; }
};

