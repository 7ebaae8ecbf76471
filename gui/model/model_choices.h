// Models that can be opened by name: those of late, those in the cache, and those that have a short
// name, with what there is of memory for them. No drawing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace specbound::gui {

struct ModelChoice {
  enum class From { kRecent, kHere, kHub };
  From from = From::kHub;
  std::string name;  // what a model is loaded by: a name or a path
  std::string note;  // "1.1 GB", with what more there is to know
  bool fits = true;  // into memory, as far as that is known

  bool operator==(const ModelChoice&) const = default;
};

// `recent`: names and paths, the newest first; files that are gone are left out. `free_bytes`: of
// main memory, for a model in place of the one that is loaded.
std::vector<ModelChoice> model_choices(const std::vector<std::string>& recent, uint64_t free_bytes);

// What main memory would be free without a model that takes so much of it.
uint64_t memory_without(uint64_t model_bytes);

// What is to be said of a text before it is taken for a model; empty: it may be one.
std::string why_no_model(const std::string& text);

// `name` in front of the others, once, kMostRecentModels of them at most.
inline constexpr size_t kMostRecentModels = 8;
void put_in_front(std::vector<std::string>& recent, const std::string& name);

}  // namespace specbound::gui
