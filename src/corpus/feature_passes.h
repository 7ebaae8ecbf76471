// Texts on their way through a frozen model, for their hidden states (corpus/features.h). Rows of
// several texts share a pass of up to a prefill's chunk, in the order of the texts and as far as
// the backend keeps them apart: docs/architecture.md 3.6. By section 4 the states are those of each
// text alone, to the bit.
//
// Passes have 512 rows and not decoding's 16: with those, threads wait for each other as often for
// 16 rows, and a short text's last ones have a pass to themselves.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "corpus/features.h"
#include "engine/backend.h"

namespace specbound {

class FeaturePasses {
 public:
  // Of texts from store.n_texts() on. What is given must outlive it, and nobody else runs the
  // backend meanwhile; no text is left there behind it. output_norm (dim).
  FeaturePasses(FeatureStore& store, Backend& backend, std::span<const float> output_norm,
                const std::atomic<bool>* abort = nullptr);
  ~FeaturePasses();
  FeaturePasses(const FeaturePasses&) = delete;
  FeaturePasses& operator=(const FeaturePasses&) = delete;

  // The next text, at most n_ctx tokens, which must outlive this: its rows wait until a pass
  // is full. False, and nothing added, when the store's bound would be passed. False, too, when
  // `abort` was raised meanwhile: the store is then only good to be destroyed. Throws Error(kFile),
  // Error(kFormat) for a model whose hidden states are no numbers.
  bool add(const TrainingText& text);
  // The next text is not added, but counted. Returns and throws as add().
  bool leave_out();
  // What waits is run and in the store. Returns and throws as add().
  bool finish() { return run(); }
  // Of the rows in the store and those that wait: how many are learnt from, and bytes on disk.
  int64_t learnt_rows() const { return store_.n_learnt_rows() + waiting_learnt_; }
  size_t bytes() const { return store_.bytes(waiting_); }

 private:
  // What a text has in the pass that is filled.
  struct Part {
    const TrainingText* text;
    int sequence = -1, pos = 0, n = 0;  // n 0: nothing of it has to be run
    int first = 0;                      // position of its first row for the store
    bool ends = true;
  };
  // What a sequence of the backend holds.
  struct Kept {
    std::span<const int32_t> tokens;  // of the text that came last
    int there = 0;                    // of them those whose K and V are there
    bool waits = false;               // for the pass that is filled
    uint64_t used = 0;
  };
  struct Beginning {
    int sequence = 0, n = 0;  // of which the first n tokens are a text's
  };

  bool aborted() const { return abort_ && abort_->load(std::memory_order_relaxed); }
  size_t row_size() const { return (store_.layers().size() + 1) * norm_.size(); }
  int next_row(const TrainingText& text, int at) const;
  Beginning longest(std::span<const int32_t> tokens, bool waiting) const;
  std::optional<int> place(const TrainingText& text, int end, int first);
  bool prefill(int sequence, std::span<const int32_t> tokens);
  bool run();
  bool run_pass(std::span<const ChunkRows::Part> parts);
  bool run_layers(int to);
  void read_states(size_t index, std::span<const float> weight);
  void store_rows();
  void select(int sequence);

  FeatureStore& store_;
  Backend& backend_;
  ChunkRows* const chunk_;  // nullptr: passes have one text, in slots
  const int most_rows_;
  const std::span<const float> norm_;  // (dim)
  const std::atomic<bool>* const abort_;
  int64_t there_;           // rows of the first text that a run before left in the store
  std::vector<Kept> kept_;  // [sequence]
  uint64_t uses_ = 0;

  // The pass that is filled.
  std::vector<Part> parts_;
  int n_rows_ = 0;
  int64_t waiting_ = 0, waiting_learnt_ = 0;  // rows for the store

  // The pass under way.
  struct Row {
    const Part* part;
    int at, row;  // position in the text, place in the pass
  };
  std::vector<Row> rows_;         // for the store
  std::vector<uint16_t> states_;  // (rows, layers + 1, dim)
  std::vector<float> rms_;        // (rows, layers)
  int done_ = 0;                  // layers
  int pos_ = 0;                   // of the first row, in slots
};

}  // namespace specbound
