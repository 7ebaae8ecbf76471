// The tokenizer of a GGUF file that is in memory alone.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "model/gguf.h"
#include "text/tokenizer.h"

namespace specbound::test {

// The tokenizer must not need the file any longer.
inline std::unique_ptr<Tokenizer> load_tokenizer(const std::vector<std::byte>& file) {
  return Tokenizer::from_gguf(Gguf::parse(file, "tiny.gguf"));
}

}  // namespace specbound::test
