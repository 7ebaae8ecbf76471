#include "runtime/heads_path.h"

#include <string_view>

namespace specbound {

std::string sidecar_heads(const std::string& model_path) {
  constexpr std::string_view kEnding = ".gguf";
  std::string_view stem = model_path;
  if (stem.ends_with(kEnding)) stem.remove_suffix(kEnding.size());
  return std::string(stem) + ".heads.gguf";
}

}  // namespace specbound
