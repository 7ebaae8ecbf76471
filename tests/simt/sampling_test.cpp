// Sampling kernels against decode/sampler.h: the same token and margin, whatever the logits are.
#include "sampling.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "decode/sampler.h"
#include "numerics/exact_math.h"
#include "simt/rig.h"

namespace sampling_test {

using namespace specbound;
using kernels::draw_parts;
using kernels::LogitRows;
using kernels::Pass;
using kernels::SamplingState;
using simt::DeviceBuffer;
using test::pass_of;
using test::same_floats;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int kPos = 37;  // of the first row

enum class Rows {
  kPlain,
  kFlat,  // nearly equal
  kPeaked,
  kTied,     // few different values
  kHoles,    // NaN, infinities, zeros of both signs, the largest floats
  kNothing,  // NaN and -inf
  kEqual,
  kRising,
  kFalling,
  kCount,
};

float logit_of(Rows kind, int i, int n, std::mt19937& random) {
  const float x = std::normal_distribution<float>()(random);
  switch (kind) {
    case Rows::kFlat:
      return 1e-3f * x;
    case Rows::kPeaked:
      return 12 * x;
    case Rows::kTied:
      return std::round(2 * x);
    case Rows::kHoles: {
      const float holes[] = {kNan, -kInf, 0.0f, -0.0f, 3.4e38f, -3.4e38f, 1e-40f, x, x, x, x, x};
      const unsigned at = random() % 400;
      return at == 399 ? kInf : holes[at % 12];
    }
    case Rows::kNothing:
      return random() % 2 ? kNan : -kInf;
    case Rows::kEqual:
      return -2.5f;
    case Rows::kRising:
      return 8.0f * static_cast<float>(i) / static_cast<float>(n);
    case Rows::kFalling:
      return -8.0f * static_cast<float>(i) / static_cast<float>(n);
    default:
      return 3 * x;
  }
}

// Rows of logits, each of another kind, on the device and here.
struct Subject {
  int n, ld, rows;
  std::vector<float> logits;  // (rows, ld)
  std::vector<int32_t> ids;   // (n) or empty
  DeviceBuffer<float> device_logits;
  DeviceBuffer<int32_t> device_ids;
  DeviceBuffer<Pass> pass;

  Subject(int n, int rows, bool with_ids, unsigned seed, Rows first = Rows::kPlain)
      : n(n),
        ld((n + 3) / 4 * 4),
        rows(rows),
        logits(make(n, rows, seed, first)),
        ids(with_ids ? shuffled(n, seed) : std::vector<int32_t>()),
        device_logits(logits),
        device_ids(with_ids ? ids : std::vector<int32_t>(1)),
        pass(pass_of(rows, kPos)) {}

  static std::vector<float> make(int n, int rows, unsigned seed, Rows first) {
    std::mt19937 random(seed);
    const int ld = (n + 3) / 4 * 4;
    std::vector<float> logits(static_cast<size_t>(rows) * ld, kInf);  // beyond n: never looked at
    for (int r = 0; r < rows; ++r) {
      const int kinds = static_cast<int>(Rows::kCount);
      const auto kind = static_cast<Rows>((static_cast<int>(first) + r) % kinds);
      for (int i = 0; i < n; ++i) {
        logits[static_cast<size_t>(r) * ld + i] = logit_of(kind, i, n, random);
      }
    }
    return logits;
  }
  static std::vector<int32_t> shuffled(int n, unsigned seed) {
    std::vector<int32_t> ids(n);
    for (int i = 0; i < n; ++i) ids[i] = 3 * i + 1;
    std::mt19937 random(seed);
    std::shuffle(ids.begin(), ids.end(), random);
    return ids;
  }

  LogitRows view(int max_rows = kernels::kMaxDecodeRows) const {
    return {pass.data(), device_logits.data(), ld, n, ids.empty() ? nullptr : device_ids.data(),
            max_rows};
  }
  std::span<const float> row(int r) const {
    return std::span(logits).subspan(static_cast<size_t>(r) * ld, n);
  }
};

DrawPlace place_of(const SamplingParams& params, uint32_t reply, int row) {
  return {params.seed, reply, static_cast<uint32_t>(kPos + row + 1)};
}

SamplingParams unfiltered(float temperature, uint64_t seed) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_k = 0;
  params.top_p = 1;
  params.min_p = 0;
  params.seed = seed;
  return params;
}

