// Paths between two nodes, and the path that costs the least or the most.
#include <algorithm>
#include <stdexcept>

#include "queries.hpp"

namespace clika::graph {

PathGraph path_graph(const Structure& s, int32_t from, int32_t to, const PathOptions& options,
                     bool parallel) {
  PathGraph graph;
  graph.cutoff = options.cutoff;
  const auto avoided = [&](int32_t at) { return !options.avoid.empty() && options.avoid[at]; };
  if (from > to || avoided(from) || avoided(to)) return graph;
  // Nodes between the two that reach the end; then, from the start on, the edges that the filter lets
  // through; then what of them reaches the end.
  const int32_t count = to - from + 1;
  std::vector<uint8_t> leads(count, 0), reached(count, 0);
  std::vector<int32_t> last_from(parallel ? 0 : count, -1);
  leads[to - from] = 1;
  const auto lead_back = [&](int32_t src, int32_t dst) {
    if (src >= from && !avoided(src)) leads[src - from] |= leads[dst - from];
  };
  for (int32_t e = s.in_start[to + 1]; e-- > s.in_start[from];) lead_back(s.edges[e].src, s.edges[e].dst);
  std::vector<int32_t> taken;  // by source
  reached[0] = leads[0];
  for (int32_t at = from; at < to; ++at) {
    if (!reached[at - from]) continue;
    for (int32_t i = s.out_start[at]; i < s.out_start[at + 1]; ++i) {
      const int32_t edge = s.out_edges[i], reader = s.edges[edge].dst;
      if (reader > to || !leads[reader - from]) continue;
      if (!parallel && last_from[reader - from] == at) continue;
      if (!options.edge_filter(edge, 1)) continue;
      if (!parallel) last_from[reader - from] = at;
      reached[reader - from] = 1;
      taken.push_back(edge);
    }
  }
  std::fill(leads.begin(), leads.end(), 0);
  leads[to - from] = reached[to - from];
  for (size_t i = taken.size(); i-- > 0;) lead_back(s.edges[taken[i]].src, s.edges[taken[i]].dst);
  if (!leads[0]) return graph;

  std::vector<int32_t> index(count, -1);
  for (int32_t at = from; at <= to; ++at) {
    if (!leads[at - from] || !reached[at - from]) continue;
    index[at - from] = static_cast<int32_t>(graph.nodes.size());
    graph.nodes.push_back(at);
  }
  graph.start.assign(graph.nodes.size() + 1, 0);
  for (int32_t edge : taken) {
    if (index[s.edges[edge].dst - from] < 0) continue;
    graph.edges.push_back(edge);
    graph.target.push_back(index[s.edges[edge].dst - from]);
    ++graph.start[index[s.edges[edge].src - from] + 1];
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) graph.start[i + 1] += graph.start[i];
  graph.to_end.assign(graph.nodes.size(), 0);
  for (int32_t i = static_cast<int32_t>(graph.nodes.size()) - 2; i >= 0; --i) {
    int32_t fewest = graph.to_end[graph.target[graph.start[i]]];
    for (int32_t e = graph.start[i]; e < graph.start[i + 1]; ++e) {
      fewest = std::min(fewest, graph.to_end[graph.target[e]]);
    }
    graph.to_end[i] = fewest + 1;
  }
  if (graph.cutoff >= 0 && graph.to_end[0] > graph.cutoff) return PathGraph();
  return graph;
}

int64_t longest_path(const PathGraph& graph) {
  std::vector<int32_t> longest(graph.nodes.size(), 0);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (int32_t e = graph.start[i]; e < graph.start[i + 1]; ++e) {
      longest[graph.target[e]] = std::max(longest[graph.target[e]], longest[i] + 1);
    }
  }
  return graph.empty() ? 0 : longest.back();
}

std::vector<int32_t> shortest_path(const PathGraph& graph) {
  std::vector<int32_t> path;
  if (graph.empty()) return path;
  for (int32_t at = 0; graph.to_end[at] > 0; at = graph.target[path.back()]) {
    int32_t e = graph.start[at];
    while (graph.to_end[graph.target[e]] != graph.to_end[at] - 1) ++e;
    path.push_back(e);
  }
  return path;
}

bool has_more_paths(const PathGraph& graph, int64_t limit) {
  if (graph.empty()) return false;
  std::vector<int64_t> paths(graph.nodes.size(), 0);  // from the source, up to limit + 1
  paths[0] = 1;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (int32_t e = graph.start[i]; e < graph.start[i + 1]; ++e) {
      paths[graph.target[e]] = std::min(limit + 1, paths[graph.target[e]] + paths[i]);
    }
  }
  if (paths.back() <= limit) return false;
  if (graph.cutoff < 0 || longest_path(graph) <= graph.cutoff) return true;
  PathSearch search(graph);  // the cutoff leaves some of them out
  std::vector<int32_t> path;
  int64_t found = 0;
  while (found <= limit && search.next(&path)) ++found;
  return found > limit;
}

