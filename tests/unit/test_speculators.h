// Speculators for tests of the decode loop.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "decode/speculator.h"

namespace specbound::test {

// Tells when another one drafts.
class MarkedSpeculator final : public Speculator {
 public:
  explicit MarkedSpeculator(Speculator& inner) : inner_(inner) {}
  const char* name() const override { return inner_.name(); }
  int width() const override { return inner_.width(); }
  DraftEnd draft(Round& round) override {
    drafting = true;
    const DraftEnd end = inner_.draft(round);
    drafting = false;
    return end;
  }
  bool drafting = false;

 private:
  Speculator& inner_;
};

// Drafts from outside the model: no layer has run on them, and nobody asked whether one of them
// ends the reply.
class OutsideDrafts final : public Speculator {
 public:
  OutsideDrafts(int width, std::function<int32_t(const Round&)> next)
      : width_(width), next_(std::move(next)) {}
  const char* name() const override { return "outside"; }
  int width() const override { return width_; }
  DraftEnd draft(Round& round) override {
    while (!round.full()) round.append(next_(round), 0);
    return DraftEnd::kWidth;
  }

 private:
  int width_;
  std::function<int32_t(const Round&)> next_;
};

}  // namespace specbound::test
