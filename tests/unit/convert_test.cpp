// Hugging Face directories in tests/golden/convert become GGUF files: the tensors that llama.cpp's
// converter writes (names, shapes, bytes), logits as transformers computes them from the directory,
// and text cut as the tokenizers cut it. make_convert_golden.py says how all of this was made.
#include "convert/convert.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "engine/cpu/cpu_backend.h"
#include "expect_error.h"
#include "model/config.h"
#include "model/gguf.h"
#include "model/weights.h"
#include "temp_dir.h"
#include "text/tokenizer.h"

namespace specbound::convert_test {
namespace {

using test::TempDir;

const std::string kDirectory = std::string(SPECBOUND_GOLDEN) + "/convert/";
constexpr double kBar = 1e-4;          // golden_test.cpp's: our K/V cache is FP16
constexpr double kQuantizedBar = 0.1;  // quantization moves logits: no bar, but nonsense shows
constexpr size_t kStoredPositions = 6;

const nlohmann::json& golden() {
  static const nlohmann::json read = [] {
    std::ifstream file(kDirectory + "convert.json");
    REQUIRE(file);
    return nlohmann::json::parse(file);
  }();
  return read;
}

// Which types matrices of a case keep all their digits in.
DType stored_type(const nlohmann::json& entry) {
  const std::string dtype = entry.at("dtype");
  return dtype == "float32" ? DType::kF32 : dtype == "float16" ? DType::kF16 : DType::kBF16;
}

Converted convert_case(const std::string& name, DType type, const std::string& output,
                       int n_threads = 1) {
  ConvertOptions options;
  options.directory = kDirectory + name;
  options.output = output;
  options.type = type;
  options.n_threads = n_threads;
  return convert_model(options);
}

std::string hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte byte : bytes) out += format("%02x", static_cast<unsigned>(byte));
  return out;
}

// Rotary tables, which are no parameters of the model.
bool is_table(std::string_view name) {
  return name.starts_with("rope_");
}

std::vector<float> read_floats(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  REQUIRE(file);
  std::vector<float> values(static_cast<size_t>(file.tellg()) / sizeof(float));
  file.seekg(0);
  REQUIRE(file.read(reinterpret_cast<char*>(values.data()),
                    static_cast<std::streamsize>(values.size() * sizeof(float))));
  return values;
}

// Logits of the last positions of a prompt, by a model with room for n_ctx of them (0: as trained).
std::vector<float> last_logits(const ModelConfig& config, const Weights& weights,
                               const std::vector<int32_t>& ids, int n_ctx) {
  CpuOptions options;
  options.n_threads = 1;
  options.n_ctx = n_ctx;
  const std::unique_ptr<Backend> backend = make_cpu_backend(config, weights, options);
  std::vector<float> logits;
  for (size_t pos = 0; pos < ids.size(); ++pos) {
    backend->embed(0, ids[pos]);
    backend->run_layers(0, 1, static_cast<int>(pos), 1, config.n_layers);
    if (pos + kStoredPositions < ids.size()) continue;
    const size_t begin = logits.size();
    logits.resize(begin + config.vocab_size);
    backend->logits(0, 1, &logits[begin]);
  }
  return logits;
}

// The largest over positions of max |difference| / max |expected logit|.
double max_ratio(std::span<const float> logits, std::span<const float> expected, size_t n_vocab) {
  REQUIRE(logits.size() == expected.size());
  double ratio = 0;
  for (size_t row = 0; row < logits.size(); row += n_vocab) {
    double difference = 0, largest = 0;
    for (size_t i = row; i < row + n_vocab; ++i) {
      const double d = std::abs(double{logits[i]} - double{expected[i]});
      difference = d <= HUGE_VAL ? std::max(difference, d) : HUGE_VAL;
      largest = std::max(largest, std::abs(double{expected[i]}));
    }
    ratio = std::max(ratio, difference / largest);
  }
  return ratio;
}

