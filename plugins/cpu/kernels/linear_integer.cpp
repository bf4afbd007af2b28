// The driver of integer products, see linear_tables.hpp.
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <type_traits>

#include "level.hpp"

#include "blocks.hpp"
#include "linear_lanes.hpp"
#include "pack.hpp"
#include "quantize_activations.hpp"
#include "linear.hpp"
#include "math.hpp"
#include "linear_gate.hpp"

// A weight as groups of rows; published ones are repacked where they are read.
struct PackedWeight {
  const IntegerFormat* format;
  const uint8_t* data;
  int64_t rows;
  int64_t groups;
  int64_t blocks;        // of columns
  int64_t column_bytes;  // of a block column of a group
  bool published;
  const uint8_t* tokens;    // quantized for it
  const FineBlock* fine;    // of many tokens: those of [run][panel], see Driver::fine_of
  const int32_t* refined;   // how many they are

  int64_t group_bytes() const { return blocks * column_bytes; }
  // Block columns [first, last) of a group, the first of them at the pointer; `room` is where a published one is
  // repacked.
  const uint8_t* columns(int64_t group, int64_t first, int64_t last, uint8_t* room) const {
    if (!published) return data + (group * blocks + first) * column_bytes;
    const int64_t stride = blocks * format->bytes;
    format->repack(data + group * kGroup * stride, stride, std::min<int64_t>(kGroup, rows - group * kGroup), first,
                   last, room);
    return room;
  }
};

uint8_t* scratch_bytes(const clika_call* call, int64_t bytes) {
  return static_cast<uint8_t*>(call->core->scratch(call, static_cast<size_t>(std::max<int64_t>(64, bytes))));
}

struct Driver {
  const clika_call* call;
  const Linear* products;
  int32_t count;
  Gate gate;
  int64_t m;
  int64_t k;
  int64_t threads;
  const PanelKernels& kernels;
  PackedWeight weights[kMostProducts];

  Driver(const clika_call* given, const Linear* list, const IntegerFormat* const* formats, int32_t n, Gate what)
      : call(given),
        products(list),
        count(n),
        gate(what),
        m(list[0].m),
        k(list[0].k),
        threads(std::max<int64_t>(1, given->core->num_threads())),
        kernels(best_panels()) {
    for (int32_t i = 0; i < n; ++i) {
      const Linear& p = list[i];
      weights[i] = {formats[i],
                    static_cast<const uint8_t*>(p.weight->data),
                    p.n,
                    group_count(p.n, kGroup),
                    p.k / formats[i]->columns,
                    kGroup * formats[i]->bytes,
                    p.weight->layout == CLIKA_LAYOUT_PUBLISHED,
                    nullptr,
                    nullptr,
                    nullptr};
    }
  }

  // All tokens, quantized in tiles of `most`, the last of which is filled up where `even`; once for all weights that
  // ask for the same. False where scratch could not be had.
  bool quantize(int64_t most, bool even) {
    for (int32_t i = 0; i < count; ++i) {
      const IntegerFormat& format = *weights[i].format;
      for (int32_t j = 0; j < i && weights[i].tokens == nullptr; ++j) {
        const IntegerFormat& other = *weights[j].format;
        const bool same = other.halves == format.halves && other.sums.scaled == format.sums.scaled &&
                          other.sums.factor == format.sums.factor;
        if (same) weights[i].tokens = weights[j].tokens;
      }
      if (weights[i].tokens != nullptr) continue;
      const int64_t tiles = (m + most - 1) / most;
      const int64_t bytes = bytes_of_tile(format, most);
      uint8_t* tokens = scratch_bytes(call, tiles * bytes);
      if (tokens == nullptr) return false;
      const Linear& p = products[i];
      const QuantizeTile run = quantize_tiles.of(p.x_dtype, format.halves);
      const int64_t row = k * (p.x_dtype == CLIKA_FLOAT32 ? 4 : 2);
      const double cost = 0.3 * static_cast<double>(most * k);
      parallel(call, tiles, piece(call, tiles, cost), [&](int64_t begin, int64_t end, int32_t) {
        for (int64_t t = begin; t < end; ++t) {
          const int64_t rows = std::min(most, m - t * most);
          run(static_cast<const uint8_t*>(p.x) + t * most * row, k, rows, even ? most : rows, format.sums,
              tokens + t * bytes);
        }
      });
      weights[i].tokens = tokens;
    }
    return true;
  }
  int64_t bytes_of_tile(const IntegerFormat& format, int64_t most) const {
    return format.halves == 1 ? tile_bytes<1>(k / kBlock, most) : tile_bytes<2>(k / kBlock, most);
  }

