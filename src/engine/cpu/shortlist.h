// What chained heads and draft layers may say on the CPU: the first tokens of the file's list, and
// beside them those tokens of the text that it lacks. A text repeats its names and terms, which no
// list of frequent tokens has; with them a list a quarter as long misses as little, and a check
// reads so much less. docs/architecture.md 6.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/backend.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/linear.h"
#include "engine/cpu/thread_pool.h"
#include "engine/pages.h"
#include "model/weights.h"

namespace specbound {

class Shortlist {
 public:
  // Tokens of the text: with more, the newest to come replaces the one that came first. (The one
  // not seen for longest would be the better choice by a little; it needs a queue.)
  static constexpr int kMostMet = 1024;

  // `ids`: of the list. Everything must outlive it.
  Shortlist(const ModelConfig& config, const Weights& weights, std::span<const int32_t> ids,
            const Kernels& kernels, ThreadPool& pool, bool repack);
  static size_t bytes_needed(const ModelConfig& config, const Weights& weights, int listed,
                             bool repack);

  // `token` of the text came, 0..vocab_size-1; the first time its row of lm_head is brought in. It
  // stays when its position is dropped: a draft that was wrong is likelier than most to come yet.
  void meet(int32_t token);
  // Another text begins.
  void forget();

  // Within a run of the pool, by each thread: its part of z = E_s y and of its peaks. y (dim),
  // readable and zero up to the next multiple of 32.
  void look(const float* y, float temperature, int thread);
  // After that run.
  ExitPeak peak(float temperature);
  // Of the last look, until more tokens come: z, and the tokens that its places stand for.
  std::span<const float> logits() const { return {z_.data(), looked_}; }
  std::span<const int32_t> ids() const { return {ids_.data(), looked_}; }

 private:
  void set_met(int n);
  void look_at(const Linear& w, const Rows& rows, int first, float temperature, int thread);

  const ModelConfig& config_;
  const Matrix& lm_head_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  const int n_listed_, met_at_;  // tokens of the list; where logits of the text's begin in z

  std::optional<LinearStore> store_;
  Pages<std::byte> listed_rows_;  // (listed, dim), where they are not in tiles
  Linear listed_;

  // (kMostMet, dim) rows of tokens of the text, in tiles or as lm_head has them.
  std::optional<TileMatrix> tiles_;
  Pages<uint8_t> met_q_;
  Pages<uint16_t> met_d_;
  Pages<std::byte> met_rows_;
  Linear met_;                            // those that are taken
  std::vector<TileMatrix> thread_tiles_;  // [thread]: its part of them
  int next_ = 0;                          // where the next token goes

  std::vector<int32_t> ids_;     // (listed + kMostMet)
  std::vector<bool> can_say_;    // [token]
  Pages<float> z_;               // (met_at_ + kMostMet); peak() closes the gap
  Pages<PeakChunk> peaks_;       // of its chunks
  std::vector<RowBuffer> rows_;  // [thread] (1, dim)
  size_t looked_ = 0;
};

}  // namespace specbound
