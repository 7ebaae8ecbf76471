// The command line as every subcommand reads it: one way to parse, to complain and to print help,
// and the groups of flags that commands share. Numbers are read by our own parsers, so that "0x10",
// "1e400", "nan" and "8x" are refused with the flag's name and the range it takes.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "decode/sampler.h"
#include "engine/cpu/cpu_backend.h"

namespace specbound {

// Parses argv (argv[0] is the subcommand's name). nullopt: go on. 0: help went to `out`. 2: one
// line about what is wrong went to `err`. Single-dash names of several letters (-ngl) are
// understood; of a repeated flag the last one counts.
std::optional<int> parse_cli(CLI::App& app, int argc, char** argv, FILE* out = stdout,
                             FILE* err = stderr);

// A number option that takes `low`..`high` and nothing else.
CLI::Option* add_int(CLI::App& app, const std::string& names, int& value, int low, int high,
                     const std::string& description);
CLI::Option* add_number(CLI::App& app, const std::string& names, float& value, double low,
                        double high, const std::string& description);

// Whole-text number parsers; nullopt for anything else (sign where none belongs, overflow, NaN,
// inf, white space, trailing characters).
std::optional<int64_t> parse_int(std::string_view text);
std::optional<uint64_t> parse_uint(std::string_view text);
std::optional<double> parse_number(std::string_view text);

// Which model, and how it is run.
struct ModelFlags {
  std::string model;                      // empty: the bundled demo model
  int n_ctx = 0;                          // 0: as trained
  int n_threads = 0;                      // 0: one per physical core
  std::optional<std::string> gpu_layers;  // -ngl; without it: all that can go there
  std::string device = "auto";
  std::string isa = "auto";
  bool no_repack = false;

  // Throws Error(kUsage) for what this build cannot do.
  CpuOptions cpu_options() const;
};
void add_model_flags(CLI::App& app, ModelFlags& flags);

// How tokens are drawn. Without --seed each run draws its own and shows it.
struct SamplingFlags {
  SamplingParams params;
  std::optional<uint64_t> seed;

  // The parameters with a seed, checked. Throws Error(kUsage).
  SamplingParams resolve() const;
};
void add_sampling_flags(CLI::App& app, SamplingFlags& flags);

// What is asked of one reply.
struct ReplyFlags {
  int n_predict = -1;  // -1: until the end token or the context is full
  bool ignore_eos = false;
  std::string system;
  std::string stats_json;  // empty: none
};
void add_reply_flags(CLI::App& app, ReplyFlags& flags);

}  // namespace specbound
