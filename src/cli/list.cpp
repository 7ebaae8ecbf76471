// `specbound list`: the models in the cache.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/command.h"
#include "json/json_writer.h"
#include "library/model_cache.h"
#include "terminal/flag_names.h"
#include "terminal/terminal_text.h"

namespace specbound::list_command {
namespace {

using Json = nlohmann::ordered_json;

struct ListFlags {
  bool json = false;
};

void declare(Flags& flags, ListFlags& given) {
  flags.add_switch("--json", given.json, "print the list as JSON").command_line_only();
}

std::string day(int64_t time) {
  const std::time_t seconds = time;
  std::tm local = {};
  char text[32] = "";
  if (localtime_r(&seconds, &local)) std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &local);
  return text;
}

void print_json(const std::vector<CachedModel>& models) {
  Json list = Json::array();
  for (const CachedModel& model : models) {
    list.push_back({{"name", model.name},
                    {"hub", model.hub ? Json(model.hub->text()) : Json()},
                    {"quantization", or_null(model.quantization)},
                    {"bytes", model.bytes},
                    {"files", model.files},
                    {"time", model.time},
                    {"whole", model.whole}});
  }
  std::printf("%s\n", dump(list, 2).c_str());
}

int run(ListFlags& given) {
  std::vector<CachedModel> models = cached_models();
  std::ranges::move(unfinished_models(), std::back_inserter(models));
  if (given.json) {
    print_json(models);
    return 0;
  }
  if (models.empty()) {
    say("no models are in the cache; specbound pull smollm2 brings one");
    return 0;
  }
  size_t width = 4;
  for (const CachedModel& model : models) width = std::max(width, model.name.size());
  std::printf("%-*s  %10s  %-6s  %s\n", static_cast<int>(width), "NAME", "SIZE", "QUANT", "WHEN");
  for (const CachedModel& model : models) {
    std::printf("%-*s  %7.1f MB  %-6s  %s%s\n", static_cast<int>(width),
                terminal_text(model.name).c_str(), 1e-6 * static_cast<double>(model.bytes),
                model.quantization.empty() ? "-" : terminal_text(model.quantization).c_str(),
                day(model.time).c_str(),
                model.whole ? "" : "  not whole: pull goes on, rm deletes it");
  }
  return 0;
}

const CommandOf<ListFlags> kList(
    {.rank = 126,
     .name = "list",
     .summary = "the models in the cache",
     .text = "The models in the cache, by the names that -m and rm take, and behind them what "
             "downloads that were cut off left.",
     .footer = "Examples:\n"
               "  specbound list\n"
               "  specbound list --json"},
    declare, run);

}  // namespace
}  // namespace specbound::list_command
