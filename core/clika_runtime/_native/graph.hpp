// The node store: values, nodes and symbolic sizes. Recording, and later every query and edit, work on this
// one store; Python holds thin views.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend.hpp"

namespace clika {

// A size is one int64: >= 0 as it is, < 0 the expression -(size + 1) of the store.
inline bool is_symbolic(int64_t size) { return size < 0; }

// Sizes are polynomials over factors (symbols, and opaque quotients, remainders and minima) in a canonical form, so
// that equal expressions are the same number.
class Sizes {
 public:
  int64_t symbol(const std::string& name, int64_t low, int64_t high);
  int64_t add(int64_t a, int64_t b);
  int64_t negate(int64_t a);  // only as an operand of add: -a is no size
  int64_t multiply(int64_t a, int64_t b);
  int64_t floor_divide(int64_t a, int64_t b);
  int64_t modulo(int64_t a, int64_t b);
  // The smaller of two sizes, at least 0.
  int64_t minimum(int64_t a, int64_t b);
  // A size of another store of sizes, with ``given`` in the place of its symbols; a symbol that is not there becomes
  // a symbol of the same name.
  int64_t take(const Sizes& from, int64_t size, const std::map<std::string, int64_t>& given);
  void bounds(int64_t size, int64_t* low, int64_t* high) const;
  std::string text(int64_t size) const;

  size_t symbol_count() const { return symbols_.size(); }
  const std::string& symbol_name(size_t i) const { return factors_[symbols_[i]].name; }
  // The symbol a size consists of, or -1.
  int32_t as_symbol(int64_t size) const;
  void symbol_bounds(size_t i, int64_t* low, int64_t* high) const;
  // Marks the symbols that a size is computed from.
  void mark_symbols(int64_t size, std::vector<uint8_t>* marked) const;
  // Values of all expressions for given symbol values; `out` is indexed by expression.
  void evaluate(const std::vector<int64_t>& symbols, std::vector<int64_t>* out) const;
  static int64_t value(int64_t size, const std::vector<int64_t>& expressions) {
    return size >= 0 ? size : expressions[static_cast<size_t>(-(size + 1))];
  }

 private:
  using Monomial = std::vector<int32_t>;        // sorted factor ids
  using Polynomial = std::map<Monomial, int64_t>;  // coefficients, never 0
  enum class Kind : uint8_t { kSymbol, kQuotient, kRemainder, kMinimum };
  struct Factor {
    std::string name;  // of a symbol
    int64_t low, high;
    int64_t a = 0, b = 0;  // operands
    Kind kind = Kind::kSymbol;
  };
  Polynomial polynomial(int64_t size) const;
  int64_t intern(Polynomial polynomial);
  int64_t opaque(int64_t a, int64_t b, Kind kind);
  int64_t apply(Kind kind, int64_t a, int64_t b);
  void bounds(const Polynomial& polynomial, int64_t* low, int64_t* high, bool close = true) const;
  // The one factor that a size consists of when it is of this kind, or null.
  const Factor* single(const Polynomial& polynomial, Kind kind) const;
  void mark(int64_t size, std::vector<uint8_t>* seen) const;
  int64_t take(const Sizes& from, int64_t size, const std::map<std::string, int64_t>& given,
               std::map<int32_t, int64_t>* taken);

  std::vector<Factor> factors_;
  std::vector<int32_t> symbols_;  // factor ids
  std::vector<Polynomial> expressions_;
  std::map<Polynomial, int64_t> interned_;
};

enum class ValueKind : uint8_t { kInput, kConstant, kState, kResult };

struct Value {
  ValueKind kind = ValueKind::kResult;
  int32_t node = -1;   // producer
  int32_t index = 0;   // which of its outputs, or of the graph's inputs
  int32_t dtype = 0;
  int32_t scheme = 0;
  int32_t layout = 0;
  int32_t device = 0;
  int32_t rank = 0;
  int64_t shape[CLIKA_MAX_RANK] = {};
  int64_t strides[CLIKA_MAX_RANK] = {};  // elements; may be symbolic
  int64_t offset = 0;                    // elements from the start of `root`; may be symbolic
  int32_t alias = -1;  // the value whose bytes this one shares: a view's source, a write's earlier version
  bool write = false;  // a new version made by an in-place write of `alias`
  Storage* storage = nullptr;  // constants and states
  int64_t storage_offset = 0;  // bytes
  std::string name;
  std::vector<int32_t> users;  // nodes, once per use
};

// A runtime scalar of a node: a number, or one of the graph's scalar inputs.
struct ScalarRef {
  clika_scalar constant{};
  int32_t input = -1;
};

struct Control;  // plan.hpp

struct Node {
  std::string op;
  std::vector<int32_t> inputs;    // values; -1 for an absent optional
  std::vector<int32_t> groups;    // per tensor argument: -1 single, else the length of a sequence
  std::vector<int32_t> outputs;
  std::shared_ptr<Attrs> attrs;
  // Static ints that are symbolic: attribute, element, size.
  struct Patch {
    int32_t attr, element;
    int64_t size;
  };
  std::vector<Patch> patches;
  std::vector<ScalarRef> scalars;
  bool view = false;              // no kernel: the outputs share the bytes of an input
  bool contiguous_inputs = false;
  void* python_kernel = nullptr;  // borrowed PyObject*, kept alive by the recorder
  bool move = false;              // a copy on the device of the output
  std::shared_ptr<const Control> control;  // bodies
};

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  Sizes sizes;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<int32_t> inputs;
  std::vector<std::string> scalar_inputs;
  std::unordered_map<std::string, std::vector<int32_t>> by_op;  // opcode index

  int32_t add_value(Value value);
  int32_t add_input(const std::string& name, Value value);
  // A captured tensor; the same storage, offset and shape give the same value.
  int32_t capture(Value value, bool state);
  int32_t add_node(Node node);
  // A copy that later recording does not change: what a plan keeps.
  std::shared_ptr<Graph> snapshot() const;
  // The latest version of a value after in-place writes.
  int32_t latest(int32_t value) const;

 private:
  std::map<std::vector<int64_t>, int32_t> captured_;
  std::unordered_map<int32_t, int32_t> next_version_;
};

}  // namespace clika