void check_logits(const nlohmann::json& entry, DType type, double bar) {
  const std::string name = entry.at("name");
  const std::string type_name = dtype_info(type)->name;
  INFO(name << " as " << type_name);
  const TempDir folder;
  convert_case(name, type, folder / "model.gguf");
  const Gguf gguf = Gguf::open(folder / "model.gguf");
  const ModelConfig config = read_config(gguf);
  const Weights weights = map_weights(gguf, config);
  const std::vector<float> expected = read_floats(kDirectory + name + ".hf.f32");
  const size_t n_vocab = entry.at("vocab_size");
  const size_t n_stored = kStoredPositions * n_vocab;
  REQUIRE(config.vocab_size == static_cast<int>(n_vocab));
  REQUIRE(expected.size() == entry.at("prompts").size() * n_stored);
  size_t at = 0;
  double worst = 0;
  for (const nlohmann::json& prompt : entry.at("prompts")) {
    const std::vector<int32_t> ids = prompt.at("ids");
    // Phi-3 takes its short factors where the context ends with the original one.
    const bool fits = config.rope_original_context >= static_cast<int>(ids.size());
    const auto logits = last_logits(config, weights, ids, fits ? config.rope_original_context : 0);
    worst = std::max(worst, max_ratio(logits, std::span(expected).subspan(at, n_stored), n_vocab));
    at += n_stored;
  }
  CHECK(worst <= bar);
  MESSAGE(name << " as " << type_name << ": max difference / max logit " << worst);
}

std::set<std::string> all_names() {
  return {"llama", "llama_json", "mistral",  "qwen2",  "qwen3",      "gemma",   "gemma2",
          "phi3",  "smollm3",    "ernie4_5", "gemma3", "qwen3_yarn", "qwen3moe"};
}

}  // namespace

TEST_CASE("convert: tensors have the names, shapes and bytes of llama.cpp's converter") {
  std::set<std::string> names;
  for (const nlohmann::json& entry : golden().at("cases")) {
    const std::string name = entry.at("name");
    names.insert(name);
    for (const DType type : {DType::kF16, DType::kQ8_0}) {
      const std::string type_name = dtype_info(type)->name;
      INFO(name << " as " << type_name);
      const TempDir folder;
      convert_case(name, type, folder / "model.gguf", 2);
      const Gguf gguf = Gguf::open(folder / "model.gguf");
      std::set<std::string> expected, found;
      for (const auto& [tensor, facts] : entry.at("tensors").items()) expected.insert(tensor);
      for (const GgufTensor& tensor : gguf.tensors()) {
        if (is_table(tensor.name)) continue;
        const std::string tensor_name(tensor.name);
        INFO(tensor_name);
        found.insert(tensor_name);
        REQUIRE(expected.contains(tensor_name));
        const nlohmann::json& facts = entry.at("tensors").at(tensor_name);
        CHECK(tensor.shape == facts.at("shape").get<std::vector<uint64_t>>());
        // Vectors stay F32; rows that are no whole blocks become F16.
        const bool whole = facts.contains(type_name);
        const DType becomes = facts.contains("F32") ? DType::kF32 : whole ? type : DType::kF16;
        REQUIRE(tensor.type == becomes);
        const std::string bytes = facts.at(dtype_info(becomes)->name);
        size_t rows = 1;
        for (size_t i = 1; i < tensor.shape.size(); ++i) rows *= tensor.shape[i];
        const bool router = tensor_name.ends_with("ffn_gate_inp.weight");  // its last row
        const size_t row = tensor.shape.size() > 2 ? tensor.shape[1] + 5 : router ? rows - 1 : 5;
        const size_t begin = rows > 1 ? tensor.bytes.size() / rows * row : 0;
        CHECK(hex(tensor.bytes.subspan(begin, bytes.size() / 2)) == bytes);
      }
      CHECK(found == expected);
    }
  }
  CHECK(names == all_names());
}

TEST_CASE("convert: logits are those of transformers") {
  for (const nlohmann::json& entry : golden().at("cases")) {
    check_logits(entry, stored_type(entry), kBar);
    check_logits(entry, DType::kQ8_0, kQuantizedBar);
  }
}