  // Weights with an output of their own: a gate has none.
  int32_t outputs() const { return gate == Gate::kNone ? count : 1; }

  int32_t direct();
  int32_t panels();

 private:
  void direct_groups(int64_t begin, int64_t end, int index, uint8_t* room) const;
  void direct_gated(int64_t begin, int64_t end, int index, uint8_t* room) const;
  struct Units {
    int64_t strip;  // groups
    int64_t run;    // tiles
    int64_t tiles;
    int64_t runs;
    int64_t ends[kMostProducts];  // of the strips of each output
    int64_t pitch;  // floats from group to group of sums

    int64_t last_tile(int64_t of) const { return std::min(tiles, (of + 1) * run); }
  };
  Units units() const;
  int64_t fine_of(const PackedWeight& weight, const Units& u, int64_t run, int64_t panel, FineBlock* fine) const;
  bool find_fine(const Units& u);
  void panel_sums(const PackedWeight& weight, const Units& u, int64_t first_group, int64_t last_group, int64_t run,
                  float* sums, uint8_t* panels) const;
};

// ---- a few tokens
// Groups [begin, end) of all weights, counted one weight after the other.
void Driver::direct_groups(int64_t begin, int64_t end, int index, uint8_t* room) const {
  alignas(64) float sums[kDirectTokens * W];
  int32_t i = 0;
  int64_t first = 0;  // group of weight i
  for (int64_t at = begin; at < end; ++at) {
    while (at - first >= weights[i].groups) first += weights[i++].groups;
    const PackedWeight& weight = weights[i];
    const int64_t group = at - first;
    weight.format->multiply[index](weight.columns(group, 0, weight.blocks, room), weight.tokens, weight.blocks, sums);
    const Linear& p = products[i];
    for (int64_t t = 0; t < m; ++t) put(p, t, group, with_bias(p, group, load(sums + t * W)));
  }
}

// The same of a gate and its other half, some groups of one and then of the other: so each is read in runs.
void Driver::direct_gated(int64_t begin, int64_t end, int index, uint8_t* room) const {
  constexpr int64_t kTurn = 4;  // groups
  alignas(64) float sums[2][kTurn][kDirectTokens * W];
  for (int64_t first = begin; first < end; first += kTurn) {
    const int64_t groups = std::min(kTurn, end - first);
    for (int half = 0; half < 2; ++half) {
      const PackedWeight& weight = weights[half];
      for (int64_t g = 0; g < groups; ++g) {
        weight.format->multiply[index](weight.columns(first + g, 0, weight.blocks, room), weight.tokens,
                                       weight.blocks, sums[half][g]);
      }
    }
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t t = 0; t < m; ++t) {
        const vf a = with_bias(products[0], first + g, load(sums[0][g] + t * W));
        const vf b = with_bias(products[1], first + g, load(sums[1][g] + t * W));
        put(products[0], t, first + g, gated(gate, a, b));
      }
    }
  }
}

