// A store's alive nodes as arrays, in one fixed order: what queries run over. Positions are the deterministic
// topological order: of the nodes whose reads are all placed, the one that was made first comes next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store.hpp"

namespace clika::graph {

struct Edge {
  int32_t src, src_port, dst, dst_port;  // src and dst are positions
  int32_t value;
};

struct Structure {
  explicit Structure(const Store& store);

  int32_t size() const { return static_cast<int32_t>(nodes.size()); }
  // Positions of the nodes that this one reads from or feeds, each once, ascending.
  std::vector<int32_t> predecessors(int32_t at) const;
  std::vector<int32_t> successors(int32_t at) const;

  uint64_t version = 0;
  std::vector<int32_t> nodes;      // position -> node of the store; nodes on a cycle stand at the end, by age
  std::vector<int32_t> position;   // node -> position, -1 for a dead one
  bool acyclic = true;
  std::vector<Edge> edges;         // by dst, then dst_port
  std::vector<int32_t> in_start;   // edges of dst at: [in_start[at], in_start[at + 1])
  std::vector<int32_t> out_start;  // out_edges of src at: [out_start[at], out_start[at + 1])
  std::vector<int32_t> out_edges;  // indices into edges, by src_port, then dst, then dst_port
  std::vector<uint8_t> is_input;   // by position
  std::vector<uint8_t> returns;    // by position: the graph returns one of its values
};

}  // namespace clika::graph
