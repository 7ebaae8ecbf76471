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
// Its rows [first, first + n_out), where they are.
Matrix rows_of(const Matrix& matrix, int first, int n_out);
// The rows of `matrix` that `ids` names, copied to `to`.
Matrix gathered_rows(const Matrix& matrix, std::span<const int32_t> ids, std::byte* to);
std::vector<float> matrix_floats(const Matrix& matrix);  // (n_out, n_in), whatever it is stored as

struct LayerWeights {
  const float* attn_norm = nullptr;                  // (dim); null in an EAGLE layer: no norm
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
  Matrix w_gate, w_up;                               // (ffn_dim, dim); none in an adapter
  Matrix w_down;                                     // (dim, ffn_dim)
  // (n_experts, dim), and of each matrix above n_experts, one below the other; none: one of each
  Matrix router;

  int n_experts() const { return router.n_out > 0 ? router.n_out : 1; }
  Matrix expert(const Matrix& of_all, int index) const {
    const int n_out = of_all.n_out / n_experts();
    return rows_of(of_all, index * n_out, n_out);
  }
};

struct Weights {
  Matrix token_embd;                   // (vocab_size, dim)
  std::vector<LayerWeights> layers;    // [n_layers]
  const float* output_norm = nullptr;  // (dim)
  Matrix lm_head;                      // (vocab_size, dim); the embedding itself when tied
  bool tied = false;
  int n_experts_used = 0;  // by a row, of those of a layer; 0: they have none
  // (kMaxRows, wq.n_in up to whole blocks of 32): in an EAGLE-3 layer, what q, k and v of the rows
  // of a pass multiply in place of the normed rows. Null elsewhere.
  const float* attn_input = nullptr;
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