int32_t Driver::direct() {
  int index = 0;
  while ((1 << index) < m) ++index;
  if (!quantize(int64_t{1} << index, true)) return CLIKA_UNAVAILABLE;
  int64_t groups = 0;
  int64_t bytes = 0;
  int64_t room_bytes = 0;
  for (int32_t i = 0; i < count; ++i) {
    groups += weights[i].groups;
    bytes += weights[i].groups * weights[i].group_bytes();
    if (weights[i].published) room_bytes = std::max(room_bytes, weights[i].group_bytes());
  }
  uint8_t* room = room_bytes > 0 ? scratch_bytes(call, threads * room_bytes) : nullptr;
  if (room_bytes > 0 && room == nullptr) return CLIKA_UNAVAILABLE;
  // Nanoseconds: at 16 bytes each when one token streams the weights, at 128 operations each otherwise.
  const double total = std::max(static_cast<double>(bytes) / 16.0,
                                static_cast<double>(groups * kGroup * k * 2 * m) / 128.0);
  const int64_t n = gate == Gate::kNone ? groups : weights[0].groups;
  parallel(call, n, piece(call, n, total / static_cast<double>(n)), [&](int64_t begin, int64_t end, int32_t worker) {
    uint8_t* const own = room + worker * room_bytes;
    if (gate == Gate::kNone) {
      direct_groups(begin, end, index, own);
    } else {
      direct_gated(begin, end, index, own);
    }
  });
  return CLIKA_OK;
}

// ---- many tokens
// A unit is a strip of groups of one output times a run of tiles: their sums, and the tokens' part that meets a panel,
// stay in the second-level cache. All strips of a run come before the next run: a thread has tokens of its own, which
// are in its caches from operator to operator.
Driver::Units Driver::units() const {
  constexpr int64_t kStrip = 8;
  const int64_t T = kernels.tokens;
  const int64_t G = kernels.groups;
  Units u = {};
  u.tiles = (m + T - 1) / T;
  const int64_t wanted = threads > 1 ? 4 * threads : 1;
  int64_t groups = 0;
  for (int32_t i = 0; i < outputs(); ++i) groups += weights[i].groups;
  u.strip = std::max(G, std::min(kStrip, groups / wanted / G * G));
  int64_t strips = 0;
  for (int32_t i = 0; i < outputs(); ++i) {
    strips += group_count(weights[i].groups, u.strip);
    u.ends[i] = strips;
  }
  // Runs of one length, as many for each thread. Alone, a run takes more: panels are filled once for each.
  u.runs = group_count(u.tiles, (threads > 1 ? 264 : 528) / T);
  if (u.runs > 1) u.runs = group_count(u.runs, threads) * threads;
  if (strips * u.runs < wanted) u.runs = group_count(wanted, strips);
  u.run = group_count(u.tiles, std::min(u.runs, u.tiles));
  u.runs = group_count(u.tiles, u.run);
  u.pitch = u.run * T * W;
  return u;
}

// The refined blocks of a run in the columns of a panel, part by part; how many they are.
int64_t Driver::fine_of(const PackedWeight& weight, const Units& u, int64_t run, int64_t panel, FineBlock* fine) const {
  const int64_t T = kernels.tokens;
  const int64_t halves = weight.format->halves;
  const int64_t blocks = k / kBlock;
  const int64_t tile_size = bytes_of_tile(*weight.format, T);
  const int64_t codes_bytes = static_cast<int64_t>(halves == 1 ? sizeof(FineCodes<1>) : sizeof(FineCodes<2>));
  const int64_t first = panel * kPanelParts;
  int64_t count = 0;
  for (int64_t b = first; b < std::min(blocks, first + kPanelParts); ++b) {
    for (int64_t i = run * u.run; i < u.last_tile(run); ++i) {
      const int64_t tokens = std::min(T, m - i * T);
      const int64_t bytes = act_bytes(static_cast<int>(halves), tokens);
      const uint8_t* tile = weight.tokens + i * tile_size;
      uint32_t refined;
      std::memcpy(&refined, tile + (b + 1) * bytes - 4, 4);
      for (; refined != 0; refined &= refined - 1) {
        const int t = __builtin_ctz(refined);
        FineBlock& to = fine[count++];
        to.codes = tile + blocks * bytes + (b * tokens + t) * codes_bytes;
        std::memcpy(&to.d, tile + b * bytes + tokens * kBlock + 4 * t, 4);
        to.part = static_cast<int32_t>(b - first);
        to.sums = ((i - run * u.run) * T + t) * W;
      }
    }
  }
  return count;
}

