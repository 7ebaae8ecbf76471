// Model directories that are broken or lie: each is one Error that says what was expected and what
// was found.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "convert/checkpoint.h"
#include "convert/convert.h"
#include "convert/hf_config.h"
#include "convert/hf_files.h"
#include "convert/safetensors.h"
#include "convert/sentencepiece_model.h"
#include "convert/tokenizer_json.h"
#include "expect_error.h"
#include "json/json_reader.h"
#include "temp_dir.h"

namespace specbound::convert_hostile_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::check_mentions;
using test::expect_error;
using test::TempDir;

const std::string kGolden = std::string(SPECBOUND_GOLDEN) + "/convert/";

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void write(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// ---- safetensors ----

std::string safetensors(const std::string& header, size_t data_size) {
  const uint64_t size = header.size();
  std::string out(reinterpret_cast<const char*>(&size), sizeof(size));
  return out + header + std::string(data_size, '\0');
}

std::string refused(const std::string& file, ErrorCode code = ErrorCode::kFormat) {
  return expect_error(code, [&] { Safetensors::parse(bytes_of(file), "x.safetensors"); });
}

TEST_CASE("convert: whole safetensors files are read") {
  const std::string file = safetensors(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"I64","shape":[],"data_offsets":[8,16]},)"
      R"("a":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},)"
      R"("none":{"dtype":"F32","shape":[0,7],"data_offsets":[16,16]}}   )",
      16);
  const Safetensors read = Safetensors::parse(bytes_of(file), "x.safetensors");
  REQUIRE(read.tensors().size() == 3);
  CHECK(read.tensors()[0].name == "a");
  CHECK(read.tensors()[0].type == DType::kBF16);
  CHECK(read.tensors()[0].shape == std::vector<uint64_t>{2, 2});
  CHECK(read.tensors()[0].bytes.size() == 8);
  CHECK(!read.tensors()[1].type);
  CHECK(read.tensors()[1].dtype == "I64");
}

TEST_CASE("convert: safetensors files that lie are refused") {
  const auto one = [](const std::string& fields) { return "{\"a\":{" + fields + "}}"; };
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  CHECK(Safetensors::parse(bytes_of(safetensors(one(good), 8)), "x").tensors().size() == 1);
  // Cut anywhere.
  const std::string whole = safetensors(one(good), 8);
  for (size_t size = 0; size < whole.size(); ++size) refused(whole.substr(0, size));
  check_mentions(refused(whole + "x"), {"8 bytes of data", "9"});

  for (const uint64_t size : {uint64_t{9999}, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    std::string file = whole;
    std::memcpy(file.data(), &size, sizeof(size));
    check_mentions(refused(file), {"header"});
  }
  const struct {
    const char* fields;
    const char* says;
  } cases[] = {
      {R"("dtype":"F32","shape":[3],"data_offsets":[0,8])", "12 bytes"},
      {R"("dtype":"F32","shape":[2],"data_offsets":[4,12])", "within the 8 bytes"},
      {R"("dtype":"F32","shape":[2],"data_offsets":[8,0])", "within the 8 bytes"},
      {R"("dtype":"F32","shape":[2],"data_offsets":[0])", "begin and end"},
      {R"("dtype":"F32","shape":[2],"data_offsets":[0,8,9])", "at most 2"},
      {R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])", "whole numbers"},
      {R"("dtype":"F32","shape":[2.5],"data_offsets":[0,8])", "whole numbers"},
      {R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8])", "64 bits"},
      {R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8])", "at most 8"},
      {R"("dtype":"F32","shape":"2","data_offsets":[0,8])", "a list"},
      {R"("dtype":32,"shape":[2],"data_offsets":[0,8])", "a string"},
      {R"("shape":[2],"data_offsets":[0,8])", "dtype"},
      {R"("dtype":"F32","shape":[2],"data_offsets":[0,1e400])", "larger one"},
      {R"("dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8])", "twice"},
  };
  for (const auto& c : cases) {
    INFO(c.fields);
    check_mentions(refused(safetensors(one(c.fields), 8)), {c.says});
  }
  check_mentions(refused(safetensors(one(R"("dtype":"F4","shape":[4],"data_offsets":[0,2])"), 2),
                         ErrorCode::kUnsupported),
                 {"F4"});
  // A gap, an overlap, one name twice, no object.
  const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const auto b = [](const std::string& offsets) {
    return R"("b":{"dtype":"F32","shape":[1],"data_offsets":)" + offsets + "}";
  };
  check_mentions(refused(safetensors("{" + a + "," + b("[8,12]") + "}", 12)), {"'b'", "4", "8"});
  check_mentions(refused(safetensors("{" + a + "," + b("[2,6]") + "}", 6)), {"'b'"});
  check_mentions(refused(safetensors("{" + a + "," + a + "}", 4)), {"twice"});
  refused(safetensors("[]", 0));
  refused(safetensors(std::string(100000, '['), 0));
  refused(safetensors("{\"\xff\":{}}", 0));
}

