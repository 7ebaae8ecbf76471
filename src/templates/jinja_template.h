// A chat template that is run as Jinja, and what is learnt of it by running it: where it puts
// system prompts, what stands in front of replies, whether it has a place for tools.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "templates/chat_template.h"

namespace specbound {

// Why a template cannot be used.
struct Unusable {
  std::string why;
};

class JinjaTemplate : public ChatTemplate {
 public:
  // Throws Unusable where not even plain conversations come out.
  static std::unique_ptr<JinjaTemplate> make(std::string name, std::string_view source,
                                             std::string bos, std::string eos);

  // The bracketed stretches of the template's own text around a few messages.
  virtual const std::set<std::string>& marks() const = 0;
  void note(std::string line) { notes_.push_back(std::move(line)); }
};

}  // namespace specbound
