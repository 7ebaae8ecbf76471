// What `verify` is asked for: prompts x temperatures x seeds, what drafts, what is compared.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli.h"
#include "app/prompt.h"
#include "app/speculation_flags.h"
#include "decode/forced_head.h"

namespace specbound {

struct VerifyFlags {
  ModelFlags model;
  SamplingFlags sampling;     // but for temperature and seed
  SpeculationFlags drafting;  // its `speculator`: one of speculators(), or forced
  PromptFlags prompt;
  std::vector<std::string> texts;
  std::string file;
  int n_predict = 64;
  std::vector<float> temperatures = {0.0f, 0.7f, 1.0f};
  std::vector<uint64_t> seeds = {1, 2};
  ForcedRates rates;
  bool bits = false, ignore_eos = false;
  std::string json;

  // Of -p, -f or the built-in set. Throws Error(kUsage) for both flags, and what reading throws.
  std::vector<std::string> prompts() const;
  bool forced() const { return drafting.speculator == "forced"; }
  // Throws Error(kUsage) for what was given and does not go together.
  void check(const CLI::App& app) const;
};
void add_verify_flags(CLI::App& app, VerifyFlags& flags);

// Questions, orders, code, numbers, other scripts, repetition, next to nothing.
const std::vector<std::string>& builtin_prompts();

// A prompt a line; empty lines are none. `text` is `name`'s. Throws Error(kUsage) when no prompt is
// left, Error(kLimit) naming the line for one that is too long, or when there are too many.
std::vector<std::string> prompt_lines(std::string_view text, const std::string& name);

// "0,0.7,1": any numbers; their range is the sampler's matter. Throws Error(kUsage).
std::vector<float> parse_temperatures(std::string_view text);
// "3" is the seeds 1, 2 and 3; "7,8" (or "7," for one) are those very seeds. Throws Error(kUsage).
std::vector<uint64_t> parse_seeds(std::string_view text);

}  // namespace specbound
