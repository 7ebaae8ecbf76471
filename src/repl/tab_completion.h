// What Tab makes of a line: the names of commands, what they take, and paths.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace specbound {

// What /set knows.
struct CompletionSource {
  std::vector<std::string> settings;
  // Words that a setting may have; none: numbers, or a file.
  std::function<std::vector<std::string>(const std::string& setting)> values;
  std::function<bool(const std::string& setting)> takes_file;
};

struct Completion {
  size_t from = 0;                 // of the line: what the words would replace begins here
  std::vector<std::string> words;  // in order; each begins with what stands there
  // What all the words begin with; with one word that is finished, a blank behind it.
  std::string insertion() const;
};

// `head`: the line up to the cursor.
Completion complete(std::string_view head, const CompletionSource& source);

}  // namespace specbound
