// Rotary angles against Hugging Face transformers' (tests/golden/rope_golden.json), and those of
// models that have two rotations.
#include "engine/cpu/rope.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "farther.h"
#include "model/gguf.h"
#include "tiny_gguf.h"

namespace specbound::test::rope_test {
namespace {

constexpr int kPositions[] = {0, 1, 2, 17, 300};

ModelConfig config_of(const TinySpec& spec) {
  const std::vector<std::byte> bytes = tiny_file(spec, {});
  return read_config(Gguf::parse(bytes, "tiny.gguf"));
}

// A file that says what the case does.
TinySpec spec_of(const nlohmann::json& entry) {
  TinySpec spec;
  spec.head_dim = entry.at("dim");
  spec.rope_theta = entry.at("theta");
  spec.metadata = [&entry](GgufWriter& w) {
    w.add_string("llama.rope.scaling.type", "yarn");
    w.add_float("llama.rope.scaling.factor", entry.at("factor"));
    w.add_uint("llama.rope.scaling.original_context_length", entry.at("original"));
    for (const char* turns : {"beta_fast", "beta_slow"}) {
      if (!entry.contains(turns)) continue;
      w.add_float(std::string("llama.rope.scaling.yarn_") + turns, entry.at(turns));
    }
    if (!entry.contains("attention_factor")) return;
    const double usual = 1 + 0.1 * std::log(entry.at("factor").get<double>());
    w.add_float("llama.rope.scaling.attn_factor",
                static_cast<float>(entry.at("attention_factor").get<double>() / usual));
  };
  return spec;
}

// The largest difference of cosines and sines, pairs being interleaved.
double difference(const float* angles, int dim, int pos, const std::vector<double>& frequencies,
                  double factor) {
  double most = 0;
  for (int i = 0; i < dim / 2; ++i) {
    const double angle = pos * frequencies[i];
    most = test::farther(most, std::abs(angles[2 * i] - factor * std::cos(angle)));
    most = test::farther(most, std::abs(angles[dim + 2 * i + 1] - factor * std::sin(angle)));
    CHECK(angles[2 * i + 1] == angles[2 * i]);
    CHECK(angles[dim + 2 * i] == -angles[dim + 2 * i + 1]);
  }
  return most;
}

}  // namespace

TEST_CASE("rope: YaRN's angles are those of transformers") {
  std::ifstream file(SPECBOUND_GOLDEN "/rope_golden.json");
  REQUIRE(file);
  const nlohmann::json cases = nlohmann::json::parse(file).at("cases");
  REQUIRE(cases.size() == 6);
  for (const nlohmann::json& entry : cases) {
    const std::string name = entry.at("name");
    CAPTURE(name);
    const ModelConfig config = config_of(spec_of(entry));
    CHECK(config.rope_attn_factor ==
          doctest::Approx(entry.at("attn_factor").get<double>()).epsilon(1e-6));
    Rope rope(config, nullptr);
    rope.ensure(kPositions[4]);
    const std::vector<double> frequencies = entry.at("frequencies");
    REQUIRE(std::ssize(frequencies) == config.rope_dim / 2);
    for (const int pos : kPositions) {
      CAPTURE(pos);
      // Theirs are FP32: the angle of a position may be off by as many roundings.
      CHECK(difference(rope.angles(pos, 0), config.rope_dim, pos, frequencies,
                       entry.at("attn_factor")) < 5e-7 * (pos + 2));
    }
  }
}

TEST_CASE("rope: windowed layers' rotation has neither factors nor scales") {
  TinySpec spec = gemma3_spec();
  spec.metadata = [](GgufWriter& w) {
    w.add_string("gemma3.rope.scaling.type", "yarn");
    w.add_float("gemma3.rope.scaling.factor", 8);
    w.add_uint("gemma3.rope.scaling.original_context_length", 64);
    w.add_float("gemma3.rope.freq_base_swa", 500);
  };
  ModelConfig config = config_of(spec);
  config.rope_style = RopeStyle::kInterleaved;  // as difference() reads them
  Rope rope(config, nullptr);
  rope.ensure(9);
  rope.ensure(kPositions[4]);  // the first ones stay
  std::vector<double> frequencies;
  for (int i = 0; i < config.rope_dim; i += 2) {
    frequencies.push_back(std::pow(500.0, -double(i) / config.rope_dim));
  }
  for (const int pos : kPositions) {
    CAPTURE(pos);
    CHECK(difference(rope.angles(pos, 1), config.rope_dim, pos, frequencies, 1) < 1e-6);
    CHECK(difference(rope.angles(pos, 0), config.rope_dim, pos, frequencies, 1) > 0.1);
  }
}

}  // namespace specbound::test::rope_test
