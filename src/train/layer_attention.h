// Causal attention over grouped queries, of one step of a draft layer that learns: a row sees the
// K and V of true states up to where its chain began, and behind them those of its own chain. Rows
// of a passage and head are one product; what is a row's own is done row by row (layer_block.h).
#pragma once

#include <span>
#include <vector>

#include "train/layer_block.h"

namespace specbound {

// attended (n, q_dim) of steps[k], whose q, k and v are there, with the shares it is made of.
void attend(const Gemm& gemm, const BlockForm& form, const PassageBatch& batch, int k,
            std::span<BlockStep> steps);

// From d (n, q_dim), attended's gradient: dq (n, q_dim), and what is added to dk and dv of all
// steps up to k.
void attend_back(const Gemm& gemm, const BlockForm& form, const PassageBatch& batch, int k,
                 std::span<BlockStep> steps, const std::vector<float>& d, std::vector<float>& dq);

}  // namespace specbound
