#include "tools/overlap_report.h"

#include <cstdio>
#include <string>
#include <vector>

#include "error.h"
#include "system/number_text.h"

namespace specbound {

namespace {

using Json = nlohmann::ordered_json;

struct Missing {
  const char *drafter, *reason;
};

// Other drafters, and why no figure of theirs is here.
std::vector<Missing> not_measured(const ExitHeads* heads) {
  std::vector<Missing> missing = {{"lookahead", "n-grams of its own window, no distribution"},
                                  {"rest", "lookups in a datastore, no distribution"}};
  if (heads) missing.push_back({"draft-verify", "only of models without heads"});
  if (heads && heads->masks().count > 0) {
    missing.push_back({"space", "its masks stand behind drafts of a round, and none is decoded"});
  }
  return missing;
}

double share(int64_t part, int64_t of) {
  return of > 0 ? static_cast<double>(part) / static_cast<double>(of) : 0;
}

std::string name_of(const DrafterOverlap& one) {
  return one.layer ? format("%s at %d", one.drafter.c_str(), *one.layer) : one.drafter;
}

}  // namespace

void print_overlap(const OverlapReport& report, const ExitHeads* heads) {
  std::printf(
      "\nwhat drafters share with the model, at %s places of %d replies, in %.1f s:\n"
      "  greedy   their likeliest token is the model's\n"
      "  drawn    a draft drawn with the model's noise is right\n"
      "  1 - TV   what the distributions drawn from share: so many drafts can be right at most,\n"
      "           and rejection sampling accepts them\n"
      "  at T 1   the same of the softmaxes at temperature 1, nothing filtered\n"
      "  %-16s %4s %5s %7s %8s %8s %8s %8s\n",
      grouped(report.places).c_str(), report.replies, report.seconds, "drafter", "step", "T",
      "tokens", "greedy", "drawn", "1 - TV", "at T 1");
  for (const DrafterOverlap& one : report.drafters) {
    const std::string step = one.step ? std::to_string(*one.step) : "any";
    std::printf("  %-16s %4s %5g %7lld %7.1f%% %7.1f%% %7.1f%% %7.1f%%\n", name_of(one).c_str(),
                step.c_str(), one.temperature, static_cast<long long>(one.tokens), 100 * one.greedy,
                100 * one.drawn, 100 * one.overlap, 100 * one.unfiltered);
  }
  for (const LookupsRight& one : report.lookups) {
    std::printf("  %-16s %4s %5g %7lld %8s %7.1f%%   no distribution; of %lld tokens\n", "lookups",
                "any", one.temperature, static_cast<long long>(one.found), "",
                100 * share(one.right, one.found), static_cast<long long>(one.tokens));
  }
  std::printf("  not measured:");
  const char* between = " ";
  for (const Missing& missing : not_measured(heads)) {
    std::printf("%s%s (%s)", between, missing.drafter, missing.reason);
    between = ", ";
  }
  std::printf("\n");
}

Json overlap_json(const OverlapReport& report, const ExitHeads* heads) {
  Json drafters = Json::array(), lookups = Json::array(), missing = Json::array();
  for (const DrafterOverlap& one : report.drafters) {
    drafters.push_back({{"drafter", one.drafter},
                        {"layer", one.layer ? Json(*one.layer) : Json(nullptr)},
                        {"step", one.step ? Json(*one.step) : Json(nullptr)},
                        {"temperature", shortest_decimal(one.temperature)},
                        {"tokens", one.tokens},
                        {"greedy", one.greedy},
                        {"drawn", one.drawn},
                        {"overlap", one.overlap},
                        {"overlap_at_temperature_1", one.unfiltered}});
  }
  for (const LookupsRight& one : report.lookups) {
    lookups.push_back({{"temperature", shortest_decimal(one.temperature)},
                       {"tokens", one.tokens},
                       {"found", one.found},
                       {"right", one.right}});
  }
  for (const Missing& one : not_measured(heads)) {
    missing.push_back({{"drafter", one.drafter}, {"reason", one.reason}});
  }
  return {{"replies", report.replies},     {"places", report.places},
          {"seconds", report.seconds},     {"drafters", std::move(drafters)},
          {"lookups", std::move(lookups)}, {"not_measured", std::move(missing)}};
}

}  // namespace specbound
