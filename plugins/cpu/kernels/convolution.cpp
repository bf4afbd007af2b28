// Convolutions of float32, bfloat16 and float16 as products of matrices whose left side, the windows, is
// never written out: gemm.hpp packs it straight from the input, or reads it in place. Where every channel is a
// group of its own the sums run over channels in vectors instead. The other dtypes stand in plain/convolution.cpp.
#include <array>
#include <numeric>
#include <utility>

#include "level.hpp"
#include "elementwise.hpp"
#include "gemm.hpp"
#include "rows.hpp"
#include "convolution.hpp"

constexpr int64_t kPiece = 128;  // places of a window that are packed at a time
alignas(64) constexpr float kZeros[kPiece] = {};

// One phase of one group as a product [results][taps * channels] by [taps * channels][channels made].
struct Windows : PackedRows {
  const Convolution& c;
  const Axis* axes;
  int64_t group;
  const float* bias;  // of the group, or null
  float* sums;        // [batch, out..., made] in float32: the result itself, or a buffer
  StoreTile<float> storer;
  LoadTile<float> load_input;
  LoadTile<float> load_weight;
  bool joined;  // the taps along the last axis and their channels lie in one piece

  Windows(const Convolution& convolution, const Axis* phase, int64_t g, const float* biases, float* to)
      : PackedRows{}, c(convolution), axes(phase), group(g), bias(biases), sums(to) {
    storer = Tiles<float>::storer(c.out->dtype);
    load_input = Tiles<float>::loader(c.input->dtype);
    load_weight = Tiles<float>::loader(c.weight->dtype);
    m = c.batch * axes[0].count * axes[1].count * axes[2].count;
    n = c.group_made;
    k = axes[0].taps * axes[1].taps * axes[2].taps * c.group_channels;
    joined = axes[2].off_step == 1 && c.groups == 1;
  }

  // Where result i of the phase lies: its image and the coordinate along each axis.
  struct Place {
    int64_t image;
    int64_t q[3];
  };
  Place place(int64_t i) const {
    Place p;
    for (int d = 2; d >= 0; --d) {
      p.q[d] = i % axes[d].count;
      i /= axes[d].count;
    }
    p.image = i;
    return p;
  }
  void step(Place* p) const {
    for (int d = 2; d >= 0; --d) {
      if (++p->q[d] < axes[d].count) return;
      p->q[d] = 0;
    }
    ++p->image;
  }
  int64_t offset(const Place& p) const {
    int64_t at = p.image;
    for (int d = 0; d < 3; ++d) at = at * c.out_size[d] + p.q[d] * axes[d].out_step + axes[d].out_base;
    return at * c.made + group * c.group_made;
  }
  void find_rows(int64_t row, int64_t count, float** to) const {
    Place p = place(row);
    for (int64_t i = 0; i < count; ++i) {
      to[i] = sums + offset(p);
      step(&p);
    }
  }

  // The pixel that tap 0 reads for a result: its coordinates, and its offset in the input with the group's.
  struct Corner {
    int64_t at[3];
    int64_t offset;
  };
  Corner corner(const Place& p) const {
    Corner found;
    found.offset = p.image;
    for (int d = 0; d < 3; ++d) {
      found.at[d] = Convolution::reads(axes[d], p.q[d], 0);
      found.offset = found.offset * c.in_size[d] + found.at[d];
    }
    found.offset = found.offset * c.channels + group * c.group_channels;
    return found;
  }
  // Whether every tap of a result lies within the input.
  bool is_inner(const Corner& corner) const {
    bool inner = true;
    for (int d = 0; d < 3; ++d) {
      const int64_t far = corner.at[d] + (axes[d].taps - 1) * axes[d].off_step;
      inner = inner && std::min(corner.at[d], far) >= 0 && std::max(corner.at[d], far) < c.in_size[d];
    }
    return inner;
  }

