#include "engine/cpu/attention.h"

#include <algorithm>

namespace specbound {

namespace {

// Queries of one task: they share every K and V that is read.
constexpr int kTaskQueries = 12;
// What a barrier of two threads and joining cost, in dimensions of queries that see one chunk.
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

void Attention::plan(const PassRows& rows) {
  if (config_.window > 0) plan(rows, config_.window, windowed_);
  if (config_.window == 0 || config_.window_step > 1) plan(rows, 0, full_);
}

void Attention::plan(const PassRows& rows, int window, Plan& plan) const {
  plan.tasks.clear();
  plan.begins.clear();
  plan.joined.clear();
  for (int kv_head = 0; kv_head < config_.n_kv_heads; ++kv_head) {
    for (const TextRows& text : rows.texts()) {
      const int of_text = text.n * group_, parts = (of_text + kTaskQueries - 1) / kTaskQueries;
      for (int part = 0; part < parts; ++part) {
        const Slice queries = slice(of_text, part, parts);
        Task task{kv_head, text.first * group_ + queries.begin, queries.end - queries.begin, {}};
        int first = INT32_MAX, last = 0;  // of the keys
        for (int i = 0; i < task.n; i += group_ - (task.first + i) % group_) {
          const int pos = rows.position(row_head(task, i).row);
          first = std::min(first, window > 0 ? std::max(0, pos - window + 1) : 0);
          last = std::max(last, pos);
        }
        task.chunks = {first / kAttentionChunk, last / kAttentionChunk + 1};
        plan.tasks.push_back(task);
      }
    }
  }
  if (own_heads_ || pool_.size() == 1 || rows.n() > kMaxRows) return;
  const int64_t saved = most_of_whole(plan) - cut(plan);
  // The more threads, the longer a barrier takes.
  if (saved * config_.head_dim < int64_t{kCostOfCutting} * (pool_.size() + 6) / 8) {
    plan.begins.clear();
    return;
  }
  place_results(plan);
}

// The task that a thread does in its turn `turn`, there and back: later rows see more keys.
int Attention::task_in_turn(int thread, int turn) const {
  const int threads = pool_.size();
  return turn * threads + (turn % 2 == 0 ? thread : threads - 1 - thread);
}

// What the thread with the most to do has to do, if tasks stay whole.
int64_t Attention::most_of_whole(const Plan& plan) const {
  const int tasks = static_cast<int>(plan.tasks.size());
  int64_t most = 0;
  for (int t = 0; t < pool_.size(); ++t) {
    int64_t cost = 0;
    for (int turn = 0; turn * pool_.size() < tasks; ++turn) {
      const int i = task_in_turn(t, turn);
      if (i < tasks) cost += plan.tasks[i].cost();
    }
    most = std::max(most, cost);
  }
  return most;
}

// Cuts: thread t begins at the chunk that is nearest to t / threads of what all tasks cost. Returns
// what the thread with the most to do then has to do.
int64_t Attention::cut(Plan& plan) const {
  const int threads = pool_.size();
  int64_t total = 0, before = 0, done = 0, most = 0;
  for (const Task& task : plan.tasks) total += task.cost();
  plan.begins.push_back({0, 0});
  for (int i = 0; i < static_cast<int>(plan.tasks.size()); ++i) {
    const Task& task = plan.tasks[i];
    while (static_cast<int>(plan.begins.size()) < threads) {
      const int64_t from = total * static_cast<int64_t>(plan.begins.size()) / threads - before;
      // From may lie before this task: what was nearest to it was the end of the one before.
      const int64_t chunk =
          std::max<int64_t>(0, (from + task.chunk_cost() / 2) / task.chunk_cost());
      if (chunk >= task.n_chunks()) break;
      const int64_t here = before + chunk * task.chunk_cost();
      most = std::max(most, here - done);
      done = here;
      plan.begins.push_back({i, static_cast<int>(chunk)});
    }
    before += task.cost();
  }
  plan.begins.resize(threads + 1, {static_cast<int>(plan.tasks.size()), 0});
  return std::max(most, total - done);
}

// Room for what the chunks of tasks give that several threads do; without that none is cut.
void Attention::place_results(Plan& plan) const {
  size_t results = 0;
  int last = -1;
  for (const auto& [i, chunk] : plan.begins) {
    if (chunk == 0 || i == last) continue;
    last = i;
    Task& task = plan.tasks[i];
    task.results = results;
    results += static_cast<size_t>(task.n_chunks()) * task.n;
    for (int query = 0; query < task.n; ++query) plan.joined.push_back({i, query});
  }
  if (results * result_size() > results_.size()) plan.begins.clear();
}

void Attention::run(int thread, const Outputs& q, int layer, const PassRows& rows,
                    RowBuffer& attended, const Rows* quantized) {
  const Pass pass{q, layer, rows, attended, quantized};
  const Plan& plan = config_.window_of(layer) > 0 ? windowed_ : full_;
  if (!plan.begins.empty()) return run_cut(thread, pass, plan);
  const int tasks = static_cast<int>(plan.tasks.size()), threads = pool_.size();
  if (own_heads_) {
    const Slice mine = slice(tasks, thread, threads);
    for (int i = mine.begin; i < mine.end; ++i) run_whole(thread, pass, plan.tasks[i]);
    return;
  }
  for (int turn = 0; turn * threads < tasks; ++turn) {
    const int i = task_in_turn(thread, turn);
    if (i < tasks) run_whole(thread, pass, plan.tasks[i]);
  }
}

void Attention::run_whole(int thread, const Pass& pass, const Task& task) {
  Query queries[kTaskQueries];
  make_queries(pass, task, queries);
  kernels_.attention(kv_head(pass, task), queries, task.n, config_.head_dim, config_.score_scale,
                     config_.attn_softcap, scratch_[thread].data());
  for (int i = 0; i < task.n; ++i) quantize(pass, task, i);
}

void Attention::run_cut(int thread, const Pass& pass, const Plan& plan) {
  const Plan::Place begin = plan.begins[thread], end = plan.begins[thread + 1];
  for (int i = begin.task; i < end.task || (i == end.task && end.chunk > 0); ++i) {
    const Task& task = plan.tasks[i];
    const int from = i == begin.task ? begin.chunk : 0;
    const int to = i == end.task ? end.chunk : task.n_chunks();
    if (to - from == task.n_chunks()) {
      run_whole(thread, pass, task);
    } else if (from < to) {
      Query queries[kTaskQueries];
      make_queries(pass, task, queries);
      kernels_.attend_chunks(kv_head(pass, task), queries, task.n, config_.head_dim,
                             config_.score_scale, config_.attn_softcap, task.chunks.begin + from,
                             task.chunks.begin + to, result(task, from, 0));
    }
  }
  pool_.barrier();
  for (size_t i = thread; i < plan.joined.size(); i += pool_.size()) {
    const auto& [index, query] = plan.joined[i];
    const Task& task = plan.tasks[index];
    kernels_.join_chunks(result(task, 0, query), task.n * result_size(), task.n_chunks(), v_stride_,
                         config_.head_dim, scratch_[thread].data(), attended(pass, task, query));
    quantize(pass, task, query);
  }
}

// Query i of a task.
Attention::RowHead Attention::row_head(const Task& task, int i) const {
  return {(task.first + i) / group_, task.kv_head * group_ + (task.first + i) % group_};
}

KvHead Attention::kv_head(const Pass& pass, const Task& task) const {
  return pass.rows.sequence_of(row_head(task, 0).row).kv.head(pass.layer, task.kv_head);
}

float* Attention::attended(const Pass& pass, const Task& task, int i) const {
  const auto& [row, head] = row_head(task, i);
  return pass.attended.row(row) + head * config_.head_dim;
}

void Attention::make_queries(const Pass& pass, const Task& task, Query* queries) const {
  const int window = config_.window_of(pass.layer);
  for (int i = 0; i < task.n; ++i) {
    const auto& [row, head] = row_head(task, i);
    Query& query = queries[i];
    query = {pass.q.at(row, head * config_.head_dim), attended(pass, task, i),
             pass.rows.position(row)};
    if (window > 0) query.first = std::max(0, query.pos - window + 1);
    if (const RowPath* path = pass.rows.tree(row)) {
      query.path = path->slots.data();
      query.root = pass.rows.root(row);
    }
  }
}

// What query i of a task attended to.
void Attention::quantize(const Pass& pass, const Task& task, int i) const {
  if (!pass.quantized) return;
  const auto& [row, head] = row_head(task, i);
  const int blocks = config_.head_dim / kQuantBlock;
  kernels_.quantize(attended(pass, task, i), row, head * blocks, (head + 1) * blocks,
                    pass.quantized->quantized);
}

}  // namespace specbound
