// What exit heads learn from: the hidden states of a frozen model along texts, kept on disk in
// chunks of bounded size. docs/architecture.md 6.
//
// A row is a position of a reply: the position whose next token the model wrote (or should write).
// Rows of one reply follow each other. Where prompts are wanted, which a draft layer attends to, a
// text is there from its first position on. For every row: x_l = h_l / rms(h_l) at each asked layer
// (0: the embedding), y = norm(h_L), which lm_head multiplies, and the next token of the text.
//
// Chunk file, about 32 MB, float16:
//   Header | i32 next[rows] | u8 marks[rows] | f16 x[layers](rows, dim) | f16 y(rows, dim)
// marks: 1 follows the row before it, 2 is of a prompt.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/backend.h"
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
  std::vector<std::vector<float>> x;  // [layer index](rows, dim)
  std::vector<float> y;               // (rows, dim)
  std::vector<int32_t> next;          // [rows] the token that follows in the text
  std::vector<uint8_t> follows;       // [rows] 1: row r - 1 is the position before this one
  std::vector<uint8_t> learn;         // [rows] 0: of a prompt; empty: all rows are learnt from

  bool learns(int row) const { return learn.empty() || learn[static_cast<size_t>(row)] != 0; }
};

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
  // Runs `text` through the model, layer by layer and kMaxRows rows at a time, and adds the rows it
  // learns from. K/V of the prefix that it shares with the text before stays: nothing else may run
  // the backend in between. False, and nothing added, when the bound is reached. False, too, when
  // `abort` was raised meanwhile: the store is then only good to be destroyed. Throws Error(kFile),
  // Error(kFormat) for a model whose hidden states are no numbers.
  bool add(Backend& backend, std::span<const float> output_norm, const TrainingText& text,
           const std::atomic<bool>* abort = nullptr);
  // The next text is not added, but counted.
  void leave_out() {
    ++texts_;
    skip_rows_ = 0;
  }
  void finish();  // the last chunk is written

  const std::vector<int>& layers() const { return layers_; }
  int dim() const { return dim_; }
  int n_chunks() const { return static_cast<int>(chunk_rows_.size()); }
  int64_t n_rows() const { return rows_; }
  int64_t n_prompt_rows() const { return prompt_rows_; }  // of these
  int64_t n_texts() const { return texts_; }  // added or left out; after resume() go on from there
  size_t bytes() const { return bytes_of(rows_); }  // on disk when all rows are written
  // Throws Error(kFile), Error(kFormat) for a chunk that is not what was written.
  FeatureChunk load(int chunk) const;

  void keep() { keep_ = true; }  // for a resumed run
  // Takes up the chunks that an interrupted run over the same texts left in `folder`. False when
  // they are not all there: the texts from n_texts() on are to be added then.
  bool resume();

 private:
  struct Header;
  static bool is_row(const TrainingText& text, int at, bool with_prompts) {
    return with_prompts || text.learn[static_cast<size_t>(at)];
  }
  int64_t prompt_rows_in(int fd, int chunk, const Header& header) const;
  std::string chunk_path(int chunk) const;
  size_t row_bytes() const;
  size_t bytes_of(int64_t rows) const;
  bool fits(int64_t rows) const { return bytes_of(rows_ + rows) <= max_bytes_; }
  Header read_header(int fd, int chunk) const;
  void take_pass(Backend& backend, std::span<const float> output_norm, const TrainingText& text,
                 int pos, int n);
  void write_pending(bool last);

  // Rows on their way to disk, in the order of the file.
  struct Pending {
    int rows = 0;
    std::vector<int32_t> next;
    std::vector<uint8_t> marks;
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
  int64_t skip_rows_ = 0;     // rows that the next text has in chunks taken up
  std::vector<int> chunk_rows_;
  Pending pending_;
  std::vector<int32_t> cached_;  // tokens whose K/V the backend holds
  int newest_pos_ = -2;          // of the newest row of the text under way
  bool finished_ = false;
  bool keep_ = false;
};

}  // namespace specbound