  void pack_left(int64_t first, int64_t count, int64_t from, int64_t depth, float* panel, int32_t) const {
    Corner corners[kTileRows];
    bool inner = c.input->dtype == CLIKA_FLOAT32;
    Place p = place(first);
    for (int64_t r = 0; r < count; ++r) {
      corners[r] = corner(p);
      inner = inner && is_inner(corners[r]);
      step(&p);
    }
    alignas(64) float copies[kTileRows][kPiece];
    const float* rows[kTurnedMost];
    const int64_t run = (joined ? axes[2].taps : 1) * c.group_channels;
    for (int64_t at = from; at < from + depth;) {
      const int64_t inside = at % run;
      const int64_t piece = std::min({kPiece, run - inside, from + depth - at});
      int64_t tap = at / run;
      int64_t move[3] = {0, 0, 0};
      if (!joined) {
        move[2] = tap % axes[2].taps * axes[2].off_step;
        tap /= axes[2].taps;
      }
      move[1] = tap % axes[1].taps * axes[1].off_step;
      move[0] = tap / axes[1].taps * axes[0].off_step;
      const int64_t pixels = (move[0] * c.in_size[1] + move[1]) * c.in_size[2] + move[2];
      const int64_t shift = pixels * c.channels + inside;
      if (inner) {
        const float* x = data_of<float>(*c.input) + shift;
        for (int64_t r = 0; r < count; ++r) rows[r] = x + corners[r].offset;
      } else {
        for (int64_t r = 0; r < count; ++r) rows[r] = edge(corners[r], move, shift, inside, piece, copies[r]);
      }
      for (int64_t r = count; r < turned_rows(kTileRows); ++r) rows[r] = rows[0];
      turn_rows<kTileRows>(rows, piece, panel + (at - from) * kTileRows);
      at += piece;
    }
  }
  // A piece of a run of which a part may lie outside of the input.
  const float* edge(const Corner& corner, const int64_t* move, int64_t shift, int64_t inside, int64_t piece,
                    float* copy) const {
    int64_t i[3];
    for (int d = 0; d < 3; ++d) i[d] = corner.at[d] + move[d];
    if (i[0] < 0 || i[0] >= c.in_size[0] || i[1] < 0 || i[1] >= c.in_size[1]) return kZeros;
    int64_t begin = 0;
    int64_t end = piece;
    if (joined) {  // the run goes over pixels: where it is before the line and behind it
      const int64_t low = i[2] * c.channels + inside;
      begin = std::max<int64_t>(0, -low);
      end = std::min(piece, c.in_size[2] * c.channels - low);
    } else if (i[2] < 0 || i[2] >= c.in_size[2]) {
      return kZeros;
    }
    if (begin >= end) return kZeros;
    return whole_row(corner.offset + shift, begin, end, piece, copy);
  }
  CLIKA_INLINE const float* whole_row(int64_t at, int64_t begin, int64_t end, int64_t piece,
                                      float* copy) const {
    const bool direct = c.input->dtype == CLIKA_FLOAT32;
    if (direct && begin == 0 && end == piece) return data_of<float>(*c.input) + at;
    for (int64_t i = 0; i < begin; ++i) copy[i] = 0.0f;
    load_input(copy + begin, c.input->data, at + begin, 1, end - begin);
    for (int64_t i = end; i < piece; ++i) copy[i] = 0.0f;
    return copy;
  }

  void pack_right(int64_t column, int64_t count, int64_t from, int64_t depth, float* panel,
                  int64_t width) const {
    if (width == W) {
      c.transposed ? pack_lines(column, count, from, depth, panel, width)
                   : pack_columns<W>(column, count, from, depth, panel);
    } else {
      c.transposed ? pack_lines(column, count, from, depth, panel, width)
                   : pack_columns<static_cast<int>(kTileColumns)>(column, count, from, depth, panel);
    }
  }
  // weight [made, taps * channels]: a line is a column.
  template <int width>
  void pack_columns(int64_t column, int64_t count, int64_t from, int64_t depth, float* panel) const {
    const bool direct = c.weight->dtype == CLIKA_FLOAT32;
    alignas(64) float copies[kTurnedMost][kPiece];
    const float* rows[kTurnedMost];
    const int64_t most = direct ? depth : kPiece;
    for (int64_t i = 0; i < depth; i += most) {
      const int64_t piece = std::min(most, depth - i);
      for (int64_t r = 0; r < count; ++r) {
        const int64_t at = (group * c.group_made + column + r) * k + from + i;
        rows[r] = direct ? data_of<float>(*c.weight) + at : copies[r];
        if (!direct) load_weight(copies[r], c.weight->data, at, 1, piece);
      }
      for (int64_t r = count; r < turned_rows(width); ++r) rows[r] = rows[0];
      turn_rows<width>(rows, piece, panel + i * width);
    }
  }
  // weight [channels, places, made / groups]: a line is a row.
  void pack_lines(int64_t column, int64_t count, int64_t from, int64_t depth, float* panel,
                  int64_t width) const {
    for (int64_t i = 0; i < depth; ++i) {
      const int64_t channel = (from + i) % c.group_channels + group * c.group_channels;
      int64_t tap = (from + i) / c.group_channels;
      const int64_t j2 = tap % axes[2].taps;
      tap /= axes[2].taps;
      const int64_t place = c.place(axes, tap / axes[1].taps, tap % axes[1].taps, j2);
      const int64_t at = (channel * c.places() + place) * c.group_made + column;
      load_weight(panel + i * width, c.weight->data, at, 1, count);
    }
  }

