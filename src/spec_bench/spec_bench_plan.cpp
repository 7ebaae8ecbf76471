#include "spec_bench/spec_bench_plan.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "error.h"

namespace specbound {

namespace {

constexpr const char* kPaper = "paper";

SpecBenchDrafter named_drafter(const SpecBenchOptions& options, const std::string& name,
                               bool needed) {
  SpeculationOptions drafting =
      options.drafting.with_speculator(name == kPaper ? "specbound" : name);
  if (name == kPaper) {
    drafting.specbound = {};
    drafting.specbound.preset = Preset::kPaper;
  }
  return {name, std::move(drafting), needed};
}

// "a,b" or all.
std::vector<SpecBenchDrafter> compared(const SpecBenchOptions& options) {
  std::vector<std::string> known = speculators();
  known.insert(known.begin() + 1, kPaper);
  std::vector<SpecBenchDrafter> drafters;
  if (options.compare == "all") {
    for (const std::string& name : known) {
      drafters.push_back(named_drafter(options, name, false));
    }
    return drafters;
  }
  std::istringstream list(options.compare);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == "plain") continue;  // always there
    if (std::ranges::count(known, name) == 0) {
      throw Error(ErrorCode::kUsage,
                  format("--compare: expected all, or a list of plain, %s, found \"%s\"",
                         or_list(known).c_str(), printable(name).c_str()));
    }
    drafters.push_back(named_drafter(options, name, true));
  }
  return drafters;
}

}  // namespace

std::vector<SpecBenchDrafter> spec_bench_drafters(const SpecBenchOptions& options) {
  std::vector<SpecBenchDrafter> drafters = {{"plain", std::nullopt, true}};
  if (options.compare.empty()) {
    drafters.push_back({options.drafting.speculator, options.drafting, true});
  } else {
    for (SpecBenchDrafter& drafter : compared(options)) drafters.push_back(std::move(drafter));
  }
  for (const auto& [name, drafting] : options.settings) drafters.push_back({name, drafting, true});
  std::set<std::string> names;
  for (const SpecBenchDrafter& drafter : drafters) {
    if (drafter.options && drafter.needed) drafter.options->check();
    if (names.insert(drafter.name).second) continue;
    throw Error(ErrorCode::kUsage, format("%s is named twice: expected drafters of different names",
                                          drafter.name.c_str()));
  }
  if (drafters.size() < 2) {
    throw Error(ErrorCode::kUsage, "--compare: expected a drafter beside plain decoding");
  }
  return drafters;
}

std::vector<SpecBenchStrategy> spec_bench_strategies(const SpecBenchOptions& options) {
  const SamplingParams given = options.sampling.resolve();
  if (!options.sampling_table) return {{"as asked for", "", given}};
  const auto with = [&](float temperature, float top_p) {
    SamplingParams params = given;
    params.temperature = temperature;
    params.top_p = top_p;
    params.top_k = 0;  // the paper names no other filter
    params.min_p = 0;
    validate(params);
    return params;
  };
  return {{"greedy", "", with(0, 1)},
          {"T 0.3", "t0.3-", with(0.3f, 1)},
          {"T 1.0", "t1.0-", with(1, 1)},
          {"top-p 0.9", "top-p0.9-", with(1, 0.9f)}};
}

}  // namespace specbound
