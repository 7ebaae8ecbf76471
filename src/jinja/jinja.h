// What a Jinja chat template makes of a conversation, found out by running it. The subset of Jinja
// is the one chat templates use; whatever they do, it ends soon: steps, memory and depth are
// bounded. Nothing of the machine is in reach: the only inputs are the variables given.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/chat_value.h"
#include "jinja/parser.h"
#include "jinja/value.h"

namespace specbound::jinja {

struct Inputs {
  // Dicts. All but the role is input.
  std::vector<ChatValue::Dict> messages;
  ChatValue::Dict variables = {};  // tools and the like: input, and nothing else has their names
  std::string bos_token, eos_token;
  bool add_generation_prompt = false;
  // No input in an assistant's content: thoughts between the marks that the model wrote.
  std::vector<std::string> reply_marks = {};
  std::optional<size_t> marked = {};  // of the messages, the one whose content alone is input
  bool heeds_refusals = true;         // false: raise_exception() does nothing
};

inline ChatValue::Dict message(std::string role, std::string content) {
  return {{"role", std::move(role)}, {"content", std::move(content)}};
}

class Template {
 public:
  // Throws NotUnderstood.
  explicit Template(std::string_view source) : program_(parse(source)) {}

  // Throws NotUnderstood, and Refused where the template raises an exception. The budget goes by
  // what the inputs hold, or is one that renderings share.
  Text render(const Inputs& inputs) const;
  Text render(const Inputs& inputs, Budget& budget) const;

 private:
  Program program_;
};

}  // namespace specbound::jinja
