// Whether SVG files of our making are well-formed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "error.h"
#include "text/utf8.h"

namespace specbound::test {

// Whether the tags of an XML text nest, the rest is escaped, and no character is one that XML
// forbids: what is wrong, empty where nothing is. Enough for a file of our making; the end-to-end
// tests have a real parser.
inline std::string xml_fault(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t i = 0; i < xml.size();) {
    const std::string_view rest = std::string_view(xml).substr(i);
    if (rest[0] == '<') {
      const size_t end = rest.find('>');
      if (end == rest.npos) return "an open tag at the end";
      const std::string tag(rest.substr(1, end - 1));
      i += end + 1;
      if (tag[0] == '?' || tag.back() == '/') continue;
      const std::string name = tag.substr(0, tag.find(' '));
      if (name[0] != '/') {
        open.push_back(name);
      } else if (open.empty() || "/" + open.back() != name) {
        return "unexpected " + name;
      } else {
        open.pop_back();
      }
      continue;
    }
    if (rest[0] == '&' && !rest.starts_with("&amp;") && !rest.starts_with("&lt;") &&
        !rest.starts_with("&gt;")) {
      return "a bare &";
    }
    const Utf8Head head = utf8_head(rest);
    const auto c = static_cast<unsigned char>(rest[0]);
    if (head.kind != Utf8Head::kWhole || (c < 0x20 && c != '\n') ||
        rest.starts_with("\xef\xbf\xbe") || rest.starts_with("\xef\xbf\xbf")) {
      return format("a forbidden character at %zu", i);
    }
    i += head.length;
  }
  return open.empty() ? "" : open.back() + " is not closed";
}

}  // namespace specbound::test
