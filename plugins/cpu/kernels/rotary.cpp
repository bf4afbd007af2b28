// rotary: turns pairs of a head's values by position * frequency. Angles, sines and products are float32.
#include "level.hpp"
#include "elementwise.hpp"
#include "sines.hpp"

CLIKA_INLINE void turn(float* first, float* second, float x, float y, float cosine, float sine) {
  *first = x * cosine - y * sine;
  *second = y * cosine + x * sine;
}

void turn_head(const float* x, float* out, int64_t size, int64_t half, bool interleaved, const float* cosine,
               const float* sine) {
  int64_t i = 0;
  if (interleaved) {
    for (; i < half; ++i) turn(out + 2 * i, out + 2 * i + 1, x[2 * i], x[2 * i + 1], cosine[i], sine[i]);
  } else {
    for (; i + W <= half; i += W) {
      const vf a = load(x + i);
      const vf b = load(x + half + i);
      const vf c = load(cosine + i);
      const vf s = load(sine + i);
      store(out + i, a * c - b * s);
      store(out + half + i, b * c + a * s);
    }
    for (; i < half; ++i) turn(out + i, out + half + i, x[i], x[half + i], cosine[i], sine[i]);
  }
  for (int64_t d = 2 * half; d < size; ++d) out[d] = x[d];
}

CLIKA_INLINE float position_at(const clika_value& v, int64_t offset) {
  return v.dtype == CLIKA_INT64 ? static_cast<float>(data_of<int64_t>(v)[offset])
                                : static_cast<float>(data_of<int32_t>(v)[offset]);
}

// input [T, H, D], positions [T] or [A, T], inv_freq [R] or [A, R]; attr interleaved; scalar scale.
int32_t run(const clika_call* call) {
  const clika_value& input = call->inputs[0];
  const clika_value& positions = call->inputs[1];
  const clika_value& frequencies = call->inputs[2];
  clika_value& out = call->outputs[0];
  const int64_t tokens = input.shape[0];
  const int64_t heads = input.shape[1];
  const int64_t size = input.shape[2];
  const int64_t axes = positions.rank == 2 ? positions.shape[0] : 1;
  const int64_t half = frequencies.shape[frequencies.rank - 1];
  const int64_t axis_stride = positions.rank == 2 ? positions.strides[0] : 0;
  const int64_t token_stride = positions.strides[positions.rank - 1];
  const int64_t frequency_axis = frequencies.rank == 2 ? frequencies.strides[0] : 0;
  const int64_t frequency_step = frequencies.strides[frequencies.rank - 1];
  const bool interleaved = attr_int(call, 0, 0) != 0;
  const float scale = static_cast<float>(scalar_float(call, 0, 1.0));
  if (tokens == 0) return CLIKA_OK;
  const int64_t angles = (half + 15) / 16 * 16;
  const int64_t room = 3 * angles + 2 * ((size + 15) / 16 * 16);
  float* scratch = static_cast<float*>(
      call->core->scratch(call, static_cast<size_t>(room * call->core->num_threads()) * sizeof(float)));
  if (scratch == nullptr) return CLIKA_UNAVAILABLE;
  const LoadTile<float> loader = Tiles<float>::loader(input.dtype);
  const StoreTile<float> storer = Tiles<float>::storer(out.dtype);
  const bool direct_out = out.dtype == CLIKA_FLOAT32;
  const bool direct = input.dtype == CLIKA_FLOAT32 && input.strides[2] == 1;
  const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, heads * size));
  parallel(call, tokens, grain, [&](int64_t begin, int64_t end, int32_t worker) {
    float* angle = scratch + worker * room;
    float* cosine = angle + angles;
    float* sine = cosine + angles;
    float* copy = sine + angles;
    float* turned = copy + (size + 15) / 16 * 16;
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t i = 0; i < half; ++i) angle[i] = 0.0f;
      for (int64_t a = 0; a < axes; ++a) {
        const float position = position_at(positions, a * axis_stride + t * token_stride);
        const float* frequency = data_of<float>(frequencies) + a * frequency_axis;
        for (int64_t i = 0; i < half; ++i) angle[i] += position * frequency[i * frequency_step];
      }
      sines(angle, half, scale, cosine, sine);
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t from = t * input.strides[0] + h * input.strides[1];
        const int64_t to = (t * heads + h) * size;
        if (!direct) loader(copy, input.data, from, input.strides[2], size);
        turn_head(direct ? data_of<float>(input) + from : copy,
                  direct_out ? data_of<float>(out) + to : turned, size, half, interleaved, cosine, sine);
        if (!direct_out) storer(turned, out.data, to, 1, size);
      }
    }
  });
  return CLIKA_OK;
}

CLIKA_KERNELS(rotary, Entry("rotary", run).in(FLOATS, I32 | I64, F32).out(FLOATS))
#include "level_end.hpp"
