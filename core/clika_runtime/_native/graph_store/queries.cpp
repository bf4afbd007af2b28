#include "queries.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <set>
#include <stdexcept>
#include <tuple>

namespace clika::graph {

namespace {

// The edges that a walk may take from a node, in its order.
class Edges {
 public:
  Edges(const Structure& s, bool backward) : s_(s), backward_(backward) {}
  int32_t begin(int32_t at) const { return backward_ ? s_.in_start[at] : s_.out_start[at]; }
  int32_t end(int32_t at) const { return backward_ ? s_.in_start[at + 1] : s_.out_start[at + 1]; }
  int32_t edge(int32_t i) const { return backward_ ? i : s_.out_edges[i]; }
  int32_t far(int32_t edge) const { return backward_ ? s_.edges[edge].src : s_.edges[edge].dst; }

 private:
  const Structure& s_;
  bool backward_;
};

std::vector<uint8_t> marks(const Structure& s, const std::vector<int32_t>& nodes) {
  std::vector<uint8_t> marked(s.size(), 0);
  for (int32_t at : nodes) marked[at] = 1;
  return marked;
}

// Which nodes some input reaches.
std::vector<uint8_t> reached_from_inputs(const Structure& s) {
  std::vector<uint8_t> reached(s.is_input);
  for (const Edge& edge : s.edges) reached[edge.dst] |= reached[edge.src];  // by dst, so sources are settled
  return reached;
}

// Which nodes reach a returned value.
std::vector<uint8_t> leads_to_outputs(const Structure& s) {
  std::vector<uint8_t> leads(s.returns);
  for (size_t e = s.edges.size(); e-- > 0;) leads[s.edges[e].src] |= leads[s.edges[e].dst];
  return leads;
}

// A tree that grows by leaves, with the last common ancestor in logarithmic time: besides its parent each
// node knows one ancestor further up, at distances that grow like a skew-binary number (Myers, "An
// applicative random-access stack", 1983).
class Tree {
 public:
  Tree(int32_t size, int32_t root) : parent_(size, root), jump_(size, root), depth_(size, 0) {}
  int32_t parent(int32_t at) const { return parent_[at]; }
  void add(int32_t at, int32_t parent) {
    parent_[at] = parent;
    depth_[at] = depth_[parent] + 1;
    const int32_t up = jump_[parent];
    jump_[at] = depth_[parent] - depth_[up] == depth_[up] - depth_[jump_[up]] ? jump_[up] : parent;
  }
  int32_t meet(int32_t a, int32_t b) const {
    if (depth_[a] < depth_[b]) std::swap(a, b);
    while (depth_[a] > depth_[b]) a = depth_[jump_[a]] >= depth_[b] ? jump_[a] : parent_[a];
    while (a != b) {
      const bool far = jump_[a] != jump_[b];  // equal depths have jumps of equal length
      a = far ? jump_[a] : parent_[a];
      b = far ? jump_[b] : parent_[b];
    }
    return a;
  }

 private:
  std::vector<int32_t> parent_, jump_, depth_;
};

// What an order of the nodes holds in memory: bytes by value whose buffer is its own, and who reads it.
class Liveness {
 public:
  Liveness(const Structure& s, const Store& store, const std::vector<int64_t>& bytes)
      : left(store.values().size(), 0), readers(store.values().size(), 0), store_(store), bytes_(bytes) {
    const auto& values = store.values();
    held_.assign(values.size(), 0);
    for (const Output& output : store.outputs()) held_[root(output.value)] = 1;
    reads.resize(s.size());
    for (int32_t at = 0; at < s.size(); ++at) {
      for (int32_t value : store.nodes()[s.nodes[at]].inputs) {
        if (value >= 0 && owned(root(value))) reads[at].push_back(root(value));
      }
      std::sort(reads[at].begin(), reads[at].end());
      reads[at].erase(std::unique(reads[at].begin(), reads[at].end()), reads[at].end());
      for (int32_t value : reads[at]) {
        ++left[value];
        readers[value] ^= at;
      }
    }
  }
  // The value whose buffer this one is in.
  int32_t root(int32_t value) const {
    while (store_.values()[value].alias >= 0) value = store_.values()[value].alias;
    return value;
  }
  // Bytes that a node of the store adds while it runs, and those it adds for longer.
  std::pair<int64_t, int64_t> made(int32_t id) const {
    int64_t all = 0, kept = 0;
    if (store_.nodes()[id].is_input()) return {0, 0};
    for (int32_t value : store_.nodes()[id].outputs) {
      if (root(value) != value) continue;
      all += bytes_[value];
      if (held_[value] || left[value] > 0) kept += bytes_[value];
    }
    return {all, kept};
  }
  int64_t freed(int32_t at) const {
    int64_t sum = 0;
    for (int32_t value : reads[at]) sum += left[value] == 1 && !held_[value] ? bytes_[value] : 0;
    return sum;
  }

