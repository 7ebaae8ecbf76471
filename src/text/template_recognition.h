// Which layout a Jinja chat template comes to: found by rendering conversations with both and
// comparing what comes out. How a template is spelled does not matter.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/template_layout.h"

namespace specbound {

// The layout that gives the same text as the template on every probe conversation the template
// accepts. A built-in one as it stands if there is such a one; else one with what templates of a
// family differ in read off the template: what stands in front, the system prompt used by default,
// the text behind the last message. Where the template has no place for system prompts, the layout
// still has one. Nullopt if there is none.
std::optional<TemplateLayout> recognize_template(std::string_view source, std::string_view bos,
                                                 std::string_view eos);

}  // namespace specbound
