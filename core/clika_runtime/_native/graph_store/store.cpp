#include "store.hpp"

#include <algorithm>

namespace clika::graph {

int32_t Store::node_by_name(const std::string& name) const {
  const auto found = node_names_.find(name);
  return found == node_names_.end() ? -1 : found->second;
}

int32_t Store::value_by_name(const std::string& name) const {
  const auto found = value_names_.find(name);
  return found == value_names_.end() ? -1 : found->second;
}

std::vector<int32_t> Store::nodes_of(const std::string& op) const {
  std::vector<int32_t> found;
  const auto listed = by_op_.find(op);
  if (listed == by_op_.end()) return found;
  for (int32_t node : listed->second) {
    if (nodes_[node].alive) found.push_back(node);
  }
  return found;
}

int32_t Store::output_count(int32_t value) const {
  return static_cast<int32_t>(std::count_if(outputs_.begin(), outputs_.end(),
                                            [&](const Output& output) { return output.value == value; }));
}

std::string Store::free_name(const std::string& base) const {
  if (node_by_name(base) < 0) return base;
  for (int64_t n = 1;; ++n) {
    std::string name = base + "_" + std::to_string(n);
    if (node_by_name(name) < 0) return name;
  }
}

void Store::note(Undo undo) {
  ++version_;
  if (marks_ > 0) journal_.push_back(std::move(undo));
}

void Store::touch(int32_t node) {
  if (node < 0) return;
  if (is_dirty_.size() < nodes_.size()) is_dirty_.resize(nodes_.size(), 0);
  if (!is_dirty_[node]) dirty_.push_back(node);
  is_dirty_[node] = 1;
}

std::vector<int32_t> Store::take_dirty() {
  for (int32_t node : dirty_) is_dirty_[node] = 0;
  return std::exchange(dirty_, {});
}

int32_t Store::drop_use(int32_t value, int32_t node, int32_t port) {
  if (value < 0) return -1;
  auto& uses = values_[value].uses;
  const auto found = std::find(uses.begin(), uses.end(), Use{node, port});
  const auto place = static_cast<int32_t>(found - uses.begin());
  uses.erase(found);
  touch(values_[value].node);
  return place;
}

void Store::restore_use(int32_t value, int32_t node, int32_t port, int32_t place) {
  if (value >= 0) values_[value].uses.insert(values_[value].uses.begin() + place, Use{node, port});
}

int32_t Store::add_value(Value value) {
  const auto id = static_cast<int32_t>(values_.size());
  if (!value.name.empty()) value_names_[value.name] = id;
  values_.push_back(std::move(value));
  Undo undo(Undo::kAddValue, id);
  note(std::move(undo));
  return id;
}

int32_t Store::add_node(Node node) {
  const auto id = static_cast<int32_t>(nodes_.size());
  for (size_t port = 0; port < node.inputs.size(); ++port) {
    if (node.inputs[port] >= 0) values_[node.inputs[port]].uses.push_back({id, static_cast<int32_t>(port)});
  }
  for (size_t port = 0; port < node.outputs.size(); ++port) {
    values_[node.outputs[port]].node = id;
    values_[node.outputs[port]].port = static_cast<int32_t>(port);
  }
  by_op_[node.op].push_back(id);
  node_names_[node.name] = id;
  if (node.is_input()) inputs_.push_back(id);
  nodes_.push_back(std::move(node));
  ++alive_nodes_;
  touch(id);
  for (int32_t value : nodes_[id].inputs) {
    if (value >= 0) touch(values_[value].node);
  }
  Undo undo(Undo::kAddNode, id);
  note(std::move(undo));
  return id;
}

void Store::set_input(int32_t node, int32_t port, int32_t value) {
  const int32_t before = nodes_[node].inputs[port];
  Undo undo(Undo::kSetInput, node);
  undo.b = port;
  undo.c = before;
  undo.places.push_back(drop_use(before, node, port));
  const auto& inputs = nodes_[node].inputs;
  if (before >= 0 && std::find(inputs.begin(), inputs.begin() + port, before) == inputs.begin() + port) {
    for (int32_t output : nodes_[node].outputs) {  // what shares the bytes of this input shares the new ones
      if (values_[output].alias != before) continue;
      values_[output].alias = value;
      undo.list.push_back(output);
    }
  }
  nodes_[node].inputs[port] = value;
  if (value >= 0) {
    values_[value].uses.push_back({node, port});
    touch(values_[value].node);
  }
  touch(node);
  note(std::move(undo));
}

void Store::remove_node(int32_t id) {
  Node& node = nodes_[id];
  Undo undo(Undo::kRemoveNode, id);
  for (size_t port = 0; port < node.inputs.size(); ++port) {
    undo.places.push_back(drop_use(node.inputs[port], id, static_cast<int32_t>(port)));
  }
  for (int32_t value : node.outputs) {
    values_[value].alive = false;
    if (!values_[value].name.empty()) value_names_.erase(values_[value].name);
  }
  node.alive = false;
  node_names_.erase(node.name);
  --alive_nodes_;
  if (node.is_input()) {
    undo.list = inputs_;
    inputs_.erase(std::find(inputs_.begin(), inputs_.end(), id));
  }
  touch(id);
  note(std::move(undo));
}

void Store::remove_value(int32_t value) {
  values_[value].alive = false;
  if (!values_[value].name.empty()) value_names_.erase(values_[value].name);
  Undo undo(Undo::kRemoveValue, value);
  note(std::move(undo));
}

void Store::rename_node(int32_t node, const std::string& name) {
  Undo undo(Undo::kRenameNode, node);
  undo.text = nodes_[node].name;
  node_names_.erase(undo.text);
  nodes_[node].name = name;
  node_names_[name] = node;
  touch(node);
  note(std::move(undo));
}

void Store::rename_value(int32_t value, const std::string& name) {
  Undo undo(Undo::kRenameValue, value);
  undo.text = values_[value].name;
  if (!undo.text.empty()) value_names_.erase(undo.text);
  values_[value].name = name;
  if (!name.empty()) value_names_[name] = value;
  note(std::move(undo));
}

void Store::set_inputs(std::vector<int32_t> nodes) {
  Undo undo(Undo::kInputs, 0);
  undo.list = std::exchange(inputs_, std::move(nodes));
  note(std::move(undo));
}

void Store::set_outputs(std::vector<Output> outputs) {
  Undo undo(Undo::kOutputs, 0);
  undo.outputs = std::exchange(outputs_, std::move(outputs));
  for (const Output& output : undo.outputs) touch(values_[output.value].node);
  for (const Output& output : outputs_) touch(values_[output.value].node);
  note(std::move(undo));
}

void Store::set_shape(int32_t value, int32_t rank, const int64_t* shape) {
  Undo undo(Undo::kShape, value);
  undo.b = values_[value].rank;
  std::copy_n(values_[value].shape, kMaxRank, undo.shape);
  values_[value].rank = rank;
  std::copy_n(shape, rank, values_[value].shape);
  for (const Use& use : values_[value].uses) touch(use.node);
  touch(values_[value].node);
  note(std::move(undo));
}

void Store::set_device(int32_t value, int32_t device) {
  Undo undo(Undo::kDevice, value);
  undo.b = values_[value].device;
  values_[value].device = device;
  note(std::move(undo));
}

size_t Store::mark() {
  ++marks_;
  return journal_.size();
}

void Store::commit() {
  if (--marks_ == 0) journal_.clear();
}

void Store::rollback(size_t mark) {
  while (journal_.size() > mark) {
    undo(journal_.back());
    journal_.pop_back();
  }
  ++version_;
  --marks_;
}

void Store::undo(Undo& undo) {
  switch (undo.kind) {
    case Undo::kAddValue: {
      Value& value = values_[undo.a];
      value.alive = false;
      if (!value.name.empty()) value_names_.erase(value.name);
      break;
    }
    case Undo::kAddNode: {
      Node& node = nodes_[undo.a];
      for (size_t port = 0; port < node.inputs.size(); ++port) {
        drop_use(node.inputs[port], undo.a, static_cast<int32_t>(port));
      }
      for (int32_t value : node.outputs) values_[value].alive = false;
      node.alive = false;
      node_names_.erase(node.name);
      --alive_nodes_;
      if (node.is_input()) inputs_.erase(std::find(inputs_.begin(), inputs_.end(), undo.a));
      break;
    }
    case Undo::kSetInput: {
      int32_t& held = nodes_[undo.a].inputs[undo.b];
      drop_use(held, undo.a, undo.b);
      held = undo.c;
      restore_use(held, undo.a, undo.b, undo.places[0]);
      for (int32_t output : undo.list) values_[output].alias = held;
      break;
    }
    case Undo::kRemoveNode: {
      Node& node = nodes_[undo.a];
      node.alive = true;
      node_names_[node.name] = undo.a;
      ++alive_nodes_;
      for (size_t port = node.inputs.size(); port-- > 0;) {
        restore_use(node.inputs[port], undo.a, static_cast<int32_t>(port), undo.places[port]);
      }
      for (int32_t value : node.outputs) {
        values_[value].alive = true;
        if (!values_[value].name.empty()) value_names_[values_[value].name] = value;
      }
      if (node.is_input()) inputs_ = std::move(undo.list);
      break;
    }
    case Undo::kRemoveValue:
      values_[undo.a].alive = true;
      if (!values_[undo.a].name.empty()) value_names_[values_[undo.a].name] = undo.a;
      break;
    case Undo::kRenameNode:
      node_names_.erase(nodes_[undo.a].name);
      nodes_[undo.a].name = undo.text;
      node_names_[undo.text] = undo.a;
      break;
    case Undo::kRenameValue:
      if (!values_[undo.a].name.empty()) value_names_.erase(values_[undo.a].name);
      values_[undo.a].name = undo.text;
      if (!undo.text.empty()) value_names_[undo.text] = undo.a;
      break;
    case Undo::kInputs: inputs_ = std::move(undo.list); break;
    case Undo::kOutputs: outputs_ = std::move(undo.outputs); break;
    case Undo::kShape:
      values_[undo.a].rank = undo.b;
      std::copy_n(undo.shape, kMaxRank, values_[undo.a].shape);
      break;
    case Undo::kDevice: values_[undo.a].device = undo.b; break;
  }
}

}  // namespace clika::graph