  std::vector<int32_t> left;     // nodes that have yet to read a value
  std::vector<int32_t> readers;  // their positions, xor
  std::vector<std::vector<int32_t>> reads;  // by position: roots, each once

 private:
  // The graph's own: neither a constant nor an input's.
  bool owned(int32_t value) const {
    const int32_t node = store_.values()[value].node;
    return node >= 0 && !store_.nodes()[node].is_input();
  }
  const Store& store_;
  const std::vector<int64_t>& bytes_;
  std::vector<uint8_t> held_;
};

std::vector<int32_t> in_degrees(const Structure& s) {
  std::vector<int32_t> waits(s.size());
  for (int32_t at = 0; at < s.size(); ++at) waits[at] = s.in_start[at + 1] - s.in_start[at];
  return waits;
}

// Counts a placed node's edges off; calls `ready` with the nodes that can run now.
template <typename Ready>
void place(const Structure& s, int32_t at, std::vector<int32_t>* waits, Ready ready) {
  for (int32_t i = s.out_start[at]; i < s.out_start[at + 1]; ++i) {
    const int32_t reader = s.edges[s.out_edges[i]].dst;
    if (--(*waits)[reader] == 0) ready(reader);
  }
}

}  // namespace

std::vector<int64_t> value_bytes(const Store& store, const std::vector<int32_t>& bits) {
  constexpr int64_t kMost = INT64_MAX / 2;
  std::vector<int64_t> bytes;
  int64_t sum = 0;
  for (const Value& value : store.values()) {
    const bool empty = !value.alive || std::count(value.shape, value.shape + value.rank, 0) > 0;
    int64_t count = empty ? 0 : 1;
    for (int32_t d = 0; d < value.rank; ++d) {
      const int64_t size = std::max<int64_t>(value.shape[d], 1);
      if (count > kMost / 64 / size) throw std::overflow_error("value_bytes");
      count *= size;
    }
    bytes.push_back((count * bits[value.dtype] + 7) / 8);
    if (bytes.back() > kMost - sum) throw std::overflow_error("value_bytes");
    sum += bytes.back();
  }
  return bytes;
}

// ---- walks

std::vector<int32_t> breadth_first(const Structure& s, int32_t start, const WalkOptions& options) {
  const Edges edges(s, options.backward);
  std::vector<int32_t> found;  // the queue too: its first `next` nodes are done
  if (options.max_nodes == 0) return found;
  std::vector<uint8_t> seen(s.size(), 0);
  seen[start] = 1;
  found.push_back(start);
  int64_t depth = 0;
  size_t level_end = 1;
  for (size_t next = 0; next < found.size(); ++next) {
    if (next == level_end) {
      ++depth;
      level_end = found.size();
    }
    const int32_t at = found[next];
    const int action = options.visit(at, kContinue);
    const bool full = options.max_nodes >= 0 && static_cast<int64_t>(next) + 1 >= options.max_nodes;
    if (action == kStop || full) {
      found.resize(next + 1);
      break;
    }
    if (action == kPrune || depth == options.max_depth) continue;
    for (int32_t i = edges.begin(at); i < edges.end(at); ++i) {
      const int32_t edge = edges.edge(i), far = edges.far(edge);
      if (seen[far] || !options.edge_filter(edge, 1)) continue;
      seen[far] = 1;
      found.push_back(far);
    }
  }
  return found;
}

// ---- orders

std::vector<int32_t> structural_order(const Structure& s, const Store& store) {
  std::vector<int32_t> order, place_of(s.size(), -1);
  const auto take = [&](int32_t at) {
    place_of[at] = static_cast<int32_t>(order.size());
    order.push_back(at);
  };
  for (int32_t at = 0; at < s.size(); ++at) {
    if (s.is_input[at]) take(at);
  }
  std::vector<std::pair<int32_t, int32_t>> way;  // a node and its next edge
  for (const Output& output : store.outputs()) {
    const int32_t last = store.values()[output.value].node;
    if (last < 0 || place_of[s.position[last]] >= 0) continue;
    way.push_back({s.position[last], s.in_start[s.position[last]]});
    while (!way.empty()) {
      auto& [at, edge] = way.back();
      while (edge < s.in_start[at + 1] && place_of[s.edges[edge].src] >= 0) ++edge;
      if (edge == s.in_start[at + 1]) {
        take(at);
        way.pop_back();
      } else {
        const int32_t from = s.edges[edge].src;
        way.push_back({from, s.in_start[from]});
      }
    }
  }
  // What reaches no output: by operator, by the places of what is read, by name.
  using Key = std::tuple<std::string, std::vector<std::pair<int32_t, int32_t>>, std::string, int32_t>;
  std::set<Key> ready;
  std::vector<int32_t> waits(s.size(), 0);
  const auto offer = [&](int32_t at) {
    const Node& node = store.nodes()[s.nodes[at]];
    std::vector<std::pair<int32_t, int32_t>> reads;
    for (int32_t e = s.in_start[at]; e < s.in_start[at + 1]; ++e) {
      reads.push_back({place_of[s.edges[e].src], s.edges[e].src_port});
    }
    ready.insert({node.op, std::move(reads), node.name, at});
  };
  for (int32_t at = 0; at < s.size(); ++at) {
    if (place_of[at] >= 0) continue;
    for (int32_t e = s.in_start[at]; e < s.in_start[at + 1]; ++e) waits[at] += place_of[s.edges[e].src] < 0;
    if (waits[at] == 0) offer(at);
  }
  while (!ready.empty()) {
    const int32_t at = std::get<3>(*ready.begin());
    ready.erase(ready.begin());
    take(at);
    place(s, at, &waits, offer);
  }
  return order;
}

int64_t peak_bytes(const Structure& s, const Store& store, const std::vector<int64_t>& bytes,
                   const std::vector<int32_t>& order) {
  Liveness live(s, store, bytes);
  int64_t now = 0, peak = 0;
  for (int32_t at : order) {
    const auto [all, kept] = live.made(s.nodes[at]);
    peak = std::max(peak, now + all);
    now += kept - live.freed(at);
    for (int32_t value : live.reads[at]) --live.left[value];
  }
  return peak;
}

std::vector<int32_t> min_memory_order(const Structure& s, const Store& store,
                                      const std::vector<int64_t>& bytes) {
  Liveness live(s, store, bytes);
  std::vector<int32_t> order, waits = in_degrees(s);
  std::vector<int64_t> growth(s.size(), 0);
  std::vector<uint8_t> can_run(s.size(), 0), done(s.size(), 0);
  using Entry = std::pair<int64_t, int32_t>;  // bytes that running a node adds, its position
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
  const auto offer = [&](int32_t at) {
    can_run[at] = 1;
    growth[at] = live.made(s.nodes[at]).second - live.freed(at);
    ready.push({growth[at], at});
  };
  const auto take = [&](int32_t at) {
    done[at] = 1;
    order.push_back(at);
    for (int32_t value : live.reads[at]) {
      live.readers[value] ^= at;
      if (--live.left[value] != 1) continue;
      const int32_t last = live.readers[value];  // it frees the value now
      if (can_run[last]) offer(last);
    }
    place(s, at, &waits, offer);
  };
  for (int32_t at = 0; at < s.size(); ++at) {
    if (!s.is_input[at] && waits[at] == 0) offer(at);
  }
  for (int32_t at = 0; at < s.size(); ++at) {
    if (s.is_input[at]) take(at);
  }
  while (!ready.empty()) {
    const auto [grows, at] = ready.top();
    ready.pop();
    if (!done[at] && grows == growth[at]) take(at);
  }
  std::vector<int32_t> made(s.size());
  std::iota(made.begin(), made.end(), 0);
  return peak_bytes(s, store, bytes, made) < peak_bytes(s, store, bytes, order) ? made : order;
}

std::vector<int32_t> random_order(const Structure& s, uint64_t seed) {
  std::vector<int32_t> order, ready, waits = in_degrees(s);
  for (int32_t at = 0; at < s.size(); ++at) {
    if (waits[at] == 0) ready.push_back(at);
  }
  while (!ready.empty()) {
    // SplitMix64 (Steele, Lea and Flood, 2014); the upper half times the count gives the draw.
    uint64_t z = seed += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    const size_t drawn = static_cast<size_t>(((z >> 32) * ready.size()) >> 32);
    const int32_t at = ready[drawn];
    ready[drawn] = ready.back();
    ready.pop_back();
    order.push_back(at);
    place(s, at, &waits, [&](int32_t reader) { ready.push_back(reader); });
  }
  return order;
}

bool is_order(const Structure& s, const std::vector<int32_t>& order) {
  if (order.size() != s.nodes.size()) return false;
  std::vector<uint8_t> placed(s.size(), 0);
  for (int32_t at : order) {
    if (placed[at]) return false;
    for (int32_t e = s.in_start[at]; e < s.in_start[at + 1]; ++e) {
      if (!placed[s.edges[e].src]) return false;
    }
    placed[at] = 1;
  }
  return true;
}

std::vector<int32_t> depths(const Structure& s) {
  std::vector<int32_t> depth(s.size(), 0);
  for (const Edge& edge : s.edges) depth[edge.dst] = std::max(depth[edge.dst], depth[edge.src] + 1);
  return depth;
}

// ---- structure

std::vector<int32_t> find_cycle(const Structure& s) {
  if (s.acyclic) return {};
  std::vector<int32_t> ready, waits = in_degrees(s);
  for (int32_t at = 0; at < s.size(); ++at) {
    if (waits[at] == 0) ready.push_back(at);
  }
  while (!ready.empty()) {
    const int32_t at = ready.back();
    ready.pop_back();
    place(s, at, &waits, [&](int32_t reader) { ready.push_back(reader); });
  }
  // A node that still waits reads another one that does: going back ends in a circle.
  std::vector<int32_t> way, step(s.size(), -1);
  int32_t at = 0;
  while (waits[at] == 0) ++at;
  while (step[at] < 0) {
    step[at] = static_cast<int32_t>(way.size());
    way.push_back(at);
    int32_t e = s.in_start[at];
    while (waits[s.edges[e].src] == 0) ++e;
    at = s.edges[e].src;
  }
  way.erase(way.begin(), way.begin() + step[at]);
  std::reverse(way.begin(), way.end());
  return way;
}

bool reaches(const Structure& s, int32_t from, int32_t to) {
  std::vector<uint8_t> seen(s.size(), 0);
  std::vector<int32_t> open{from};
  seen[from] = 1;
  while (!open.empty()) {
    const int32_t at = open.back();
    open.pop_back();
    if (at == to) return true;
    for (int32_t i = s.out_start[at]; i < s.out_start[at + 1]; ++i) {
      const int32_t reader = s.edges[s.out_edges[i]].dst;
      if (seen[reader] || (s.acyclic && reader > to)) continue;
      seen[reader] = 1;
      open.push_back(reader);
    }
  }
  return false;
}

std::vector<int32_t> components(const Structure& s) {
  std::vector<int32_t> leader(s.size());
  std::iota(leader.begin(), leader.end(), 0);
  const auto find = [&](int32_t at) {
    while (leader[at] != at) at = leader[at] = leader[leader[at]];
    return at;
  };
  for (const Edge& edge : s.edges) {
    const int32_t a = find(edge.src), b = find(edge.dst);
    leader[std::max(a, b)] = std::min(a, b);
  }
  std::vector<int32_t> component(s.size());
  int32_t count = 0;
  for (int32_t at = 0; at < s.size(); ++at) {
    const int32_t first = find(at);
    component[at] = first == at ? count++ : component[first];
  }
  return component;
}

std::vector<int32_t> dominators(const Structure& s) {
  const std::vector<uint8_t> reached = reached_from_inputs(s);
  const int32_t root = s.size();
  Tree tree(root + 1, root);
  std::vector<int32_t> found(s.size());
  for (int32_t at = 0; at < s.size(); ++at) {
    int32_t last = -1;
    for (int32_t e = s.in_start[at]; e < s.in_start[at + 1]; ++e) {
      const int32_t from = s.edges[e].src;
      if (reached[at] && !reached[from]) continue;  // on no path from an input
      last = last < 0 ? from : tree.meet(last, from);
    }
    if (last < 0) last = root;
    tree.add(at, last);
    found[at] = last == root ? at : last;
  }
  return found;
}

std::vector<int32_t> split_points(const Structure& s) {
  const std::vector<uint8_t> reached = reached_from_inputs(s), leads = leads_to_outputs(s);
  std::vector<int32_t> found;
  int32_t far = -1;  // where the longest edge so far ends; the outputs stand behind the last node
  for (int32_t at = 0; at < s.size(); ++at) {
    if (s.is_input[at] && leads[at]) far = at;
  }
  for (int32_t at = 0; at < s.size(); ++at) {
    if (!reached[at] || !leads[at]) continue;
    if (far <= at) found.push_back(at);  // no edge goes past it
    if (s.returns[at]) far = s.size();
    for (int32_t i = s.out_start[at]; i < s.out_start[at + 1]; ++i) {
      const int32_t reader = s.edges[s.out_edges[i]].dst;
      if (leads[reader]) far = std::max(far, reader);
    }
  }
  return found;
}

int32_t merge_point(const Structure& s, const std::vector<int32_t>& nodes) {
  const std::vector<uint8_t> leads = leads_to_outputs(s);
  const int32_t root = s.size();  // behind the outputs
  Tree tree(root + 1, root);
  for (int32_t at = s.size() - 1; at >= 0; --at) {
    int32_t first = s.returns[at] ? root : -1;
    for (int32_t i = s.out_start[at]; i < s.out_start[at + 1]; ++i) {
      const int32_t reader = s.edges[s.out_edges[i]].dst;
      if (leads[reader]) first = first < 0 ? reader : tree.meet(first, reader);
    }
    if (leads[at]) tree.add(at, first);
  }
  int32_t met = -1;
  for (int32_t at : nodes) {
    if (!leads[at]) return -1;
    met = met < 0 ? at : tree.meet(met, at);
  }
  return met == root ? -1 : met;
}

Region region(const Structure& s, int32_t entry, int32_t exit) {
  Region found;
  found.nodes = path_graph(s, entry, exit, {}, false).nodes;
  const std::vector<uint8_t> inside = marks(s, found.nodes);
  for (int32_t at : found.nodes) {
    for (int32_t e = s.in_start[at]; e < s.in_start[at + 1] && at != entry; ++e) {
      if (!inside[s.edges[e].src] && found.crossing < 0) found.crossing = e;
    }
    for (int32_t i = s.out_start[at]; i < s.out_start[at + 1] && at != exit; ++i) {
      if (!inside[s.edges[s.out_edges[i]].dst] && found.crossing < 0) found.crossing = s.out_edges[i];
    }
    if (s.returns[at] && at != exit && found.returned < 0) found.returned = at;
  }
  return found;
}

std::vector<int32_t> cone(const Structure& s, const std::vector<int32_t>& nodes, bool backward) {
  const std::vector<uint8_t> given = marks(s, nodes);
  std::vector<uint8_t> inside(given);
  if (backward) {
    for (size_t e = s.edges.size(); e-- > 0;) inside[s.edges[e].src] |= inside[s.edges[e].dst];
  } else {
    for (const Edge& edge : s.edges) inside[edge.dst] |= inside[edge.src];
  }
  std::vector<int32_t> found;
  for (int32_t at = 0; at < s.size(); ++at) {
    if (inside[at] && !given[at]) found.push_back(at);
  }
  return found;
}

bool is_convex(const Structure& s, const std::vector<int32_t>& nodes) {
  const std::vector<uint8_t> inside = marks(s, nodes);
  std::vector<uint8_t> left(s.size(), 0);  // outside, on a path that came from inside
  for (const Edge& edge : s.edges) {
    if (inside[edge.dst] && left[edge.src]) return false;
    if (!inside[edge.dst]) left[edge.dst] |= inside[edge.src] | left[edge.src];
  }
  return true;
}

}  // namespace clika::graph
