// What drafts for replies that share passes: rows behind the roots of all of them, taken by one
// budget. No layer runs before the pass that verifies. As a Speculator it can cost time but never
// change a token. docs/architecture.md 3.6.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "decode/round.h"
#include "trace/event.h"

namespace specbound {

class SharedDrafter {
 public:
  virtual ~SharedDrafter() = default;

  // What it knows of one reply; it must outlive that.
  class Text {
   public:
    virtual ~Text() = default;
  };
  // A reply goes on from `text` side by side with others.
  virtual std::unique_ptr<Text> begin(std::span<const int32_t> text) = 0;

  struct Reply {
    Round* round;  // has its root
    Text* text;    // nullptr: nothing drafts for it
  };
  // Appends rows to the rounds of those that share the next pass, `room` at most in all.
  virtual void draft(std::span<const Reply> replies, int room) = 0;
  // What became of the round of one of them.
  virtual void accept(Text& text, const RoundEvent& round) = 0;
  // All were told.
  virtual void end_pass() {}
};

}  // namespace specbound
