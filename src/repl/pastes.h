// Texts that are too long to edit in a line: they are kept aside, and a mark stands for each in the
// line until it is sent.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace specbound {

class Pastes {
 public:
  // "[paste 1: 12 lines]", or of as many characters. The same text has the same mark.
  std::string put_aside(const std::string& text);
  // `line` with the texts in the place of their marks. What is left of a mark that was edited stays
  // as it is.
  std::string put_back(std::string_view line) const;

 private:
  std::vector<std::pair<std::string, std::string>> texts_;  // mark, text
};

// Whether a text can be edited in a line as it is: of up to `lines` lines, and not too long.
bool fits_line(std::string_view text, size_t lines);

}  // namespace specbound
