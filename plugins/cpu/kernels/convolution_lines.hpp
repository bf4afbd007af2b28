// Convolutions of float32 whose windows are read in place, without packing: the results of a tile lie in one
// line, so that their windows stand a constant step apart in the input (in a copy with its padding written out,
// where there is any). The sums are those of Windows, bit for bit. Included after the struct Windows.

// Floats of a window that lie side by side: from `offset` of its first on.
struct Run {
  int64_t offset;
  int64_t length;
};

// rows[r][column + j] (+)= sum over the places k of the runs of x[r * step + k] * right[k][j].
template <int R, int N>
CLIKA_NOINLINE void multiply_line(const Run* runs, int64_t n_runs, const float* x, int64_t step,
                                  const float* right, float* const* rows, int64_t column, int64_t columns,
                                  bool add) {
  constexpr int kBases = (R + 2) / 3;  // a base serves three rows: few registers hold all addresses
  Sums<R, N> sum(rows, column, columns, add);
  for (int64_t i = 0; i < n_runs; ++i) {
    const float* base[kBases];
    for (int b = 0; b < kBases; ++b) base[b] = x + runs[i].offset + 3 * b * step;
    const int64_t length = runs[i].length;
#pragma GCC unroll 4
    for (int64_t k = 0; k < length; ++k) {
      vf y[N];
      for (int v = 0; v < N; ++v) y[v] = load(right + v * W);
      for (int r = 0; r < R; ++r) {
        const vf one = splat(base[r / 3][k + r % 3 * step]);
        for (int v = 0; v < N; ++v) sum.at[r][v] = fma(one, y[v], sum.at[r][v]);
      }
      right += N * W;
    }
  }
  sum.put(rows, column, columns);
}

using MultiplyLine = void (*)(const Run*, int64_t, const float*, int64_t, const float*, float* const*, int64_t,
                              int64_t, bool);
template <int N>
struct LineTiles {
  template <int... R>
  static constexpr std::array<MultiplyLine, sizeof...(R)> make(std::integer_sequence<int, R...>) {
    return {multiply_line<R + 1, N>...};
  }
};
constexpr auto kNarrowLines = LineTiles<1>::make(std::make_integer_sequence<int, kTileRows>());
constexpr auto kWideLines = LineTiles<kTileVectors>::make(std::make_integer_sequence<int, kTileRows>());

// Row i of the product is result i % kTileRows of tile i / kTileRows; tiles are `most` results high or less.
struct Lines : Windows {
  static constexpr int64_t kLeastRun = 8;                      // floats; shorter ones are better packed
  static constexpr int64_t kCopiedMost = int64_t{1} << 24;  // floats of an input that is copied
  const float* x = nullptr;  // the input, with its padding where it has any
  int64_t size[3];           // of x
  bool padded = false;
  int64_t tiles;             // in a line of results
  int64_t most;
  const Run* runs = nullptr;
  const int64_t* first_run = nullptr;  // of each block of kDepth

  explicit Lines(const Windows& windows) : Windows(windows) {
    tiles = (axes[2].count + kTileRows - 1) / kTileRows;
    most = (axes[2].count + tiles - 1) / tiles;
    // What the windows reach into; the padding behind the input is not stated.
    for (int d = 0; d < 3; ++d) {
      size[d] = (axes[d].count - 1) * axes[d].in_step + (axes[d].taps - 1) * axes[d].off_step + 1;
      padded = padded || c.pad[d] != 0 || size[d] > c.in_size[d];
    }
    if (!padded) std::copy(c.in_size, c.in_size + 3, size);
    m = c.batch * axes[0].count * axes[1].count * tiles * kTileRows;
  }
  int64_t run() const { return axes[2].taps * c.channels; }
  int64_t places() const { return c.batch * size[0] * size[1] * size[2] * c.channels; }
  bool serves() const {
    return !c.transposed && joined && c.input->dtype == CLIKA_FLOAT32 && run() >= kLeastRun &&
           2 * most >= kTileRows && std::min({c.pad[0], c.pad[1], c.pad[2]}) >= 0 &&
           (!padded || places() <= kCopiedMost);
  }

