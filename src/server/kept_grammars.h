// What was found of grammars, kept for later requests with the same ones: by how much memory they
// take, and no more than a look through all of them is worth.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/token_grammar.h"

namespace specbound::server {

class KeptGrammars {
 public:
  using Shared = std::shared_ptr<const TokenGrammar>;

  // A request looks through all of them, on the thread that every reply waits for.
  static constexpr size_t kMost = 1024;

  // `most`: bytes of those that are kept, but the newest is whatever it takes. Those of replies
  // under way live on without this, and may grow until the next of().
  KeptGrammars(size_t most, std::function<Shared(const Grammar::Shared&)> make)
      : most_(most), make_(std::move(make)) {}

  // nullptr of nullptr.
  Shared of(const Grammar::Shared& grammar);
  size_t size() const { return kept_.size(); }

 private:
  const size_t most_;
  const std::function<Shared(const Grammar::Shared&)> make_;
  std::vector<std::pair<Grammar::Shared, Shared>> kept_;  // the last that was asked for first
};

}  // namespace specbound::server