bool PathSearch::next(std::vector<int32_t>* path) {
  path->clear();
  if (!started_) {
    started_ = true;
    if (graph_.nodes.size() == 1) return true;
    if (!graph_.empty()) untried_.push_back(graph_.start[0]);
  }
  const auto last = static_cast<int32_t>(graph_.nodes.size()) - 1;
  while (!untried_.empty()) {
    const int32_t at = taken_.empty() ? 0 : graph_.target[taken_.back()];
    if (untried_.back() == graph_.start[at + 1]) {
      untried_.pop_back();
      if (!taken_.empty()) taken_.pop_back();
      continue;
    }
    const int32_t e = untried_.back()++;
    const int32_t far = graph_.target[e];
    const auto edges = static_cast<int64_t>(taken_.size()) + 1 + graph_.to_end[far];
    if (graph_.cutoff >= 0 && edges > graph_.cutoff) continue;
    taken_.push_back(e);
    if (far == last) {
      *path = taken_;
      taken_.pop_back();
      return true;
    }
    untried_.push_back(graph_.start[far]);
  }
  return false;
}

CostedPath cheapest_path(const PathGraph& graph, const std::vector<double>& costs, size_t most) {
  CostedPath path;
  if (graph.empty()) return path;
  const auto count = static_cast<int32_t>(graph.nodes.size());
  const bool bound = graph.cutoff >= 0 && longest_path(graph) > graph.cutoff;
  struct Way {
    int32_t length;  // edges from the source
    double cost;
    int32_t edge;  // the last one
    int64_t from;  // the way before it
  };
  std::vector<Way> ways{{0, 0.0, -1, -1}};
  std::vector<int64_t> first(count + 1, 0);  // ways to node i: [first[i], first[i + 1])
  std::vector<int32_t> in_start(count + 1, 0), in_edges(graph.edges.size()), source(graph.edges.size());
  for (int32_t far : graph.target) ++in_start[far + 1];
  for (int32_t i = 0; i < count; ++i) in_start[i + 1] += in_start[i];
  std::vector<int32_t> next(in_start);
  for (int32_t i = 0; i < count; ++i) {
    for (int32_t e = graph.start[i]; e < graph.start[i + 1]; ++e) {
      source[e] = i;
      in_edges[next[graph.target[e]]++] = e;
    }
  }
  first[1] = 1;
  std::vector<Way> offered;
  for (int32_t i = 1; i < count; ++i) {
    offered.clear();
    for (int32_t k = in_start[i]; k < in_start[i + 1]; ++k) {
      const int32_t e = in_edges[k];
      for (int64_t w = first[source[e]]; w < first[source[e] + 1]; ++w) {
        if (bound && ways[w].length + 1 + graph.to_end[i] > graph.cutoff) continue;
        offered.push_back({ways[w].length + 1, ways[w].cost + costs[e], e, w});
      }
    }
    // Cheapest first, and of equals the shortest; a dearer way is kept where it is shorter and length
    // matters.
    std::stable_sort(offered.begin(), offered.end(), [](const Way& a, const Way& b) {
      return a.cost != b.cost ? a.cost < b.cost : a.length < b.length;
    });
    for (const Way& way : offered) {
      if (static_cast<int64_t>(ways.size()) == first[i] || (bound && way.length < ways.back().length)) {
        ways.push_back(way);
      }
    }
    if (ways.size() > most) throw std::overflow_error("cheapest_path");
    first[i + 1] = static_cast<int64_t>(ways.size());
  }
  if (first[count - 1] == first[count]) return path;
  path.found = true;
  path.cost = ways[first[count - 1]].cost;
  path.nodes.push_back(graph.nodes[count - 1]);
  for (int64_t w = first[count - 1]; ways[w].edge >= 0; w = ways[w].from) {
    path.edges.push_back(graph.edges[ways[w].edge]);
    path.nodes.push_back(graph.nodes[source[ways[w].edge]]);
  }
  std::reverse(path.nodes.begin(), path.nodes.end());
  std::reverse(path.edges.begin(), path.edges.end());
  return path;
}

CostedPath critical_path(const Structure& s, const std::vector<double>& node_costs,
                         const std::vector<double>& edge_costs) {
  CostedPath path;
  if (s.size() == 0) return path;
  std::vector<double> cost(s.size());
  std::vector<int32_t> before(s.size(), -1);  // the edge a path comes by; -1: it starts here
  int32_t last = 0;
  for (int32_t at = 0; at < s.size(); ++at) {
    double best = 0;
    for (int32_t e = s.in_start[at]; e < s.in_start[at + 1]; ++e) {
      const double sum = cost[s.edges[e].src] + (edge_costs.empty() ? 0 : edge_costs[e]);
      if (sum > best || (sum == best && before[at] < 0)) {
        best = sum;
        before[at] = e;
      }
    }
    cost[at] = best + node_costs[at];
    if (cost[at] > cost[last]) last = at;
  }
  path.found = true;
  path.cost = cost[last];
  path.nodes.push_back(last);
  for (int32_t e = before[last]; e >= 0; e = before[s.edges[e].src]) {
    path.edges.push_back(e);
    path.nodes.push_back(s.edges[e].src);
  }
  std::reverse(path.nodes.begin(), path.nodes.end());
  std::reverse(path.edges.begin(), path.edges.end());
  return path;
}

}  // namespace clika::graph
