// /set: the sampling and speculation flags of the command line, as they are now, and how they
// change from the next reply on. A value is read by the very flag, so it is understood and refused
// as on the command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/cli.h"
#include "app/speculation.h"
#include "app/speculation_flags.h"
#include "decode/generate.h"

namespace specbound {

class Settings {
 public:
  // `given`: what the command line said. All must outlive it.
  Settings(Session& session, Speculation& speculation, const SpeculationFlags& given)
      : session_(session), speculation_(speculation), given_(given) {}

  // Without dashes, in the order of --help.
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
  std::string value_of(const std::string& name) const;
  void set_sampling(const std::string& name, const SamplingFlags& flags);
  void set_speculation(const std::string& name, const SpeculationFlags& flags);

  Session& session_;
  Speculation& speculation_;
  const SpeculationFlags& given_;
};

}  // namespace specbound
