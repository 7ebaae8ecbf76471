// Errors as tests want to see them: thrown, of one code, told in one line.
#pragma once

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "error.h"
#include "terminal/flag_names.h"

namespace specbound::test {

// Runs `action`, which must throw an Error of this code with one line of text; gives the text as
// the command line tells it.
template <typename Action>
std::string expect_error(ErrorCode code, Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string text = with_flags(error.what());
    INFO("message: ", text);
    CHECK(error.code() == code);
    CHECK(text.find('\n') == std::string::npos);
    CHECK(!text.empty());
    return text;
  }
  FAIL_CHECK("expected an Error, found none");
  return "";
}

// All parts occur in the text.
inline void check_mentions(const std::string& text, std::initializer_list<std::string_view> parts) {
  INFO("message: ", text);
  for (std::string_view part : parts) {
    INFO("looked for: ", std::string(part));
    CHECK(text.find(part) != std::string::npos);
  }
}

}  // namespace specbound::test