TEST_CASE("convert: text is cut as by the tokenizers, and templates come along") {
  for (const nlohmann::json& entry : golden().at("cases")) {
    const std::string name = entry.at("name");
    const TempDir folder;
    const Converted converted = convert_case(name, DType::kF16, folder / "model.gguf");
    const Gguf gguf = Gguf::open(folder / "model.gguf");
    const auto tokenizer = Tokenizer::from_gguf(gguf);
    CHECK(tokenizer->vocab_size() == entry.at("vocab_size").get<int>());
    for (const nlohmann::json& text : entry.at("texts")) {
      INFO(name << ": " << text[0].get<std::string>());
      const auto ids = tokenizer->encode(text[0].get<std::string>(), {.parse_special = true});
      CHECK(ids == text[1].get<std::vector<int32_t>>());
    }
    CHECK(gguf.get_string("tokenizer.chat_template") == golden().at("template").get<std::string>());
    CHECK(converted.chat_template);
    // The three rows that no token has.
    const int last = tokenizer->vocab_size() - 1;
    CHECK(gguf.get_strings("tokenizer.ggml.tokens")->back() == format("[PAD%d]", last));
    CHECK(gguf.get_ints("tokenizer.ggml.token_type")->back() == 5);
    CHECK(tokenizer->eos() >= 0);
  }
}

TEST_CASE("convert: keys are those of llama.cpp's converter") {
  using Numbers = std::map<std::string, double>;
  const std::map<std::string, Numbers> expected = {
      {"llama",
       {{"llama.vocab_size", 383},
        {"llama.rope.dimension_count", 8},
        {"llama.rope.freq_base", 10000},
        {"llama.attention.key_length", 8}}},
      {"llama_json",
       {{"llama.rope.scaling.factor", 2.5},
        {"llama.rope.freq_base", 5000},
        {"llama.feed_forward_length", 48},
        {"llama.block_count", 1}}},
      {"mistral",
       {{"llama.attention.sliding_window", 8},
        {"llama.attention.value_length", 16},
        {"llama.attention.head_count_kv", 2},
        {"tokenizer.ggml.eot_token_id", 300}}},
      {"qwen2",
       {{"qwen2.context_length", 128},
        {"qwen2.attention.head_count", 4},
        {"qwen2.rope.freq_base", 1000000}}},
      {"qwen3", {{"qwen3.embedding_length", 32}, {"qwen3.rope.freq_base", 500000}}},
      {"gemma",
       {{"gemma.attention.key_length", 16}, {"gemma.attention.layer_norm_rms_epsilon", 0.001f}}},
      {"gemma2",
       {{"gemma2.attn_logit_softcapping", 5},
        {"gemma2.final_logit_softcapping", 3},
        {"gemma2.attention.sliding_window", 8}}},
      {"phi3",
       {{"phi3.rope.dimension_count", 12},
        {"phi3.attention.sliding_window", 16},
        {"phi3.rope.scaling.original_context_length", 32},
        {"phi3.rope.scaling.attn_factor",
         static_cast<float>(std::sqrt(1 + std::log(4.0) / std::log(32.0)))}}},
      {"smollm3", {{"smollm3.block_count", 4}, {"smollm3.rope.freq_base", 2000000}}},
      {"gemma3",
       {{"gemma3.attention.sliding_window", 8},
        {"gemma3.rope.freq_base", 1000000},
        {"gemma3.rope.freq_base_swa", 5000},
        {"gemma3.rope.scaling.factor", 8}}},
      {"qwen3_yarn",
       {{"qwen3.rope.scaling.factor", 4},
        {"qwen3.rope.scaling.original_context_length", 32},
        {"qwen3.rope.scaling.yarn_beta_fast", 8},
        {"qwen3.rope.scaling.attn_factor", static_cast<float>(1.3 / (1 + 0.1 * std::log(4.0)))}}},
      {"qwen3moe",
       {{"qwen3moe.expert_count", 5},
        {"qwen3moe.expert_used_count", 2},
        {"qwen3moe.expert_feed_forward_length", 64},
        {"qwen3moe.feed_forward_length", 32}}},
      {"ernie4_5", {{"ernie4_5.attention.key_length", 16}, {"ernie4_5.rope.freq_base", 500000}}},
  };
  for (const auto& [name, numbers] : expected) {
    const TempDir folder;
    convert_case(name, DType::kQ8_0, folder / "model.gguf");
    const Gguf gguf = Gguf::open(folder / "model.gguf");
    for (const auto& number : numbers) {
      INFO(number.first);
      const GgufValue* value = gguf.find(number.first);
      REQUIRE(value);
      const bool whole = value->type == GgufType::kU32;
      CHECK((whole ? static_cast<double>(*gguf.get_uint(number.first))
                   : *gguf.get_float(number.first)) == number.second);
    }
    CHECK(gguf.get_uint("general.file_type") == 7);
    CHECK(gguf.get_string("general.type") == "model");
    CHECK(gguf.get_string("general.name") == name);
    CHECK(!gguf.find("tokenizer.ggml.eom_token_id"));  // config.json's eos_token_id is text there
    CHECK(gguf.get_bool("tokenizer.ggml.add_bos_token") ==
          (gguf.get_string("tokenizer.ggml.model") == "llama" || name == "mistral"));
  }
}

