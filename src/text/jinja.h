// What a Jinja chat template makes of a conversation, found out by running it. The subset of Jinja
// is the one chat templates use; whatever they do, it ends soon: steps, memory and depth are
// bounded. Nothing of the machine is in reach: the only inputs are the variables given.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_parser.h"
#include "text/jinja_value.h"

namespace specbound::jinja {

struct Inputs {
  // Role and content of each message.
  std::vector<std::pair<std::string, std::string>> messages;
  std::string bos_token, eos_token;
  bool add_generation_prompt = false;
  std::optional<size_t> marked = {};  // of the messages, the one whose content is input; none: all
  bool heeds_refusals = true;         // false: raise_exception() does nothing
};

class Template {
 public:
  // Throws NotUnderstood.
  explicit Template(std::string_view source) : program_(parse(source)) {}

  // Throws NotUnderstood, and Refused where the template raises an exception. The budget goes by
  // what the messages hold, or is one that renderings share.
  Text render(const Inputs& inputs) const;
  Text render(const Inputs& inputs, Budget& budget) const;

 private:
  Program program_;
};

}  // namespace specbound::jinja
