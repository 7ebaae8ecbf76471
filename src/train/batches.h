// Rows of a feature store in the shuffled order of an epoch, a few chunks in memory at a time: each
// for itself, or passages of texts.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "train/head_trainer.h"
#include "train/training_step.h"

namespace specbound {

// Which rows are learnt from and which are for validation: the last ones, see train_heads(), from
// the beginning of a text on where one begins there.
struct RowSplit {
  int first_chunk = 0, first_row = 0;  // of the validation rows
  int64_t training = 0, validation = 0;
  int64_t learnt_validation = 0;  // without those of prompts
};
RowSplit split_rows(const FeatureSource& features);
// The same split where rows of prompts are left out.
RowSplit without_prompts(const FeatureSource& features, const RowSplit& split);

// The place in the training that a checkpoint keeps.
struct BatchPlace {
  int epoch = 0, window = 0, batch = 0;
};

// A row of a chunk, and how many steps a head with a state can go from it: 0 when the position
// before it is not there. Of a passage the first row, and how many it has.
struct RowAt {
  int chunk, row, run;
};
using Chunks = std::map<int, FeatureChunk>;

// What of a row goes into a batch.
struct BatchPlan {
  std::vector<uint8_t> layer;          // [layer index] some head needs it
  std::vector<uint8_t> chained_layer;  // [layer index] some chained head needs it
  int chains = 0;                      // steps of heads with a state; 0: there are none
  bool tokens = false;                 // some head looks at them
};

// What `heads` need of `n_layers` layers; the x of each is that of layer index x_index[head] (which
// is not looked at where the head has none: by place), and chained ones go `chains` steps.
BatchPlan plan_of(std::span<const LearningHead> heads, std::span<const int> x_index,
                  size_t n_layers, int chains);

// Adds the rows [begin, end) of a chunk; `follows` is FeatureChunk::follows.
void append_rows(std::span<const uint8_t> follows, int number, int begin, int end, int chains,
                 std::vector<RowAt>& rows);

// Adds the texts in the rows [begin, end) of a chunk, in passages of at most `most` rows.
void append_passages(std::span<const uint8_t> follows, int number, int begin, int end, int most,
                     std::vector<RowAt>& passages);

// Puts the rows of a batch into its order. Returns TrainingBatch::chained.
std::vector<int> order_batch(std::vector<RowAt>& rows, int chains);

// The batch of `rows`, which are put into the order of its rows.
void fill_batch(const Chunks& chunks, const BatchPlan& plan, std::vector<RowAt>& rows,
                TrainingBatch& batch);

// Chunks of features where they are learnt from, as many at a time as a window has.
class OpenChunks {
 public:
  virtual ~OpenChunks() = default;
  // These are wanted from now on, and no others.
  virtual void open(std::span<const int> chunks) = 0;
  virtual std::span<const uint8_t> follows(int chunk) const = 0;  // of an open one
};

// Open chunks as floats in memory.
class ChunksInMemory final : public OpenChunks {
 public:
  explicit ChunksInMemory(const FeatureSource& features) : features_(features) {}
  void open(std::span<const int> chunks) override;
  std::span<const uint8_t> follows(int chunk) const override { return chunks_.at(chunk).follows; }
  const Chunks& chunks() const { return chunks_; }

 private:
  const FeatureSource& features_;
  Chunks chunks_;
};

// Which rows learn together: the same ones wherever they lie.
class Batches {
 public:
  Batches(const FeatureSource& features, const RowSplit& split, int chains, int rows,
          uint64_t seed);
  // Of passages of at most `passage` rows, as many in a batch as have about `rows`: half as many
  // again and a passage at most.
  static Batches of_passages(const FeatureSource& features, const RowSplit& split, int passage,
                             int rows, uint64_t seed);

  // The rows of the batch at `place`, which moves on to the next, and their chunks open in `where`;
  // false when `epochs` are over.
  bool next(int epochs, BatchPlace& place, OpenChunks& where, std::vector<RowAt>& rows);
  // That a batch learns.
  int64_t count(std::span<const RowAt> rows) const;
  // Of any batch of rows, at most.
  int most_rows() const { return batch_rows_ + batch_rows_ / 2 + 1; }

 private:
  void take(BatchPlace& place, OpenChunks& where, std::vector<RowAt>& rows);
  void open_window(int epoch, int window, OpenChunks& where);

  RowSplit split_;
  int chains_;
  int batch_rows_;
  uint64_t seed_;
  int passage_ = 0;   // 0: rows, each for itself
  int n_chunks_ = 0;  // that have training rows
  int n_windows_ = 0, chunks_per_window_ = 1;
  int open_epoch_ = -1, open_window_ = -1;
  std::vector<RowAt> rows_;      // of the open window, shuffled
  std::vector<int64_t> starts_;  // [+ 1] that a batch learns of those before
};

}  // namespace specbound