// ---- JSON ----

TEST_CASE("convert: JSON is bounded") {
  const auto bad = [](const std::string& text) {
    return expect_error(ErrorCode::kFormat, [&] { parse_json(text, "x.json"); });
  };
  check_mentions(bad(std::string(65, '[') + std::string(65, ']')), {"64 deep"});
  CHECK(parse_json(std::string(64, '[') + std::string(64, ']'), "x").is_array());
  check_mentions(bad(R"({"a":NaN})"), {"byte"});
  check_mentions(bad(R"({"a":1e999})"), {"larger"});
  check_mentions(bad("{\"a\":\"\xC3\"}"), {"UTF-8"});
  check_mentions(bad(R"({"a":1,"a":2})"), {"'a' twice"});
  bad("");
  bad("{} x");
  const TempDir folder;
  write(folder / "big.json", "\"" + std::string(100, 'a') + "\"");
  expect_error(ErrorCode::kLimit, [&] { read_json(folder / "big.json", 99); });
  expect_error(ErrorCode::kFile, [&] { read_json(folder / "none.json", 99); });
  expect_error(ErrorCode::kFile, [&] { read_json(folder.path().string(), 99); });
}

// ---- SentencePiece ----

std::string field(unsigned number, unsigned wire, const std::string& payload) {
  return std::string(1, static_cast<char>(number << 3 | wire)) + payload;
}

std::string message(unsigned number, const std::string& payload) {
  return field(number, 2, std::string(1, static_cast<char>(payload.size())) + payload);
}

std::string piece(const std::string& text, float score, char type) {
  const std::string bits(reinterpret_cast<const char*>(&score), sizeof(score));
  return message(1, message(1, text) + field(2, 5, bits) + field(3, 0, std::string(1, type)));
}

