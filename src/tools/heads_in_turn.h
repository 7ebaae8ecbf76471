// Sides that are timed in turn on one backend: each finds there the exit heads that it asks for,
// and no other's. Those cost whoever does not use them: a draft layer has the last layer run over
// all of a prompt, and what EAGLE-3 and Kangaroo look at is copied at every pass.
#pragma once

#include "runtime/speculation.h"

namespace specbound {

class HeadsInTurn {
 public:
  // The backend, which must outlive it, has none from now on.
  explicit HeadsInTurn(Backend& backend) : backend_(backend) {
    backend_.set_exit_heads(nullptr, 0);
  }

  // Plain decoding (nullptr) or another side, attached to the backend before, has its turn. What
  // Speculation::speculator() was may be another one behind it.
  void give(Speculation* side) {
    Speculation* const wanted = side && side->heads() ? side : nullptr;
    if (wanted == has_) return;
    has_ = nullptr;  // where attach() throws
    wanted ? wanted->attach(backend_) : backend_.set_exit_heads(nullptr, 0);
    has_ = wanted;
  }

 private:
  Backend& backend_;
  Speculation* has_ = nullptr;  // whose heads are there
};

}  // namespace specbound
