// /set: the sampling and speculation flags of the command line, as they are now, and how they
// change from the next reply on. A value is read by the very flag, so it is understood and refused
// as on the command line; the flags themselves are handed in.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "decode/generate.h"
#include "runtime/reply_options.h"
#include "runtime/speculation.h"
#include "runtime/speculation_options.h"

namespace specbound {

// A setting as the command line declares it.
struct SettingFlag {
  std::string name;                // without dashes
  std::vector<std::string> words;  // that it may be; none: a number or a file
  bool samples = false;            // how tokens are drawn; else what drafts
  // Reads `value` over the options. Throws Error(kUsage).
  std::function<void(const std::string& value, SamplingOptions&, SpeculationOptions&)> read;
};

class SetCommand {
 public:
  // `given`: what the command line said. All must outlive it.
  SetCommand(Session& session, Speculation& speculation, const SpeculationOptions& given,
             std::vector<SettingFlag> flags)
      : session_(session), speculation_(speculation), given_(given), flags_(std::move(flags)) {}

  // Without dashes, in the order of the flags.
  std::vector<std::string> names() const;
  // Words that a setting may have; none: numbers, files, or no such setting.
  std::vector<std::string> values(const std::string& name) const;

  // All of them, a line each.
  std::string list() const;
  // "temp 0.8". `name` with or without dashes. Throws Error(kUsage) for an unknown one.
  std::string show(std::string_view name) const;
  // Throws Error(kUsage) for what the flag refuses, or for what cannot change while the program
  // runs; Error(kLimit) where heads do not fit. Nothing has changed then.
  void set(std::string_view name, const std::string& value);

 private:
  const SettingFlag* find(std::string_view name) const;
  std::string value_of(const std::string& name) const;
  void set_sampling(const std::string& name, const SamplingOptions& read);
  void set_speculation(const std::string& name, const SpeculationOptions& read);

  Session& session_;
  Speculation& speculation_;
  const SpeculationOptions& given_;
  std::vector<SettingFlag> flags_;
};

}  // namespace specbound
