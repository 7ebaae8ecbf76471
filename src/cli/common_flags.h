// The groups of flags that commands share.
#pragma once

#include <optional>
#include <string>

#include "cli/flags.h"
#include "runtime/model_options.h"
#include "runtime/prompt.h"
#include "runtime/reply_options.h"

namespace specbound {

struct TuningTextOptions;

// -m, --model; `value` stays empty without it: the bundled demo model.
Flag& add_model_file(Flags& flags, std::string& value);

void add_model_flags(Flags& flags, ModelOptions& options);

// The text that a command works on: -p, -f, or stdin without either.
struct TextFlags {
  std::optional<std::string> text;
  std::string file;  // "-": stdin; empty: not given

  // Byte for byte. Throws Error(kUsage) for both flags, or for neither at a terminal, and what
  // reading throws.
  std::string bytes() const;
  // The same for a prompt: from a file or a pipe without one line end at its end, and refused with
  // Error(kUsage) when nothing is left. Only `-p ""` asks for an empty prompt.
  std::string prompt() const;

 private:
  std::string path() const;  // where a text that is not in `text` lies
};
void add_text_flags(Flags& flags, TextFlags& text, const char* text_description,
                    const char* file_description);

void add_sampling_flags(Flags& flags, SamplingOptions& options);
void add_reply_flags(Flags& flags, ReplyOptions& options);
Flag& add_system_flag(Flags& flags, std::string& system, const std::string& description);
// --raw and --parse-special.
void add_prompt_flags(Flags& flags, PromptOptions& options);
// --data, which may be given again, and --temps: the texts that `tune` and `theory` look at.
void add_tuning_texts(Flags& flags, TuningTextOptions& options);

}  // namespace specbound
