// Several replies under way in the sessions of one backend. Where there is one it is written as
// Session::generate() writes it, with drafts. Where there are more the next rows of all share a
// pass, with drafts of whichever of them as far as that pays, and prompts are read between passes,
// a chunk at a time. Replies come and go between two rounds. docs/architecture.md 3.6. By section 4
// each is what Session writes alone, to the byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decode/generate.h"
#include "decode/sampler.h"
#include "decode/sessions.h"
#include "decode/shared_drafter.h"
#include "decode/speculator.h"
#include "engine/backend.h"

namespace specbound {

// What is asked for.
struct BatchRequest {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  GenerateOptions options;  // whose callbacks come from within step()
  // What drafts from when it is asked on, which is where the reply begins to be the only one, or
  // one of several: then what that shares (Speculator::shared()), and of all in a pass that of the
  // first one that has any. Nothing or nullptr: plainly. It outlives the reply.
  std::function<Speculator*()> speculator = {};
};

struct WrittenReply {
  int64_t id = 0;               // as add() was told
  std::vector<int32_t> tokens;  // prompt and reply, its end token too
  GenerateStats stats;
  std::exception_ptr error;  // what has ended it; else nullptr
};

class ReplyBatch {
 public:
  // Over sessions that outlive it, of which each reply under way holds one; what nobody holds is
  // there for others between two steps. At most `most` replies share a pass, kMaxRows or fewer.
  explicit ReplyBatch(Sessions& sessions, int most = kMaxRows);
  ~ReplyBatch();  // the first session is selected
  ReplyBatch(const ReplyBatch&) = delete;
  ReplyBatch& operator=(const ReplyBatch&) = delete;

  // Replies that may be under way at once, and those that are.
  int places() const { return most_; }
  int size() const { return static_cast<int>(replies_.size()); }
  bool full() const { return size() == most_; }
  int64_t tokens_under_way() const;  // of these replies so far

  // Not where it is full. Throws as Session does, and nothing is added; the prompt is read in the
  // steps that follow. No other reply under way has this id.
  void add(int64_t id, BatchRequest request);
  // It is given up; what was read and written of it stays in its session.
  void drop(int64_t id);
  // Up to a chunk of prompts, then one token more of each whose prompt is read; a round of the one
  // reply that is alone. Returns those that have ended. What goes wrong with one reply ends that
  // one, and what goes wrong with a pass all that share it.
  std::vector<WrittenReply> step();

 private:
  struct Reply {
    int64_t id = 0;
    BatchRequest request;
    int sequence = -1;                 // of its session; -1: it has none yet
    Session* session = nullptr;        // likewise
    bool alone = false;                // in the newest step
    bool joined = false;               // the passes of others, since then
    SharedDrafter* drafter = nullptr;  // of these; nullptr: its rows are plain
    std::unique_ptr<SharedDrafter::Text> drafts = {};
    bool aborted = false;  // while its prompt waited
    bool over = false;
    std::exception_ptr error = {};
  };

  template <class F>
  void guard(Reply& reply, F work);
  void start(Reply& reply);
  void end_aborted();
  void go_on_alone(Reply& reply);
  void join(Reply& reply);
  static void leave(Reply& reply);
  static int unread(const Reply& reply);
  bool read_prompt(Reply& reply, int& read);
  void read_prompts();
  void write_rounds();
  void draft(std::span<Reply* const> replies);
  void run_pass(std::span<Reply* const> replies);
  std::optional<DrawRule> common_rule(std::span<Reply* const> replies);
  void take_rows(Reply& reply, const GivenRows& given);
  std::vector<WrittenReply> take_ended();

  Sessions& sessions_;
  Backend& backend_;
  int most_;
  std::deque<Reply> replies_;            // in the order in which they came
  bool long_waits_ = false;              // for those behind it, in the newest step
  SharedDrafter* drafter_ = nullptr;     // of the pass under way
  std::vector<float> logits_;            // (rows, vocab_size)
  std::array<RowDraw, kMaxRows> draws_;  // [row], where a device draws
};

}  // namespace specbound