TEST_CASE("convert: protobuf that lies is refused") {
  const std::string bpe = message(2, field(3, 0, "\x02"));
  const std::string good = piece("<unk>", 0, 2) + piece("a", -1, 1) + bpe;
  const auto read = [](const std::string& file) {
    return read_sentencepiece(bytes_of(file), "tokenizer.model");
  };
  const SentencePieceModel model = read(good);
  REQUIRE(model.pieces.size() == 2);
  CHECK(model.pieces[1].text == "a");
  CHECK(model.pieces[1].score == -1);
  CHECK(model.pieces[0].type == TokenType::kUnknown);
  CHECK(model.add_dummy_prefix);

  const auto bad = [&](const std::string& file, ErrorCode code = ErrorCode::kFormat) {
    return expect_error(code, [&] { read(file); });
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  check_mentions(bad(piece("a", nan, 1) + bpe), {"finite"});
  check_mentions(bad(piece("a", 0, 7) + bpe), {"type 7"});
  check_mentions(bad(piece("\xff", 0, 1) + bpe), {"UTF-8"});
  check_mentions(bad(bpe), {"no pieces"});
  bad("");
  check_mentions(bad(field(1, 2, "\x7f")), {"longer than what is left"});
  check_mentions(bad(field(1, 2, std::string(10, '\xff'))), {"64 bits"});
  check_mentions(bad(field(1, 3, "")), {"wire type 3"});
  check_mentions(bad(field(0, 0, "\x01")), {"field number 0"});
  check_mentions(bad(message(1, field(2, 0, "\x01")) + bpe), {"wire type"});
  check_mentions(bad(piece("a", 0, 1), ErrorCode::kUnsupported), {"unigram"});
  check_mentions(bad(good + message(3, field(5, 0, std::string(1, '\0'))), ErrorCode::kUnsupported),
                 {"U+2581"});
  // Cut anywhere: an Error, or a shorter model where a piece ends.
  const std::string file = contents(kGolden + "llama/tokenizer.model");
  REQUIRE(read(file).pieces.size() == 380);
  for (size_t size = 0; size < file.size(); size += 7) {
    try {
      read(file.substr(0, size));
    } catch (const Error&) {
    }
  }
}

// ---- config.json ----

std::string config_refused(const std::string& name, const std::function<void(json&)>& change,
                           ErrorCode code) {
  json config = read_json(kGolden + name + "/config.json", 1 << 20);
  CHECK(read_hf_config(config, "config.json").n_layers >= 1);
  change(config);
  return expect_error(code, [&] { read_hf_config(config, "config.json"); });
}

TEST_CASE("convert: configurations that cannot be represented are refused by name") {
  const auto set = [](const char* key, json value) {
    return [key, value](json& config) { config[key] = value; };
  };
  const struct {
    const char* model;
    std::function<void(json&)> change;
    const char* says;
  } cases[] = {
      {"llama", set("architectures", {"MixtralForCausalLM"}), "MixtralForCausalLM"},
      {"llama", set("quantization_config", {{"quant_method", "gptq"}}), "gptq"},
      {"llama", set("num_local_experts", 8), "num_local_experts"},
      {"llama", set("mlp_bias", true), "mlp_bias"},
      {"llama", set("hidden_act", "gelu"), "hidden_act"},
      {"llama", set("rope_parameters", {{"rope_type", "dynamic"}, {"factor", 2}}), "dynamic"},
      {"qwen3_yarn", [](json& c) { c["rope_parameters"]["truncate"] = false; }, "truncate"},
      {"llama", set("rope_parameters", {{"full_attention", {{"rope_theta", 1e4}}}}),
       "full_attention"},
      {"llama", set("rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}), "rope_scaling"},
      {"llama", set("partial_rotary_factor", 0.5), "partial_rotary_factor"},
      {"llama", set("head_dim", 7), "head_dim"},
      {"qwen2", set("rope_parameters", {{"rope_type", "llama3"}, {"rope_theta", 1e4}}), "llama3"},
      {"qwen2",
       [](json& c) {
         c.erase("layer_types");
         c["use_sliding_window"] = true, c["sliding_window"] = 16, c["max_window_layers"] = 1;
       },
       "1 of 2 layers"},
      {"gemma", set("hidden_activation", "gelu"), "hidden_activation"},
      {"gemma", set("attention_bias", true), "attention_bias"},
      {"gemma", set("use_bidirectional_attention", true), "use_bidirectional_attention"},
      {"gemma2", set("query_pre_attn_scalar", 144), "query_pre_attn_scalar"},
      {"gemma2", set("layer_types", {"full_attention", "sliding_attention"}), "but 2, 4"},
      {"gemma2", set("layer_types", {"full_attention", "chunked_attention"}), "chunked_attention"},
      {"gemma3", set("sliding_window", nullptr), "sliding_window"},
      {"gemma3", set("attn_logit_softcapping", 50), "attn_logit_softcapping"},
      {"gemma3",
       [](json& c) {
         c.erase("layer_types");
         c["sliding_window_pattern"] = 3;
       },
       "but 6, 12"},
      {"gemma3",  // a window that hides nothing: the rotations differ all the same
       [](json& c) {
         c["sliding_window"] = 4096;
         for (json& type : c["layer_types"]) type = "sliding_attention";
       },
       "6 of 6 layers"},
      {"gemma3", [](json& c) { c["rope_parameters"]["sliding_attention"]["rope_type"] = "linear"; },
       "'linear'"},
      {"phi3", set("rope_parameters", {{"rope_type", "linear"}, {"factor", 2.0}}), "linear"},
      {"smollm3", set("no_rope_layers", {0, 1, 1, 1}), "layer 1"},
      {"ernie4_5", set("use_bias", true), "use_bias"},
      {"qwen3moe", set("norm_topk_prob", false), "norm_topk_prob"},
      {"qwen3moe", [](json& c) { c.erase("norm_topk_prob"); }, "means false"},
      {"qwen3moe", set("decoder_sparse_step", 2), "experts in every layer"},
      {"qwen3moe", set("mlp_only_layers", {0}), "mlp_only_layers"},
  };
  for (const auto& c : cases) {
    INFO(c.model << ": " << c.says);
    check_mentions(config_refused(c.model, c.change, ErrorCode::kUnsupported), {c.says});
  }
}

TEST_CASE("convert: gemma3's rotations in the spelling of older files") {
  json config = read_json(kGolden + "gemma3/config.json", 1 << 20);
  const HfRope expected = read_hf_config(config, "config.json").rope;
  CHECK(expected.theta == 1e6);
  CHECK(expected.windowed_theta == 5000);
  CHECK(expected.linear_factor == 8);
  for (const char* key : {"rope_parameters", "layer_types"}) config.erase(key);
  const HfRope usual = read_hf_config(config, "config.json").rope;
  CHECK(usual.theta == 1e6);
  CHECK(usual.windowed_theta == 1e4);
  CHECK(usual.linear_factor == 0);
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  config["rope_local_base_freq"] = 5000;
  config["sliding_window_pattern"] = 6;
  const HfRope older = read_hf_config(config, "config.json").rope;
  CHECK(older.theta == expected.theta);
  CHECK(older.windowed_theta == expected.windowed_theta);
  CHECK(older.linear_factor == expected.linear_factor);
  config["rope_local_base_freq"] = -1;
  expect_error(ErrorCode::kFormat, [&] { read_hf_config(config, "config.json"); });
}

TEST_CASE("convert: senseless configurations are refused") {
  const auto set = [](const char* key, json value) {
    return [key, value](json& config) { config[key] = value; };
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size",
                          "intermediate_size", "max_position_embeddings"}) {
    for (const json& value : {json(0), json(-1), json(1.5), json("8"), json(1e300),
                              json(uint64_t{1} << 62), json(nan), json::array(), json(nullptr)}) {
      INFO(key << " " << value.dump());
      check_mentions(config_refused("llama", set(key, value), ErrorCode::kFormat), {key});
    }
  }
  for (const json& value : {json(0), json(1.0), json(-1e-5), json(nan), json("1e-5")}) {
    config_refused("llama", set("rms_norm_eps", value), ErrorCode::kFormat);
  }
  for (const json& theta : {json(0.5), json(infinity), json(nan), json(1e300), json("1")}) {
    config_refused("llama", set("rope_parameters", {{"rope_theta", theta}}), ErrorCode::kFormat);
  }
  config_refused("llama", set("architectures", json::array()), ErrorCode::kFormat);
  config_refused("llama", set("architectures", {7}), ErrorCode::kFormat);
  config_refused("llama", set("rope_parameters", 3), ErrorCode::kFormat);
  config_refused("mistral", set("sliding_window", 0), ErrorCode::kFormat);
  config_refused(
      "phi3",
      [](json& c) {
        c["rope_parameters"]["long_factor"] = {1.0, 2.0};
      },
      ErrorCode::kFormat);
  config_refused(
      "phi3", [](json& c) { c["rope_parameters"]["short_factor"][0] = 0; }, ErrorCode::kFormat);
  config_refused(
      "llama", [](json& c) { c["rope_parameters"].erase("factor"); }, ErrorCode::kFormat);
  config_refused(
      "llama", [](json& c) { c["rope_parameters"]["low_freq_factor"] = 9; }, ErrorCode::kFormat);
  config_refused("gemma2", set("final_logit_softcapping", -1), ErrorCode::kFormat);
  config_refused("gemma2", set("layer_types", {"full_attention"}), ErrorCode::kFormat);
  for (const json& theta : {json(0), json(-1e4), json(nan), json("1")}) {
    config_refused(
        "gemma3", [&](json& c) { c["rope_parameters"]["sliding_attention"]["rope_theta"] = theta; },
        ErrorCode::kFormat);
  }
  config_refused(
      "gemma3",
      [](json& c) {
        c.erase("layer_types");
        c["sliding_window_pattern"] = 0;
      },
      ErrorCode::kFormat);
  for (const char* key : {"factor", "beta_fast", "beta_slow", "attention_factor",
                          "original_max_position_embeddings"}) {
    for (const json& value : {json(0), json(-1), json(nan), json(infinity), json("4")}) {
      INFO(key << " " << value.dump());
      config_refused(
          "qwen3_yarn", [&](json& c) { c["rope_parameters"][key] = value; }, ErrorCode::kFormat);
    }
  }
  config_refused("smollm3", set("no_rope_layers", {1}), ErrorCode::kFormat);
}

// ---- whole directories ----

// A copy of a golden directory, changed.
std::string directory_refused(const std::string& name, ErrorCode code,
                              const std::function<void(const TempDir&)>& change) {
  const TempDir folder;
  for (const auto& entry : fs::directory_iterator(kGolden + name)) {
    fs::copy_file(entry.path(), folder.path() / entry.path().filename());
  }
  change(folder);
  const TempDir output;
  ConvertOptions options;
  options.directory = folder.path().string();
  options.output = output / "model.gguf";
  const std::string text = expect_error(code, [&] { convert_model(options); });
  CHECK(fs::is_empty(output.path()));
  return text;
}

void edit_json(const std::string& path, const std::function<void(json&)>& change) {
  json value = json::parse(contents(path));
  change(value);
  write(path, value.dump());
}

// The tensors of a file written again, with other names, shapes and values.
void edit_tensors(const std::string& path, const std::function<void(json& header)>& change) {
  const std::string file = contents(path);
  uint64_t size = 0;
  std::memcpy(&size, file.data(), sizeof(size));
  json header = json::parse(file.substr(sizeof(size), size));
  change(header);
  const std::string text = header.dump();
  size_t data = file.size() - sizeof(size) - size;
  write(path, safetensors(text, 0) + file.substr(file.size() - data));
}

TEST_CASE("convert: directories that do not hold what they say are refused") {
  const std::string index = "model.safetensors.index.json";
  const auto edit_index = [&](const std::function<void(json&)>& change) {
    return [&, change](const TempDir& folder) {
      edit_json(folder / index, [&](json& file) { change(file["weight_map"]); });
    };
  };
  const std::string norm = "model.norm.weight";
  // Nothing outside of the directory is read, whatever the index names.
  for (const char* name : {"../model.safetensors", "/etc/passwd", "a/b.safetensors", "..",
                           "model.bin", "", "x\0.safetensors"}) {
    INFO(name);
    check_mentions(directory_refused("llama", ErrorCode::kFormat,
                                     edit_index([&](json& map) { map[norm] = name; })),
                   {norm, "beside the index"});
  }
  check_mentions(directory_refused("llama", ErrorCode::kFile, edit_index([&](json& map) {
                                     map["more.weight"] = "model-00009-of-00004.safetensors";
                                   })),
                 {"model-00009-of-00004.safetensors"});
  check_mentions(directory_refused("llama", ErrorCode::kFormat,
                                   edit_index([&](json& map) { map["more.weight"] = map[norm]; })),
                 {"more.weight", "found none"});
  check_mentions(directory_refused("llama", ErrorCode::kFormat,
                                   edit_index([&](json& map) { map.erase(norm); })),
                 {norm, "no file"});
  directory_refused("llama", ErrorCode::kFormat,
                    [&](const TempDir& folder) { write(folder / index, "{\"weight_map\": []}"); });
  check_mentions(directory_refused("llama", ErrorCode::kFile,
                                   [&](const TempDir& folder) { fs::remove(folder / index); }),
                 {"found neither"});
  check_mentions(directory_refused("qwen2", ErrorCode::kFile,
                                   [](const TempDir& folder) {
                                     fs::rename(folder / "model.safetensors",
                                                folder / "pytorch_model.bin");
                                   }),
                 {"pytorch_model.bin", "programs"});
  check_mentions(
      directory_refused("qwen2", ErrorCode::kFile,
                        [](const TempDir& folder) { fs::remove(folder / "config.json"); }),
      {"config.json"});
  check_mentions(
      directory_refused("qwen2", ErrorCode::kFile,
                        [](const TempDir& folder) { fs::remove(folder / "tokenizer.json"); }),
      {"tokenizer.model", "neither"});
}

TEST_CASE("convert: tensors that are not the model's are refused") {
  const std::string q = "model.layers.1.self_attn.q_proj.weight";
  const auto with = [](const std::function<void(json&)>& change) {
    return [change](const TempDir& folder) { edit_tensors(folder / "model.safetensors", change); };
  };
  const auto renamed = [](json& header, const std::string& from, const std::string& to) {
    header[to] = header.at(from);
    header.erase(from);
  };
  check_mentions(directory_refused("qwen2", ErrorCode::kFormat,
                                   with([&](json& header) { renamed(header, q, "other.weight"); })),
                 {q, "none of this name"});
  check_mentions(directory_refused("qwen2", ErrorCode::kFormat, with([&](json& header) {
                                     header[q]["shape"] = {16, 64};
                                   })),
                 {q, "(32, 32)", "(16, 64)"});
  check_mentions(directory_refused("qwen2", ErrorCode::kFormat,
                                   with([&](json& header) { header[q]["shape"] = {1024}; })),
                 {q, "(1024)"});
  check_mentions(directory_refused("qwen2", ErrorCode::kUnsupported,
                                   with([&](json& header) { header[q]["dtype"] = "I16"; })),
                 {q, "I16"});
  check_mentions(directory_refused("qwen2", ErrorCode::kUnsupported,
                                   [](const TempDir& folder) {
                                     edit_json(folder / "config.json", [](json& config) {
                                       config["num_hidden_layers"] = 1;
                                     });
                                   }),
                 {"model.layers.1.", "Qwen2ForCausalLM"});
  // An infinite weight: BF16 0x7f80, in the data of the last tensor.
  check_mentions(directory_refused("qwen2", ErrorCode::kUnsupported,
                                   [](const TempDir& folder) {
                                     std::string file = contents(folder / "model.safetensors");
                                     file.replace(file.size() - 2, 2, "\x80\x7f");
                                     write(folder / "model.safetensors", file);
                                   }),
                 {"finite", "1"});
  // A finite one that FP16 cannot hold: BF16 1e38.
  check_mentions(directory_refused("qwen2", ErrorCode::kUnsupported,
                                   [&](const TempDir& folder) {
                                     const std::string path = folder / "model.safetensors";
                                     std::string file = contents(path);
                                     uint64_t size = 0;
                                     std::memcpy(&size, file.data(), sizeof(size));
                                     const json header = json::parse(file.substr(8, size));
                                     const size_t at = header[q]["data_offsets"][0];
                                     file.replace(8 + size + at, 2, "\x96\x7e");
                                     write(path, file);
                                   }),
                 {q, "F16", "BF16"});
}

TEST_CASE("convert: tokenizers that cannot be represented are refused") {
  const auto with = [](const char* file, const std::function<void(json&)>& change) {
    return [file, change](const TempDir& folder) { edit_json(folder / file, change); };
  };
  const auto refuses = [&](const char* model, ErrorCode code,
                           const std::function<void(json&)>& change, const char* says) {
    INFO(says);
    check_mentions(directory_refused(model, code, with("tokenizer.json", change)), {says});
  };
  const auto unsupported = ErrorCode::kUnsupported, format = ErrorCode::kFormat;
  refuses(
      "qwen2", unsupported, [](json& t) { t["model"]["type"] = "Unigram"; }, "Unigram");
  refuses(
      "qwen2", unsupported,
      [](json& t) { t["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = R"(\w+)"; },
      R"('\w+')");
  refuses(
      "qwen2", unsupported, [](json& t) { t["model"]["ignore_merges"] = true; }, "ignore_merges");
  refuses(
      "qwen2", unsupported,
      [](json& t) {
        t["normalizer"] = {{"type", "Lowercase"}};
      },
      "Lowercase");
  refuses(
      "qwen2", unsupported, [](json& t) { t["model"]["end_of_word_suffix"] = "</w>"; }, "</w>");
  refuses(
      "llama_json", unsupported, [](json& t) { t["model"]["byte_fallback"] = false; },
      "byte_fallback");
  refuses(
      "llama_json", unsupported,
      [](json& t) {
        t["normalizer"] = {{"type", "NFKC"}};
      },
      "NFKC");
  refuses(
      "mistral", unsupported,
      [](json& t) {
        t["post_processor"] = {{"type", "Bert"}};
      },
      "Bert");
  refuses(
      "qwen2", format, [](json& t) { t["model"]["vocab"]["!"] = -1; }, "'!'");
  refuses(
      "qwen2", format, [](json& t) { t["model"]["vocab"]["!"] = 100000; }, "below 306");
  refuses(
      "qwen2", format, [](json& t) { t["model"]["vocab"]["!"] = 7; }, "'!'");
  refuses(
      "qwen2", format, [](json& t) { t["model"]["vocab"] = json::object(); }, "none");
  refuses(
      "qwen2", format, [](json& t) { t["model"]["merges"][0] = "a"; }, "one space between");
  refuses(
      "qwen2", format,
      [](json& t) {
        t["model"]["merges"][0] = {"a", "not there"};
      },
      "make a token");
  refuses(
      "qwen2", format, [](json& t) { t["model"]["merges"] = 3; }, "merges");
  refuses(
      "qwen2", format, [](json& t) { t["added_tokens"][0]["id"] = "7"; }, "whole number");
  refuses(
      "qwen2", format, [](json& t) { t["added_tokens"][0].erase("content"); }, "content");
  refuses(
      "qwen2", format, [](json& t) { t["model"] = nullptr; }, "model");
  // Expressions are shown in one line.
  refuses(
      "qwen2", unsupported,
      [](json& t) { t["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\x1b[2J\\w+"; },
      R"('\x1b[2J\w+')");
  check_mentions(directory_refused("llama", format,
                                   with("tokenizer_config.json",
                                        [](json& config) {
                                          config["added_tokens_decoder"]["x"] = {{"content", "y"}};
                                        })),
                 {"'x'"});
  check_mentions(directory_refused("llama", format,
                                   [](const TempDir& folder) {
                                     write(folder / "tokenizer.model", "IQ== 0\nIg== 1\n");
                                   }),
                 {"SentencePiece"});
}

// Quadratic in a token's size would be hours.
TEST_CASE("convert: a token of a megabyte is read in no time") {
  const std::string half(1 << 20, 'a');
  const json tokenizer = {{"model",
                           {{"byte_fallback", true},
                            {"vocab", {{"a", 0u}, {half, 1u}, {half + half, 2u}}},
                            {"merges", json::array({json::array({half, half})})}}}};
  HfVocabulary vocabulary;
  read_byte_fallback(JsonObject(tokenizer, "x"), 10, vocabulary);
  CHECK(vocabulary.tokens[2].text.size() == 2 << 20);
}

}  // namespace
}  // namespace specbound::convert_hostile_test
