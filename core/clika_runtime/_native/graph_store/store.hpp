// The node store of a ModelGraph: nodes, values, adjacency, names, an index by operator, an undo journal and the set
// of nodes that edits touched. Queries and edits work on this one store; Python holds thin views. It knows nothing of
// tensors: constants, attributes and sizes that are expressions are the caller's, by number.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace clika::graph {

constexpr int kMaxRank = 8;

// One read of a value: input `port` of `node`.
struct Use {
  int32_t node;
  int32_t port;
  bool operator==(const Use& other) const { return node == other.node && port == other.port; }
};

struct Value {
  int32_t node = -1;  // the producer; -1 for a constant
  int32_t port = 0;   // which of its outputs
  int32_t dtype = 0;
  int32_t scheme = 0;
  int32_t device = 0;
  int32_t rank = 0;
  int64_t shape[kMaxRank] = {};  // >= 0, or an expression of the tracer's sizes
  // The graph is functional: a write makes a new version of the value. `alias` is the value whose bytes this one
  // shares once the graph is finalized: a view's source, a write's earlier version.
  int32_t alias = -1;
  bool write = false;
  bool alive = true;
  std::string name;        // set for constants and where it is not <node>_<port>
  std::vector<Use> uses;   // in the order they were made
};

struct Node {
  std::string op;  // the operator's name; empty for an input of the graph
  std::string name;
  std::vector<int32_t> inputs;  // values by port; -1 for an absent one
  std::vector<int32_t> outputs;
  bool alive = true;
  bool is_input() const { return op.empty(); }
};

struct Output {
  std::string name;
  int32_t value;
};

class Store {
 public:
  const std::vector<Value>& values() const { return values_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<int32_t>& inputs() const { return inputs_; }  // nodes
  const std::vector<Output>& outputs() const { return outputs_; }
  // Changes with every edit; never repeats within a store.
  uint64_t version() const { return version_; }
  int32_t node_by_name(const std::string& name) const;       // -1: none
  int32_t value_by_name(const std::string& name) const;      // constants and named values
  std::vector<int32_t> nodes_of(const std::string& op) const;  // alive, in the order they were made
  int32_t output_count(int32_t value) const;                 // how many outputs of the graph return it
  size_t alive_nodes() const { return alive_nodes_; }

  // ---- primitive edits: the caller has checked that the result is a legal graph.
  int32_t add_value(Value value);
  int32_t add_node(Node node);    // its outputs become values of this node; an input node joins `inputs`
  void set_input(int32_t node, int32_t port, int32_t value);
  void remove_node(int32_t node);  // its outputs go with it
  void remove_value(int32_t value);  // a constant
  void rename_node(int32_t node, const std::string& name);
  void rename_value(int32_t value, const std::string& name);
  void set_inputs(std::vector<int32_t> nodes);
  void set_outputs(std::vector<Output> outputs);
  void set_shape(int32_t value, int32_t rank, const int64_t* shape);
  void set_device(int32_t value, int32_t device);
  std::string free_name(const std::string& base) const;  // `base`, else the first free <base>_<n>

  // ---- undo. Everything after `mark` is undone by `rollback`; `commit` forgets. Marks nest.
  size_t mark();
  void rollback(size_t mark);
  void commit();

  // Nodes that edits touched since the last call, each once, in the order they were touched; may include dead ones.
  std::vector<int32_t> take_dirty();

 private:
  struct Undo {
    enum Kind : uint8_t {
      kAddValue, kAddNode, kSetInput, kRemoveNode, kRemoveValue, kRenameNode, kRenameValue, kInputs, kOutputs,
      kShape, kDevice
    } kind;
    int32_t a, b = 0, c = 0;
    std::string text;
    std::vector<int32_t> list;
    std::vector<Output> outputs;
    std::vector<int32_t> places;  // where in a value's uses a dropped one stood, so that their order comes back
    int64_t shape[kMaxRank] = {};
    Undo(Kind kind, int32_t a) : kind(kind), a(a) {}
  };
  void note(Undo undo);
  void touch(int32_t node);
  int32_t drop_use(int32_t value, int32_t node, int32_t port);  // gives its place among the uses
  void restore_use(int32_t value, int32_t node, int32_t port, int32_t place);
  void undo(Undo& undo);

  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<int32_t> inputs_;
  std::vector<Output> outputs_;
  std::unordered_map<std::string, std::vector<int32_t>> by_op_;
  std::unordered_map<std::string, int32_t> node_names_;
  std::unordered_map<std::string, int32_t> value_names_;
  std::vector<Undo> journal_;
  int marks_ = 0;
  std::vector<int32_t> dirty_;
  std::vector<uint8_t> is_dirty_;
  uint64_t version_ = 1;
  size_t alive_nodes_ = 0;
};

}  // namespace clika::graph
