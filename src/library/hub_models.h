// What a repository of the hub holds, from the list that its API gives, and which of it is taken.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "library/model_name.h"

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

// The longest list that is read, all its pages together.
constexpr size_t kMostListBytes = size_t{4} << 20;

// The GGUF models of a list, which may come in pages:
// [{"type": "file", "path": .., "size": .., "lfs": {"oid": ..}}, ..]. Files whose path is not safe
// are none of them, nor are those that come beside models (projectors, importance matrices, exit
// heads). `name` stands for the list in messages. Throws Error(kFormat).
std::vector<HubModel> read_hub_list(std::span<const std::string> pages, const std::string& name);

// "b.gguf" of "a/b.gguf".
inline std::string_view hub_base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// Keeps of `models` those that have a file of this name: of this whole path inside the repository,
// or where there is none in whichever folder. `has(model, is_it)` says whether `is_it` holds for
// the path of one of its files.
template <class Model, class Has>
void keep_named(std::vector<Model>& models, std::string_view file, const Has& has) {
  const auto is_path = [file](std::string_view path) { return path == file; };
  const auto is_name = [file](std::string_view path) { return hub_base_name(path) == file; };
  const bool whole = std::ranges::any_of(models, [&](const Model& m) { return has(m, is_path); });
  std::erase_if(models,
                [&](const Model& m) { return whole ? !has(m, is_path) : !has(m, is_name); });
}

// The one that `name` asks for. Where it leaves the choice, what runs as it is and is small comes
// first: Q4_K_M, Q4_0, Q4_K_S, Q8_0, then all others. Throws Error: kUsage, which lists what
// there is; kFormat where a part of it is missing.
const HubModel& choose_model(const std::vector<HubModel>& models, const HubName& name);

}  // namespace specbound
