// Attention of a decode pass, second part: the chunks' results of a query joined in their order.
#include "attention.h"
#include "attention_join.cuh"

namespace specbound::kernels {
namespace {

constexpr int kThreads = 128;

// A block: kThreads outputs of a row.
__global__ void __launch_bounds__(kThreads, 4) combine_chunks_kernel(Attend p) {
  let_next_start();
  const int n_rows = p.pass->n_rows, begin = static_cast<int>(blockIdx.x) * kThreads;
  wait_for_previous();
  join_outputs<kThreads, 16>(p, static_cast<int>(blockIdx.y), n_rows, begin, q_dim_of(p.heads));
}

}  // namespace

void combine_chunks(const Attend& p, Stream stream) {
  check_attend(p);
  const Grid blocks{
      static_cast<unsigned>((p.heads.n_heads * p.heads.head_dim + kThreads - 1) / kThreads),
      kMaxDecodeRows};
  launch(combine_chunks_kernel, "combine_chunks", {blocks, kThreads, kJoinBytes<kThreads>, true},
         stream, p);
}

}  // namespace specbound::kernels
