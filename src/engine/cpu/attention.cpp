#include "engine/cpu/attention.h"

#include <algorithm>

namespace specbound {

namespace {

// Queries of one task: they share every K and V that is read.
constexpr int kTaskQueries = 12;
// What a barrier and joining cost, in dimensions of queries that see one chunk.
constexpr int kCostOfCutting = 8 * 64;
constexpr size_t kMostResults = size_t{1} << 24;  // floats, of a long text seen by many rows

}  // namespace

Attention::Attention(const ModelConfig& config, const Kernels& kernels, ThreadPool& pool,
                     bool own_heads, int n_ctx)
    : config_(config),
      kernels_(kernels),
      pool_(pool),
      own_heads_(own_heads),
      group_(config.n_heads / config.n_kv_heads),
      v_stride_(round_up(config.head_dim, 16)) {
  for (int t = 0; t < pool.size(); ++t) {
    scratch_.emplace_back(kTaskQueries * result_size(), "attention");
  }
  if (own_heads) return;
  const size_t chunks = static_cast<size_t>(n_ctx) / kAttentionChunk + 1;
  const size_t all = chunks * kMaxRows * static_cast<size_t>(config.n_heads) * result_size();
  results_ = Pages<float>(std::min(all, kMostResults), "attention");
}

void Attention::run(int thread, const Outputs& q, int layer, const PassRows& rows,
                    RowBuffer& attended, const Rows* quantized) {
  const Pass pass{q, layer, rows, attended, quantized};
  const int tasks = config_.n_kv_heads * tasks_of_a_head(rows), threads = pool_.size();
  if (own_heads_) {
    const Slice mine = slice(tasks, thread, threads);
    for (int i = mine.begin; i < mine.end; ++i) run_whole(thread, pass, task(pass, i));
    return;
  }
  int64_t total = 0;
  if (pays_to_cut(pass, tasks, total)) return run_cut(thread, pass, tasks, total);
  // In turn, there and back: later rows see more keys, and a head's last task may be short.
  for (int round = 0; round * threads < tasks; ++round) {
    const int i = round * threads + (round % 2 == 0 ? thread : threads - 1 - thread);
    if (i < tasks) run_whole(thread, pass, task(pass, i));
  }
}

int Attention::tasks_of_a_head(const PassRows& rows) const {
  const int of_a_text = rows.of_a_text() * group_;
  return rows.n / rows.of_a_text() * ((of_a_text + kTaskQueries - 1) / kTaskQueries);
}

// Of the keys that a row at `pos` sees.
int Attention::first_seen(const Pass& pass, int pos) const {
  const int window = config_.window_of(pass.layer);
  return window > 0 ? std::max(0, pos - window + 1) : 0;
}

KvHead Attention::kv_head(const Pass& pass, const Task& task) const {
  return pass.rows.sequence_of(task.first / group_).kv.head(pass.layer, task.kv_head);
}

Attention::Task Attention::task(const Pass& pass, int index) const {
  const PassRows& rows = pass.rows;
  const int of_a_head = tasks_of_a_head(rows), of_a_text = rows.of_a_text() * group_;
  const int texts = rows.n / rows.of_a_text(), parts = of_a_head / texts;
  const int text = index % of_a_head / parts;
  const Slice queries = slice(of_a_text, index % parts, parts);
  Task task{index / of_a_head, text * of_a_text + queries.begin, queries.end - queries.begin, {}};
  int first = INT32_MAX, last = 0;  // of the keys
  for (int row = task.first / group_; row <= (task.first + task.n - 1) / group_; ++row) {
    const int pos = rows.position(row);
    first = std::min(first, first_seen(pass, pos));
    last = std::max(last, pos);
  }
  task.chunks = {first / kAttentionChunk, last / kAttentionChunk + 1};
  return task;
}

void Attention::make_queries(const Pass& pass, const Task& task, Query* queries) const {
  for (int i = 0; i < task.n; ++i) {
    const int row = (task.first + i) / group_;
    const int head = task.kv_head * group_ + (task.first + i) % group_;
    Query& query = queries[i];
    query = {pass.q.at(row, head * config_.head_dim),
             pass.attended.row(row) + head * config_.head_dim, pass.rows.position(row)};
    query.first = first_seen(pass, query.pos);
    if (const RowPath* path = pass.rows.tree(row)) {
      query.path = path->slots.data();
      query.root = pass.rows.root();
    }
  }
}

void Attention::run_whole(int thread, const Pass& pass, const Task& task) {
  Query queries[kTaskQueries];
  make_queries(pass, task, queries);
  kernels_.attention(kv_head(pass, task), queries, task.n, config_.head_dim, config_.score_scale,
                     config_.attn_softcap, scratch_[thread].data());
  for (int i = 0; i < task.n; ++i) quantize(pass, task, i);
}

// What was attended to by query i of a task.
void Attention::quantize(const Pass& pass, const Task& task, int i) const {
  if (!pass.quantized) return;
  const int row = (task.first + i) / group_;
  const int head = task.kv_head * group_ + (task.first + i) % group_;
  const int blocks = config_.head_dim / kQuantBlock;
  kernels_.quantize(pass.attended.row(row) + head * config_.head_dim, row, head * blocks,
                    (head + 1) * blocks, pass.quantized->quantized);
}

// Whether fewer tasks than would share out evenly take longer than cutting them does.
bool Attention::pays_to_cut(const Pass& pass, int tasks, int64_t& total) const {
  const int threads = pool_.size();
  if (pass.rows.n > kMaxRows || tasks % threads == 0 || tasks >= 4 * threads) return false;
  int64_t largest = 0;
  size_t results = 0;
  for (int i = 0; i < tasks; ++i) {
    const Task of = task(pass, i);
    total += of.cost();
    largest = std::max(largest, of.cost());
    results += of.n_results();
  }
  const int64_t whole = largest * ((tasks + threads - 1) / threads);
  return (whole - total / threads) * config_.head_dim >= kCostOfCutting &&
         results * result_size() <= results_.size();
}

void Attention::run_cut(int thread, const Pass& pass, int tasks, int64_t total) {
  Cut cut{total};
  for (int i = 0; i < tasks; ++i) {
    const Task of = task(pass, i);
    const int from = first_chunk(of, cut, thread), to = first_chunk(of, cut, thread + 1);
    if (to - from == of.n_chunks()) {
      run_whole(thread, pass, of);
    } else if (from < to) {
      Query queries[kTaskQueries];
      make_queries(pass, of, queries);
      kernels_.attend_chunks(kv_head(pass, of), queries, of.n, config_.head_dim,
                             config_.score_scale, config_.attn_softcap, of.chunks.begin + from,
                             of.chunks.begin + to, result(cut, of, from, 0));
    }
    cut.pass(of);
  }
  pool_.barrier();

  cut = {total};
  for (int i = 0, turn = 0; i < tasks; ++i) {
    const Task of = task(pass, i);
    for (int j = 0; j < of.n && is_cut(of, cut); ++j, ++turn) {
      if (turn % pool_.size() != thread) continue;
      Query queries[kTaskQueries];
      make_queries(pass, of, queries);
      kernels_.join_chunks(result(cut, of, 0, j), of.n * result_size(), of.n_chunks(), v_stride_,
                           config_.head_dim, scratch_[thread].data(), queries[j].out);
      quantize(pass, of, j);
    }
    cut.pass(of);
  }
}

// Of a task's chunks the first one that `thread` or a later one does.
int Attention::first_chunk(const Task& task, const Cut& cut, int thread) const {
  const int64_t begin = cut.total * thread / pool_.size() - cut.before;
  const int64_t chunk = (begin + task.chunk_cost() / 2) / task.chunk_cost();
  return static_cast<int>(std::clamp<int64_t>(chunk, 0, task.n_chunks()));
}

// Whether several threads do its chunks.
bool Attention::is_cut(const Task& task, const Cut& cut) const {
  const int threads = pool_.size();
  const auto near = static_cast<int>(cut.before * threads / cut.total);
  for (int t = std::max(near, 1); t < threads; ++t) {
    const int chunk = first_chunk(task, cut, t);
    if (chunk > 0) return chunk < task.n_chunks();
  }
  return false;
}

}  // namespace specbound
