// Attention over the rows of a pass, dealt to the threads: as whole tasks where these share out
// evenly, else as tasks that are cut between chunks of keys, so that a model with fewer K/V heads
// than there are threads keeps all of them busy. What the parts of a cut task gave is joined in the
// order of chunks: the same bits (docs/architecture.md 4). Matmuls cut in this way are called
// stream-K (Osama et al. 2023); flash decoding joins in another order.
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

  // A thread's part of attended (rows, q_dim) = softmax(softcap(score_scale q K)) V, with its
  // queries at `q`; all threads call it together, and what it makes is there behind a barrier. With
  // `quantized` given (attended's rows), what was attended to is quantized at once.
  void run(int thread, const Outputs& q, int layer, const PassRows& rows, RowBuffer& attended,
           const Rows* quantized);

 private:
  // One layer of a pass.
  struct Pass {
    const Outputs& q;
    int layer;
    const PassRows& rows;
    RowBuffer& attended;
    const Rows* quantized;
  };
  // Some queries of one K/V head in one text: rows, then heads of its group.
  struct Task {
    int kv_head, first, n;
    Slice chunks;  // of keys, that they see

    int n_chunks() const { return chunks.end - chunks.begin; }
    int chunk_cost() const { return n + 2; }  // in queries: reading K and V costs about two
    int64_t cost() const { return int64_t{n_chunks()} * chunk_cost(); }
    size_t n_results() const { return static_cast<size_t>(n_chunks()) * n; }
  };
  // How the tasks of a pass are cut: thread t does the costs [total t / threads, total (t + 1) /
  // threads), as near as chunks come to that.
  struct Cut {
    int64_t total;       // cost of all tasks
    int64_t before = 0;  // of those before this one
    size_t results = 0;  // of those, in results_

    void pass(const Task& task) {
      before += task.cost();
      results += task.n_results();
    }
  };

  int tasks_of_a_head(const PassRows& rows) const;
  int first_seen(const Pass& pass, int pos) const;
  KvHead kv_head(const Pass& pass, const Task& task) const;
  Task task(const Pass& pass, int index) const;
  void make_queries(const Pass& pass, const Task& task, Query* queries) const;
  void run_whole(int thread, const Pass& pass, const Task& task);
  bool pays_to_cut(const Pass& pass, int tasks, int64_t& total) const;
  void run_cut(int thread, const Pass& pass, int tasks, int64_t total);
  int first_chunk(const Task& task, const Cut& cut, int thread) const;
  bool is_cut(const Task& task, const Cut& cut) const;
  void quantize(const Pass& pass, const Task& task, int i) const;
  size_t result_size() const { return static_cast<size_t>(v_stride_) + 2; }
  // Of query i of a task in one of its chunks.
  float* result(const Cut& cut, const Task& task, int chunk, int i) {
    const size_t at = cut.results + static_cast<size_t>(chunk) * task.n + i;
    return results_.data() + at * result_size();
  }

  const ModelConfig& config_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  const bool own_heads_;
  const int group_;                    // queries of a row that share a K/V head
  const int v_stride_;                 // as the cache has it
  std::vector<Pages<float>> scratch_;  // [thread] (kTaskQueries, v_stride + 2)
  Pages<float> results_;               // (chunks, queries, v_stride + 2) of each task, if it is cut
};

}  // namespace specbound
