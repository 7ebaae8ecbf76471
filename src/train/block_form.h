// What the one block of a draft layer is beside its weights: its parts and widths, its rotation and
// the units that it learns in, of the formulas `layer`, `eagle`, `eagle3` and `kangaroo` of
// model/exit_heads.h. All are one block; they differ in what enters it and where it has norms:
//
//              u is                 attention takes          feed-forward takes   it says
//   layer      W [x; s / rms(s)]    u / rms(u)               u / rms(u)           w u / rms(u)
//   eagle      W [e; s] + b         u                        w_f u / rms(u)       u
//   eagle3     W [h_a; h_b; h_c]    [w_e x; w_a u / rms(u)]  w_f u / rms(u)       w u / rms(u)
//   kangaroo   h_l                  w_a u / rms(u)           there is none        w u / rms(u)
//
// An eagle layer has no norm before attention and says states as large as the model's, the states
// of early layers are of any size, and the rows of an embedding are small. Blocks learn in units in
// which all of these have a root mean square of about 1: factors that end up in a file's weights.
#pragma once

#include <span>
#include <vector>

#include "engine/cpu/kernels.h"
#include "engine/cpu/rope.h"
#include "model/exit_heads.h"

namespace specbound {

struct BlockForm {
  // `config` and the factors of its rope, null for none, are the model's; `n_positions` a passage
  // has at most. `state_sizes` are root mean squares of the states that enter: of an eagle layer
  // one of y, of eagle3 three, of an adapter one.
  BlockForm(HeadKind kind, const ModelConfig& config, const float* rope_factors, int n_positions,
            int n_inner, std::span<const double> state_sizes);

  HeadKind kind;
  int dim, n_heads, n_kv_heads, head_dim, n_inner;
  float norm_eps, score_scale;
  double rope_theta = 0;   // eagle3, kangaroo: of its own rotation; 0: the model's
  std::vector<int> taken;  // indices of a chunk's x: layer the embedding, eagle3 h, kangaroo h_l
  // (dim), of which LearningBlock::norm is learnt as a factor: as fast whatever their size.
  std::vector<float> norm;
  std::vector<float> state_factors;  // of each state in front of the block

  bool eagle() const { return kind == HeadKind::kEagle; }
  bool eagle3() const { return kind == HeadKind::kEagle3; }
  bool adapter() const { return kind == HeadKind::kKangaroo; }
  // What it is of learns in steps on its own states; an adapter's rows have the model's.
  bool chains() const { return !adapter(); }
  // Whether u of step k is W times something: behind its own states eagle3 has these in W's place.
  bool maps(int k) const { return eagle3() ? k == 0 : !adapter(); }
  // The residual stream while it learns, in parts of a file's.
  float unit() const { return eagle() || adapter() ? state_factors[0] : 1.0f; }
  int state_dim() const { return eagle3() ? 3 * dim : dim; }
  // Of W, and of the map that an adapter, which has no W, begins with.
  int map_inputs() const { return eagle3() ? 3 * dim : adapter() ? dim : 2 * dim; }
  // Of the map that least squares begins with: of eagle3 its token's too.
  int start_inputs() const { return map_inputs() + (eagle3() ? dim : 0); }
  int attn_inputs() const { return eagle3() ? 2 * dim : dim; }
  int q_dim() const { return n_heads * head_dim; }
  int kv_dim() const { return n_kv_heads * head_dim; }

  // Heads (n_heads, head_dim) of the position `pos` of a passage, in place; back: the gradient.
  void rotate(float* heads, int n, int pos) const { rotate(heads, n, pos, false); }
  void rotate_back(float* heads, int n, int pos) const { rotate(heads, n, pos, true); }

 private:
  void rotate(float* heads, int n, int pos, bool back) const;
  const Kernels* kernels_;
  RopeStyle style_;
  int rope_dim_;
  std::vector<float> cosine_, sine_, sine_back_;  // (n_positions, rope_dim)
};

}  // namespace specbound
