// Values as they stand in the text, for what a parsed document no longer says: the order of keys.
#pragma once

#include <string_view>

namespace specbound {

// The text of member `key` of `object`, whose text is a JSON object that parse_json took; of a
// repeated key the last one. Empty: there is none.
std::string_view json_member(std::string_view object, std::string_view key);

}  // namespace specbound
