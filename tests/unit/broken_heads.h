// Published draft heads of tests/golden/drafters, in parts that are free to be wrong.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convert/published_heads.h"
#include "expect_error.h"

namespace specbound::published {

using nlohmann::json;

inline const std::string kGolden = std::string(SPECBOUND_GOLDEN) + "/";
inline const std::string kDrafters = kGolden + "drafters/";

inline std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline json golden_cases() {
  return json::parse(contents(kDrafters + "drafters.json")).at("cases");
}

struct Part {
  std::string dtype;
  std::vector<uint64_t> shape;
  std::string bytes;
};

// A checkpoint in parts, each free to be wrong.
struct Broken {
  json config;
  std::map<std::string, Part> tensors;
  Gguf model;

  explicit Broken(const json& entry)
      : model(Gguf::open(kGolden + entry.at("base").get<std::string>() + ".gguf")) {
    const std::string folder = kDrafters + entry.at("name").get<std::string>();
    config = json::parse(contents(folder + "/config.json"));
    std::string path = folder + "/model.safetensors";
    for (const char* name : {"/medusa_lm_head.safetensors", "/hydra_lm_head.safetensors"}) {
      if (std::filesystem::exists(folder + name)) path = folder + name;
    }
    const Safetensors file = Safetensors::open(path);
    for (const SafeTensor& t : file.tensors()) {
      tensors[t.name] = {
          t.dtype, t.shape, {reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size()}};
    }
  }

  std::string file() const {
    json header;
    std::string data;
    for (const auto& [name, part] : tensors) {
      header[name] = {{"dtype", part.dtype},
                      {"shape", part.shape},
                      {"data_offsets", {data.size(), data.size() + part.bytes.size()}}};
      data += part.bytes;
    }
    const std::string text = header.dump();
    const uint64_t size = text.size();
    return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + text + data;
  }

  void convert(std::optional<DType> type = {}) const {
    const std::string bytes = file();
    const Checkpoint checkpoint = Checkpoint::of(
        Safetensors::parse(std::as_bytes(std::span(bytes.data(), bytes.size())), "x"), "dir");
    exit_heads_file("out.gguf",
                    read_published_heads(config, "dir/config.json", checkpoint, model, type));
  }
};

inline json case_named(const std::string& name) {
  for (const json& entry : golden_cases()) {
    if (entry.at("name") == name) return entry;
  }
  FAIL("no such case");
  return {};
}

// What is said of the case after `change`.
inline std::string refused(const std::string& name, const std::function<void(Broken&)>& change,
                           ErrorCode code = ErrorCode::kFormat, std::optional<DType> type = {}) {
  Broken broken(case_named(name));
  change(broken);
  return test::expect_error(code, [&] { broken.convert(type); });
}

}  // namespace specbound::published
