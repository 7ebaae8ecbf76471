// A speculator around a DraftModel that looks after every draft whether the drafter's K/V are those
// of the text.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "drafters/draft_model.h"
#include "engine_rig.h"

namespace specbound::test {

class InStep final : public Speculator {
 public:
  InStep(Speculator& inner, const Backend& backend, const TinyModel& model)
      : inner_(inner), backend_(backend), shadow_(model.backend(best_isa(), 1)) {}
  const char* name() const override { return inner_.name(); }
  int width() const override { return inner_.width(); }
  DraftEnd draft(Round& round) override {
    const DraftEnd end = inner_.draft(round);
    if (end == DraftEnd::kAborted || end == DraftEnd::kPlain) return end;
    const std::span<const int32_t> text = round.history(round.newest());
    const int n = backend_.kv_len(1);
    // All but the last draft, of which only a further one would need them.
    REQUIRE(n >= static_cast<int>(text.size()) - 1);
    REQUIRE(n <= static_cast<int>(text.size()));
    shadow_->truncate(0);
    shadow_->prefill(text.first(n));
    const ModelConfig& c = backend_.config();
    const size_t dim = c.kv_dim();
    std::vector<uint16_t> k(dim), v(dim), shadow_k(dim), shadow_v(dim);
    for (int pos = 0; pos < n; ++pos) {
      for (int l = 1; l <= c.n_layers; ++l) {
        backend_.inspect().read_kv(l, pos, k, v);
        shadow_->inspect().read_kv(l, pos, shadow_k, shadow_v);
        REQUIRE(k == shadow_k);
        REQUIRE(v == shadow_v);
      }
    }
    ++looked;
    return end;
  }
  int looked = 0;

 private:
  Speculator& inner_;
  const Backend& backend_;
  std::unique_ptr<Backend> shadow_;
};

}  // namespace specbound::test
