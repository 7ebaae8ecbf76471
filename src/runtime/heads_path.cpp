#include "runtime/heads_path.h"

#include <filesystem>

#include "error.h"
#include "model/exit_heads.h"
#include "runtime/model_cache.h"
#include "runtime/model_path.h"

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
  for (const std::string& bundled : bundled_model_candidates()) {
    const fs::path folder = fs::path(bundled).parent_path();
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      const std::string path = it->path().string();
      if (path.ends_with(".heads.gguf") && made_for(path, fingerprint)) return path;
    }
  }
  return beside;
}

}  // namespace specbound
