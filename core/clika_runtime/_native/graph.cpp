#include "graph.hpp"

#include <algorithm>
#include <limits>

namespace clika {

namespace {
constexpr int64_t kMax = std::numeric_limits<int64_t>::max() / 4;

int64_t floor_div(int64_t a, int64_t b) {
  if (b <= 0) return 0;
  const int64_t q = a / b;
  return a % b < 0 ? q - 1 : q;
}
int64_t clamp_mul(int64_t a, int64_t b) {
  const long double product = static_cast<long double>(a) * static_cast<long double>(b);
  if (product > static_cast<long double>(kMax)) return kMax;
  if (product < -static_cast<long double>(kMax)) return -kMax;
  return a * b;
}
// Sizes stop at kMax: a product or sum of absurd bounds is still absurd, and never wraps round to a small size.
int64_t clamp_add(int64_t a, int64_t b) {
  return std::max(-kMax, std::min(kMax, a)) + std::max(-kMax, std::min(kMax, b));
}
int64_t clamp(int64_t a) { return std::max(-kMax, std::min(kMax, a)); }
}  // namespace

int64_t Sizes::symbol(const std::string& name, int64_t low, int64_t high) {
  for (int32_t id : symbols_) {
    if (factors_[id].name == name) {
      return intern({{Monomial{id}, 1}});
    }
  }
  const auto id = static_cast<int32_t>(factors_.size());
  factors_.push_back({name, low, high});
  symbols_.push_back(id);
  return intern({{Monomial{id}, 1}});
}

Sizes::Polynomial Sizes::polynomial(int64_t size) const {
  if (size < 0) return expressions_[static_cast<size_t>(-(size + 1))];
  Polynomial result;
  if (size != 0) result[{}] = size;
  return result;
}

int64_t Sizes::intern(Polynomial polynomial) {
  for (auto it = polynomial.begin(); it != polynomial.end();) {
    it = it->second == 0 ? polynomial.erase(it) : std::next(it);
  }
  if (polynomial.empty()) return 0;
  if (polynomial.size() == 1 && polynomial.begin()->first.empty() && polynomial.begin()->second >= 0) {
    return polynomial.begin()->second;
  }
  const auto found = interned_.find(polynomial);
  if (found != interned_.end()) return found->second;
  expressions_.push_back(polynomial);
  const int64_t id = -static_cast<int64_t>(expressions_.size());
  interned_[std::move(polynomial)] = id;
  return id;
}

int64_t Sizes::add(int64_t a, int64_t b) {
  Polynomial sum = polynomial(a);
  for (const auto& [monomial, coefficient] : polynomial(b)) {
    sum[monomial] = clamp(clamp_add(sum[monomial], coefficient));
  }
  return intern(std::move(sum));
}

int64_t Sizes::negate(int64_t a) {
  Polynomial negated = polynomial(a);
  for (auto& term : negated) term.second = -term.second;
  return intern(std::move(negated));
}

int64_t Sizes::multiply(int64_t a, int64_t b) {
  Polynomial product;
  for (const auto& [left, x] : polynomial(a)) {
    for (const auto& [right, y] : polynomial(b)) {
      Monomial merged(left);
      merged.insert(merged.end(), right.begin(), right.end());
      std::sort(merged.begin(), merged.end());
      product[merged] = clamp(clamp_add(product[merged], clamp_mul(x, y)));
    }
  }
  return intern(std::move(product));
}

int64_t Sizes::opaque(int64_t a, int64_t b, Kind kind) {
  for (size_t i = 0; i < factors_.size(); ++i) {
    const Factor& factor = factors_[i];
    if (factor.kind == kind && factor.a == a && factor.b == b) {
      return intern({{Monomial{static_cast<int32_t>(i)}, 1}});
    }
  }
  int64_t low_a, high_a, low_b, high_b;
  bounds(a, &low_a, &high_a);
  bounds(b, &low_b, &high_b);
  Factor factor{"", 0, 0, a, b, kind};
  if (kind == Kind::kQuotient) {  // 0 where the divisor is not above 0
    const int64_t least = std::max<int64_t>(low_b, 1), most = std::max<int64_t>(high_b, 1);
    factor.low = std::min(floor_div(low_a, least), floor_div(low_a, most));
    factor.high = std::max(floor_div(high_a, least), floor_div(high_a, most));
    if (low_b <= 0) {
      factor.low = std::min<int64_t>(factor.low, 0);
      factor.high = std::max<int64_t>(factor.high, 0);
    }
  } else if (kind == Kind::kRemainder) {
    factor.high = std::max<int64_t>(high_b - 1, 0);
  } else {
    factor.low = std::max<int64_t>(std::min(low_a, low_b), 0);
    factor.high = std::max<int64_t>(std::min(high_a, high_b), 0);
  }
  factors_.push_back(factor);
  return intern({{Monomial{static_cast<int32_t>(factors_.size()) - 1}, 1}});
}

int64_t Sizes::floor_divide(int64_t a, int64_t b) {
  if (a >= 0 && b > 0) return a / b;
  if (a == 0 || b == 1) return a;
  const Polynomial divisor = polynomial(b);
  if (divisor.size() == 1) {  // exact when the one monomial divides every monomial of `a`
    const Monomial& factors = divisor.begin()->first;
    const int64_t by = divisor.begin()->second;
    Polynomial quotient;
    bool exact = true;
    for (const auto& [monomial, coefficient] : polynomial(a)) {
      if (coefficient % by != 0 ||
          !std::includes(monomial.begin(), monomial.end(), factors.begin(), factors.end())) {
        exact = false;
        break;
      }
      Monomial rest;
      std::set_difference(monomial.begin(), monomial.end(), factors.begin(), factors.end(),
                          std::back_inserter(rest));
      quotient[rest] += coefficient / by;
    }
    if (exact) return intern(std::move(quotient));
  }
  return opaque(a, b, Kind::kQuotient);
}

int64_t Sizes::modulo(int64_t a, int64_t b) {
  if (a >= 0 && b > 0) return a % b;
  if (b == 1) return 0;
  const int64_t quotient = floor_divide(a, b);
  if (multiply(quotient, b) == a) return 0;
  return opaque(a, b, Kind::kRemainder);
}

int64_t Sizes::minimum(int64_t a, int64_t b) {
  if (a >= 0 && b >= 0) return std::min(a, b);
  Polynomial difference = polynomial(a);
  for (const auto& [monomial, coefficient] : polynomial(b)) {
    difference[monomial] = clamp(clamp_add(difference[monomial], -coefficient));
  }
  int64_t low, high, least;
  bounds(difference, &low, &high);
  for (const auto& [known, smaller] : {std::pair{high <= 0, a}, std::pair{low >= 0, b}}) {
    if (!known) continue;
    bounds(smaller, &least, &high);
    if (least >= 0) return smaller;
  }
  // What slices of slices come to stays flat. With c and d at least 0:
  //   min(min(x, c), d) = min(x, min(c, d))
  //   min(y - min(x, c), d) = min(y, c + d) - min(x, c), where y is x, or min(x, e) with e at least c
  for (const auto& [one, other] : {std::pair{a, b}, std::pair{b, a}}) {
    bounds(other, &least, &high);
    if (one >= 0 || least < 0) continue;
    const Polynomial terms = polynomial(one);
    if (const Factor* found = single(terms, Kind::kMinimum)) {
      const Factor factor = *found;
      if (factor.b >= 0 && other >= 0) return minimum(factor.a, std::min(factor.b, other));
      continue;
    }
    for (const auto& [monomial, coefficient] : terms) {
      if (coefficient != -1 || monomial.size() != 1 || factors_[monomial[0]].kind != Kind::kMinimum) continue;
      const Factor factor = factors_[monomial[0]];
      const int64_t taken = intern({{monomial, 1}}), rest = add(one, taken);
      const Factor* whole = single(polynomial(rest), Kind::kMinimum);
      for (const auto& [x, c] : {std::pair{factor.a, factor.b}, std::pair{factor.b, factor.a}}) {
        bounds(c, &low, &high);
        bounds(x, &least, &high);
        if (low < 0 || least < 0) continue;
        if (rest != x && (whole == nullptr || whole->a != x || c < 0 || whole->b < c)) continue;
        return add(minimum(rest, add(c, other)), negate(taken));
      }
    }
  }
  return opaque(std::min(a, b), std::max(a, b), Kind::kMinimum);
}

const Sizes::Factor* Sizes::single(const Polynomial& polynomial, Kind kind) const {
  const auto term = polynomial.begin();
  if (polynomial.size() != 1 || term->second != 1 || term->first.size() != 1) return nullptr;
  const Factor& factor = factors_[term->first[0]];
  return factor.kind == kind ? &factor : nullptr;
}

int64_t Sizes::apply(Kind kind, int64_t a, int64_t b) {
  return kind == Kind::kQuotient ? floor_divide(a, b) : kind == Kind::kRemainder ? modulo(a, b) : minimum(a, b);
}

int64_t Sizes::take(const Sizes& from, int64_t size, const std::map<std::string, int64_t>& given) {
  std::map<int32_t, int64_t> taken;
  return take(from, size, given, &taken);
}

int64_t Sizes::take(const Sizes& from, int64_t size, const std::map<std::string, int64_t>& given,
                    std::map<int32_t, int64_t>* taken) {
  if (size >= 0) return size;
  const Polynomial terms = from.polynomial(size);  // a copy: `from` may be this
  int64_t sum = 0;
  for (const auto& [monomial, coefficient] : terms) {
    int64_t product = coefficient < 0 ? -coefficient : coefficient;
    for (int32_t id : monomial) {
      const Factor factor = from.factors_[id];
      const auto known = taken->find(id);
      int64_t value;
      if (known != taken->end()) {
        value = known->second;
      } else if (factor.kind != Kind::kSymbol) {  // its operands use only factors with smaller ids
        const int64_t a = take(from, factor.a, given, taken), b = take(from, factor.b, given, taken);
        value = (*taken)[id] = apply(factor.kind, a, b);
      } else {
        const auto found = given.find(factor.name);
        value = found != given.end() ? found->second : symbol(factor.name, factor.low, factor.high);
      }
      product = multiply(product, value);
    }
    sum = add(sum, coefficient < 0 ? negate(product) : product);
  }
  return sum;
}

void Sizes::bounds(int64_t size, int64_t* low, int64_t* high) const {
  if (size >= 0) {
    *low = *high = size;
    return;
  }
  bounds(expressions_[static_cast<size_t>(-(size + 1))], low, high);
}

// Interval arithmetic; a quotient may be below 0. `close`: x - min(x, y) is not below 0.
void Sizes::bounds(const Polynomial& polynomial, int64_t* low, int64_t* high, bool close) const {
  *low = *high = 0;
  for (const auto& [monomial, coefficient] : polynomial) {
    int64_t a = coefficient, b = coefficient;
    for (int32_t id : monomial) {
      const auto [least, most] = std::minmax({clamp_mul(a, factors_[id].low), clamp_mul(a, factors_[id].high),
                                              clamp_mul(b, factors_[id].low), clamp_mul(b, factors_[id].high)});
      a = least;
      b = most;
    }
    *low = clamp(clamp_add(*low, a));
    *high = clamp(clamp_add(*high, b));
  }
  if (!close || *low >= 0) return;
  for (const auto& [monomial, coefficient] : polynomial) {
    if (coefficient >= 0 || monomial.size() != 1 || factors_[monomial[0]].kind != Kind::kMinimum) continue;
    for (const int64_t operand : {factors_[monomial[0]].a, factors_[monomial[0]].b}) {
      const Polynomial larger = this->polynomial(operand);  // than the minimum, where it is no negative number
      int64_t least, most;
      bounds(larger, &least, &most, false);
      if (least < 0) continue;
      Polynomial rest = polynomial;
      rest.erase(monomial);
      for (const auto& [term, count] : larger) {
        rest[term] = clamp(clamp_add(rest[term], clamp_mul(coefficient, count)));
      }
      bounds(rest, &least, &most, false);
      *low = std::max(*low, least);
    }
  }
}

std::string Sizes::text(int64_t size) const {
  if (size >= 0) return std::to_string(size);
  std::string out;
  for (const auto& [monomial, coefficient] : expressions_[static_cast<size_t>(-(size + 1))]) {
    if (!out.empty()) out += coefficient < 0 ? " - " : " + ";
    else if (coefficient < 0) out += "-";
    const int64_t magnitude = coefficient < 0 ? -coefficient : coefficient;
    std::string term = magnitude != 1 || monomial.empty() ? std::to_string(magnitude) : "";
    for (int32_t id : monomial) {
      const Factor& factor = factors_[id];
      if (!term.empty()) term += "*";
      if (factor.kind == Kind::kSymbol) {
        term += factor.name;
        continue;
      }
      const bool minimum = factor.kind == Kind::kMinimum;
      const char* sign = minimum ? ", " : factor.kind == Kind::kQuotient ? " // " : " % ";
      term += (minimum ? "min(" : "(") + text(factor.a) + sign + text(factor.b) + ")";
    }
    out += term;
  }
  return out;
}

int32_t Sizes::as_symbol(int64_t size) const {
  if (size >= 0) return -1;
  const Polynomial& polynomial = expressions_[static_cast<size_t>(-(size + 1))];
  if (polynomial.size() != 1 || polynomial.begin()->second != 1 || polynomial.begin()->first.size() != 1) {
    return -1;
  }
  for (size_t i = 0; i < symbols_.size(); ++i) {
    if (symbols_[i] == polynomial.begin()->first[0]) return static_cast<int32_t>(i);
  }
  return -1;
}

void Sizes::symbol_bounds(size_t i, int64_t* low, int64_t* high) const {
  *low = factors_[symbols_[i]].low;
  *high = factors_[symbols_[i]].high;
}

void Sizes::mark_symbols(int64_t size, std::vector<uint8_t>* marked) const {
  std::vector<uint8_t> seen(factors_.size(), 0);
  mark(size, &seen);
  for (size_t i = 0; i < symbols_.size(); ++i) {
    if (seen[static_cast<size_t>(symbols_[i])]) (*marked)[i] = 1;
  }
}

// Marks the factors that a size is computed from.
void Sizes::mark(int64_t size, std::vector<uint8_t>* seen) const {
  if (size >= 0) return;
  for (const auto& term : expressions_[static_cast<size_t>(-(size + 1))]) {
    for (int32_t id : term.first) {
      if ((*seen)[static_cast<size_t>(id)]) continue;
      (*seen)[static_cast<size_t>(id)] = 1;
      if (factors_[id].kind == Kind::kSymbol) continue;
      mark(factors_[id].a, seen);
      mark(factors_[id].b, seen);
    }
  }
}

void Sizes::evaluate(const std::vector<int64_t>& symbols, std::vector<int64_t>* out) const {
  std::vector<int64_t> factors(factors_.size(), 0);
  for (size_t i = 0; i < symbols_.size(); ++i) factors[symbols_[i]] = symbols[i];
  const auto polynomial_value = [&](const Polynomial& polynomial) {
    int64_t sum = 0;
    for (const auto& [monomial, coefficient] : polynomial) {
      int64_t product = coefficient;
      for (int32_t id : monomial) product = clamp_mul(product, factors[id]);
      sum = clamp(clamp_add(sum, product));
    }
    return sum;
  };
  // Operands use only factors with smaller ids.
  for (size_t i = 0; i < factors_.size(); ++i) {
    const Factor& factor = factors_[i];
    if (factor.kind == Kind::kSymbol) continue;
    const int64_t a = factor.a >= 0 ? factor.a : polynomial_value(expressions_[static_cast<size_t>(-(factor.a + 1))]);
    const int64_t b = factor.b >= 0 ? factor.b : polynomial_value(expressions_[static_cast<size_t>(-(factor.b + 1))]);
    if (factor.kind == Kind::kMinimum) {
      factors[i] = std::max<int64_t>(std::min(a, b), 0);
    } else if (factor.kind == Kind::kQuotient) {
      factors[i] = floor_div(a, b);
    } else {
      factors[i] = b > 0 ? a - floor_div(a, b) * b : 0;
    }
  }
  out->resize(expressions_.size());
  for (size_t i = 0; i < expressions_.size(); ++i) (*out)[i] = polynomial_value(expressions_[i]);
}

Graph::~Graph() {
  for (Value& value : values) {
    if (value.storage != nullptr) value.storage->drop();
  }
}

std::shared_ptr<Graph> Graph::snapshot() const {
  auto copy = std::make_shared<Graph>();
  copy->sizes = sizes;
  copy->values = values;
  copy->nodes = nodes;
  copy->inputs = inputs;
  copy->scalar_inputs = scalar_inputs;
  for (Value& value : copy->values) {
    if (value.storage != nullptr) value.storage->retain();
  }
  return copy;
}

int32_t Graph::add_value(Value value) {
  values.push_back(std::move(value));
  return static_cast<int32_t>(values.size()) - 1;
}

int32_t Graph::add_input(const std::string& name, Value value) {
  value.kind = ValueKind::kInput;
  value.name = name;
  value.index = static_cast<int32_t>(inputs.size());
  inputs.push_back(add_value(std::move(value)));
  return inputs.back();
}

int32_t Graph::capture(Value value, bool state) {
  std::vector<int64_t> key{reinterpret_cast<intptr_t>(value.storage), value.storage_offset, value.dtype,
                           value.scheme, value.rank};
  key.insert(key.end(), value.shape, value.shape + value.rank);
  key.insert(key.end(), value.strides, value.strides + value.rank);
  const auto found = captured_.find(key);
  if (found != captured_.end()) {
    if (state) values[found->second].kind = ValueKind::kState;
    return found->second;
  }
  value.kind = state ? ValueKind::kState : ValueKind::kConstant;
  value.storage->retain();
  const int32_t id = add_value(std::move(value));
  captured_[std::move(key)] = id;
  return id;
}

int32_t Graph::add_node(Node node) {
  const auto id = static_cast<int32_t>(nodes.size());
  for (int32_t input : node.inputs) {
    if (input >= 0) values[input].users.push_back(id);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    Value& value = values[node.outputs[i]];
    value.node = id;
    value.index = static_cast<int32_t>(i);
    if (value.write) next_version_[value.alias] = node.outputs[i];
  }
  by_op[node.op].push_back(id);
  nodes.push_back(std::move(node));
  return id;
}

int32_t Graph::latest(int32_t value) const {
  for (auto it = next_version_.find(value); it != next_version_.end(); it = next_version_.find(value)) {
    value = it->second;
  }
  return value;
}

}  // namespace clika