SamplingState state_of(const SamplingParams& params, uint32_t reply) {
  return {params.seed, reply, params.temperature, params.repeat_penalty, params.repeat_last_n};
}

std::vector<kernels::DrawnToken> drawn_by(const Subject& subject, const SamplingState& state) {
  const DeviceBuffer<SamplingState> sampling(std::vector<SamplingState>{state});
  const DeviceBuffer<kernels::DrawPart> parts(static_cast<size_t>(draw_parts(subject.n)) *
                                              kernels::kMaxDecodeRows);
  const DeviceBuffer<kernels::DrawnToken> drawn(subject.rows);
  kernels::gumbel_argmax({subject.view(), sampling.data(), parts.data(), drawn.data()},
                         simt::stream());
  return drawn.read();
}

void check_draws(const Subject& subject, float temperature, uint64_t seed, uint32_t reply) {
  CAPTURE(subject.n);
  CAPTURE(temperature);
  const SamplingParams params = unfiltered(temperature, seed);
  Sampler sampler(params);
  const auto drawn = drawn_by(subject, state_of(params, reply));
  for (int r = 0; r < subject.rows; ++r) {
    CAPTURE(r);
    double margin = 0;
    const int32_t token =
        sampler.sample(subject.row(r), {}, place_of(params, reply, r), subject.ids, &margin);
    REQUIRE(drawn[r].token == token);
    REQUIRE(drawn[r].margin == margin);
  }
}

}  // namespace

TEST_CASE("gumbel_argmax: the sampler's tokens and margins for every kind of row") {
  uint64_t seed = 0x9e3779b97f4a7c15;
  for (const int n : {1, 2, 3, 5, 31, 257, 1000, 1023, 1024, 1025, 3001}) {
    for (const bool ids : {false, true}) {
      const Subject subject(n, n < 100 ? 16 : 9, ids, static_cast<unsigned>(n));
      for (const float temperature : {0.0f, 0.01f, 0.8f, 1.0f, 7.0f, 100.0f}) {
        ++seed;
        check_draws(subject, temperature, seed, static_cast<uint32_t>(seed % 7));
      }
    }
  }
}

TEST_CASE("gumbel_argmax: every place of the noise, tiny temperatures") {
  const Subject subject(515, 16, false, 5);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    check_draws(subject, 1.0f, seed << 32 | seed, static_cast<uint32_t>(seed) << 31);
    check_draws(subject, 1e-30f, seed, 3);
    check_draws(subject, 1e-44f, seed, 3);
  }
}

TEST_CASE("gumbel_argmax: few tokens, where the bounds of the noise decide what is looked at") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Subject subject(3 + static_cast<int>(seed % 3), 16, false, seed);
    std::mt19937 random(seed);
    for (float& logit : subject.logits) logit = static_cast<float>(random() % 1000) * 1e-3f;
    subject.device_logits.write(subject.logits);
    check_draws(subject, 0.5f, seed, seed);
  }
}

TEST_CASE("gumbel_argmax: one vocabulary of true size") {
  check_draws(Subject(32003, 2, false, 1, Rows::kFlat), 0.7f, 11, 1);
}

TEST_CASE("gumbel_argmax: no matter in which order threads run") {
  const Subject subject(2050, 9, false, 8);
  const SamplingState state = state_of(unfiltered(0.9f, 4), 2);
  simt::for_each_order([&] { return drawn_by(subject, state); });
}

TEST_CASE("gumbel_argmax: rows that a pass does not have are left alone") {
  Subject subject(300, 5, false, 8);
  subject.pass.write({{3, kPos}});
  const auto drawn = drawn_by(subject, state_of(unfiltered(0.9f, 4), 2));
  const simt::DeviceBuffer<kernels::DrawnToken> untouched(1);
  const auto poison = untouched.read();
  for (int r = 3; r < 5; ++r) CHECK(std::memcmp(&drawn[r], poison.data(), sizeof(poison[0])) == 0);
}

