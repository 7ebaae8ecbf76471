// The JSON files of a model directory that concern its text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "json/json_reader.h"

namespace specbound {

// The whole file at `path`. Throws Error(kFile), Error(kLimit) above `max_bytes`, and what
// parse_json() throws.
nlohmann::json read_json(const std::string& path, size_t max_bytes);

// An empty object stands for a file that is not there.
struct HfFiles {
  std::string directory;
  nlohmann::json config;            // config.json, which must be there
  nlohmann::json tokenizer;         // tokenizer.json
  nlohmann::json tokenizer_config;  // tokenizer_config.json
  nlohmann::json special_tokens;    // special_tokens_map.json
  nlohmann::json added_tokens;      // added_tokens.json
  nlohmann::json generation;        // generation_config.json

  // Throws Error(kFile | kFormat | kLimit).
  static HfFiles read(const std::string& directory);

  std::string path(const char* name) const;
  bool has(const char* name) const;
};

}  // namespace specbound
