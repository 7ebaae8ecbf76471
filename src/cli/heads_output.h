// What train-heads gives: the heads file, checked before hours of work, and whole or not at all; a
// part of its summary.
#pragma once

#include <string>

#include "train/head_trainer.h"

namespace specbound {

// A heads file may be written over, a model may not, and what is no file cannot be replaced by one.
// Throws Error(kFile).
void check_heads_output(const std::string& path);

// A name beside `target`, for what is renamed to it; removed if it is still there at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// How often the guess of each head is the model's token, and how much of the model's distribution
// it has, layers in rows, kinds in columns; of heads that guess several tokens on, by step too.
std::string agreement_table(const TrainedHeads& trained, const TrainOptions& options);

}  // namespace specbound
