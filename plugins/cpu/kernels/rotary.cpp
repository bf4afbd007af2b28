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

CLIKA_INLINE int64_t position_at(const clika_value& v, int64_t offset) {
  return v.dtype == CLIKA_INT64 ? data_of<int64_t>(v)[offset] : data_of<int32_t>(v)[offset];
}

// Turns all heads of input [T, H, D]. find(t, worker, cosine, sine) gives the angles of token t: it fills the
// two arrays of `half` numbers.
template <class Find>
int32_t turn_tokens(const clika_call* call, int64_t half, bool interleaved, const Find& find) {
  const clika_value& input = call->inputs[0];
  clika_value& out = call->outputs[0];
  const int64_t tokens = input.shape[0];
  const int64_t heads = input.shape[1];
  const int64_t size = input.shape[2];
  if (elements(out) == 0) return CLIKA_OK;
  const int64_t angles = (half + 15) / 16 * 16;
  const int64_t room = 2 * angles + 2 * ((size + 15) / 16 * 16);
  float* scratch = static_cast<float*>(
      call->core->scratch(call, static_cast<size_t>(room * call->core->num_threads()) * sizeof(float)));
  if (scratch == nullptr) return CLIKA_UNAVAILABLE;
  const LoadTile<float> loader = Tiles<float>::loader(input.dtype);
  const StoreTile<float> storer = Tiles<float>::storer(out.dtype);
  const bool direct_out = out.dtype == CLIKA_FLOAT32;
  const bool direct = input.dtype == CLIKA_FLOAT32 && input.strides[2] == 1;
  const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, heads * size));
  parallel(call, tokens, grain, [&](int64_t begin, int64_t end, int32_t worker) {
    float* cosine = scratch + worker * room;
    float* sine = cosine + angles;
    float* copy = sine + angles;
    float* turned = copy + (size + 15) / 16 * 16;
    for (int64_t t = begin; t < end; ++t) {
      find(t, worker, cosine, sine);
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

// input [T, H, D], positions [T] or [A, T], inv_freq [R] or [A, R]; attr interleaved; scalar scale.
int32_t run(const clika_call* call) {
  const clika_value& positions = call->inputs[1];
  const clika_value& frequencies = call->inputs[2];
  const int64_t axes = positions.rank == 2 ? positions.shape[0] : 1;
  const int64_t half = frequencies.shape[frequencies.rank - 1];
  const int64_t axis_stride = positions.rank == 2 ? positions.strides[0] : 0;
  const int64_t token_stride = positions.strides[positions.rank - 1];
  const int64_t frequency_axis = frequencies.rank == 2 ? frequencies.strides[0] : 0;
  const int64_t frequency_step = frequencies.strides[frequencies.rank - 1];
  const float scale = static_cast<float>(scalar_float(call, 0, 1.0));
  float* memory = static_cast<float*>(
      call->core->scratch(call, static_cast<size_t>((half + 1) * call->core->num_threads()) * sizeof(float)));
  if (memory == nullptr) return CLIKA_UNAVAILABLE;
  return turn_tokens(
      call, half, attr_int(call, 0, 0) != 0, [&](int64_t t, int32_t worker, float* cosine, float* sine) {
        float* angle = memory + worker * half;
        for (int64_t i = 0; i < half; ++i) angle[i] = 0.0f;
        for (int64_t a = 0; a < axes; ++a) {
          const int64_t at = a * axis_stride + t * token_stride;
          const float position = static_cast<float>(position_at(positions, at));
          const float* frequency = data_of<float>(frequencies) + a * frequency_axis;
          for (int64_t i = 0; i < half; ++i) angle[i] += position * frequency[i * frequency_step];
        }
        sines(angle, half, scale, cosine, sine);
      });
}

// input [T, H, D], cos and sin [P, R], positions [T]?; attr rotary_mode (1: neighbouring pairs).
int32_t run_from_tables(const clika_call* call) {
  const clika_value& cosines = call->inputs[1];
  const clika_value& sines_of = call->inputs[2];
  const int64_t tokens = call->inputs[0].shape[0];
  const int64_t rows = cosines.shape[0];
  const int64_t half = cosines.shape[1];
  const clika_value* positions = present(call, 3) ? &call->inputs[3] : nullptr;
  for (int64_t t = 0; positions != nullptr && t < tokens; ++t) {
    const int64_t at = position_at(*positions, t * positions->strides[0]);
    if (at >= 0 && at < rows) continue;
    return refuse(call, "rotary_embedding: positions[%lld] is %lld, outside the %lld rows of the tables",
                  static_cast<long long>(t), static_cast<long long>(at), static_cast<long long>(rows));
  }
  const LoadTile<float> load_cosine = Tiles<float>::loader(cosines.dtype);
  const LoadTile<float> load_sine = Tiles<float>::loader(sines_of.dtype);
  return turn_tokens(
      call, half, attr_int(call, 0, 0) != 0, [&](int64_t t, int32_t, float* cosine, float* sine) {
        const int64_t row = positions == nullptr ? t : position_at(*positions, t * positions->strides[0]);
        load_cosine(cosine, cosines.data, row * cosines.strides[0], cosines.strides[1], half);
        load_sine(sine, sines_of.data, row * sines_of.strides[0], sines_of.strides[1], half);
      });
}

CLIKA_KERNELS(rotary,
              Entry("rotary", run).in(FLOATS, I32 | I64, F32).out(FLOATS),
              Entry("rotary_embedding", run_from_tables).in(FLOATS, FLOATS, FLOATS, I32 | I64).out(FLOATS))
#include "level_end.hpp"