// Those of all runs and panels. False where scratch could not be had.
bool Driver::find_fine(const Units& u) {
  const int64_t panels = group_count(k / kBlock, kPanelParts);
  const int64_t room = u.run * kernels.tokens * kPanelParts;
  const int64_t lists = u.runs * panels;
  for (int32_t i = 0; i < count; ++i) {
    for (int32_t j = 0; j < i && weights[i].fine == nullptr; ++j) {
      if (weights[j].tokens != weights[i].tokens) continue;
      weights[i].fine = weights[j].fine;
      weights[i].refined = weights[j].refined;
    }
    if (weights[i].fine != nullptr) continue;
    uint8_t* memory = scratch_bytes(call, lists * (room * static_cast<int64_t>(sizeof(FineBlock)) + 4));
    if (memory == nullptr) return false;
    FineBlock* fine = reinterpret_cast<FineBlock*>(memory);
    int32_t* refined = reinterpret_cast<int32_t*>(fine + lists * room);
    parallel(call, lists, piece(call, lists, static_cast<double>(room)), [&](int64_t begin, int64_t end, int32_t) {
      for (int64_t at = begin; at < end; ++at) {
        refined[at] = static_cast<int32_t>(fine_of(weights[i], u, at / panels, at % panels, fine + at * room));
      }
    });
    weights[i].fine = fine;
    weights[i].refined = refined;
  }
  return true;
}

// Sums [group][token of a tile][row] of a strip and a run.
void Driver::panel_sums(const PackedWeight& weight, const Units& u, int64_t first_group, int64_t last_group, int64_t run,
                        float* sums, uint8_t* panels) const {
  const int64_t T = kernels.tokens;
  const int64_t G = kernels.groups;
  const IntegerFormat& format = *weight.format;
  const PanelKernel* multiply = kernels.at[format.codes][format.halves - 1][format.minimum];
  const int64_t at_once = kPanelColumns / format.columns;  // blocks
  const int64_t parts_a_block = format.columns / kBlock;
  const int64_t panel_room = kPanelParts * format.part_bytes;
  const int64_t first_tile = run * u.run;
  const RefineKernel refine = kernels.refine[format.codes][format.halves - 1][format.minimum];
  const int64_t bytes = bytes_of_tile(format, T);
  for (int64_t b = 0; b < weight.blocks; b += at_once) {
    const int64_t columns = std::min(at_once, weight.blocks - b);
    const int64_t parts = columns * parts_a_block;
    const int64_t first_part = b * parts_a_block;
    const int64_t list = run * group_count(k / kBlock, kPanelParts) + first_part / kPanelParts;
    const FineBlock* fine = weight.fine + list * u.run * T * kPanelParts;
    for (int64_t g = first_group; g < last_group; g += G) {
      for (int64_t i = 0; i < G; ++i) {
        uint8_t* panel = panels + i * parts * format.part_bytes;
        if (g + i < last_group) {
          format.fill(weight.columns(g + i, b, b + columns, panels + G * panel_room), columns, panel);
        } else {  // its sums are not written
          std::memset(panel, 0, static_cast<size_t>(parts * format.part_bytes));
        }
      }
      float* to = sums + (g - first_group) * u.pitch;
      for (int64_t i = first_tile; i < u.last_tile(run); ++i) {
        const int64_t tokens = std::min(T, m - i * T);
        const uint8_t* tile = weight.tokens + i * bytes + first_part * act_bytes(format.halves, tokens);
        multiply[tokens - 1](panels, parts, tile, to + (i - first_tile) * T * W, u.pitch);
      }
      refine(panels, parts, fine, weight.refined[list], to, u.pitch);
    }
  }
}

