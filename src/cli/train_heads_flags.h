// What `specbound train-heads` is asked to do.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/common_flags.h"
#include "train/head_trainer.h"
#include "train/training_folder.h"

namespace specbound {

struct TrainHeadsFlags {
  ModelOptions model;
  std::vector<std::string> data;  // empty: seed_prompts()
  std::string out;                // empty: beside the model
  std::vector<int> layers;        // empty: chosen for the model
  int64_t self_generate = 0;      // tokens; 0: learn from the data as it is
  double self_temp = 0.7;
  int64_t max_tokens = 0;  // 0: see max_learnt_tokens()
  int shortlist = 0;       // 0: chosen for the vocabulary
  double minutes = 0;      // 0: no limit
  // The model writes as much as leaves time to learn it.
  bool fills_minutes = false;
  std::string folder;             // empty: beside the output
  std::string texts;              // a file; empty: what the model writes is kept for this run alone
  std::vector<std::string> also;  // learnt as they are, beside what the model writes
  uint64_t max_disk = 4'000'000'000;
  bool resume = false, fresh = false;
  bool no_tune = false;
  std::string report;        // empty: none
  std::optional<bool> text;  // whether to keep what is learnt to look up in; unset: what the model
                             // writes itself
  TrainOptions train;        // kinds that are trained, quick, epochs, learning rate, seed

  bool has(HeadKind kind) const;
  // Of the kinds that are put behind layers of --layers, chained ones and no others.
  bool only_chained() const;
  bool keeps_text() const { return text.value_or(self_generate > 0); }
  TrainingFolder::Begin begin() const;
  int64_t max_learnt_tokens() const;
  // Fills in train.layers, where heads of the kinds can be put, ascending, none where all kinds
  // have places of their own (medusa, draft layers), and train.adapter_layer and .states.
  // Throws Error(kUsage) for a layer that is none of the model's, or a model that has too few.
  void place(int n_layers);
  // The layers whose hidden states are wanted, ascending: train.layers, and what draft layers take.
  std::vector<int> feature_layers() const;
  // Whether the prompts' are too: a draft layer attends to them.
  bool wants_prompts() const { return std::ranges::any_of(train.kinds, is_layer); }
  // A line for each kind that none of train.layers can have: beside other kinds, chained heads go
  // on the shallowest layers only, and only they on layer 0.
  std::vector<std::string> kinds_without_layer(int n_layers) const;
  // Tokens of the file's list: a multiple of 16, or the vocabulary.
  int shortlist_size(int vocab_size) const;
  // Fills in what follows from what was given. Throws Error(kUsage) for flags that contradict each
  // other.
  void check();

 private:
  std::vector<int> head_layers(int n_layers) const;
  int adapter_layer(int n_layers) const;
};

void add_train_heads_flags(Flags& flags, TrainHeadsFlags& given);

// Lists as the flags take them. nullopt: none.
// `text`: whether that is in the list too.
std::optional<std::vector<HeadKind>> parse_kinds(std::string_view list, std::optional<bool>& text);
std::optional<std::vector<int>> parse_layers(std::string_view text);  // "0,2,4-8"; ascending

}  // namespace specbound
