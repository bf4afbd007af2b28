// bias_logits and penalize_logits: what a request asks of logits before a token is drawn from them. Both work in place:
// output 0 is the memory of input 0.
#include "level.hpp"
#include "elementwise.hpp"

constexpr float kNone = -std::numeric_limits<float>::infinity();

template <class T>
T item(const clika_value& v, int64_t i) {
  return data_of<T>(v)[i * v.strides[0]];
}

int32_t span_of(const clika_value& spans, int64_t row, int64_t column) {
  return data_of<int32_t>(spans)[row * spans.strides[0] + column * spans.strides[1]];
}

// A row of logits, by strides.
struct Line {
  float* data;
  int64_t stride;
  int64_t n;
  float& operator[](int64_t i) const { return data[i * stride]; }
};

Line line_of(clika_value& logits, int64_t row) {
  return {data_of<float>(logits) + row * logits.strides[0], logits.strides[1], logits.shape[1]};
}

// ---------------------------------------------------------------- bias_logits
// logits [R, V], ids [N], values [N], spans [R, 2]. Everything is checked before anything is written.
int32_t run_bias(const clika_call* call) {
  clika_value& logits = call->outputs[0];
  const clika_value& ids = call->inputs[1];
  const clika_value& values = call->inputs[2];
  const clika_value& spans = call->inputs[3];
  for (int64_t r = 0; r < logits.shape[0]; ++r) {
    const int32_t begin = span_of(spans, r, 0);
    const int32_t end = span_of(spans, r, 1);
    if (begin < 0 || end < begin || end > ids.shape[0]) {
      return refuse(call, "bias_logits: spans[%lld] is %d to %d, outside the %lld ids", static_cast<long long>(r),
                    begin, end, static_cast<long long>(ids.shape[0]));
    }
    for (int64_t j = begin; j < end; ++j) {
      const int32_t id = item<int32_t>(ids, j);
      if (id >= 0 && id < logits.shape[1]) continue;
      return refuse(call, "bias_logits: ids[%lld] is %d, outside the %lld logits of a row", static_cast<long long>(j),
                    id, static_cast<long long>(logits.shape[1]));
    }
  }
  for (int64_t r = 0; r < logits.shape[0]; ++r) {
    const Line x = line_of(logits, r);
    for (int64_t j = span_of(spans, r, 0); j < span_of(spans, r, 1); ++j) {
      float& logit = x[item<int32_t>(ids, j)];
      const float bias = item<float>(values, j);
      // -inf bans whatever the logit is; inf - inf would be no number.
      if (bias == kNone) {
        if (logit == logit) logit = kNone;
      } else {
        logit += bias;
      }
    }
  }
  return CLIKA_OK;
}

// ---------------------------------------------------------------- penalize_logits
struct Penalties {
  float repetition;
  float frequency;
  float presence;
  float dry_multiplier;
  float dry_base;
  int32_t dry_allowed;
  int32_t dry_limit;
};

// The tokens of a row, the last one first: `at(0)` is the newest.
struct History {
  const int32_t* data;
  int64_t stride;
  int64_t begin;
  int64_t reply;
  int64_t end;
  int32_t operator[](int64_t i) const { return data[i * stride]; }
  int32_t at(int64_t i) const { return data[(end - 1 - i) * stride]; }
  int64_t size() const { return end - begin; }
};

// `seen` and `said` have room for a number per token of the vocabulary; what is not in the history is not touched.
void penalize_counts(const Line& x, const History& h, const Penalties& p, int32_t* seen, int32_t* said) {
  for (int64_t i = h.begin; i < h.end; ++i) {
    if (h[i] < 0 || h[i] >= x.n) continue;
    seen[h[i]] = 0;
    said[h[i]] = 0;
  }
  for (int64_t i = std::max(h.begin, h.reply); i < h.end; ++i) {
    if (h[i] >= 0 && h[i] < x.n) ++said[h[i]];
  }
  for (int64_t i = h.begin; i < h.end; ++i) {
    const int32_t id = h[i];
    if (id < 0 || id >= x.n || seen[id] != 0) continue;
    seen[id] = 1;
    float logit = x[id];
    logit = logit > 0.0f ? logit / p.repetition : logit * p.repetition;
    if (said[id] > 0) logit = logit - p.frequency * static_cast<float>(said[id]) - p.presence;
    x[id] = logit;
  }
}

