// What exit heads learn from: the hidden states of a frozen model along texts, kept on disk in
// chunks of bounded size. docs/architecture.md 6. corpus/feature_passes.h computes them.
//
// A row is a position of a reply: the position whose next token the model wrote (or should write).
// Rows of one reply follow each other. Where prompts are wanted, which a draft layer attends to, a
// text is there from its first position on. For every row: x_l = h_l / rms(h_l) at each asked layer
// (0: the embedding) and rms(h_l), y = norm(h_L), which lm_head multiplies, and the next token of
// the text.
//
// Chunk file, about 32 MB, float16:
//   Header | i32 next[rows] | u8 marks[rows] | f32 rms[layers](rows) | f16 x[layers](rows, dim) |
//   f16 y(rows, dim)
// marks: 1 follows the row before it, 2 is of a prompt.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "error.h"

namespace specbound {

// A text of a training corpus: token i is learnt from when learn[i] (the token after it is part of
// a reply).
struct TrainingText {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> learn;  // [tokens]
  bool greedy = false;         // the model wrote it so
};

struct FeatureChunk {
  int rows = 0, dim = 0;
  std::vector<std::vector<float>> x;    // [layer index](rows, dim)
  std::vector<std::vector<float>> rms;  // [layer index][rows]: x times it is h; may be empty
  std::vector<float> y;                 // (rows, dim)
  std::vector<int32_t> next;            // [rows] the token that follows in the text
  std::vector<uint8_t> follows;         // [rows] 1: row r - 1 is the position before this one
  std::vector<uint8_t> learn;           // [rows] 0: of a prompt; empty: all rows are learnt from

  bool learns(int row) const { return learn.empty() || learn[static_cast<size_t>(row)] != 0; }
};

// h (dim) as a state of a row, h / rms(h), times `weight` (dim) where there is one; returns rms(h).
// Throws Error(kFormat) where h is no number.
float write_state(std::span<const float> h, float norm_eps, std::span<const float> weight,
                  std::span<uint16_t> state);

// Without the rows of prompts.
FeatureChunk learnt_rows(FeatureChunk chunk);

class FeatureStore {
 public:
  // Chunks go into files in `folder` (made when missing), at most `max_bytes` altogether; `layers`
  // ascend, none: only final states. A chunk has as many rows as `chunk_bytes` hold, at least one.
  FeatureStore(std::string folder, std::vector<int> layers, int dim, size_t max_bytes,
               size_t chunk_bytes = size_t{32} << 20);
  ~FeatureStore();  // removes its files unless keep() was called
  FeatureStore(const FeatureStore&) = delete;
  FeatureStore& operator=(const FeatureStore&) = delete;

  // All texts from their first position on. Before anything is added or taken up.
  void with_prompts() {
    SB_CHECK(rows_ == 0 && texts_ == 0);
    with_prompts_ = true;
  }
  // The position behind the last one of a text that it has a row of; 0: none.
  static int end_of(const TrainingText& text);
  // Whether position `at` before that has a row.
  bool takes(const TrainingText& text, int at) const {
    return with_prompts_ || text.learn[static_cast<size_t>(at)];
  }
  // Whether so many rows more stay within the bound.
  bool fits(int64_t rows) const { return bytes(rows) <= max_bytes_; }
  // The next row of the text under way, of its position `at`; states (layers + 1, dim): x at each
  // of the layers, then y; rms (layers). Throws Error(kFile).
  void add(const TrainingText& text, int at, std::span<const uint16_t> states,
           std::span<const float> rms);
  // Of the text under way there are no more rows: the next one begins.
  void end_text();
  void finish();  // the last chunk is written

  const std::string& folder() const { return folder_; }
  const std::vector<int>& layers() const { return layers_; }
  int dim() const { return dim_; }
  int n_chunks() const { return static_cast<int>(chunk_rows_.size()); }
  int64_t n_rows() const { return rows_; }
  int64_t n_prompt_rows() const { return prompt_rows_; }  // of these
  int64_t n_learnt_rows() const { return rows_ - prompt_rows_; }
  int64_t n_texts() const { return texts_; }  // that ended; after resume() go on from there
  int64_t rows_of_text() const { return rows_of_text_; }  // that the one under way has here already
  // On disk when all rows are written, and so many more.
  size_t bytes(int64_t more = 0) const { return bytes_of(rows_ + more); }
  // Throws Error(kFile), Error(kFormat) for a chunk that is not what was written.
  FeatureChunk load(int chunk) const;

  void keep() { keep_ = true; }  // for a resumed run
  // Takes up the chunks that an interrupted run over the same texts left in `folder`. False when
  // they are not all there: the texts from n_texts() on are to be added then.
  bool resume();

 private:
  struct Header;
  int64_t prompt_rows_in(int fd, int chunk, const Header& header) const;
  std::string chunk_path(int chunk) const;
  size_t row_bytes() const;
  size_t bytes_of(int64_t rows) const;
  Header read_header(int fd, int chunk) const;
  void write_pending(bool last);

  // Rows on their way to disk, in the order of the file.
  struct Pending {
    int rows = 0;
    std::vector<int32_t> next;
    std::vector<uint8_t> marks;
    std::vector<std::vector<float>> rms;   // [layer index](rows)
    std::vector<std::vector<uint16_t>> x;  // [layer index](rows, dim)
    std::vector<uint16_t> y;
  };

  std::string folder_;
  std::vector<int> layers_;
  int dim_;
  size_t max_bytes_;
  int chunk_capacity_;  // rows
  int64_t rows_ = 0;    // pending ones too
  int64_t prompt_rows_ = 0;
  bool with_prompts_ = false;
  int64_t texts_ = 0;
  int64_t rows_of_text_ = 0;  // of the text under way that lie in chunks or in pending_
  std::vector<int> chunk_rows_;
  Pending pending_;
  int newest_pos_ = -2;  // of the newest row of the text under way
  bool finished_ = false;
  bool keep_ = false;
};

}  // namespace specbound
