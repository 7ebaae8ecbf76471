// Attention over the rows of a pass, dealt to the threads: as whole tasks, or where these do not
// share out evenly as tasks that are cut between chunks of keys, so that a model with fewer K/V
// heads than there are threads keeps all of them busy. What the parts of a cut task gave is joined
// in the order of chunks: the same bits (docs/architecture.md 4). Matmuls cut in this way are
// called stream-K (Osama et al. 2023); flash decoding joins in another order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cpu/kernels.h"
#include "engine/cpu/linear.h"
#include "engine/cpu/pass_rows.h"
#include "engine/cpu/thread_pool.h"
#include "engine/pages.h"
#include "model/config.h"

namespace specbound {

class Attention {
 public:
  // `own_heads`: each thread attends with the queries of its own K/V heads, no others. What is
  // given must outlive it.
  Attention(const ModelConfig& config, const Kernels& kernels, ThreadPool& pool, bool own_heads,
            int n_ctx);

  // Deals a pass over these rows, before threads run its layers.
  void plan(const PassRows& rows);

  // A thread's part of attended (rows, q_dim) = softmax(softcap(score_scale q K)) V, with its
  // queries at `q`, for the rows of the plan; all threads call it together, and what it makes is
  // there behind a barrier. With `quantized` given (attended's rows; heads must be whole blocks),
  // what was attended to is quantized at once.
  void run(int thread, const Outputs& q, int layer, const PassRows& rows, RowBuffer& attended,
           const Rows* quantized);

 private:
  // Some queries of one K/V head in one text: rows, then heads of its group.
  struct Task {
    int kv_head, first, n;
    Slice chunks;        // of keys, that they see
    size_t results = 0;  // of a cut one: where in results_ its first chunk's are

    int n_chunks() const { return chunks.end - chunks.begin; }
    int chunk_cost() const { return n + 2; }  // in queries: reading K and V costs about two
    int64_t cost() const { return int64_t{n_chunks()} * chunk_cost(); }
  };
  // For the layers that see as far back as one another.
  struct Plan {
    std::vector<Task> tasks;
    // Tasks are cut: thread t does the chunks from begins[t] up to begins[t + 1].
    struct Place {
      int task, chunk;
    };
    std::vector<Place> begins;  // [threads + 1]; empty: whole tasks
    struct Joined {
      int task, query;
    };
    std::vector<Joined> joined;  // queries of the tasks that are cut
  };
  // One layer of a pass.
  struct Pass {
    const Outputs& q;
    int layer;
    const PassRows& rows;
    RowBuffer& attended;
    const Rows* quantized;
  };
  struct RowHead {
    int row, head;
  };

  void plan(const PassRows& rows, int window, Plan& plan) const;
  int64_t cut(Plan& plan) const;
  int64_t most_of_whole(const Plan& plan) const;
  void place_results(Plan& plan) const;
  int task_in_turn(int thread, int turn) const;
  void run_whole(int thread, const Pass& pass, const Task& task);
  void run_cut(int thread, const Pass& pass, const Plan& plan);

  RowHead row_head(const Task& task, int i) const;
  KvHead kv_head(const Pass& pass, const Task& task) const;
  float* attended(const Pass& pass, const Task& task, int i) const;
  void make_queries(const Pass& pass, const Task& task, Query* queries) const;
  void quantize(const Pass& pass, const Task& task, int i) const;
  size_t result_size() const { return static_cast<size_t>(v_stride_) + 2; }
  float* result(const Task& task, int chunk, int i) {
    const size_t at = task.results + static_cast<size_t>(chunk) * task.n + i;
    return results_.data() + at * result_size();
  }

  const ModelConfig& config_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  const bool own_heads_;
  const int group_;     // queries of a row that share a K/V head
  const int v_stride_;  // as the cache has it
  Plan windowed_, full_;
  std::vector<Pages<float>> scratch_;  // [thread] (kTaskQueries, v_stride + 2)
  Pages<float> results_;               // (chunks, queries, v_stride + 2) of each task that is cut
};

}  // namespace specbound