// match[i]: how many tokens before place i (counted from the newest, 1 .. size - 1) equal the newest ones, by the Z
// algorithm (Gusfield, Algorithms on strings, 1997). run[id]: the longest run that the token would continue.
void penalize_runs(const Line& x, const History& h, const Penalties& p, int32_t* match, int32_t* run) {
  const int64_t n = h.size();
  const int64_t most = std::min<int64_t>(n, p.dry_limit);
  if (most < std::max(1, p.dry_allowed)) return;
  for (int64_t i = 0; i < n; ++i) {
    if (h.at(i) >= 0 && h.at(i) < x.n) run[h.at(i)] = 0;
  }
  int64_t left = 0;
  int64_t right = 0;  // [left, right) equals the front
  for (int64_t i = 1; i < n; ++i) {
    int64_t length = i < right ? std::min<int64_t>(right - i, match[i - left]) : 0;
    while (i + length < n && h.at(length) == h.at(i + length)) ++length;
    match[i] = static_cast<int32_t>(length);
    if (i + length > right) {
      left = i;
      right = i + length;
    }
    const int32_t next = h.at(i - 1);
    const int32_t counted = static_cast<int32_t>(std::min(length, most));
    if (next >= 0 && next < x.n) run[next] = std::max(run[next], counted);
  }
  for (int64_t i = 0; i < n; ++i) {
    const int32_t id = h.at(i);
    if (id < 0 || id >= x.n || run[id] < std::max(1, p.dry_allowed)) continue;
    const double power = std::pow(static_cast<double>(p.dry_base), run[id] - p.dry_allowed);
    x[id] -= static_cast<float>(std::min(1e30, p.dry_multiplier * power));
    run[id] = 0;  // once
  }
}

// logits [R, V], history [N], spans [R, 3], repetition, frequency, presence, dry_multiplier, dry_base, dry_allowed,
// dry_limit [R].
int32_t run_penalize(const clika_call* call) {
  clika_value& logits = call->outputs[0];
  const clika_value& history = call->inputs[1];
  const clika_value& spans = call->inputs[2];
  const int64_t rows = logits.shape[0];
  int64_t longest = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const int32_t begin = span_of(spans, r, 0);
    const int32_t end = span_of(spans, r, 2);
    if (begin < 0 || end < begin || end > history.shape[0]) {
      return refuse(call, "penalize_logits: spans[%lld] is %d to %d, outside the %lld tokens of history",
                    static_cast<long long>(r), begin, end, static_cast<long long>(history.shape[0]));
    }
    longest = std::max<int64_t>(longest, end - begin);
  }
  if (longest == 0) return CLIKA_OK;
  const int64_t room = (2 * logits.shape[1] + longest + 15) / 16 * 16;
  const int64_t workers = std::min<int64_t>(rows, call->core->num_threads());
  const bool split = rows > 1 && workers == call->core->num_threads();
  int32_t* scratch = static_cast<int32_t*>(
      call->core->scratch(call, static_cast<size_t>(room * (split ? workers : 1)) * sizeof(int32_t)));
  if (scratch == nullptr) return CLIKA_UNAVAILABLE;
  parallel(call, rows, split ? 1 : rows, [&](int64_t first, int64_t last, int32_t worker) {
    int32_t* one = scratch + worker * room;
    int32_t* other = one + logits.shape[1];
    for (int64_t r = first; r < last; ++r) {
      const Penalties p = {
          item<float>(call->inputs[3], r),   item<float>(call->inputs[4], r), item<float>(call->inputs[5], r),
          item<float>(call->inputs[6], r),   item<float>(call->inputs[7], r), item<int32_t>(call->inputs[8], r),
          item<int32_t>(call->inputs[9], r),
      };
      const History h = {data_of<int32_t>(history), history.strides[0], span_of(spans, r, 0), span_of(spans, r, 1),
                         span_of(spans, r, 2)};
      const Line x = line_of(logits, r);
      if (p.repetition != 1.0f || p.frequency != 0.0f || p.presence != 0.0f) penalize_counts(x, h, p, one, other);
      if (p.dry_multiplier != 0.0f) penalize_runs(x, h, p, other + logits.shape[1], one);
    }
  });
  return CLIKA_OK;
}

CLIKA_KERNELS(adjust_logits, Entry("bias_logits", run_bias).in(F32, I32, F32, I32).inplace(),
              Entry("penalize_logits", run_penalize).in(F32, I32, I32, F32, F32, F32, F32, F32 | I32).inplace())
#include "level_end.hpp"
