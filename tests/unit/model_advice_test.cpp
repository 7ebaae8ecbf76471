// What doctor advises: a model that fits and keeps up with a reader.
#include "library/model_advice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

using namespace specbound;

namespace {

constexpr uint64_t kGB = 1'000'000'000;

const ShortName& named(const char* name) {
  const auto known = short_names();
  const auto at = std::ranges::find_if(
      known, [&](const ShortName& n) { return std::strcmp(n.name, name) == 0; });
  REQUIRE(at != known.end());
  return *at;
}

}  // namespace

TEST_CASE("advice: the largest model that fits and keeps up with a reader") {
  for (const ShortName& model : short_names()) {
    const uint64_t bytes = model.megabytes * uint64_t{1'000'000};
    // Room and speed for just this one.
    const ModelAdvice advice =
        advised_model({bytes * 10 / 7 + 1, 10.0 * static_cast<double>(bytes)});
    CHECK(advice.model->megabytes == model.megabytes);
    CHECK(advice.tokens_per_second == doctest::Approx(10));
    CHECK(advice.largest_file >= bytes);
    if (model.megabytes == named("smollm2").megabytes) continue;
    // Too little of either.
    CHECK(advised_model({bytes, 1e15}).model->megabytes < model.megabytes);
    CHECK(advised_model({kGB * 1000, 9.9 * static_cast<double>(bytes)}).model->megabytes <
          model.megabytes);
  }
}

TEST_CASE("advice: the smallest where none is fast or fits") {
  CHECK(advised_model({}).model == &named("smollm2"));
  CHECK(advised_model({}).tokens_per_second == 0);
  CHECK(advised_model({kGB, 98e6}).model == &named("smollm2"));
  CHECK(advised_model({kGB, 98e6}).tokens_per_second == doctest::Approx(1));
}

TEST_CASE("advice: sizes as people read them") {
  CHECK(size_text(named("smollm2")) == "98 MB");
  CHECK(size_text(named("smollm2:360m")) == "0.4 GB");
  CHECK(size_text(named("qwen2.5-coder:1.5b")) == "1.1 GB");
  CHECK(size_text(named("qwen3:32b")) == "19.8 GB");
}
