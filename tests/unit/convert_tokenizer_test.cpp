// What the tokenizer files of a Hugging Face directory say beside their vocabulary, where they
// disagree, and where GGUF has no word for it.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "convert/convert.h"
#include "convert/hf_files.h"
#include "expect_error.h"
#include "model/gguf.h"
#include "temp_dir.h"
#include "templates/chat_template.h"
#include "text/spm_tokenizer.h"
#include "text/tokenizer.h"

namespace specbound::convert_tokenizer_test {

namespace {

using nlohmann::json;

// A directory of tests/golden/convert with one of its files changed, converted.
struct Changed {
  test::TempDir folder;
  std::string notes;
  Gguf gguf;

  Changed(const char* model, const char* file, const std::function<void(json&)>& change)
      : gguf(converted(model, file, change)) {}

  bool tells(const char* part) const { return notes.find(part) != notes.npos; }

 private:
  Gguf converted(const char* model, const char* file, const std::function<void(json&)>& change) {
    const std::string golden = std::string(SPECBOUND_GOLDEN) + "/convert/" + model;
    std::filesystem::copy(golden, folder / "model");
    const std::string path = folder / "model/" + file;
    std::ifstream before(path);
    json values = json::parse(before);
    change(values);
    std::ofstream(path) << values.dump();
    ConvertOptions options;
    options.directory = folder / "model";
    options.output = folder / "model.gguf";
    for (const std::string& note : convert_model(options).notes) notes += note + "\n";
    return Gguf::open(options.output);
  }
};

void with_token(json& config, const char* text, const std::function<void(json&)>& change) {
  for (json& token : config.at("added_tokens_decoder")) {
    if (token.at("content") == text) change(token);
  }
}

}  // namespace

TEST_CASE("convert: a stated add_bos_token counts more than the post-processor") {
  constexpr const char* kConfig = "tokenizer_config.json";
  constexpr const char* kDiffers = "post_processor of tokenizer.json does otherwise";
  for (const bool adds : {true, false}) {  // its post-processor does
    const Changed c("mistral", kConfig, [&](json& config) { config["add_bos_token"] = adds; });
    CHECK(c.gguf.get_bool("tokenizer.ggml.add_bos_token") == adds);
    CHECK(c.tells(kDiffers) != adds);
  }
  const Changed silent("mistral", kConfig, [](json& config) { config["add_bos_token"] = nullptr; });
  CHECK(silent.gguf.get_bool("tokenizer.ggml.add_bos_token") == true);
  CHECK_FALSE(silent.tells(kDiffers));
  const Changed end("mistral", kConfig, [](json& config) { config["add_eos_token"] = true; });
  CHECK(end.gguf.get_bool("tokenizer.ggml.add_bos_token") == true);
  CHECK(end.gguf.get_bool("tokenizer.ggml.add_eos_token") == true);
  CHECK(end.tells("add_eos_token: true"));
}

TEST_CASE("convert: added tokens that are words of their own are told") {
  for (const bool is_word : {true, false}) {
    const Changed c("gemma", "tokenizer_config.json", [&](json& config) {
      with_token(config, "<start_of_turn>", [&](json& token) { token["single_word"] = is_word; });
    });
    CHECK(c.tells("1 added tokens count only as words of their own") == is_word);
  }
}

TEST_CASE("convert: CodeLlama's end of a middle is its EOT") {
  const Changed c("gemma", "tokenizer_config.json", [](json& config) {
    with_token(config, "<start_of_turn>",
               [](json& token) { token["content"] = "\xE2\x96\x81<EOT>"; });
  });
  CHECK(c.gguf.get_uint("tokenizer.ggml.eot_token_id") == 5);
  CHECK(Tokenizer::from_gguf(c.gguf)->is_end(5));
}

TEST_CASE("convert: a space that stands at the text's start alone") {
  const auto with_scheme = [](const char* scheme) {
    return [scheme](json& tokenizer) {
      tokenizer["normalizer"] = nullptr;
      tokenizer["pre_tokenizer"] = {{"type", "Metaspace"},
                                    {"replacement", "\xE2\x96\x81"},
                                    {"prepend_scheme", scheme},
                                    {"split", false}};
    };
  };
  for (const char* scheme : {"first", "always", "never"}) {
    CAPTURE(scheme);
    const Changed c("llama_json", "tokenizer.json", with_scheme(scheme));
    const bool first = std::string(scheme) == "first";
    CHECK(c.gguf.get_bool("tokenizer.ggml.add_space_prefix") == (std::string(scheme) != "never"));
    CHECK(c.gguf.get_bool(kSpaceAtStartKey).value_or(false) == first);
  }
}

TEST_CASE("convert: rope_scaling may say again what rope_parameters says") {
  for (const char* type : {"type", "rope_type"}) {
    const Changed c("llama_json", "config.json", [&](json& config) {
      config["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 1e4}};
      config["rope_scaling"] = {{type, "linear"}, {"factor", 2.0}};
    });
    CHECK(c.gguf.get_string("llama.rope.scaling.type") == "linear");
  }
}

TEST_CASE("convert: files have as many values as models' do, at most") {
  const test::TempDir folder;
  std::string lists = "[[]";
  for (size_t i = 1; i < kMaxFileValues; ++i) lists += ",[]";
  std::ofstream(folder / "many.json") << lists << "]";
  const std::string what = test::expect_error(
      ErrorCode::kFormat, [&] { read_json(folder / "many.json", size_t{1} << 30); });
  test::check_mentions(what, {"many.json", "values"});
}

TEST_CASE("convert: of a list of chat templates those named default and tool_use are taken") {
  const auto listed = [](std::vector<std::pair<std::string, std::string>> entries) {
    return [entries](json& config) {
      config["chat_template"] = json::array();
      for (const auto& [name, text] : entries) {
        config["chat_template"].push_back({{"name", name}, {"template", text}});
      }
    };
  };
  constexpr const char *kFile = "tokenizer_config.json", *kKey = "tokenizer.chat_template";
  const Changed both("llama_json", kFile,
                     listed({{"tool_use", "tools"}, {"rag", "x"}, {"default", "usual"}}));
  CHECK(both.gguf.get_string(kKey) == "usual");
  CHECK(both.gguf.get_string(kToolTemplateKey) == "tools");
  const Changed one("llama_json", kFile, listed({{"default", "usual"}}));
  CHECK_FALSE(one.gguf.get_string(kToolTemplateKey));
  const Changed other("llama_json", kFile, listed({{"tool_use", "tools"}}));
  CHECK_FALSE(other.gguf.get_string(kKey));
  CHECK_FALSE(other.gguf.get_string(kToolTemplateKey));
  CHECK(other.tells("none of the chat templates is named default"));
}

}  // namespace specbound::convert_tokenizer_test
