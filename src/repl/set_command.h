// /set: flags of the command line about replies, sampling and speculation, as they are now, and how
// they change from the next reply on. A value is read by the very flag, so it is understood and
// refused as on the command line; the flags themselves are handed in.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "decode/generate.h"
#include "runtime/reply_options.h"
#include "runtime/speculation.h"
#include "runtime/speculation_options.h"

namespace specbound {

// What flags set.
struct SetOptions {
  ReplyOptions reply;
  SamplingOptions sampling;
  SpeculationOptions speculation;
};

// A setting as the command line declares it.
struct SettingFlag {
  enum class About { kReply, kSampling, kSpeculation };

  std::string name;                // without dashes
  std::vector<std::string> also;   // other names of the flag, likewise
  std::vector<std::string> words;  // that it may be; none: a number, a text or a file
  bool takes_file = false;         // its name; "~/" is the home folder
  About about = About::kReply;
  // Reads `value` over the options. Throws Error(kUsage).
  std::function<void(const std::string& value, SetOptions&)> read;
};

// What a chat's settings are those of; `given`: what the command line said of speculation.
struct SetTargets {
  Session& session;
  ReplyOptions& reply;
  Speculation& speculation;
  const SpeculationOptions& given;
  // A grammar over the model's tokens.
  std::function<std::shared_ptr<const TokenGrammar>(Grammar::Shared)> constrain = nullptr;
};

class SetCommand {
 public:
  // The targets must outlive it.
  SetCommand(const SetTargets& targets, std::vector<SettingFlag> flags)
      : session_(targets.session),
        reply_(targets.reply),
        speculation_(targets.speculation),
        given_(targets.given),
        constrain_(targets.constrain),
        flags_(std::move(flags)) {}

  // Without dashes, in the order of the flags.
  std::vector<std::string> names() const;
  // Words that a setting may have; none: numbers, files, or no such setting.
  std::vector<std::string> values(const std::string& name) const;
  bool takes_file(const std::string& name) const;

  // All of them, a line each.
  std::string list() const;
  // "temp 0.8". `name`: any of the flag's, with or without dashes. Throws Error(kUsage) for an
  // unknown one.
  std::string show(std::string_view name) const;
  // Throws Error(kUsage) for what the flag refuses, or for what cannot change while the program
  // runs; Error(kLimit) where heads do not fit. Nothing has changed then.
  void set(std::string_view name, const std::string& value);

 private:
  const SettingFlag* find(std::string_view name) const;
  std::string value_of(const std::string& name) const;
  std::string speculation_value(const std::string& name) const;
  void set_reply(const std::string& name, ReplyOptions read);
  void set_sampling(const std::string& name, const SamplingOptions& read);
  void set_speculation(const std::string& name, const SpeculationOptions& read);

  Session& session_;
  ReplyOptions& reply_;
  Speculation& speculation_;
  const SpeculationOptions& given_;
  std::function<std::shared_ptr<const TokenGrammar>(Grammar::Shared)> constrain_;
  std::vector<SettingFlag> flags_;
};

}  // namespace specbound
