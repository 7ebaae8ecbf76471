// Reads a Jinja chat template of the plain kind: one loop over the messages, one branch a role,
// outputs made of strings, message['content'], bos_token and eos_token. Spelling, quotes, comments
// and white space control do not matter; a template with anything else in it has no shape.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace specbound {

// What a template puts out in one place, in order. Neighbouring literals are one; the texts <s> and
// </s> in them are kBos and kEos.
struct TemplateAtom {
  enum Kind { kLiteral, kContent, kBos, kEos };
  Kind kind;
  std::string text = {};  // of a literal
  bool operator==(const TemplateAtom&) const = default;
};
using TemplateAtoms = std::vector<TemplateAtom>;

struct TemplateShape {
  TemplateAtoms before;                   // the messages
  TemplateAtoms system, user, assistant;  // for each message of the role
  TemplateAtoms generation;               // behind the messages, if add_generation_prompt
};

std::optional<TemplateShape> read_template_shape(std::string_view source);

}  // namespace specbound
