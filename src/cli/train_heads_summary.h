// What train-heads says at its end, on stdout.
#pragma once

#include <cstddef>
#include <string>

#include "cli/train_heads_flags.h"
#include "corpus/corpus.h"
#include "train/head_trainer.h"

namespace specbound::train_heads_command {

struct TrainingSummary {
  const TrainHeadsFlags& flags;
  const Corpus& corpus;
  const TrainedHeads& trained;
  const std::string& model;          // its file
  double seconds;                    // of all runs
  size_t shortlist;                  // tokens; 0: none
  const std::string& settings_from;  // how the file came to its settings, in words
};
std::string training_summary(const TrainingSummary& of);

// When to ask what is no exit head, as draft layers, is learned while it drafts.
bool nothing_to_tune(const TrainedHeads& trained);

std::string size_text(size_t bytes);    // "1.2 GB"
std::string time_text(double seconds);  // "4:05 min"

}  // namespace specbound::train_heads_command
