// The perplexity of a text under a model, through the kernels that read prompts, those that write
// replies, or both. stdout carries the figures, stderr the rest.
#pragma once

#include <string>
#include <vector>

#include "runtime/model_options.h"
#include "tools/perplexity.h"

namespace specbound {

struct PplOptions {
  ModelOptions model;
  std::string file;                 // empty or "-": stdin
  std::string json;                 // a file; empty: none
  std::string through = "prefill";  // or decode, or both
  int chunks = 0;                   // 0: all
  int stride = 0;                   // 0: windows end to end
  bool whole = false;

  std::vector<Through> paths() const;
};

// False where stdout could not be written. Throws Error, and Interrupted when not all was scored.
bool ppl(const PplOptions& asked);

}  // namespace specbound
