#include "terminal/flag_names.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "terminal/terminal_text.h"

namespace specbound {

namespace {

struct FlagName {
  std::string_view parameter;
  std::string_view flag;
};

// Those whose flag is spelled otherwise. Longer ones first: a switch has no value behind it.
constexpr FlagName kSpelledOtherwise[] = {
    {"draft_model=FILE", "--model-draft (-md) FILE"},
    {"draft_model:", "--model-draft:"},
    {"draft_model", "-md"},
    {"fresh=on", "--fresh"},
    {"grammar=FILE", "--grammar FILE"},
    {"ignore_eos=on", "--ignore-eos"},
    {"json_schema=FILE", "--json-schema FILE"},
    {"learning_rate", "--lr"},
    {"model=FILE.gguf", "-m FILE.gguf"},
    {"n_ctx", "-c"},
    {"n_gpu_layers", "-ngl"},
    {"n_predict", "-n"},
    {"n_threads", "-t"},
    {"pre_name", "--pre"},
    {"raw=on", "--raw"},
    {"resume=on", "--resume"},
    {"speculation", "--spec"},
    {"system", "--sys"},
    {"temperature", "--temp"},
    {"trace=FILE", "--trace FILE"},
    {"train_layers", "--layers"},
};

// Those that become a flag by dashes.
constexpr std::string_view kSpelledAlike[] = {
    "accept",
    "alpha",
    "anneal_learned",
    "chat_template",
    "chat_template_file",
    "check_layers",
    "confidence",
    "controller",
    "d_max",
    "datastore",
    "device",
    "dtype",
    "exit_layer",
    "features_dir",
    "fixed_tree",
    "frequency_penalty",
    "head",
    "heads",
    "isa",
    "kv",
    "lookahead",
    "min_p",
    "ngram_max",
    "no_anneal",
    "no_siblings",
    "parse_special",
    "prefill",
    "presence_penalty",
    "preset",
    "repeat_last_n",
    "repeat_penalty",
    "shortlist",
    "siblings",
    "skip_layers",
    "speculator",
    "tau",
    "top_k",
    "top_p",
    "w_max",
};

std::string dashed(std::string_view parameter) {
  std::string flag = "--" + std::string(parameter);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

bool ends_word(std::string_view rest) {
  return rest.empty() || std::string_view(" ,;:)=").find(rest[0]) != std::string_view::npos;
}

// The parameter that `rest` begins with, or "".
std::string_view parameter_at(std::string_view rest) {
  for (const FlagName& name : kSpelledOtherwise) {
    if (rest.starts_with(name.parameter) && ends_word(rest.substr(name.parameter.size()))) {
      return name.parameter;
    }
  }
  for (const std::string_view name : kSpelledAlike) {
    if (rest.starts_with(name) && ends_word(rest.substr(name.size()))) return name;
  }
  return "";
}

std::string flag_of(std::string_view parameter) {
  const auto found = std::ranges::find(kSpelledOtherwise, parameter, &FlagName::parameter);
  return found != std::end(kSpelledOtherwise) ? std::string(found->flag) : dashed(parameter);
}

}  // namespace

std::string with_flags(std::string_view message) {
  std::string out;
  for (size_t at = 0; at < message.size();) {
    const bool begins = at == 0 || message[at - 1] == ' ' || message[at - 1] == '(';
    const std::string_view rest = message.substr(at);
    const std::string_view parameter = begins ? parameter_at(rest) : "";
    const std::string_view behind = rest.substr(parameter.size());
    const bool has_value = behind.starts_with('=');
    const bool named = has_value || parameter.find_first_of("_=") != std::string_view::npos ||
                       (at == 0 && behind.starts_with(": "));
    if (parameter.empty() || !named) {
      out += message[at++];
      continue;
    }
    out += flag_of(parameter) + (has_value ? " " : "");
    at += parameter.size() + (has_value ? 1 : 0);
  }
  return out;
}

std::string parameter_of(std::string_view flag) {
  if (flag == "model-draft") return "draft_model";
  const std::string dashes = "--" + std::string(flag);
  const auto found = std::ranges::find(kSpelledOtherwise, dashes, &FlagName::flag);
  if (found != std::end(kSpelledOtherwise)) return std::string(found->parameter);
  std::string parameter(flag);
  std::ranges::replace(parameter, '-', '_');
  return parameter;
}

void say(std::string_view message) {
  std::fprintf(stderr, "%s\n", with_flags(terminal_text(message)).c_str());
}

}  // namespace specbound
