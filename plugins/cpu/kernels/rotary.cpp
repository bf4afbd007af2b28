// rotary: turns pairs of a head by position * inv_freq, in float32 with one rounding.
#include "level.hpp"

// scale * cos and scale * sin of every pair of one token.
inline void fill_angles(const clika_value& positions, const clika_value& inv_freq, int64_t token, float scale,
                        float* cosines, float* sines) {
  const int64_t pairs = inv_freq.shape[inv_freq.rank - 1];
  const float* frequency = data_of<float>(inv_freq);
  const auto position = [&](int64_t axis) {
    const int64_t at = positions.rank == 1 ? token * positions.strides[0]
                                           : axis * positions.strides[0] + token * positions.strides[1];
    return positions.dtype == CLIKA_INT32 ? static_cast<float>(data_of<int32_t>(positions)[at])
                                          : static_cast<float>(data_of<int64_t>(positions)[at]);
  };
  const float first = position(0);
  for (int64_t i = 0; i < pairs; ++i) {
    float angle;
    if (positions.rank == 1) {
      angle = first * frequency[i * inv_freq.strides[inv_freq.rank - 1]];
    } else {
      angle = 0.0f;
      for (int64_t axis = 0; axis < positions.shape[0]; ++axis) {
        const float turn = position(axis) * frequency[axis * inv_freq.strides[0] + i * inv_freq.strides[1]];
        angle = angle + turn;
      }
    }
    cosines[i] = std::cos(angle) * scale;
    sines[i] = std::sin(angle) * scale;
  }
}

// One head of 2 R values and the rest; `step` lies between its values.
template <class T>
CLIKA_INLINE void turn_head(const T* x, int64_t step, T* out, int64_t size, int64_t pairs, const float* c,
                            const float* s, bool interleaved) {
  if (interleaved) {
    for (int64_t i = 0; i < pairs; ++i) {
      const float a = to_float(x[2 * i * step]);
      const float b = to_float(x[(2 * i + 1) * step]);
      from_float(a * c[i] - b * s[i], out + 2 * i);
      from_float(b * c[i] + a * s[i], out + 2 * i + 1);
    }
  } else {
    int64_t i = 0;
    if (step == 1) {
      for (; i + W <= pairs; i += W) {
        const vf a = load(x + i);
        const vf b = load(x + pairs + i);
        const vf cosine = load(c + i);
        const vf sine = load(s + i);
        store(out + i, a * cosine - b * sine);
        store(out + pairs + i, b * cosine + a * sine);
      }
    }
    for (; i < pairs; ++i) {
      const float a = to_float(x[i * step]);
      const float b = to_float(x[(pairs + i) * step]);
      from_float(a * c[i] - b * s[i], out + i);
      from_float(b * c[i] + a * s[i], out + pairs + i);
    }
  }
  for (int64_t i = 2 * pairs; i < size; ++i) out[i] = x[i * step];
}

// input [T, H, D], positions, inv_freq; attr interleaved; scalar scale.
int32_t run(const clika_call* call) {
  const clika_value& input = call->inputs[0];
  const clika_value& positions = call->inputs[1];
  const clika_value& inv_freq = call->inputs[2];
  const bool interleaved = attr_int(call, 0, 0) != 0;
  const float scale = static_cast<float>(scalar_float(call, 0, 1.0));
  const int64_t tokens = input.shape[0];
  const int64_t heads = input.shape[1];
  const int64_t size = input.shape[2];
  const int64_t pairs = inv_freq.shape[inv_freq.rank - 1];
  if (tokens == 0 || heads == 0 || size == 0) return CLIKA_OK;
  const int64_t width = (2 * pairs + 15) / 16 * 16;
  float* tables = static_cast<float*>(
      call->core->scratch(call, static_cast<size_t>(width * call->core->num_threads()) * sizeof(float) + 64));
  if (tables == nullptr) return CLIKA_UNAVAILABLE;
  const int64_t grain = std::max<int64_t>(1, 8192 / (heads * size + 16 * pairs));
  parallel(call, tokens, grain, [&](int64_t begin, int64_t end, int32_t worker) {
    float* c = tables + worker * width;
    float* s = c + pairs;
    for (int64_t t = begin; t < end; ++t) {
      fill_angles(positions, inv_freq, t, scale, c, s);
      visit_float(input.dtype, [&](auto tag) {
        using T = decltype(tag);
        const T* x = data_of<T>(input) + t * input.strides[0];
        T* out = data_of<T>(call->outputs[0]) + t * heads * size;
        for (int64_t h = 0; h < heads; ++h) {
          turn_head(x + h * input.strides[1], input.strides[2], out + h * size, size, pairs, c, s, interleaved);
        }
      });
    }
  });
  return CLIKA_OK;
}

CLIKA_KERNELS(rotary, Entry("rotary", run).in(FLOATS, I32 | I64, F32).out(FLOATS))
#include "level_end.hpp"