TEST_CASE("penalize_rows: the sampler's penalty, row by row") {
  const int rows = 9;
  for (const int n : {1, 7, 300, 1030}) {
    for (const bool ids : {false, true}) {
      const Subject subject(n, rows, ids, static_cast<unsigned>(n));
      std::mt19937 random(7);
      std::vector<int32_t> text(kPos + rows);
      for (int32_t& token : text) {
        const int32_t i = static_cast<int32_t>(random() % std::min(n, 40));
        token = ids ? subject.ids[i] : i;
      }
      const DeviceBuffer<int32_t> device_text(text);
      for (const int last_n : {-1, 0, 1, 8, kPos + 2, 1000}) {
        SamplingParams params = unfiltered(0, 1);
        params.repeat_penalty = last_n == 8 ? 0.5f : 1.3f;
        params.repeat_last_n = last_n;
        const DeviceBuffer<SamplingState> sampling(std::vector<SamplingState>{state_of(params, 0)});
        const DeviceBuffer<float> out(subject.logits.size());
        kernels::penalize_rows({subject.view(), sampling.data(), device_text.data(), out.data()},
                               simt::stream());
        const std::vector<float> penalized = out.read();
        for (int r = 0; r < rows; ++r) {
          const int end = kPos + r + 1, begin = last_n < 0 ? 0 : std::max(0, end - last_n);
          for (int i = 0; i < n; ++i) {
            const float logit = subject.row(r)[i];
            const int32_t id = ids ? subject.ids[i] : i;
            const bool seen =
                std::find(text.begin() + begin, text.begin() + end, id) != text.begin() + end;
            const float penalty = params.repeat_penalty;
            const float expected = !seen ? logit : logit > 0 ? logit / penalty : logit * penalty;
            const float found = penalized[static_cast<size_t>(r) * subject.ld + i];
            REQUIRE(same_floats(found, expected));
          }
        }
        // And as a whole: greedy tokens of the penalized rows.
        const DeviceBuffer<kernels::DrawPart> parts(static_cast<size_t>(draw_parts(n)) *
                                                    kernels::kMaxDecodeRows);
        const DeviceBuffer<kernels::DrawnToken> drawn(rows);
        LogitRows view = subject.view();
        view.logits = out.data();
        kernels::gumbel_argmax({view, sampling.data(), parts.data(), drawn.data()}, simt::stream());
        const auto tokens = drawn.read();
        Sampler sampler(params);
        for (int r = 0; r < rows; ++r) {
          const std::span<const int32_t> history(text.data(), kPos + r + 1);
          REQUIRE(tokens[r].token ==
                  sampler.sample(subject.row(r), history, place_of(params, 0, r), subject.ids));
        }
      }
    }
  }
}

namespace {

std::vector<TopLogits> tops_of(const Subject& subject, bool weigh) {
  const DeviceBuffer<TopLogits> top(subject.rows);
  kernels::top_logits({subject.view(), top.data(), weigh}, simt::stream());
  return top.read();
}

float without_nan(float logit) {
  return std::isnan(logit) ? -kInf : logit;
}

// The sampler's Z, in its order.
double weights_of(std::span<const float> row, std::span<const int32_t> ids) {
  std::vector<int> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  if (!ids.empty())
    std::sort(order.begin(), order.end(), [&](int a, int b) { return ids[a] < ids[b]; });
  float max = -kInf;
  for (const float logit : row) max = std::max(max, without_nan(logit));
  double z = 0;
  for (const int i : order) {
    const float logit = without_nan(row[i]);
    z += logit == max ? 1.0 : exact_exp(static_cast<double>(logit) - max);
  }
  return z;
}

void check_top(const Subject& subject) {
  CAPTURE(subject.n);
  const std::vector<TopLogits> tops = tops_of(subject, true);
  for (int r = 0; r < subject.rows; ++r) {
    CAPTURE(r);
    const std::span<const float> row = subject.row(r);
    std::vector<std::pair<float, int32_t>> all;  // descending by (-logit, id)
    for (int i = 0; i < subject.n; ++i) {
      all.emplace_back(-without_nan(row[i]), subject.ids.empty() ? i : subject.ids[i]);
    }
    std::sort(all.begin(), all.end());
    const TopLogits& top = tops[r];
    REQUIRE(top.of == subject.n);
    REQUIRE(top.n == std::min(subject.n, kTopLogits));
    for (int i = 0; i < top.n; ++i) {
      REQUIRE(top.logit[i] == -all[i].first);
      REQUIRE(top.id[i] == all[i].second);
    }
    const double z = weights_of(row, subject.ids);
    double sum = 0;
    for (const double part : top.weight) sum += part;
    REQUIRE(std::abs(sum - z) <= weight_error(subject.n) * z);
  }
}

}  // namespace

