#include "library/heads_path.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "error.h"
#include "library/model_cache.h"
#include "library/model_path.h"
#include "model/exit_heads.h"

namespace specbound {

namespace {

namespace fs = std::filesystem;

bool is_cached(const std::string& path) {
  std::error_code error;
  const std::string folder = model_cache_folder();
  return !folder.empty() && fs::weakly_canonical(path, error)
                                .string()
                                .starts_with(fs::weakly_canonical(folder, error).string() + "/");
}

// Of the folder where the bundled model lies: others beside the program may be anybody's.
std::vector<std::string> bundled_heads() {
  std::vector<std::string> heads;
  std::error_code error;
  for (const std::string& bundled : bundled_model_candidates()) {
    if (!fs::exists(bundled, error)) continue;
    const fs::path folder = fs::path(bundled).parent_path();
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      if (it->path().string().ends_with(".heads.gguf")) heads.push_back(it->path().string());
    }
    break;
  }
  std::ranges::sort(heads);
  return heads;
}

bool made_for(const std::string& heads, const std::string& fingerprint) {
  try {
    return ExitHeads::from_gguf(Gguf::open(heads)).base().fingerprint == fingerprint;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string heads_path(const std::string& model_path, const Gguf& model) {
  const std::string beside = sidecar_heads(model_path);
  std::error_code error;
  if (fs::exists(beside, error) || !is_cached(model_path)) return beside;
  const std::string fingerprint = model_fingerprint(model);
  for (const std::string& heads : bundled_heads()) {
    if (made_for(heads, fingerprint)) return heads;
  }
  return beside;
}

}  // namespace specbound
