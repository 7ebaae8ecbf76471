// What a repository of the hub holds, from the list that its API gives, and which of it is taken.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model_name.h"

namespace specbound {

struct HubFile {
  std::string path;  // inside the repository: is_safe_path()
  uint64_t bytes = 0;
  std::string sha256;  // 64 digits; empty: the list has none
};

// One model: a file, or all parts of one that is split, in order.
struct HubModel {
  std::string quantization;  // empty: its name does not say
  std::vector<HubFile> files;
  size_t n_parts = 1;  // that it should have

  uint64_t bytes() const;
};

// The longest list that is read.
constexpr size_t kMostListBytes = size_t{4} << 20;

// The GGUF models of a list: [{"type": "file", "path": .., "size": .., "lfs": {"oid": ..}}, ..].
// Files whose path is not safe are none of them, nor are those that come beside models (projectors,
// importance matrices, exit heads). `name` stands for the list in messages. Throws Error(kFormat).
std::vector<HubModel> read_hub_list(std::string_view json, const std::string& name);

// The one that `name` asks for. Where it leaves the choice, what runs as it is and is small comes
// first: Q4_K_M, Q4_0, Q4_K_S, Q8_0, then what runs as INT8. Throws Error: kUsage, which lists what
// there is; kFormat where a part of it is missing.
const HubModel& choose_model(const std::vector<HubModel>& models, const HubName& name);

}  // namespace specbound
