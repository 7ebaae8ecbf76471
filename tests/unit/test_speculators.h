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

// Drafts of any rows of the round, and some of its layers on all of them between two of these.
class TreeDrafts final : public Speculator {
 public:
  struct Draft {
    int parent;
    int32_t token;
    int layers;  // run before it; 0: none
  };
  TreeDrafts(int width, std::function<Draft(const Round&)> next)
      : width_(width), next_(std::move(next)) {}
  const char* name() const override { return "tree"; }
  int width() const override { return width_; }
  DraftEnd draft(Round& round) override {
    for (int tries = 0; tries < 3 * kMaxRows && !round.full(); ++tries) {
      const Draft draft = next_(round);
      if (round.child(draft.parent, draft.token) >= 0) continue;
      if (draft.layers > 0 && !round.run(1, draft.layers)) return DraftEnd::kAborted;
      round.append_to(draft.parent, draft.token, draft.layers);
    }
    return DraftEnd::kWidth;
  }

 private:
  int width_;
  std::function<Draft(const Round&)> next_;
};

}  // namespace specbound::test