TEST_CASE("convert: of two files that say the same, the one that transformers believes") {
  namespace fs = std::filesystem;
  const TempDir folder;
  fs::copy(kDirectory + "qwen2", folder / "model");
  const auto write = [&](const char* name, const nlohmann::json& text) {
    std::ofstream(folder / "model/" + name) << text.dump();
  };
  // Shards of an older model, and a template that was replaced.
  write("model.safetensors.index.json", {{"weight_map", {{"a", "gone.safetensors"}}}});
  std::ifstream file(folder / "model/tokenizer_config.json");
  nlohmann::json config = nlohmann::json::parse(file);
  config["chat_template"] = "the older one";
  write("tokenizer_config.json", config);
  ConvertOptions options;
  options.directory = folder / "model";
  options.output = folder / "model.gguf";
  convert_model(options);
  const Gguf gguf = Gguf::open(options.output);
  CHECK(gguf.get_string("tokenizer.chat_template") == golden().at("template").get<std::string>());
  fs::remove(folder / "model/chat_template.jinja");
  options.output = folder / "older.gguf";
  convert_model(options);
  CHECK(Gguf::open(options.output).get_string("tokenizer.chat_template") == "the older one");
}

TEST_CASE("convert: behind offsets alone it is the configuration that says whether BOS is added") {
  namespace fs = std::filesystem;
  const TempDir folder;
  fs::copy(kDirectory + "mistral", folder / "model");
  const auto change = [&](const char* name, const auto& with) {
    const std::string path = folder / "model/" + name;
    std::ifstream file(path);
    nlohmann::json json = nlohmann::json::parse(file);
    with(json);
    std::ofstream(path) << json.dump();
  };
  change("tokenizer.json", [](auto& json) { json["post_processor"] = {{"type", "ByteLevel"}}; });
  for (const bool adds : {true, false}) {
    change("tokenizer_config.json", [&](auto& json) {
      json.erase("add_bos_token");
      if (adds) json["add_bos_token"] = true;
    });
    ConvertOptions options;
    options.directory = folder / "model";
    options.output = folder / (adds ? "adds.gguf" : "none.gguf");
    convert_model(options);
    const Gguf gguf = Gguf::open(options.output);
    CHECK(gguf.get_bool("tokenizer.ggml.add_bos_token") == adds);
  }
}