  bool begin(float* const* rows, int64_t count, int64_t column, int64_t columns) const {
    if (bias == nullptr) return false;
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(rows[i] + column, bias + column, static_cast<size_t>(columns) * sizeof(float));
    }
    return true;
  }
  void end(float* const* rows, int64_t count, int64_t column, int64_t columns) const {
    if (c.out->dtype == CLIKA_FLOAT32) return;
    for (int64_t i = 0; i < count; ++i) {
      const float* from = rows[i] + column;
      storer(from, c.out->data, from - sums, 1, columns);
    }
  }
};

#include "convolution_lines.hpp"

int32_t run_windows(const clika_call* call, const Convolution& c, const float* bias) {
  float* sums = data_of<float>(*c.out);
  if (c.out->dtype != CLIKA_FLOAT32) {
    const size_t bytes = static_cast<size_t>(elements(*c.out)) * sizeof(float);
    sums = static_cast<float*>(call->core->scratch(call, bytes));
    if (sums == nullptr) return CLIKA_UNAVAILABLE;
  }
  // The largest phase of a transposed convolution is its first.
  int64_t most_rows = 0;
  int64_t most_taps = 0;
  Axis axes[3];
  for (int64_t phase = 0; phase < c.phases(); ++phase) {
    c.phase(phase, axes);
    most_rows = std::max(most_rows, c.batch * axes[0].count * axes[1].count * axes[2].count);
    most_taps = std::max(most_taps, axes[0].taps * axes[1].taps * axes[2].taps);
  }
  const GemmMemory memory(call, most_rows, c.group_made, most_taps * c.group_channels);
  if (memory.packed == nullptr) return CLIKA_UNAVAILABLE;
  for (int64_t phase = 0; phase < c.phases(); ++phase) {
    c.phase(phase, axes);
    for (int64_t group = 0; group < c.groups; ++group) {
      const float* part = bias == nullptr ? nullptr : bias + group * c.group_made;
      const Windows windows(c, axes, group, part, sums);
      Lines lines(windows);
      if (lines.serves()) {
        if (!lines.prepare(call)) return CLIKA_UNAVAILABLE;
        multiply(call, lines, memory);
      } else {
        multiply(call, windows, memory);
      }
    }
  }
  return CLIKA_OK;
}

// ------------------------------------------------------------------ one channel to a group
// The weights as [taps][group_made][channels] in float32, in the order of the phase's taps.
void spread_weights(const Convolution& c, const Axis* axes, float* to) {
  const LoadTile<float> load = Tiles<float>::loader(c.weight->dtype);
  for (int64_t j0 = 0; j0 < axes[0].taps; ++j0) {
    for (int64_t j1 = 0; j1 < axes[1].taps; ++j1) {
      for (int64_t j2 = 0; j2 < axes[2].taps; ++j2) {
        const int64_t place = c.place(axes, j0, j1, j2);
        for (int64_t j = 0; j < c.group_made; ++j) {
          // Forward [channels * made, places], transposed [channels, places, made].
          const int64_t at = c.transposed ? place * c.group_made + j : j * c.places() + place;
          load(to, c.weight->data, at, c.places() * c.group_made, c.channels);
          to += c.channels;
        }
      }
    }
  }
}

// Sums of V vectors of channels for P neighbouring results of a line. `taps` are the taps that all P of them
// have, each with the input of the first result and its weights.
struct Tap {
  const void* input;
  const float* weight;
};
template <class T, int P, int V>
CLIKA_INLINE void depth_tile(const Tap* taps, int64_t count, int64_t step, int64_t channel, vf (&sum)[P][V]) {
  for (int64_t t = 0; t < count; ++t) {
    const T* x = static_cast<const T*>(taps[t].input) + channel;
    vf w[V];
    for (int i = 0; i < V; ++i) w[i] = load(taps[t].weight + channel + i * W);
    for (int p = 0; p < P; ++p) {
      for (int i = 0; i < V; ++i) sum[p][i] = fma(load(x + p * step + i * W), w[i], sum[p][i]);
    }
  }
}

