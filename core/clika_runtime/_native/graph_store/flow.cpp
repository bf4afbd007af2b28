// The cheapest cut through a graph's values, by maximum flow.
#include <algorithm>
#include <numeric>

#include "queries.hpp"

namespace clika::graph {

namespace {

// Maximum flow (Dinic, 1970), without recursion.
class Flow {
 public:
  explicit Flow(int32_t vertices) : arcs_of_(vertices) {}
  void add(int32_t from, int32_t to, int64_t capacity) {
    arcs_of_[from].push_back(static_cast<int32_t>(arcs_.size()));
    arcs_.push_back({to, capacity});
    arcs_of_[to].push_back(static_cast<int32_t>(arcs_.size()));
    arcs_.push_back({from, 0});
  }
  int64_t run(int32_t source, int32_t sink) {
    int64_t total = 0;
    while (measure(source)[sink] >= 0) {
      next_.assign(arcs_of_.size(), 0);
      total += block(source, sink);
    }
    return total;
  }
  // Steps from the source over arcs with capacity left; -1: out of reach.
  const std::vector<int32_t>& measure(int32_t source) {
    steps_.assign(arcs_of_.size(), -1);
    steps_[source] = 0;
    std::vector<int32_t> open{source};
    for (size_t i = 0; i < open.size(); ++i) {
      for (int32_t arc : arcs_of_[open[i]]) {
        if (arcs_[arc].left == 0 || steps_[arcs_[arc].to] >= 0) continue;
        steps_[arcs_[arc].to] = steps_[open[i]] + 1;
        open.push_back(arcs_[arc].to);
      }
    }
    return steps_;
  }

 private:
  struct Arc {
    int32_t to;
    int64_t left;
  };
  // Fills every shortest way to the sink.
  int64_t block(int32_t source, int32_t sink) {
    int64_t total = 0;
    std::vector<int32_t> way;
    while (true) {
      const int32_t at = way.empty() ? source : arcs_[way.back()].to;
      if (at == sink) {
        int64_t least = arcs_[way[0]].left;
        for (int32_t arc : way) least = std::min(least, arcs_[arc].left);
        total += least;
        size_t full = way.size();
        for (size_t i = way.size(); i-- > 0;) {
          arcs_[way[i]].left -= least;
          arcs_[way[i] ^ 1].left += least;
          if (arcs_[way[i]].left == 0) full = i;
        }
        way.resize(full);  // on from before the first arc that is full now
        continue;
      }
      auto& next = next_[at];
      const auto& arcs = arcs_of_[at];
      const auto goes_on = [&](const Arc& arc) { return arc.left > 0 && steps_[arc.to] == steps_[at] + 1; };
      while (next < arcs.size() && !goes_on(arcs_[arcs[next]])) ++next;
      if (next < arcs.size()) {
        way.push_back(arcs[next]);
      } else if (way.empty()) {
        return total;
      } else {
        way.pop_back();
        ++next_[way.empty() ? source : arcs_[way.back()].to];
      }
    }
  }

  std::vector<Arc> arcs_;  // an arc and its reverse stand side by side
  std::vector<std::vector<int32_t>> arcs_of_;
  std::vector<int32_t> steps_;
  std::vector<size_t> next_;
};

}  // namespace

MinCut min_value_cut(const Structure& s, const Store& store, const std::vector<int64_t>& bytes,
                     const std::vector<int32_t>& before, const std::vector<int32_t>& after) {
  std::vector<int32_t> values;  // that nodes make
  for (int32_t id : s.nodes) {
    for (int32_t value : store.nodes()[id].outputs) values.push_back(value);
  }
  int64_t any = 1;  // no cut costs as much
  for (int32_t value : values) any += bytes[value];
  std::vector<uint8_t> returned(store.values().size(), 0), pinned(s.size(), 0);
  for (const Output& output : store.outputs()) returned[output.value] = 1;
  for (int32_t at : after) pinned[at] = 1;

  // Vertices: the nodes, the values, a source and a sink. The source's side is the first part: a value is cut
  // where its maker is on that side and it is handed over; a node pulls what it reads to its side.
  const auto nodes = s.size();
  const auto source = static_cast<int32_t>(nodes + values.size()), sink = source + 1;
  Flow flow(sink + 1);
  for (int32_t at = 0; at < nodes; ++at) {
    if (s.is_input[at] && !pinned[at]) flow.add(source, at, any);
  }
  for (int32_t at : before) flow.add(source, at, any);
  for (int32_t at : after) flow.add(at, sink, any);
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = store.values()[values[i]];
    const auto vertex = static_cast<int32_t>(nodes + i);
    flow.add(s.position[value.node], vertex, bytes[values[i]]);
    if (returned[values[i]]) flow.add(vertex, sink, any);
    for (const Use& use : value.uses) {
      flow.add(vertex, s.position[use.node], any);
      flow.add(s.position[use.node], s.position[value.node], any);
    }
  }
  MinCut cut;
  cut.bytes = flow.run(source, sink);
  const std::vector<int32_t>& steps = flow.measure(source);
  for (int32_t id : values) {
    const Value& value = store.values()[id];
    if (steps[s.position[value.node]] < 0) continue;
    const bool read_after = std::any_of(value.uses.begin(), value.uses.end(),
                                        [&](const Use& use) { return steps[s.position[use.node]] < 0; });
    if (read_after || returned[id]) cut.values.push_back(id);
  }
  return cut;
}

}  // namespace clika::graph