int32_t Driver::panels() {
  const int64_t T = kernels.tokens;
  const int64_t G = kernels.groups;
  if (!quantize(T, false)) return CLIKA_UNAVAILABLE;
  const Units u = units();
  if (!find_fine(u)) return CLIKA_UNAVAILABLE;
  const int64_t halves = gate == Gate::kNone ? 1 : 2;
  const int64_t sums_bytes = u.strip * u.pitch * static_cast<int64_t>(sizeof(float));
  int64_t panel_bytes = 0;
  for (int32_t i = 0; i < count; ++i) {
    const IntegerFormat& format = *weights[i].format;
    const int64_t repacked = weights[i].published ? kPanelColumns / format.columns * weights[i].column_bytes : 0;
    panel_bytes = std::max(panel_bytes, G * kPanelParts * format.part_bytes + repacked);
  }
  const int64_t worker_bytes = (halves * sums_bytes + panel_bytes + 63) / 64 * 64;
  uint8_t* memory = scratch_bytes(call, threads * worker_bytes);
  if (memory == nullptr) return CLIKA_UNAVAILABLE;
  const double cost = static_cast<double>(halves * u.strip * kGroup * k * 2) *
                      static_cast<double>(std::min(m, u.run * T)) / 128.0;
  const int64_t strips = u.ends[outputs() - 1];
  const int64_t n = strips * u.runs;
  parallel(call, n, piece(call, n, cost), [&](int64_t begin, int64_t end, int32_t worker) {
    uint8_t* own = memory + worker * worker_bytes;
    float* sums = reinterpret_cast<float*>(own);
    uint8_t* room = own + halves * sums_bytes;
    float* second = sums + u.strip * u.pitch;
    for (int64_t at = begin; at < end; ++at) {
      const int64_t strip = at % strips;
      int32_t i = 0;
      while (strip >= u.ends[i]) ++i;
      const int64_t first_group = (strip - (i == 0 ? 0 : u.ends[i - 1])) * u.strip;
      const int64_t last_group = std::min(weights[i].groups, first_group + u.strip);
      const int64_t run = at / strips;
      std::memset(sums, 0, static_cast<size_t>(halves * sums_bytes));
      panel_sums(weights[i], u, first_group, last_group, run, sums, room);
      if (gate != Gate::kNone) panel_sums(weights[1], u, first_group, last_group, run, second, room);
      const Linear& p = products[i];
      const int64_t first_token = run * u.run * T;
      const int64_t last_token = std::min(m, u.last_tile(run) * T);
      for (int64_t t = first_token; t < last_token; ++t) {
        const float* from = sums + (t - first_token) * W;
        const float* other = second + (t - first_token) * W;
        for (int64_t g = first_group; g < last_group; ++g, from += u.pitch, other += u.pitch) {
          vf value = with_bias(p, g, load(from));
          if (gate != Gate::kNone) value = gated(gate, value, with_bias(products[1], g, load(other)));
          put(p, t, g, value);
        }
      }
    }
  });
  return CLIKA_OK;
}

}  // namespace
int32_t run_integer(const clika_call* call, const Linear* products, const IntegerFormat* const* formats, int32_t count,
                    Gate gate) {
  Driver driver(call, products, formats, count, gate);
  return products[0].m <= kDirectTokens ? driver.direct() : driver.panels();
}
// No kernels of an operator here, so the macro of level.hpp does not fit: its array may not be empty.
extern const KernelFile file_linear_integer;
CLIKA_CONSTINIT const KernelFile file_linear_integer = {nullptr, 0, nullptr};
namespace {
#include "level_end.hpp"