template <class T>
struct DepthLine {
  const Convolution& c;
  const Axis* axes;
  const float* weights;
  const float* bias;
  int64_t j;  // which result of each channel

  CLIKA_INLINE void put(T* to, int64_t channel, vf x, int64_t n) const {
    if (c.group_made == 1 && n == W) {
      store(to + channel, x);
      return;
    }
    for (int64_t i = 0; i < n; ++i) from_float(x[i], to + (channel + i) * c.group_made);
  }
  CLIKA_INLINE vf start(int64_t channel, int64_t n) const {
    if (bias == nullptr) return zero();
    vf x = zero();
    for (int64_t i = 0; i < n; ++i) x[i] = bias[(channel + i) * c.group_made + j];
    return x;
  }
  // P results of a line, one after the other, from `to` on.
  template <int P>
  CLIKA_INLINE void results(const Tap* taps, int64_t count, int64_t step, T* to, int64_t to_step) const {
    constexpr int V = 2;
    int64_t channel = 0;
    for (; channel + V * W <= c.channels; channel += V * W) {
      vf sum[P][V];
      for (int i = 0; i < V; ++i) {
        const vf s = start(channel + i * W, W);
        for (int p = 0; p < P; ++p) sum[p][i] = s;
      }
      depth_tile<T, P, V>(taps, count, step, channel, sum);
      for (int p = 0; p < P; ++p) {
        for (int i = 0; i < V; ++i) put(to + p * to_step, channel + i * W, sum[p][i], W);
      }
    }
    for (; channel < c.channels; channel += W) {
      const int64_t n = std::min<int64_t>(W, c.channels - channel);
      for (int p = 0; p < P; ++p) {
        vf sum = start(channel, n);
        for (int64_t t = 0; t < count; ++t) {
          const T* x = static_cast<const T*>(taps[t].input) + channel + p * step;
          const float* w = taps[t].weight + channel;
          sum = n == W ? fma(load(x), load(w), sum) : fma(load_partial(x, n), load_partial(w, n), sum);
        }
        put(to + p * to_step, channel, sum, n);
      }
    }
  }

  void run(int64_t image, int64_t q0, int64_t q1, Tap* lines, Tap* taps) const {
    const T* x = data_of<T>(*c.input) + image * c.in_size[0] * c.in_size[1] * c.in_size[2] * c.channels;
    T* out = data_of<T>(*c.out) + j;
    int64_t place = image * c.out_size[0] + q0 * axes[0].out_step + axes[0].out_base;
    place = place * c.out_size[1] + q1 * axes[1].out_step + axes[1].out_base;
    out += (place * c.out_size[2] + axes[2].out_base) * c.made;
    const int64_t to_step = axes[2].out_step * c.made;
    // The lines of taps within the input.
    int64_t n_lines = 0;
    for (int64_t j0 = 0; j0 < axes[0].taps; ++j0) {
      const int64_t i0 = Convolution::reads(axes[0], q0, j0);
      if (i0 < 0 || i0 >= c.in_size[0]) continue;
      for (int64_t j1 = 0; j1 < axes[1].taps; ++j1) {
        const int64_t i1 = Convolution::reads(axes[1], q1, j1);
        if (i1 < 0 || i1 >= c.in_size[1]) continue;
        const int64_t tap = (j0 * axes[1].taps + j1) * axes[2].taps;
        lines[n_lines++] = {x + (i0 * c.in_size[1] + i1) * c.in_size[2] * c.channels,
                            weights + (tap * c.group_made + j) * c.channels};
      }
    }
    // Results [inner, outer) have all taps of a line; the taps of the first of them serve all.
    const Axis& a = axes[2];
    const int64_t far = a.off + (a.taps - 1) * a.off_step;
    const int64_t least = std::min(a.off, far);
    const int64_t most = c.in_size[2] - 1 - std::max(a.off, far);
    int64_t inner = least >= 0 ? 0 : (-least + a.in_step - 1) / a.in_step;
    inner = std::min(a.count, inner);
    const int64_t outer = most < 0 ? inner : std::max(inner, std::min(a.count, most / a.in_step + 1));
    const int64_t step = a.in_step * c.channels;
    for (int64_t q = 0; q < inner; ++q) {
      results<1>(taps, find(lines, n_lines, q, taps), step, out + q * to_step, to_step);
    }
    if (inner < outer) {
      constexpr int kRun = 4;
      const int64_t n = find(lines, n_lines, inner, taps);
      int64_t q = inner;
      for (; q + kRun <= outer; q += kRun) {
        results<kRun>(taps, n, step, out + q * to_step, to_step);
        for (int64_t t = 0; t < n; ++t) taps[t].input = static_cast<const T*>(taps[t].input) + kRun * step;
      }
      for (; q < outer; ++q) {
        results<1>(taps, n, step, out + q * to_step, to_step);
        for (int64_t t = 0; t < n; ++t) taps[t].input = static_cast<const T*>(taps[t].input) + step;
      }
    }
    for (int64_t q = outer; q < a.count; ++q) {
      results<1>(taps, find(lines, n_lines, q, taps), step, out + q * to_step, to_step);
    }
  }
  // The taps of result q that lie within the lines.
  int64_t find(const Tap* lines, int64_t count, int64_t q, Tap* taps) const {
    const Axis& a = axes[2];
    int64_t n = 0;
    for (int64_t line = 0; line < count; ++line) {
      for (int64_t j2 = 0; j2 < a.taps; ++j2) {
        const int64_t i = Convolution::reads(a, q, j2);
        if (i < 0 || i >= c.in_size[2]) continue;
        taps[n++] = {static_cast<const T*>(lines[line].input) + i * c.channels,
                     lines[line].weight + j2 * c.group_made * c.channels};
      }
    }
    return n;
  }
};

