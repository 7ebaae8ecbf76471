// The two ways anything fails here.
//   Error     what a user, a file or the system did wrong: expected, found, what to do. Thrown
//             where it is found, caught once per front end, printed as one line.
//   SB_CHECK  a mistake in this program: aborts with the place, in release builds too.
// And what the text of messages is made with.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace specbound {

enum class ErrorCode {
  kUsage,        // flags and arguments; front ends exit with 2
  kFile,         // cannot be opened, read or mapped
  kFormat,       // contents break the file format
  kUnsupported,  // well-formed, but nothing here can run it
  kLimit,        // does not fit: context, memory, batch
  kDevice,       // a GPU failed: a launch refused, an error on the device, the device lost
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

// printf-style text for error messages.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

// `text` for one line of an error message: cut at `most` bytes, control and non-ASCII bytes as
// \xNN.
std::string printable(std::string_view text, size_t most = 64);

// "a, b, c": what `spell` makes of each item.
template <class List, class Spell>
std::string joined(const List& items, std::string_view between, const Spell& spell) {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += between;
    text += spell(item);
  }
  return text;
}
// The same of words as they are.
template <class List>
std::string joined(const List& words, std::string_view between = ", ") {
  return joined(
      words, between, [](const auto& word) -> const auto& { return word; });
}

[[noreturn]] void check_failed(const char* file, int line, const char* condition);

}  // namespace specbound

#define SB_CHECK(condition) \
  ((condition) ? (void)0 : ::specbound::check_failed(__FILE__, __LINE__, #condition))
