// Sampling on the device (docs/architecture.md 5): the tokens are those of decode/sampler.h,
// always.
//
//   penalize_rows   first, where a repetition penalty is set
//   gumbel_argmax   greedy and unfiltered draws, to the end
//   top_logits      what Sampler::sample_top needs for filtered draws; where that does not decide,
//                   the host takes the whole row
//
// A row of n logits may speak of some tokens only: `ids` then says whose each one is (each once).
#pragma once

#include "layouts.h"
#include "numerics/top_logits.h"
#include "stream.h"

namespace specbound::kernels {

inline constexpr int kMaxLogits = 1 << 20;  // of a row

// What a reply samples with: in device memory, so that one graph serves every reply.
struct SamplingState {
  uint64_t seed;
  uint32_t reply;
  float temperature;      // 0: greedy
  float repeat_penalty;   // 1: off
  int32_t repeat_last_n;  // -1: the whole text
};

// Rows of logits: row r draws the token after position pass->pos + r.
struct LogitRows {
  const Pass* pass;     // 0 <= n_rows <= max_rows
  const float* logits;  // (n_rows, ld), 16-byte aligned
  int ld;               // a multiple of 4, at least n
  int n;                // 1 .. kMaxLogits
  const int32_t* ids;   // (n), or null: 0, 1, 2, ...
  int max_rows;         // 1..16
};

// out = the rows with the tokens before each row's draw penalized, each token once.
struct PenalizeRows {
  LogitRows rows;
  const SamplingState* sampling;
  const int32_t* text;  // by position: up to pass->pos + n_rows - 1
  float* out;           // (n_rows, ld), 16-byte aligned; may be rows.logits; past n it is undefined
};
void penalize_rows(const PenalizeRows& p, Stream stream);

struct DrawnToken {
  double margin;  // of the winner's score over the second one; infinite without a second one
  int32_t token;
  int32_t unused;
};

// The best of a part of a row.
struct DrawPart {
  double best, second;
  int32_t id;
  int32_t unused;
};

// drawn[r] = argmax of logit / T + G, with T = 0 of the logit.
struct GumbelArgmax {
  LogitRows rows;
  const SamplingState* sampling;
  DrawPart* parts;    // (max_rows, draw_parts(n)) scratch
  DrawnToken* drawn;  // (max_rows)
};
void gumbel_argmax(const GumbelArgmax& p, Stream stream);

inline constexpr int kDrawnTogether = 1024;  // logits of one part
constexpr int draw_parts(int n) {
  return (n + kDrawnTogether - 1) / kDrawnTogether;
}

// top[r] = the head of row r.
struct TopRows {
  LogitRows rows;
  TopLogits* top;  // (max_rows), 8-byte aligned
  bool weigh;      // fill top[r].weight
};
void top_logits(const TopRows& p, Stream stream);

}  // namespace specbound::kernels
