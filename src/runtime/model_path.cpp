#include "runtime/model_path.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "error.h"

namespace specbound {

namespace {

constexpr const char* kBundledModel = "demo-chat-16l-q8_0.gguf";

}  // namespace

std::vector<std::string> bundled_model_candidates() {
  namespace fs = std::filesystem;
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

std::string find_model(const std::string& flag) {
  if (!flag.empty()) return flag;
  const std::vector<std::string> candidates = bundled_model_candidates();
  for (const std::string& candidate : candidates) {
    std::error_code error;
    if (std::filesystem::exists(candidate, error)) return candidate;
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
