// The groups of flags that commands share.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "cli/flags.h"
#include "runtime/model_options.h"
#include "runtime/prompt.h"
#include "runtime/reply_options.h"
#include "system/number_text.h"

namespace specbound {

struct TuningTextOptions;

// A number whose range is known to `check` alone: it looks at the options once `value` has it, and
// throws Error(kUsage). `value`: a Number, or an optional one.
template <class Number, class Value>
Flag& add_checked(Flags& flags, const std::string& names, Value& value, const char* expected,
                  const std::function<void()>& check, const std::string& description) {
  const auto read = [&value, check](const std::string& text) {
    const std::optional<double> number = parse_number(text);
    if (!number || (std::is_same_v<Number, int> && !parse_int(text))) return false;
    constexpr double kMax = std::numeric_limits<Number>::max();
    value = static_cast<Number>(std::clamp(*number, -kMax, kMax));
    check();
    return true;
  };
  return flags.add_read(names, expected, read, description);
}

// -m, --model; `value` stays empty without it: the bundled demo model.
Flag& add_model_file(Flags& flags, std::string& value);

// --chat-template; add_model_flags() has it.
Flag& add_chat_template(Flags& flags, std::string& value);
void add_model_flags(Flags& flags, ModelOptions& options);
// A chat template from a file, for commands that write replies.
void add_chat_template_file(Flags& flags, ModelOptions& options);

// The text that a command works on: -p, -f, or stdin without either.
struct TextFlags {
  std::optional<std::string> text;
  std::string file;     // "-": stdin; empty: not given
  std::string or_else;  // what may have been meant by none, for the complaint

  // From a file or a pipe without one line end at its end. Throws Error(kUsage) for both flags, or
  // for neither at a terminal, and what reading throws.
  std::string given() const;
  // The same for a prompt: what is piped in stands behind that of -p, a blank line between them.
  // Refused with Error(kUsage) when it is empty; only `-p ""` asks for an empty prompt.
  std::string prompt() const;

 private:
  std::string path() const;  // where a text that is not in `text` lies
};
void add_text_flags(Flags& flags, TextFlags& text, const char* text_description,
                    const char* file_description);

// What stands in the line without a flag: `run model.gguf "a text"`, `chat model.gguf`.
struct PlaceFlags {
  std::optional<std::string> model, text;
};
// MODEL, and where there is a `text` TEXT behind it. Where -m names the model, a word alone is the
// text. They must outlive `flags`.
void add_place_flags(Flags& flags, PlaceFlags& given, ModelOptions& model,
                     TextFlags* text = nullptr);

void add_sampling_flags(Flags& flags, SamplingOptions& options);
// --grammar and --json-schema.
void add_grammar_flags(Flags& flags, GrammarOptions& options);
void add_reply_flags(Flags& flags, ReplyOptions& options);
Flag& add_system_flag(Flags& flags, std::string& system, const std::string& description);
// --raw and --parse-special.
void add_prompt_flags(Flags& flags, PromptOptions& options);
// --temps: a list of `values`.
// --data; `what` they are for, and what holds where none are given.
Flag& add_data_files(Flags& flags, std::vector<std::string>& paths, const std::string& what,
                     const std::string& otherwise = "");
void add_temperatures(Flags& flags, std::vector<float>& values, const std::string& description);
// --data, which may be given again, and --temps: the texts that `tune` and `theory` look at.
void add_tuning_texts(Flags& flags, TuningTextOptions& options);

}  // namespace specbound
