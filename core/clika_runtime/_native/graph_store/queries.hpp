// Questions about a graph's structure. Nodes are positions of a Structure, edges are indices into its
// `edges`; all results are in a fixed order. Nothing recurses: graphs may be deep. Queries that need an order
// (all but breadth_first, components, find_cycle and reaches) expect an acyclic structure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "structure.hpp"

namespace clika::graph {

// A function of the caller, asked about a node or an edge; absent: the default answer. A negative answer says
// that it failed: the query ends with CallbackFailed, and the caller knows the reason.
struct CallbackFailed {};

struct Callback {
  int (*call)(void* context, int32_t at) = nullptr;
  void* context = nullptr;
  int operator()(int32_t at, int otherwise) const {
    if (call == nullptr) return otherwise;
    const int answer = call(context, at);
    if (answer < 0) throw CallbackFailed();
    return answer;
  }
};

// Bytes of every value of the store. `bits` by dtype; a size that is no number counts as 1. The sum over all
// values fits int64, else std::overflow_error.
std::vector<int64_t> value_bytes(const Store& store, const std::vector<int32_t>& bits);

// ---- walks

enum VisitAction { kContinue = 0, kPrune = 1, kStop = 2 };
constexpr int64_t kNoLimit = -1;

struct WalkOptions {
  bool backward = false;
  int64_t max_depth = kNoLimit;  // edges from the start
  int64_t max_nodes = kNoLimit;  // the start included
  Callback visit;                // a node -> VisitAction, in the order of the walk
  Callback edge_filter;          // an edge -> whether the walk may take it
};

// The nodes a breadth-first walk reaches, the start first. Forward it takes a node's edges by output port,
// then in the order of their readers; backward by input port.
std::vector<int32_t> breadth_first(const Structure& s, int32_t start, const WalkOptions& options);

// ---- orders

// Depth-first from the outputs of the graph, input by input: it depends on the structure alone, not on the
// order in which nodes were made. Inputs of the graph come first, nodes that reach no output last.
std::vector<int32_t> structural_order(const Structure& s, const Store& store);
// Takes, of the nodes that can run, the one after which the fewest bytes are live; the deterministic order
// where that has the lower peak. `bytes` by value of the store; inputs and what the graph returns are live
// throughout.
std::vector<int32_t> min_memory_order(const Structure& s, const Store& store,
                                      const std::vector<int64_t>& bytes);
// The most bytes that are live while a node of the order runs.
int64_t peak_bytes(const Structure& s, const Store& store, const std::vector<int64_t>& bytes,
                   const std::vector<int32_t>& order);
// Each next node is drawn evenly from those that can run; every valid order may come.
std::vector<int32_t> random_order(const Structure& s, uint64_t seed);
bool is_order(const Structure& s, const std::vector<int32_t>& order);
std::vector<int32_t> depths(const Structure& s);  // edges of the longest path that ends at a node

// ---- paths

struct PathOptions {
  int64_t cutoff = kNoLimit;        // the most edges of a path
  std::vector<uint8_t> avoid;       // by position; may be empty
  Callback edge_filter;
};

// The nodes and edges that lie on paths from one node to another, ascending: the first node is the source,
// the last one the target. Empty where there is no path.
struct PathGraph {
  std::vector<int32_t> nodes;   // positions
  std::vector<int32_t> start;   // edges out of node i: [start[i], start[i + 1])
  std::vector<int32_t> target;  // of an edge: index into `nodes`
  std::vector<int32_t> edges;   // of the structure
  std::vector<int32_t> to_end;  // fewest edges to the target
  int64_t cutoff = kNoLimit;
  bool empty() const { return nodes.empty(); }
};

// With `parallel` every edge, else one of those between two nodes: the first that the filter lets through.
PathGraph path_graph(const Structure& s, int32_t from, int32_t to, const PathOptions& options, bool parallel);
int64_t longest_path(const PathGraph& graph);                // edges
std::vector<int32_t> shortest_path(const PathGraph& graph);  // indices into graph.edges
// Whether there are more paths than `limit`.
bool has_more_paths(const PathGraph& graph, int64_t limit);

// The paths one by one, depth first in the order of the edges.
class PathSearch {
 public:
  explicit PathSearch(PathGraph graph) : graph_(std::move(graph)) {}
  const PathGraph& graph() const { return graph_; }
  // The next path as indices into graph().edges; false: there is none.
  bool next(std::vector<int32_t>* path);

 private:
  PathGraph graph_;
  std::vector<int32_t> taken_;  // edges from the source on
  std::vector<int32_t> untried_;  // per node on the way: its next edge
  bool started_ = false;
};

struct CostedPath {
  std::vector<int32_t> nodes;  // positions
  std::vector<int32_t> edges;
  double cost = 0;
  bool found = false;
};

// The path of the smallest summed cost; `costs` by index into graph.edges. With a cutoff each node keeps
// every trade-off between edges and cost; more than `most` of them throw std::overflow_error.
CostedPath cheapest_path(const PathGraph& graph, const std::vector<double>& costs,
                         size_t most = size_t{1} << 22);
// The path of the largest summed cost. `edge_costs` may be empty: 0.
CostedPath critical_path(const Structure& s, const std::vector<double>& node_costs,
                         const std::vector<double>& edge_costs);

// ---- structure

std::vector<int32_t> find_cycle(const Structure& s);  // empty: none
bool reaches(const Structure& s, int32_t from, int32_t to);
std::vector<int32_t> components(const Structure& s);  // per node the component, counted by their first nodes

// Per node the last other node that every path from the inputs to it crosses; itself where there is none.
// What no input reaches is reached from the nodes that read nothing.
std::vector<int32_t> dominators(const Structure& s);
// The nodes that every path from an input to a returned value crosses, in order.
std::vector<int32_t> split_points(const Structure& s);
// The first node that every path from one of `nodes` to a returned value crosses; -1: none.
int32_t merge_point(const Structure& s, const std::vector<int32_t>& nodes);

struct Region {
  std::vector<int32_t> nodes;  // on paths from entry to exit, both included
  int32_t crossing = -1;       // an edge that enters or leaves it elsewhere
  int32_t returned = -1;       // a node before the exit that the graph returns a value of
};
Region region(const Structure& s, int32_t entry, int32_t exit);

// What the nodes read (backward) or feed, directly or not, themselves left out; in order.
std::vector<int32_t> cone(const Structure& s, const std::vector<int32_t>& nodes, bool backward);
bool is_convex(const Structure& s, const std::vector<int32_t>& nodes);

struct MinCut {
  std::vector<int32_t> values;  // of the store, by producer and port
  int64_t bytes = 0;
};
// The split of the nodes into two parts, of which the second feeds nothing of the first, that hands the
// fewest bytes over; of the cheapest the one nearest the inputs. Inputs stand in the first part unless
// `after` names them; a value that the graph returns is handed over too. No node of `after` may reach one of
// `before`. The sum of `bytes` fits int64.
MinCut min_value_cut(const Structure& s, const Store& store, const std::vector<int64_t>& bytes,
                     const std::vector<int32_t>& before, const std::vector<int32_t>& after);

}  // namespace clika::graph
