// Passages of texts, which draft layers learn from in place of rows: their one block attends to
// what stands before. A batch is some of them with the steps that its rows go.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/batches.h"
#include "train/block_form.h"

namespace specbound {

class TokenRows;

// Rows of a text that attend to each other while they learn.
inline constexpr int kMostPassage = 512;

// Passages of texts side by side, each a row behind the other. A step's rows are places in it.
struct PassageBatch {
  int n = 0;
  std::vector<int> first;  // [passage + 1] of the n rows
  // (n, dim) layer: of the embedding, eagle: e, eagle3: e / rms(e), of TokenRows; kangaroo: none
  std::vector<float> x;
  // (n, state_dim) layer, eagle: y of the position before, zeros where there is none; eagle3: h of
  // three layers there; kangaroo: h_l of the position itself
  std::vector<float> state;
  std::vector<float> y;     // (n, dim)
  std::vector<int> origin;  // [n] which row of its chunk it is
  std::vector<int> learnt;  // rows that are learnt from in step 0
  struct Step {
    std::vector<int> rows;   // ascending; of step 0 all, later those whose chain goes so far
    std::vector<int> slot;   // [n] a row's place among them, or -1
    std::vector<int> begin;  // [passage + 1] of `rows`
  };
  std::vector<Step> steps;
};

// What of `batch` depends on which rows are learnt from (learn (n)): the steps 0..n_steps-1.
void set_steps(std::span<const uint8_t> learn, int n_steps, PassageBatch& batch);

// Steps are `n_steps`; `token_rows` are looked at by eagle and eagle3. Passages in which nothing is
// learnt are left out.
struct PassagePlan {
  const BlockForm& form;
  const TokenRows* token_rows;
  int n_steps;
};
void fill_passages(const Chunks& chunks, const PassagePlan& plan, std::span<const RowAt> passages,
                   PassageBatch& batch);

}  // namespace specbound
