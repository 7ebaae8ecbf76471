// Rows of a feature store in the shuffled order of an epoch, a few chunks in memory at a time.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "train/head_trainer.h"
#include "train/training_step.h"

namespace specbound {

// Which rows are learnt from and which are for validation: the last 5 %, at least one, from the
// beginning of a reply on where one begins there.
struct RowSplit {
  int first_chunk = 0, first_row = 0;  // of the validation rows
  int64_t training = 0, validation = 0;
};
RowSplit split_rows(const FeatureSource& features);

// The place in the training that a checkpoint keeps.
struct BatchPlace {
  int epoch = 0, window = 0, batch = 0;
};

// A row of a chunk, and how many steps a chained head can go from it: 0 when the position before it
// is not there.
struct RowAt {
  int chunk, row, run;
};
using Chunks = std::map<int, FeatureChunk>;

// What of a row goes into a batch.
struct BatchPlan {
  std::vector<uint8_t> layer;          // [layer index] some head needs it
  std::vector<uint8_t> chained_layer;  // [layer index] some chained head needs it
  int chains = 0;                      // steps of chained heads; 0: there are none
};

// Adds the rows [begin, end) of a chunk.
void append_rows(const FeatureChunk& chunk, int number, int begin, int end, int chains,
                 std::vector<RowAt>& rows);

// The batch of `rows`, which are put into the order of its rows.
void fill_batch(const Chunks& chunks, const BatchPlan& plan, std::vector<RowAt>& rows,
                TrainingBatch& batch);

class Batches {
 public:
  Batches(const FeatureSource& features, const RowSplit& split, BatchPlan plan, int rows,
          uint64_t seed);

  // The batch at `place`, which moves on to the next; false when `epochs` are over.
  bool next(int epochs, BatchPlace& place, TrainingBatch& batch);

 private:
  void open_window(int epoch, int window);

  const FeatureSource& features_;
  RowSplit split_;
  BatchPlan plan_;
  int batch_rows_;
  uint64_t seed_;
  int n_chunks_ = 0;  // that have training rows
  int n_windows_ = 0, chunks_per_window_ = 1;
  int open_epoch_ = -1, open_window_ = -1;
  Chunks chunks_;
  std::vector<RowAt> rows_;  // of the open window, shuffled
  std::vector<RowAt> sorted_;
};

}  // namespace specbound