TEST_CASE("convert: white space beside added tokens, where readers see it otherwise") {
  namespace fs = std::filesystem;
  const auto notes = [](const char* model, const char* key, bool value, const char* name = "") {
    const TempDir folder;
    fs::copy(kDirectory + model, folder / "model");
    const std::string path = folder / "model/tokenizer_config.json";
    std::ifstream file(path);
    nlohmann::json config = nlohmann::json::parse(file);
    for (auto& token : config.at("added_tokens_decoder")) {
      if (token.at("content") == "<|end|>" || token.at("content") == "<start_of_turn>") {
        token[key] = value;
      }
    }
    std::ofstream(path) << config.dump();
    ConvertOptions options;
    options.directory = folder / "model";
    options.output = folder / "model.gguf";
    options.name = name;
    std::string text;
    for (const std::string& note : convert_model(options).notes) text += note + "\n";
    return text;
  };
  const auto tells = [&](const std::string& text) {
    return text.find(" added tokens swallow or keep white space") != text.npos;
  };
  CHECK_FALSE(tells(notes("gemma", "rstrip", false)));
  CHECK(tells(notes("gemma", "rstrip", true)));
  CHECK(tells(notes("gemma", "lstrip", true)));
  // Phi-3's name strips all that follows; a token that keeps it is the odd one.
  CHECK_FALSE(tells(notes("phi3", "rstrip", true)));
  CHECK(tells(notes("phi3", "rstrip", false)));
  CHECK(tells(notes("gemma", "rstrip", false, "not Phi-3")));  // and is believed of any model
}

TEST_CASE("convert: rotary tables are tensors") {
  const TempDir folder;
  convert_case("llama", DType::kF16, folder / "llama.gguf");
  convert_case("phi3", DType::kF16, folder / "phi3.gguf");
  const auto table = [](const Gguf& gguf, const char* name) {
    const GgufTensor* tensor = gguf.find_tensor(name);
    REQUIRE(tensor);
    REQUIRE(tensor->type == DType::kF32);
    std::vector<float> values(tensor->bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
    return values;
  };
  // Waves of 6.3, 63, 628 and 6283 positions: the first is short, the last ones are long.
  const std::vector<float> factors = table(Gguf::open(folder / "llama.gguf"), "rope_freqs.weight");
  REQUIRE(factors.size() == 4);
  CHECK(factors[0] == 1);
  CHECK(factors[1] == 8);
  CHECK(factors[3] == 8);
  const Gguf phi3 = Gguf::open(folder / "phi3.gguf");
  CHECK(table(phi3, "rope_factors_short.weight") ==
        std::vector<float>{1.0f, 1.1f, 1.2f, 1.3f, 1.4f, 1.5f});
  CHECK(table(phi3, "rope_factors_long.weight") ==
        std::vector<float>{1.5f, 2.0f, 3.0f, 4.0f, 4.5f, 5.0f});
}

TEST_CASE("convert: the bytes do not depend on the number of threads") {
  const TempDir folder;
  const auto bytes = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  for (const DType type : {DType::kF32, DType::kBF16, DType::kQ8_0, DType::kQ4_0}) {
    convert_case("llama", type, folder / "one.gguf", 1);
    convert_case("llama", type, folder / "three.gguf", 3);
    CHECK(bytes(folder / "one.gguf") == bytes(folder / "three.gguf"));
  }
}

TEST_CASE("convert: what stops it leaves no file") {
  const TempDir folder;
  ConvertOptions options;
  options.directory = kDirectory + "llama";
  options.output = folder / "model.gguf";
  size_t calls = 0;
  options.progress = [&](size_t done, size_t total) {
    CHECK(done <= total);
    if (++calls == 3) throw Error(ErrorCode::kLimit, "enough");
  };
  test::expect_error(ErrorCode::kLimit, [&] { convert_model(options); });
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("convert: the model's name is the directory's, or the repository's in the cache") {
  CHECK(model_name("/a/models/Qwen3-8B") == "Qwen3-8B");
  CHECK(model_name("/a/models/Qwen3-8B/") == "Qwen3-8B");
  CHECK(model_name("/cache/models--Qwen--Qwen3-8B/snapshots/0123abcd") == "Qwen3-8B");
  CHECK(convert_type("q8_0") == DType::kQ8_0);
  CHECK(convert_type("F32") == DType::kF32);
  CHECK(!convert_type("Q9"));
}

}  // namespace specbound::convert_test
