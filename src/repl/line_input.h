// Where the lines of a chat come from: a terminal with a line editor (line_editor.h), or anything
// else, read plainly. A message of many lines stands between """ and """.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "system/text_input.h"

namespace specbound {

enum class LinePrompt { kMessage, kMore };

class LineInput {
 public:
  enum class Status {
    kLine,
    kEnd,
    kCancelled,  // Ctrl-C; `line` is what had been typed
  };
  virtual ~LineInput() = default;

  // Throws Error(kLimit) for a line that is too long, which is skipped; Error(kFile) when reading
  // fails.
  virtual Status next(LinePrompt prompt, std::string& line) = 0;

  // Puts `text` into the next line, to be edited. False: it cannot.
  virtual bool prefill(const std::string& text) {
    (void)text;
    return false;
  }
  // Something that was sent, for the history.
  virtual void remember(const std::string& text) { (void)text; }
  // Told of keys as they come; of lines that are not edited, when they have come.
  void on_keys(std::function<void()> told) { told_ = std::move(told); }
  // Whether a cancelled line leaves: there is nobody to ask twice.
  virtual bool cancel_leaves() const { return true; }

 protected:
  void tell_keys() const {
    if (told_) told_();
  }

 private:
  std::function<void()> told_;
};

// Lines from stdin, with prompts on stderr where both are a terminal.
class PlainInput final : public LineInput {
 public:
  PlainInput();
  Status next(LinePrompt prompt, std::string& line) override;

 private:
  LineReader reader_;
  bool prompts_;
};

// What is sent at once: a line, or with `quoted` the lines between """ and """, which are a message
// whatever they say. Status and exceptions as LineInput::next(); kCancelled leaves out what had
// begun.
LineInput::Status read_entry(LineInput& input, std::string& entry, bool& quoted);

}  // namespace specbound
