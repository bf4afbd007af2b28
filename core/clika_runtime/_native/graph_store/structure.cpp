#include "structure.hpp"

#include <algorithm>
#include <functional>
#include <queue>

namespace clika::graph {

Structure::Structure(const Store& store) : version(store.version()) {
  const auto& all = store.nodes();
  position.assign(all.size(), -1);
  nodes.reserve(store.alive_nodes());
  std::vector<int32_t> waits(all.size(), 0);
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<int32_t>> ready;
  const auto producer = [&](int32_t value) { return value < 0 ? -1 : store.values()[value].node; };
  // Inputs come first, in the graph's own order.
  for (int32_t input : store.inputs()) {
    position[input] = static_cast<int32_t>(nodes.size());
    nodes.push_back(input);
  }
  for (size_t id = 0; id < all.size(); ++id) {
    if (!all[id].alive || all[id].is_input()) continue;
    for (int32_t value : all[id].inputs) {
      const int32_t from = producer(value);
      waits[id] += from >= 0 && !all[from].is_input();
    }
    if (waits[id] == 0) ready.push(static_cast<int32_t>(id));
  }
  while (!ready.empty()) {
    const int32_t id = ready.top();
    ready.pop();
    position[id] = static_cast<int32_t>(nodes.size());
    nodes.push_back(id);
    for (int32_t value : all[id].outputs) {
      for (const Use& use : store.values()[value].uses) {
        if (--waits[use.node] == 0) ready.push(use.node);
      }
    }
  }
  acyclic = nodes.size() == store.alive_nodes();
  for (size_t id = 0; id < all.size() && !acyclic; ++id) {
    if (!all[id].alive || position[id] >= 0) continue;
    position[id] = static_cast<int32_t>(nodes.size());
    nodes.push_back(static_cast<int32_t>(id));
  }

  const int32_t n = size();
  is_input.assign(n, 0);
  returns.assign(n, 0);
  in_start.assign(n + 1, 0);
  out_start.assign(n + 1, 0);
  for (int32_t at = 0; at < n; ++at) {
    const Node& node = all[nodes[at]];
    is_input[at] = node.is_input();
    in_start[at] = static_cast<int32_t>(edges.size());
    for (size_t port = 0; port < node.inputs.size(); ++port) {
      const int32_t value = node.inputs[port];
      const int32_t from = producer(value);
      if (from < 0) continue;
      edges.push_back({position[from], store.values()[value].port, at, static_cast<int32_t>(port), value});
      ++out_start[position[from] + 1];
    }
  }
  in_start[n] = static_cast<int32_t>(edges.size());
  for (int32_t at = 0; at < n; ++at) out_start[at + 1] += out_start[at];
  out_edges.resize(edges.size());
  std::vector<int32_t> next(out_start);
  for (size_t e = 0; e < edges.size(); ++e) out_edges[next[edges[e].src]++] = static_cast<int32_t>(e);
  for (int32_t at = 0; at < n; ++at) {
    std::stable_sort(out_edges.begin() + out_start[at], out_edges.begin() + out_start[at + 1],
                     [&](int32_t a, int32_t b) { return edges[a].src_port < edges[b].src_port; });
  }
  for (const Output& output : store.outputs()) {
    const int32_t from = producer(output.value);
    if (from >= 0) returns[position[from]] = 1;
  }
}

std::vector<int32_t> Structure::predecessors(int32_t at) const {
  std::vector<int32_t> found;
  for (int32_t e = in_start[at]; e < in_start[at + 1]; ++e) found.push_back(edges[e].src);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::vector<int32_t> Structure::successors(int32_t at) const {
  std::vector<int32_t> found;
  for (int32_t e = out_start[at]; e < out_start[at + 1]; ++e) found.push_back(edges[out_edges[e]].dst);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace clika::graph
