#include "convert/checkpoint.h"

#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "convert/hf_files.h"
#include "error.h"
#include "json/json_reader.h"

namespace specbound {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxIndex = 64 << 20;  // bytes
constexpr size_t kMaxFiles = 10000;
constexpr const char* kWhole = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// A name, not a path: nothing outside of the directory is read.
bool is_plain_name(const std::string& name) {
  return name.size() > 12 && name.size() < 256 && name.ends_with(".safetensors") &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

// Tensor name -> file name.
std::map<std::string, std::string> read_index(const std::string& path) {
  const nlohmann::json json = read_json(path, kMaxIndex);
  const JsonObject index(json, path);
  const auto map = index.object("weight_map");
  if (!map) index.bad("weight_map", "an object", "no such key");
  std::map<std::string, std::string> out;
  for (const auto& [tensor, file] : map->value().items()) {
    if (!file.is_string() || !is_plain_name(file.get_ref<const std::string&>())) {
      map->bad(printable(tensor).c_str(), "the name of a .safetensors file beside the index",
               json_text(file));
    }
    out.emplace(tensor, file.get<std::string>());
  }
  return out;
}

}  // namespace

Checkpoint Checkpoint::open(const std::string& directory) {
  const fs::path folder(directory);
  Checkpoint out;
  out.directory_ = directory;
  if (is_there(folder / kWhole)) {
    out.add(Safetensors::open((folder / kWhole).string()));
    return out;
  }
  const std::string index_path = (folder / kIndex).string();
  if (!is_there(index_path)) {
    const bool pickled =
        is_there(folder / "pytorch_model.bin") || is_there(folder / "pytorch_model.bin.index.json");
    throw Error(ErrorCode::kFile,
                format("%s: expected %s or %s, found neither%s", directory.c_str(), kWhole, kIndex,
                       pickled ? ", but pytorch_model.bin: such files are programs and are not "
                                 "read; save the model as safetensors"
                               : ""));
  }

  const auto weight_map = read_index(index_path);
  std::set<std::string> names;
  for (const auto& entry : weight_map) names.insert(entry.second);
  if (names.size() > kMaxFiles) {
    throw Error(ErrorCode::kLimit, format("%s: expected at most %zu files, found %zu",
                                          index_path.c_str(), kMaxFiles, names.size()));
  }
  for (const std::string& name : names) {
    const std::string path = (folder / name).string();
    out.add(Safetensors::open(path));
    for (const SafeTensor& tensor : out.files_.back().tensors()) {
      const auto at = weight_map.find(tensor.name);
      if (at == weight_map.end() || at->second != name) {
        throw Error(ErrorCode::kFormat,
                    format("%s: tensor '%s': expected it in %s, as the index says, found it here",
                           path.c_str(), printable(tensor.name).c_str(),
                           at == weight_map.end() ? "no file" : at->second.c_str()));
      }
    }
  }
  for (const auto& [tensor, file] : weight_map) {
    if (out.find(tensor)) continue;
    throw Error(ErrorCode::kFormat,
                format("%s: expected tensor '%s' in %s, found none", index_path.c_str(),
                       printable(tensor).c_str(), file.c_str()));
  }
  return out;
}

Checkpoint Checkpoint::of(Safetensors file, const std::string& directory) {
  Checkpoint out;
  out.directory_ = directory;
  out.add(std::move(file));
  return out;
}

const SafeTensor* Checkpoint::find(std::string_view name) const {
  const auto at = index_.find(name);
  return at == index_.end() ? nullptr : at->second;
}

std::vector<const SafeTensor*> Checkpoint::tensors() const {
  std::vector<const SafeTensor*> out;
  for (const Safetensors& file : files_) {
    for (const SafeTensor& tensor : file.tensors()) out.push_back(&tensor);
  }
  return out;
}

// Tensors stay where they are when the list of files grows: only their owner moves.
void Checkpoint::add(Safetensors file) {
  files_.push_back(std::move(file));
  for (const SafeTensor& tensor : files_.back().tensors()) index_.emplace(tensor.name, &tensor);
}

}  // namespace specbound
