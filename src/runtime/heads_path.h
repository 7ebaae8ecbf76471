// Where the exit heads of a model lie: beside it.
#pragma once

#include <string>

namespace specbound {

// "a/b.gguf" -> "a/b.heads.gguf"; a name that does not end in .gguf is kept whole.
std::string sidecar_heads(const std::string& model_path);

}  // namespace specbound