int32_t run_depthwise(const clika_call* call, const Convolution& c, const float* bias) {
  const int64_t workers = call->core->num_threads();
  const int64_t taps_room = 2 * c.places();
  float* weights = static_cast<float*>(
      call->core->scratch(call, static_cast<size_t>(c.places() * c.made) * sizeof(float)));
  Tap* memory = static_cast<Tap*>(
      call->core->scratch(call, static_cast<size_t>(workers * taps_room) * sizeof(Tap)));
  if (weights == nullptr || memory == nullptr) return CLIKA_UNAVAILABLE;
  for (int64_t phase = 0; phase < c.phases(); ++phase) {
    Axis axes[3];
    c.phase(phase, axes);
    spread_weights(c, axes, weights);
    const int64_t lines = c.batch * axes[0].count * axes[1].count;
    const int64_t work = axes[2].count * c.made * std::max<int64_t>(1, c.places());
    const int64_t grain = std::max<int64_t>(1, 65536 / work);
    parallel(call, lines, grain, [&](int64_t begin, int64_t end, int32_t worker) {
      Tap* room = memory + worker * taps_room;
      visit_float(c.input->dtype, [&](auto tag) {
        for (int64_t j = 0; j < c.group_made; ++j) {
          const DepthLine<decltype(tag)> line{c, axes, weights, bias, j};
          for (int64_t i = begin; i < end; ++i) {
            const int64_t rest = i / axes[1].count;
            line.run(rest / axes[0].count, rest % axes[0].count, i % axes[1].count, room, room + c.places());
          }
        }
      });
    });
  }
  return CLIKA_OK;
}

template <int N, bool transposed>
int32_t run(const clika_call* call) {
  if (elements(call->outputs[0]) == 0) return CLIKA_OK;
  const Convolution c(call, N, transposed);
  const float* bias = nullptr;
  if (c.bias != nullptr) {
    bias = float_vector(call, *c.bias);
    if (bias == nullptr) return CLIKA_UNAVAILABLE;
  }
  if (c.group_channels == 1 && c.channels > 1) return run_depthwise(call, c, bias);
  return run_windows(call, c, bias);
}

constexpr Entry entry(const char* op, clika_kernel_fn function) {
  return Entry(op, function).in(FLOATS).out(FLOATS).contiguous().parallel();
}

CLIKA_KERNELS(convolution, entry("conv1d", run<1, false>), entry("conv2d", run<2, false>),
              entry("conv3d", run<3, false>), entry("conv_transpose1d", run<1, true>),
              entry("conv_transpose2d", run<2, true>), entry("conv_transpose3d", run<3, true>))
#include "level_end.hpp"
