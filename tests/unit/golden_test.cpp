// Logits of the random models in tests/golden/ against two references, at every position:
//   NAME.hf.f32   Hugging Face transformers in FP32; the bar leaves room for our FP16 K/V cache
//   NAME.ref.f32  the same arithmetic as ours in FP64 (FP16 cache, INT8 formula), a ten times finer
//   bar
// golden.json lists the cases; make_golden.py says how they were made and why the bars are these.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "engine/cpu/cpu_backend.h"
#include "engine_rig.h"
#include "model/config.h"
#include "model/gguf.h"
#include "model/weights.h"

namespace specbound::golden_test {
namespace {

const std::string kDirectory = std::string(SPECBOUND_GOLDEN) + "/";

nlohmann::json read_cases() {
  std::ifstream file(kDirectory + "golden.json");
  REQUIRE(file);
  return nlohmann::json::parse(file).at("cases");
}

// (positions, vocab_size)
std::vector<float> read_logits(const std::string& name, size_t count) {
  std::ifstream file(kDirectory + name, std::ios::binary);
  REQUIRE(file);
  std::vector<float> logits(count);
  const auto bytes = static_cast<std::streamsize>(count * sizeof(float));
  REQUIRE(file.read(reinterpret_cast<char*>(logits.data()), bytes));
  REQUIRE(file.peek() == std::ifstream::traits_type::eof());
  return logits;
}

// max |difference| / max |expected logit| at one position; NaN anywhere gives infinity.
double row_ratio(const float* logits, const float* expected, int vocab_size) {
  double difference = 0, largest = 0;
  for (int i = 0; i < vocab_size; ++i) {
    const double d = std::abs(double{logits[i]} - double{expected[i]});
    if (!(d <= HUGE_VAL)) return HUGE_VAL;
    difference = std::max(difference, d);
    largest = std::max(largest, std::abs(double{expected[i]}));
  }
  return difference / largest;
}

double max_ratio(const std::vector<float>& logits, const std::vector<float>& expected,
                 int vocab_size) {
  REQUIRE(logits.size() == expected.size());
  double ratio = 0;
  for (size_t row = 0; row < logits.size(); row += vocab_size) {
    ratio = std::max(ratio, row_ratio(&logits[row], &expected[row], vocab_size));
  }
  return ratio;
}

// Logits of all positions, `n_rows` rows a pass.
std::vector<float> run_rows(Backend& backend, const std::vector<int32_t>& ids, int n_rows) {
  const int n_ids = static_cast<int>(ids.size());
  const ModelConfig& config = backend.config();
  std::vector<float> logits(ids.size() * config.vocab_size);
  backend.truncate(0);
  for (int pos = 0; pos < n_ids; pos += n_rows) {
    const int n = std::min(n_rows, n_ids - pos);
    for (int i = 0; i < n; ++i) backend.embed(i, ids[pos + i]);
    backend.run_layers(0, n, pos, 1, config.n_layers);
    backend.logits(0, n, &logits[size_t(pos) * config.vocab_size]);
  }
  return logits;
}

// Logits of the last position alone, all others by prefill.
std::vector<float> run_prefill(Backend& backend, const std::vector<int32_t>& ids) {
  const int last = static_cast<int>(ids.size()) - 1;
  const ModelConfig& config = backend.config();
  std::vector<float> logits(config.vocab_size);
  backend.truncate(0);
  backend.prefill(std::span(ids).first(last));
  backend.embed(0, ids[last]);
  backend.run_layers(0, 1, last, 1, config.n_layers);
  backend.logits(0, 1, logits.data());
  return logits;
}

struct Way {
  Isa isa;
  bool repack;
  std::string name() const { return std::string(isa_name(isa)) + (repack ? "" : ", in place"); }
};

std::vector<Way> supported_ways() {
  std::vector<Way> ways;
  for (Isa isa : test::supported_isas()) {
    ways.push_back({isa, true});
    ways.push_back({isa, false});
  }
  return ways;
}

void check_case(const nlohmann::json& entry, const std::vector<Way>& ways) {
  const std::string name = entry.at("name");
  const int vocab_size = entry.at("vocab_size");
  const std::vector<int32_t> ids = entry.at("ids");
  INFO(name);

  const Gguf gguf = Gguf::open(kDirectory + name + ".gguf");
  const ModelConfig config = read_config(gguf);
  const Weights weights = map_weights(gguf, config);
  REQUIRE(config.vocab_size == vocab_size);

  struct Reference {
    std::string name;
    double bar, worst;
    std::vector<float> logits;
  };
  const size_t count = ids.size() * vocab_size;
  std::vector<Reference> references;
  references.push_back({"ref", entry.at("ref_bar"), 0, read_logits(name + ".ref.f32", count)});
  if (entry.contains("hf_bar")) {
    references.push_back({"hf", entry.at("hf_bar"), 0, read_logits(name + ".hf.f32", count)});
  }

  for (const Way& way : ways) {
    // Only Q8_0 is ever repacked by choice.
    if (!way.repack && !name.ends_with("_q8_0")) continue;
    CpuOptions options;
    options.n_threads = 2;
    options.isa = way.isa;
    options.repack = way.repack;
    options.n_ctx = entry.value("n_ctx", 0);
    const std::unique_ptr<Backend> backend = make_cpu_backend(config, weights, options);
    REQUIRE(backend->n_ctx() >= static_cast<int>(ids.size()));

    const std::vector<float> one_by_one = run_rows(*backend, ids, 1);
    const std::vector<float> in_sevens = run_rows(*backend, ids, 7);
    const std::vector<float> after_prefill = run_prefill(*backend, ids);
    for (Reference& r : references) {
      INFO(way.name() << ", against " << r.name);
      const std::vector<float> last(r.logits.end() - vocab_size, r.logits.end());
      const double ratios[] = {max_ratio(one_by_one, r.logits, vocab_size),
                               max_ratio(in_sevens, r.logits, vocab_size),
                               max_ratio(after_prefill, last, vocab_size)};
      CHECK(ratios[0] <= r.bar);
      CHECK(ratios[1] <= r.bar);
      CHECK(ratios[2] <= r.bar);
      r.worst = std::max(r.worst, *std::max_element(std::begin(ratios), std::end(ratios)));
    }
  }
  for (const Reference& r : references) {
    MESSAGE(name << " against " << r.name << ": max difference / max logit " << r.worst << ", bar "
                 << r.bar);
  }
}

// A case lost from the manifest is a failure, not a faster test.
const std::set<std::string> kLlamaAndQwen = {"llama_gqa",
                                             "llama_rope_llama3_tied",
                                             "llama_rope_linear_head_dim",
                                             "llama_mha_odd",
                                             "qwen2",
                                             "qwen3",
                                             "llama_gqa_f16",
                                             "qwen3_bf16",
                                             "llama_gqa_q8_0",
                                             "qwen2_q8_0",
                                             "qwen3_q8_0",
                                             "llama_rope_llama3_tied_q8_0"};
const std::set<std::string> kOtherArchitectures = {
    "gemma",         "gemma2",         "phi3",        "phi3_long_rope", "phi3_short_rope",
    "smollm3",       "mistral_window", "gemma2_q8_0", "phi3_q8_0",      "ernie4_5",
    "gemma3",        "gemma3_q8_0",    "llama_yarn",  "qwen3_yarn",     "qwen3moe",
    "qwen3moe_q8_0", "llama_deep"};
const std::set<std::string> kOtherQuantizations = {"llama_gqa_q4_0", "llama_q4_k",
                                                   "llama_converted"};

void check_cases(const std::set<std::string>& names) {
  const std::vector<Way> ways = supported_ways();
  size_t found = 0;
  for (const nlohmann::json& entry : read_cases()) {
    if (!names.count(entry.at("name"))) continue;
    check_case(entry, ways);
    ++found;
  }
  CHECK(found == names.size());
}

TEST_CASE("golden: llama and qwen agree with transformers and with the FP64 reference") {
  check_cases(kLlamaAndQwen);
}

TEST_CASE("golden: other architectures agree with transformers and with the FP64 reference") {
  check_cases(kOtherArchitectures);
}

TEST_CASE("golden: other quantizations agree with the FP64 reference") {
  check_cases(kOtherQuantizations);
}

TEST_CASE("golden: every case of the manifest is checked") {
  CHECK(read_cases().size() ==
        kLlamaAndQwen.size() + kOtherArchitectures.size() + kOtherQuantizations.size());
}

TEST_CASE("golden: the bars are the stated ones") {
  for (const nlohmann::json& entry : read_cases()) {
    const std::string name = entry.at("name");
    INFO(name);
    const bool quantized = name.ends_with("_q8_0") || name.ends_with("_q4_0") ||
                           name.ends_with("_q4_k") || name == "llama_converted";
    CHECK(entry.at("ref_bar") == 1e-5);
    CHECK(entry.contains("hf_bar") == !quantized);
    if (!quantized) CHECK(entry.at("hf_bar") == 1e-4);
  }
}

}  // namespace
}  // namespace specbound::golden_test