  // Makes the runs and the copy; false where scratch could not be had.
  bool prepare(const clika_call* call) {
    const int64_t depths = (k + kDepth - 1) / kDepth;
    const int64_t most_runs = axes[0].taps * axes[1].taps + depths;
    Run* made = static_cast<Run*>(call->core->scratch(call, static_cast<size_t>(most_runs) * sizeof(Run)));
    int64_t* starts =
        static_cast<int64_t*>(call->core->scratch(call, static_cast<size_t>(depths + 1) * sizeof(int64_t)));
    if (made == nullptr || starts == nullptr) return false;
    int64_t n = 0;
    for (int64_t at = 0; at < k;) {
      if (at % kDepth == 0) starts[at / kDepth] = n;
      const int64_t line = at / run();
      const int64_t inside = at % run();
      const int64_t length = std::min(run() - inside, kDepth - at % kDepth);
      const int64_t i0 = line / axes[1].taps * axes[0].off_step;
      const int64_t i1 = line % axes[1].taps * axes[1].off_step;
      made[n++] = {(i0 * size[1] + i1) * size[2] * c.channels + inside, length};
      at += length;
    }
    starts[depths] = n;
    runs = made;
    first_run = starts;
    x = data_of<float>(*c.input);
    return !padded || copy_input(call);
  }
  bool copy_input(const clika_call* call) {
    float* copy = static_cast<float*>(call->core->scratch(call, static_cast<size_t>(places()) * sizeof(float)));
    if (copy == nullptr) return false;
    const int64_t line = size[2] * c.channels;
    const int64_t before = std::min(line, c.pad[2] * c.channels);
    const int64_t taken = std::min(line - before, c.in_size[2] * c.channels);
    const float* from = x;
    const int64_t lines = c.batch * size[0] * size[1];
    parallel(call, lines, std::max<int64_t>(1, kParallelFrom / line), [&](int64_t begin, int64_t end, int32_t) {
      for (int64_t i = begin; i < end; ++i) {
        float* to = copy + i * line;
        const int64_t i1 = i % size[1] - c.pad[1];
        const int64_t i0 = i / size[1] % size[0] - c.pad[0];
        const bool inside = i0 >= 0 && i0 < c.in_size[0] && i1 >= 0 && i1 < c.in_size[1];
        if (!inside) {
          std::fill(to, to + line, 0.0f);
          continue;
        }
        const int64_t image = i / size[1] / size[0];
        const int64_t at = ((image * c.in_size[0] + i0) * c.in_size[1] + i1) * c.in_size[2] * c.channels;
        std::fill(to, to + before, 0.0f);
        std::memcpy(to + before, from + at, static_cast<size_t>(taken) * sizeof(float));
        std::fill(to + before + taken, to + line, 0.0f);
      }
    });
    x = copy;
    return true;
  }

  Place tile_at(int64_t row) const {
    const int64_t tile = row / kTileRows;
    Place p;
    p.q[2] = tile % tiles * most;
    int64_t rest = tile / tiles;
    p.q[1] = rest % axes[1].count;
    rest /= axes[1].count;
    p.q[0] = rest % axes[0].count;
    p.image = rest / axes[0].count;
    return p;
  }
  int64_t height(int64_t row) const {
    return std::min(most, axes[2].count - row / kTileRows % tiles * most);
  }
  void find_rows(int64_t row, int64_t count, float** to) const {
    const int64_t at = offset(tile_at(row));
    for (int64_t i = 0; i < count; ++i) to[i] = sums + at + i * c.made;
  }
  void pack_left(int64_t, int64_t, int64_t, int64_t, float*, int32_t) const {}
  void tile(int64_t row, int64_t count, int64_t from, int64_t, const float*, const float* right, bool narrow,
            float* const* to, int64_t column, int64_t columns, bool add) const {
    const Place p = tile_at(row);
    int64_t at = p.image;
    for (int d = 0; d < 3; ++d) at = at * size[d] + p.q[d] * axes[d].in_step;
    const int64_t block = from / kDepth;
    const auto& kernels = narrow ? kNarrowLines : kWideLines;
    kernels[static_cast<size_t>(count - 1)](runs + first_run[block], first_run[block + 1] - first_run[block],
                                            x + at * c.channels, axes[2].in_step * c.channels, right, to, column,
                                            columns, add);
  }
};
