// Replies of several texts written side by side: the next rows of all share a pass, plainly.
// docs/architecture.md 3.6. By section 4 each is what Session writes alone, to the byte.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "decode/generate.h"
#include "decode/sampler.h"
#include "engine/backend.h"

namespace specbound {

// What is asked for. See GenerateOptions.
struct BatchRequest {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  uint32_t reply = 0;
  int max_tokens = -1;  // not 0
  std::function<bool(int32_t)> is_end;
};

struct WrittenReply {
  int64_t id = 0;               // as add() was told
  std::vector<int32_t> tokens;  // prompt and reply, its end token too
  StopReason stop = StopReason::kEnd;
};

class ReplyBatch {
 public:
  // Over all sequences of a backend that has some, to which nobody else speaks meanwhile.
  explicit ReplyBatch(Backend& backend);
  ~ReplyBatch();  // the first sequence is selected
  ReplyBatch(const ReplyBatch&) = delete;
  ReplyBatch& operator=(const ReplyBatch&) = delete;

  // Replies that may still be added, and those under way.
  bool full() const { return n_under_way_ == std::min(std::ssize(places_), kMost); }
  int64_t size() const { return n_under_way_; }
  int64_t tokens_under_way() const;  // of these replies so far

  // Not where it is full. Reads the prompt in place of the free text that shares most with it;
  // false when `abort` was raised meanwhile, and nothing is added. Throws as check_prompt() and
  // validate().
  bool add(int64_t id, BatchRequest request, const std::atomic<bool>* abort = nullptr);
  // One token more of each. Returns those that it ended. After an exception these are gone, and the
  // others go on where they were.
  std::vector<WrittenReply> step();

 private:
  static constexpr std::ptrdiff_t kMost = kMaxRows;  // of a pass
  // A sequence of the backend.
  struct Place {
    std::vector<int32_t> text;  // whose K and V it holds, but for the last token
    // Under way:
    std::optional<BatchRequest> request;
    int64_t id = 0;
    Sampler sampler{greedy_sampling()};
  };
  std::optional<StopReason> take(Place& place, std::span<const float> logits);

  Backend& backend_;
  Sequences& sequences_;
  std::vector<Place> places_;  // [sequence]
  std::ptrdiff_t n_under_way_ = 0;
  std::vector<float> logits_;  // (rows, vocab_size)
};

}  // namespace specbound
