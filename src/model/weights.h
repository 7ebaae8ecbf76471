// Where each weight of a model lies in the map, its shape checked. Pointers are views into the
// Gguf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"
#include "model/gguf.h"

namespace specbound {

// A matrix (n_out, n_in), row-major, rows of n_in elements; used as y = W x.
struct Matrix {
  DType type = DType::kF32;  // as stored, one that runs_as() something; n_in is whole blocks
  int n_out = 0;
  int n_in = 0;
  const std::byte* data = nullptr;
  size_t bytes() const;      // as stored
  size_t run_bytes() const;  // as the engines read it: those of Q8_0 where it is converted
};
// The rows of `matrix` that `ids` names, copied to `to`.
Matrix gathered_rows(const Matrix& matrix, std::span<const int32_t> ids, std::byte* to);
std::vector<float> matrix_floats(const Matrix& matrix);  // (n_out, n_in), whatever it is stored as

struct LayerWeights {
  const float* attn_norm = nullptr;                  // (dim)
  Matrix wq;                                         // (q_dim, dim)
  Matrix wk, wv;                                     // (kv_dim, dim)
  const float* bq = nullptr;                         // (q_dim) or null
  const float *bk = nullptr, *bv = nullptr;          // (kv_dim) or null
  const float *q_norm = nullptr, *k_norm = nullptr;  // (head_dim) or null: qwen3's per-head norm
  Matrix wo;                                         // (dim, q_dim)
  const float* bo = nullptr;                         // (dim) or null
  const float* post_attn_norm = nullptr;             // (dim) or null: of what attention adds
  const float* ffn_norm = nullptr;                   // (dim)
  const float* post_ffn_norm = nullptr;              // (dim) or null: of what the block adds
  Matrix w_gate, w_up;                               // (ffn_dim, dim)
  Matrix w_down;                                     // (dim, ffn_dim)
};

struct Weights {
  Matrix token_embd;                   // (vocab_size, dim)
  std::vector<LayerWeights> layers;    // [n_layers]
  const float* output_norm = nullptr;  // (dim)
  Matrix lm_head;                      // (vocab_size, dim); the embedding itself when tied
  bool tied = false;
  // (rope_dim/2) frequency divisors or null: at any context, and at phi3's long one.
  const float *rope_factors = nullptr, *rope_factors_long = nullptr;

  // Those that hold for a context of n_ctx positions.
  const float* rope_factors_for(const ModelConfig& config, int n_ctx) const;

  // Bytes of weights that one decoded token reads, as they run (embedding table counted only as
  // the head).
  size_t bytes_per_token() const;
};

// Throws Error(kFormat) for missing or mis-shaped tensors (expected and found), Error(kUnsupported)
// for element types that cannot run here or tensors the architecture does not know.
Weights map_weights(const Gguf& gguf, const ModelConfig& config);

}  // namespace specbound