TEST_CASE("top_logits: the first 256 in the sampler's order, and weights") {
  for (const int n : {1, 2, 40, 255, 256, 257, 1000, 1024, 1025, 2111}) {
    for (const bool ids : {false, true}) check_top(Subject(n, 9, ids, static_cast<unsigned>(n)));
  }
  check_top(Subject(32003, 1, false, 3));
}

TEST_CASE("top_logits: no matter in which order threads run") {
  const Subject subject(1500, 3, true, 3);
  simt::for_each_order([&] { return tops_of(subject, true); });
}

TEST_CASE("top_logits: a row too odd for it says so, and still has its best") {
  Subject subject(4 * 1024, 1, false, 3);
  // Few of the 1024 groups hold all of the large logits.
  for (int i = 0; i < subject.n; ++i) {
    subject.logits[i] = 1e-3f * static_cast<float>(i) + (i % 1024 < 200 ? 5.0f : 0.0f);
  }
  subject.device_logits.write(subject.logits);
  check_top(subject);  // 800 of them and no more
  Subject large(8 * 1024, 1, false, 3);
  // 256 groups whose best reach the least of them, each with eight logits that nearly all do.
  for (int i = 0; i < large.n; ++i) {
    const int group = i % 1024;
    large.logits[i] = group < 256 ? 5 + 0.01f * static_cast<float>(group) : -5.0f;
  }
  large.logits[7 * 1024 + 255] = 9;
  large.device_logits.write(large.logits);
  const std::vector<TopLogits> tops = tops_of(large, false);
  CHECK(tops[0].n == 0);
  CHECK(tops[0].id[0] == 7 * 1024 + 255);
  CHECK_FALSE(Sampler({}).sample_top(tops[0], false, {}));
}

TEST_CASE("sample_top: the token of the whole row, or none where the head does not decide") {
  int decided = 0, asked = 0;
  for (const int n : {3, 200, 256, 257, 700, 2500}) {
    for (const bool ids : {false, true}) {
      const Subject subject(n, 9, ids, static_cast<unsigned>(n) + 1);
      const std::vector<TopLogits> tops = tops_of(subject, true);
      for (const int top_k : {0, 1, 40, 256, 300, 5000}) {
        for (const float top_p : {1.0f, 0.999999f, 0.95f, 0.3f, 0.0f}) {
          for (const float min_p : {0.0f, 0.05f, 1.0f}) {
            for (const float temperature : {0.0f, 0.6f, 1.4f}) {
              SamplingParams params;
              params.temperature = temperature;
              params.top_k = top_k;
              params.top_p = top_p;
              params.min_p = min_p;
              params.seed = static_cast<uint64_t>(n);
              Sampler sampler(params);
              for (int r = 0; r < subject.rows; ++r) {
                const DrawPlace place = place_of(params, 2, r);
                double margin = 0, expected_margin = 0;
                const int32_t expected =
                    sampler.sample(subject.row(r), {}, place, subject.ids, &expected_margin);
                for (const bool weighed : {false, true}) {
                  const auto token = sampler.sample_top(tops[r], weighed, place, &margin);
                  asked += weighed;
                  if (!token) continue;
                  decided += weighed;
                  CAPTURE(n);
                  CAPTURE(r);
                  CAPTURE(top_k);
                  CAPTURE(top_p);
                  CAPTURE(min_p);
                  REQUIRE(*token == expected);
                  REQUIRE(margin == expected_margin);
                }
              }
            }
          }
        }
      }
    }
  }
  CHECK(decided > asked * 9 / 10);
}

TEST_CASE("sample_top: nothing where top-p ends within the rounding of Z") {
  Subject subject(512, 1, false, 1, Rows::kEqual);
  const std::vector<TopLogits> tops = tops_of(subject, true);
  SamplingParams params;
  params.top_k = 0;
  params.min_p = 0;
  params.top_p = 0.25f;
  CHECK_FALSE(Sampler(params).sample_top(tops[0], true, {}));  // exactly 128 of them
  params.top_p = 0.2501f;
  CHECK(Sampler(params).sample_top(tops[0], true, {}) ==
        Sampler(params).sample(subject.row(0), {}, {}));
  CHECK_FALSE(Sampler(params).sample_top(tops[0], false, {}));  // without Z
}

}  // namespace sampling_test
