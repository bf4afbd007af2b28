// The tables of all schemes with integer products, for operators over several weights. Included after linear.hpp and
// interleaved.hpp.
#pragma once

#define CLIKA_INTEGER_FORMATS(X)                                                                                      \
  X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ1_S) X(IQ1_M) X(IQ2_XXS) X(IQ2_XS) \
  X(IQ2_S) X(IQ3_XXS) X(IQ3_S) X(IQ4_NL) X(IQ4_XS) X(TQ1_0) X(TQ2_0) X(MXFP4) X(NVFP4)
#define CLIKA_OTHER_FORMATS(X) X(INT4_G32) X(INT4_G128) X(INT8_G32) X(MXFP4_E8M0) X(NVFP4_E4M3)

}  // namespace
#define CLIKA_DECLARE(name) extern const IntegerFormat integer_##name;
CLIKA_INTEGER_FORMATS(CLIKA_DECLARE)
CLIKA_OTHER_FORMATS(CLIKA_DECLARE)
#undef CLIKA_DECLARE
namespace {

#define CLIKA_GGUF_BIT(name) | CLIKA_BIT(CLIKA_GGUF_##name)
#define CLIKA_OTHER_BIT(name) | CLIKA_BIT(CLIKA_##name)
constexpr uint64_t kSchemes = 0 CLIKA_INTEGER_FORMATS(CLIKA_GGUF_BIT) CLIKA_OTHER_FORMATS(CLIKA_OTHER_BIT);

const IntegerFormat* format_of(int32_t scheme) {
  switch (scheme) {
#define CLIKA_GGUF_CASE(name) \
  case CLIKA_GGUF_##name:     \
    return &integer_##name;
#define CLIKA_OTHER_CASE(name) \
  case CLIKA_##name:           \
    return &integer_##name;
    CLIKA_INTEGER_FORMATS(CLIKA_GGUF_CASE)
    CLIKA_OTHER_FORMATS(CLIKA_OTHER_CASE)
    default:
      return nullptr;
  }
}

int32_t check_form(const clika_call* call, const Linear& p) {
  if (p.weight->scheme != CLIKA_DENSE) return check_layout(call, p);
  return is_interleaved(*p.weight) ? check_interleaved(call, *p.weight, "linear") : CLIKA_OK;
}

// One of the products by itself; a dense weight has no format.
int32_t run_one(const clika_call* call, Linear* p, const IntegerFormat* const* format, bool fast) {
  if (*format == nullptr) return multiply_dense(*p);
  return fast ? run_integer(call, p, format, 1, Gate::kNone) : (*format)->exact(*p);
}
bool all_packed(const IntegerFormat* const* formats, int32_t count) {
  return std::all_of(formats, formats + count, [](const IntegerFormat* format) { return format != nullptr; });
}

// Fills the list from the call; CLIKA_OK or the recorded error. Two halves of a gate have one output.
int32_t read_products(const clika_call* call, const clika_value* weights, const clika_value* const* biases,
                      int32_t count, bool one_output, Linear* products, const IntegerFormat** formats, bool* empty) {
  *empty = true;
  for (int32_t i = 0; i < count; ++i) {
    bool nothing = false;
    const clika_value& out = call->outputs[one_output ? 0 : i];
    int32_t status = read_product(call, weights[i], biases[i], out, products + i, &nothing);
    if (status == CLIKA_OK) status = check_form(call, products[i]);
    if (status != CLIKA_OK) return status;
    formats[i] = format_of(weights[i].scheme);
    *empty = *empty && nothing;
  }
  return CLIKA_OK;
}
