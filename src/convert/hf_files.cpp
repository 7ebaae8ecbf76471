#include "convert/hf_files.h"

#include <filesystem>

#include "error.h"
#include "model/mapped_file.h"

namespace specbound {
namespace {

constexpr size_t kMaxTokenizer = size_t{256} << 20, kMaxOther = size_t{16} << 20;  // bytes

}  // namespace

nlohmann::json read_json(const std::string& path, size_t max_bytes) {
  const MappedFile file(path);
  if (file.bytes().size() > max_bytes) {
    throw Error(ErrorCode::kLimit, format("%s: expected at most %zu bytes, found %zu", path.c_str(),
                                          max_bytes, file.bytes().size()));
  }
  const auto* text = reinterpret_cast<const char*>(file.bytes().data());
  return parse_json({text, file.bytes().size()}, path, {.values = kMaxFileValues});
}

HfFiles HfFiles::read(const std::string& directory) {
  HfFiles files;
  files.directory = directory;
  std::error_code ignored;
  if (!std::filesystem::is_directory(directory, ignored)) {
    throw Error(
        ErrorCode::kFile,
        format("%s: expected the directory of a Hugging Face model, found %s", directory.c_str(),
               std::filesystem::exists(directory, ignored) ? "a file" : "nothing"));
  }
  const auto load = [&](const char* name, size_t max_bytes) {
    nlohmann::json json = nlohmann::json::object();
    if (files.has(name)) json = read_json(files.path(name), max_bytes);
    return json;
  };
  files.config = read_json(files.path("config.json"), kMaxOther);
  files.tokenizer = load("tokenizer.json", kMaxTokenizer);
  files.tokenizer_config = load("tokenizer_config.json", kMaxOther);
  files.special_tokens = load("special_tokens_map.json", kMaxOther);
  files.added_tokens = load("added_tokens.json", kMaxOther);
  files.generation = load("generation_config.json", kMaxOther);
  return files;
}

std::string HfFiles::path(const char* name) const {
  return (std::filesystem::path(directory) / name).string();
}

bool HfFiles::has(const char* name) const {
  std::error_code ignored;
  return std::filesystem::exists(path(name), ignored);
}

}  // namespace specbound
