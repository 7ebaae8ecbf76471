// From the text that a command is given to the tokens that the model continues.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/loaded_model.h"

namespace specbound {

// How a text becomes a prompt.
struct PromptOptions {
  bool raw = false;
  bool parse_special = false;

  // Throws Error(kUsage) for options that contradict each other, `system`, the system prompt, or
  // the chat template asked for.
  void check(const std::string& system, const ModelOptions& model) const;
};

struct Prompt {
  std::vector<int32_t> ids;
  // What the reply's first bytes become: the space that a template or the vocabulary puts in front
  // is cut there. The model must outlive it.
  std::function<std::string(int32_t, std::string_view)> first_piece;
  bool thinks = false;  // what comes next are thoughts, up to their closing mark
};

// `text` in the model's chat template, behind `system` unless that is empty; or as it is, from BOS
// if the vocabulary starts texts with one. The model need only be open. Throws Error for what keeps
// the prompt from being made, Error(kLimit) for one above the context.
Prompt make_prompt(const LoadedModel& model, const PromptOptions& options,
                   const std::string& system, const std::string& text);

}  // namespace specbound
