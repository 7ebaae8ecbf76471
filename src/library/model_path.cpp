#include "library/model_path.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "error.h"
#include "library/model_cache.h"
#include "library/model_name.h"
#include "library/model_pull.h"

namespace specbound {

namespace {

namespace fs = std::filesystem;

constexpr const char* kBundledModel = "demo-chat-16l-q8_0.gguf";

bool lies_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Weights as Hugging Face has them: the command that makes a model of them, to be typed as it is.
void refuse_unconverted(const std::string& path) {
  std::error_code error;
  const bool folder = fs::is_directory(path, error);
  if (!folder && !path.ends_with(".safetensors")) return;
  fs::path from = path;
  if (!folder) from = from.has_parent_path() ? from.parent_path() : ".";
  if (!lies_there(from / "config.json")) {
    throw Error(ErrorCode::kFile,
                format("%s: expected a GGUF file, found %s, and no config.json %s: specbound "
                       "convert takes the directory of a Hugging Face model",
                       path.c_str(), folder ? "a directory" : "weights of safetensors",
                       folder ? "in it" : "beside it"));
  }
  const std::string name = fs::weakly_canonical(from, error).filename().string();
  const std::string out = (name.empty() ? "model" : name) + ".gguf";
  // A folder that begins with a dash is no flag.
  const std::string in = path.starts_with("-") ? "./" + from.string() : from.string();
  throw Error(ErrorCode::kFile,
              format("%s: expected a GGUF file, found a Hugging Face model; this makes one: "
                     "specbound convert %s -o %s",
                     path.c_str(), shell_word(in).c_str(),
                     shell_word(out.starts_with("-") ? "./" + out : out).c_str()));
}

[[noreturn]] void refuse_name(const std::string& name) {
  const std::string known = joined(short_names(), ", ", [](const ShortName& n) { return n.name; });
  throw Error(ErrorCode::kFile,
              format("%s: expected a GGUF file, hf:OWNER/REPO[:QUANT] or one of %s: there is no "
                     "such file",
                     printable(name).c_str(), known.c_str()));
}

// "OWNER/REPO", where no folder here is called OWNER: what others take for a repository of the hub.
void refuse_repository(const std::string& path) {
  if (!looks_like_a_repository(path) || lies_there(fs::path(path).parent_path())) return;
  throw Error(ErrorCode::kFile, format("%s: there is no such file; hf:%s would be a repository of "
                                       "Hugging Face",
                                       path.c_str(), path.c_str()));
}

// NAME of NAME.gguf in the cache; empty: there is none.
std::string cached_file(const std::string& name) {
  const std::string folder = model_cache_folder();
  if (folder.empty() || !is_safe_path(name)) return "";
  const std::string path = folder + "/" + name + ".gguf";
  return lies_there(path) ? path : "";
}

bool looks_like_a_path(const std::string& text) {
  return text.find('/') != text.npos || text.ends_with(".gguf");
}

bool is_known_name(const std::string& text) {
  return !looks_like_a_path(text) && (find_hub_name(text) || !cached_file(text).empty());
}

// A file, or the folder of a Hugging Face model. Another folder that happens to have a model's name
// does not stand in its way.
bool shadows_name(const std::string& text) {
  std::error_code error;
  return lies_there(text) &&
         (!fs::is_directory(text, error) || lies_there(fs::path(text) / "config.json"));
}

}  // namespace

std::vector<std::string> bundled_model_candidates() {
  std::vector<std::string> candidates;
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (error) return candidates;
  const fs::path folder = executable.parent_path();
  for (const char* models : {"models", "../models", "../../models", "../share/specbound/models"}) {
    candidates.push_back((folder / models / kBundledModel).lexically_normal().string());
  }
  return candidates;
}

bool is_model_name(const std::string& text) {
  return begins_as_hub_name(text) || (is_known_name(text) && !shadows_name(text));
}

std::string find_model(const std::string& flag, const LoadWatcher& watcher) {
  if (begins_as_hub_name(flag)) return pull_model(parse_hub_name(flag), watcher).files.front();
  if (!flag.empty()) {
    if (lies_there(flag) && !is_model_name(flag)) {
      refuse_unconverted(flag);
      return flag;
    }
    refuse_repository(flag);
    if (looks_like_a_path(flag)) return flag;
    if (const auto hub = find_hub_name(flag)) return pull_model(*hub, watcher).files.front();
    const std::string cached = cached_file(flag);
    if (cached.empty()) refuse_name(flag);
    return cached;
  }
  const std::vector<std::string> candidates = bundled_model_candidates();
  for (const std::string& candidate : candidates) {
    if (lies_there(candidate)) return candidate;
  }
  throw Error(ErrorCode::kFile,
              "no model: give one with model=FILE.gguf; the bundled one was looked for as " +
                  joined(candidates));
}

std::string shell_word(const std::string& text) {
  const auto stands_for_itself = [](unsigned char c) {
    return c >= 0x80 || std::isalnum(c) ||
           std::string_view("_./+-=:@%,").find(c) != std::string::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, stands_for_itself)) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

std::string train_command(const std::string& model_path) {
  return "specbound train-heads -m " + shell_word(model_path);
}

std::string sidecar_heads(const std::string& model_path) {
  constexpr std::string_view kEnding = ".gguf";
  std::string_view stem = model_path;
  if (stem.ends_with(kEnding)) stem.remove_suffix(kEnding.size());
  return std::string(stem) + ".heads.gguf";
}

}  // namespace specbound
