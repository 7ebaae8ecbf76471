#include "app/model_path.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "error.h"

namespace specbound {

namespace {

constexpr const char* kBundledModel = "demo-chat-16l-q8_0.gguf";

const char* model_from_environment() {
  const char* path = std::getenv("SPECBOUND_MODEL");
  return path && *path ? path : nullptr;
}

}  // namespace

std::vector<std::string> bundled_model_candidates() {
  namespace fs = std::filesystem;
  std::vector<std::string> candidates;
  if (const char* path = model_from_environment()) candidates.emplace_back(path);
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
  std::string tried;
  for (const std::string& candidate : bundled_model_candidates()) {
    std::error_code error;
    if (std::filesystem::exists(candidate, error)) return candidate;
    tried += (tried.empty() ? "" : ", ") + candidate;
    // Whoever names a model wants that one, not another that happens to be there.
    if (model_from_environment()) break;
  }
  throw Error(ErrorCode::kFile,
              "no model: give one with -m FILE.gguf; the bundled one was looked for as " + tried);
}

}  // namespace specbound
