#include "gui/model/model_choices.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "error.h"
#include "gui/model/file_list.h"
#include "library/model_advice.h"
#include "library/model_cache.h"
#include "library/model_name.h"
#include "library/model_path.h"
#include "model/gguf_split.h"
#include "system/machine.h"

namespace specbound::gui {

namespace {

namespace fs = std::filesystem;

// nullopt: a file is not there.
std::optional<uint64_t> bytes_of_model(const std::string& path) {
  uint64_t bytes = 0;
  for (const std::string& file : files_of_model(path)) {
    std::error_code error;
    if (!fs::is_regular_file(file, error)) return std::nullopt;
    bytes += fs::file_size(file, error);
    if (error) return std::nullopt;
  }
  return bytes;
}

// nullopt: a file that is gone.
std::optional<ModelChoice> recent_choice(const std::string& name) {
  ModelChoice choice{ModelChoice::From::kRecent, name, "", true};
  if (const auto bytes = bytes_of_model(name)) {
    choice.note = gui::size_text(*bytes);
    return choice;
  }
  try {
    const std::vector<CachedModel> cached = find_cached(name);
    if (cached.size() == 1) choice.note = gui::size_text(cached[0].bytes);
    if (!cached.empty()) return choice;
    if (!find_hub_name(name)) return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
  choice.note = "to be downloaded";
  return choice;
}

}  // namespace

std::vector<ModelChoice> model_choices(const std::vector<std::string>& recent,
                                       uint64_t free_bytes) {
  std::vector<ModelChoice> choices;
  for (const std::string& name : recent) {
    if (auto choice = recent_choice(name)) choices.push_back(std::move(*choice));
  }
  const auto is_there = [&choices](const std::string& name) {
    return std::ranges::find(choices, name, &ModelChoice::name) != choices.end();
  };
  for (const CachedModel& model : cached_models()) {
    if (is_there(model.name)) continue;
    choices.push_back({ModelChoice::From::kHere, model.name, gui::size_text(model.bytes), true});
  }
  for (const ShortName& known : short_names()) {
    if (is_there(known.name) || find_cached(parse_hub_name(known.hub))) continue;
    const bool fits = fits_in_memory(known, free_bytes);
    choices.push_back({ModelChoice::From::kHub, known.name,
                       specbound::size_text(known) + (fits ? ", fits" : ", too large for memory"),
                       fits});
  }
  return choices;
}

uint64_t memory_without(uint64_t model_bytes) {
  const MemoryInfo memory = read_memory_info();
  const uint64_t most =
      std::min(memory.total_bytes, memory.cgroup_limit_bytes.value_or(UINT64_MAX));
  return std::min(most, memory.free_bytes() + std::min(model_bytes, most));
}

std::string why_no_model(const std::string& text) {
  try {
    if (text.empty()) return "expected a name or a file";
    std::error_code error;
    if (is_model_name(text)) {
      (void)find_hub_name(text);  // throws for what begins as a name of the hub and is none
    } else if (!fs::exists(text, error)) {
      return printable(text) + ": expected hf:OWNER/REPO[:QUANT], a name of this list or a file";
    }
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

void put_in_front(std::vector<std::string>& recent, const std::string& name) {
  std::erase(recent, name);
  recent.insert(recent.begin(), name);
  if (recent.size() > kMostRecentModels) recent.resize(kMostRecentModels);
}

}  // namespace specbound::gui
