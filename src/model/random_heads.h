// Exit heads of random weights in memory, no file: they cost what trained ones cost. For measuring.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "model/exit_heads.h"

namespace specbound {

class RandomHeads {
 public:
  struct Head {
    HeadKind kind = HeadKind::kFolded;
    int layer = 1;
  };
  // `shortlist`: tokens, all that the heads have; the model's first ones. Throws what ExitHeads
  // throws for layers that the model lacks and for a dim that is no multiple of 32.
  RandomHeads(const ModelConfig& config, const std::vector<Head>& heads, int shortlist);

  const ExitHeads& heads() const { return *heads_; }
  int shortlist() const { return static_cast<int>(heads_->shortlist().size()); }

 private:
  std::vector<std::byte> bytes_;  // what a file would hold
  std::unique_ptr<ExitHeads> heads_;
};

// Bytes of one head as stored, before a backend repacks it.
size_t random_head_bytes(const ModelConfig& config, HeadKind kind, int shortlist);

}  // namespace specbound
