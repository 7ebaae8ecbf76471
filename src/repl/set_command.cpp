#include "repl/set_command.h"

#include <algorithm>

#include "error.h"
#include "system/user_path.h"
#include "terminal/flag_names.h"
#include "terminal/terminal_text.h"

namespace specbound {

namespace {

constexpr std::string_view kNothing = "-";  // as of /sys

std::string without_dashes(std::string_view name) {
  while (name.starts_with("-")) name.remove_prefix(1);
  return std::string(name);
}

[[noreturn]] void unknown(const std::string& name) {
  throw Error(ErrorCode::kUsage,
              format("/set: no setting \"%s\"; /set lists them", printable(name).c_str()));
}

// "a", "b"
std::string stop_list(const StopStrings& stop) {
  if (stop.empty()) return "(none)";
  return joined(stop.strings(), ", ",
                [](const std::string& text) { return '"' + terminal_text(text) + '"'; });
}

std::string file_name(const std::string& path) {
  return path.empty() ? "(none)" : terminal_text(path);
}

std::string on_off(bool on) {
  return on ? "on" : "off";
}

std::string number(double value) {
  return format("%g", value);
}

const char* preset_name(Preset preset) {
  return preset == Preset::kPaper ? "paper" : preset == Preset::kShipped ? "shipped" : "tuned";
}

// Those of `there` that --check-layers names; a layer that is not there as itself, to be refused.
std::vector<int> layers_of(const std::vector<LayerRange>& ranges, const std::vector<int>& there) {
  if (ranges.empty()) return there;
  std::vector<int> layers;
  for (const auto& [first, last] : ranges) {
    const auto begin = std::ranges::lower_bound(there, first);
    const auto end = std::ranges::upper_bound(there, last);
    if (begin == end) layers.push_back(first);
    layers.insert(layers.end(), begin, end);
  }
  return layers;
}

// Settings of the SpecBound drafter that can change between rounds.
bool is_drafting(const std::string& name) {
  constexpr std::string_view kNames[] = {"d-max",          "tau",       "alpha",
                                         "check-layers",   "no-anneal", "anneal-learned",
                                         "no-depth-bound", "w-max",     "no-width-bound"};
  return std::ranges::count(kNames, name) > 0;
}

}  // namespace

std::vector<std::string> SetCommand::names() const {
  std::vector<std::string> names;
  for (const SettingFlag& flag : flags_) names.push_back(flag.name);
  return names;
}

std::vector<std::string> SetCommand::values(const std::string& name) const {
  const SettingFlag* flag = find(name);
  return flag ? flag->words : std::vector<std::string>();
}

bool SetCommand::takes_file(const std::string& name) const {
  const SettingFlag* flag = find(name);
  return flag && flag->takes_file;
}

const SettingFlag* SetCommand::find(std::string_view name) const {
  const std::string plain = without_dashes(name);
  const auto found = std::ranges::find_if(flags_, [&](const SettingFlag& flag) {
    return flag.name == plain || std::ranges::count(flag.also, plain) > 0;
  });
  return found == flags_.end() ? nullptr : &*found;
}

std::string SetCommand::list() const {
  std::string out;
  for (const std::string& name : names()) {
    out += format("%-16s %s\n", name.c_str(), value_of(name).c_str());
  }
  return out + terminal_text(with_flags(speculation_.description())) + '\n';
}

std::string SetCommand::show(std::string_view name) const {
  const SettingFlag* flag = find(name);
  if (!flag) unknown(without_dashes(name));
  return flag->name + ' ' + value_of(flag->name);
}

std::string SetCommand::value_of(const std::string& name) const {
  const SamplingParams& sampling = session_.sampler().params();
  if (name == "presence-penalty") return number(sampling.presence_penalty);
  if (name == "frequency-penalty") return number(sampling.frequency_penalty);
  if (name == "repeat-penalty") return number(sampling.repeat_penalty);
  if (name == "repeat-last-n") return std::to_string(sampling.repeat_last_n);
  if (name == "top-k") return std::to_string(sampling.top_k);
  if (name == "top-p") return number(sampling.top_p);
  if (name == "min-p") return number(sampling.min_p);
  if (name == "temp") return number(sampling.temperature);
  if (name == "seed") return std::to_string(sampling.seed);
  if (name == "n-predict") return std::to_string(reply_.n_predict);
  if (name == "stop") return stop_list(reply_.stop);
  if (name == "grammar") return file_name(reply_.grammar.grammar);
  if (name == "json-schema") return file_name(reply_.grammar.json_schema);
  return speculation_value(name);
}

std::string SetCommand::speculation_value(const std::string& name) const {
  const std::string drafter = speculation_.drafter();
  if (name == "spec") return on_off(speculation_.active());
  if (name == "speculator") return given_.speculator;
  if (name == "heads")
    return given_.heads.empty() ? "(those beside the model)" : terminal_text(given_.heads);
  if (name == "ngram-max") return std::to_string(given_.ngram_max);
  if (name == "model-draft") return file_name(given_.draft_model);
  if (name == "datastore") return file_name(given_.datastore);
  if (name == "accept") return acceptance_name(given_.acceptance);
  if (name == "fixed-tree") return on_off(given_.fixed_tree);
  if (name == "siblings") return std::to_string(given_.siblings);
  if (name == "no-siblings") return on_off(given_.no_siblings);
  if (name == "controller") return on_off(speculation_.controls());
  if (name == "remember") return on_off(given_.remember.value_or(false));
  if (name == "exit-layer") {
    if (given_.speculator != "layerskip") return "(not used: layerskip does not draft)";
    return layer_list(speculation_.params().check_layers);
  }
  if (name == "lookahead") {
    if (given_.speculator != "lookahead") return "(not used: lookahead does not draft)";
    return lookahead_text(given_.lookahead.value_or(LookaheadParams()));
  }
  const DraftVerify* draft_verify = speculation_.draft_verify();
  if (name == "skip-layers") {
    return draft_verify ? layer_list(draft_verify->params().skipped)
                        : "(not used: draft-verify does not draft)";
  }
  if (speculation_.head_layers().empty()) {
    const DraftModel* draft_model = speculation_.draft_model();
    const Speculator* speculator = speculation_.speculator();
    if (name == "tau" && draft_verify) return number(draft_verify->params().tau);
    const Kangaroo* kangaroo = speculation_.kangaroo();
    if (name == "tau" && kangaroo) return number(kangaroo->params().eta);
    if (name == "tau" && draft_model && given_.speculator == "draft")
      return number(draft_model->tau());
    if (name == "w-max" && speculator) return std::to_string(speculator->width());
    return "(not used: no exit heads draft)";
  }
  const SpecBoundParams params = speculation_.params();
  if (name == "preset") return preset_name(speculation_.preset());
  if (name == "d-max") return std::to_string(params.d_max);
  if (name == "tau") return number(params.tau);
  if (name == "alpha") return number(params.alpha);
  if (name == "check-layers") return layer_list(params.check_layers);
  if (name == "no-anneal") return on_off(!params.anneal);
  if (name == "anneal-learned") return on_off(params.learned);
  if (name == "no-depth-bound") return on_off(!params.depth_bound);
  if (name == "w-max") return std::to_string(params.w_max);
  if (name == "no-width-bound") return on_off(!params.width_bound);
  if (name == "head") return given_.head.empty() ? "(" + drafter + ")" : given_.head;
  if (name == "shortlist") {
    return speculation_.shortlist() > 0 ? std::to_string(speculation_.shortlist())
                                        : "(not used by " + drafter + ")";
  }
  if (name == "confidence") return given_.rule == ConfidenceRule::kMargin ? "margin" : "p";
  SB_CHECK(!"a flag whose value nobody shows");
  return {};
}

void SetCommand::set(std::string_view name, const std::string& value) {
  const SettingFlag* flag = find(name);
  if (!flag) unknown(without_dashes(name));
  SetOptions read;
  read.reply = reply_;
  read.sampling.params = session_.sampler().params();
  const SpecBoundParams params = speculation_.params();
  // LayerSkip and AdaDecode begin without these: as on the command line, a value brings them back.
  const auto leaves_out = [&](bool there, const char* back) {
    return !there && !(given_.fixed_exits() && flag->name == back);
  };
  SpecBoundOptions& specbound = read.speculation.specbound;
  specbound.no_anneal = leaves_out(params.anneal, "alpha");
  specbound.anneal_learned = params.learned;
  specbound.no_depth_bound = leaves_out(params.depth_bound, "d-max");
  specbound.no_width_bound = leaves_out(params.width_bound, "w-max");
  if (value == kNothing && flag->about == SettingFlag::About::kReply && flag->name != "n-predict") {
    if (flag->name == "stop") read.reply.stop = StopStrings();
    if (flag->name != "stop") read.reply.grammar = {};
  } else {
    flag->read(flag->takes_file ? home_expanded(value) : value, read);
  }
  // What is said of annealing last holds.
  if (flag->name == "anneal-learned" && specbound.anneal_learned) specbound.no_anneal = false;
  if (flag->name == "alpha" || (flag->name == "no-anneal" && specbound.no_anneal)) {
    specbound.anneal_learned = false;
  }
  switch (flag->about) {
    case SettingFlag::About::kReply:
      set_reply(flag->name, std::move(read.reply));
      break;
    case SettingFlag::About::kSampling:
      set_sampling(flag->name, read.sampling);
      break;
    case SettingFlag::About::kSpeculation:
      set_speculation(flag->name, read.speculation);
      break;
  }
}

// A grammar takes the place of the one before, in whatever form that was.
void SetCommand::set_reply(const std::string& name, ReplyOptions read) {
  if (name == "grammar" || name == "json-schema") {
    (name == "grammar" ? read.grammar.json_schema : read.grammar.grammar).clear();
    read.grammar.check(read.ignore_eos);
    SamplingParams params = session_.sampler().params();
    params.grammar = constrain_(read.grammar.read());
    session_.set_sampling(params);
  }
  reply_ = std::move(read);
}

void SetCommand::set_sampling(const std::string& name, const SamplingOptions& read) {
  session_.set_sampling(name == "seed" ? read.resolve() : read.params);
}

void SetCommand::set_speculation(const std::string& name, const SpeculationOptions& read) {
  if (name != "spec" && name != "preset" && !is_drafting(name)) {
    throw Error(ErrorCode::kUsage,
                format("--%s cannot change while the program runs: start it again with the flag",
                       name.c_str()));
  }
  struct Attach {  // also where something throws: the speculator may be another object then
    Session& session;
    Speculation& speculation;
    ~Attach() { session.set_speculator(speculation.speculator()); }
  } attach{session_, speculation_};
  if (name == "spec") {
    if (!speculation_.set_active(*read.on)) {
      throw Error(ErrorCode::kUsage, speculation_.description());
    }
  } else if (name == "preset") {
    speculation_.choose(read.specbound.preset);
  } else {
    read.specbound.check();
    SpecBoundParams params = read.specbound.without_layers(speculation_.params());
    if (read.specbound.check_layers) {
      params.check_layers = layers_of(*read.specbound.check_layers, speculation_.head_layers());
    }
    speculation_.change(params, {.thresholds = name == "tau" || name == "alpha" ||
                                               name == "no-anneal" || name == "anneal-learned",
                                 .width = name == "w-max" || name == "no-width-bound"});
  }
}

}  // namespace specbound
