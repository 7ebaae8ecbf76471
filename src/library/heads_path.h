// Where the exit heads of a model lie.
#pragma once

#include <string>

#include "model/gguf.h"

namespace specbound {

// Beside the model. For one of the cache (model_cache.h) that has none there, the file among those
// that come with the program that was made for it, by its fingerprint. Where there is none at all,
// the path beside the model.
std::string heads_path(const std::string& model_path, const Gguf& model);

}  // namespace specbound
