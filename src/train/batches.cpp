#include "train/batches.h"

#include <algorithm>

#include "corpus/corpus.h"
#include "error.h"
#include "numerics/splitmix64.h"

namespace specbound {

namespace {

constexpr size_t kWindowBytes = size_t{512} << 20;  // of chunks in memory, as floats

// A seed for each shuffle of a training.
uint64_t derived_seed(uint64_t seed, uint64_t epoch, uint64_t window) {
  seed += (epoch * 0x10001 + window) * kSplitMixStep;
  return splitmix64(seed);
}

}  // namespace

RowSplit split_rows(const FeatureSource& features) {
  const int64_t all = features.n_rows - features.prompt_rows;  // prompts are neither
  SB_CHECK(all >= 2);
  int64_t wanted = (all + 19) / 20;
  if (features.held_rows > 0) wanted = std::min(features.held_rows, std::max(wanted, all / 5));
  RowSplit split;
  for (int c = features.n_chunks - 1; c >= 0; --c) {
    const FeatureChunk chunk = features.load(c);
    int first = chunk.rows;
    while (first > 0 && split.learnt_validation < wanted) {
      split.learnt_validation += chunk.learns(--first);
    }
    // Whole texts, unless that takes more than a fifth.
    int begin = first;
    int64_t whole = split.learnt_validation;
    while (begin > 0 && chunk.follows[static_cast<size_t>(begin)]) {
      whole += chunk.learns(--begin);
    }
    if (whole * 5 <= all) {
      first = begin;
      split.learnt_validation = whole;
    }
    split.validation += chunk.rows - first;
    if (split.learnt_validation < wanted) continue;
    split.first_chunk = c;
    split.first_row = first;
    split.training = features.n_rows - split.validation;
    return split;
  }
  check_failed(__FILE__, __LINE__, "chunks hold the rows");
}

RowSplit without_prompts(const FeatureSource& features, const RowSplit& split) {
  RowSplit learnt = split;
  learnt.validation = split.learnt_validation;
  learnt.training = features.n_rows - features.prompt_rows - learnt.validation;
  if (features.prompt_rows == 0) return learnt;
  const FeatureChunk chunk = features.load(split.first_chunk);
  learnt.first_row = 0;
  for (int r = 0; r < split.first_row; ++r) learnt.first_row += chunk.learns(r);
  return learnt;
}

BatchPlan plan_of(std::span<const LearningHead> heads, std::span<const int> x_index,
                  size_t n_layers, int chains) {
  BatchPlan plan;
  plan.layer.resize(n_layers);
  plan.chained_layer.resize(n_layers);
  for (size_t h = 0; h < heads.size(); ++h) {
    if (heads[h].by_place()) {
      plan.chains = std::max(plan.chains, static_cast<int>(heads[h].places.size()));
      plan.tokens |= heads[h].kind == HeadKind::kHydra;
      continue;
    }
    plan.layer[x_index[h]] = 1;
    if (!heads[h].chained()) continue;
    plan.chained_layer[x_index[h]] = 1;
    plan.chains = std::max(plan.chains, chains);
  }
  return plan;
}

void append_rows(std::span<const uint8_t> follows, int number, int begin, int end, int chains,
                 std::vector<RowAt>& rows) {
  const size_t first = rows.size();
  rows.resize(first + static_cast<size_t>(end - begin));
  int run = 0;
  for (int r = end - 1; r >= begin; --r) {
    const bool next_follows = r + 1 < end && follows[static_cast<size_t>(r) + 1];
    run = next_follows ? run + 1 : 1;
    // The state before the first row of a chunk is in another chunk.
    const bool has_state = r > 0 && follows[static_cast<size_t>(r)];
    rows[first + static_cast<size_t>(r - begin)] = {number, r,
                                                    has_state ? std::min(run, chains) : 0};
  }
}

void append_passages(std::span<const uint8_t> follows, int number, int begin, int end, int most,
                     std::vector<RowAt>& passages) {
  for (int first = begin; first < end;) {
    int next = first + 1;
    while (next < end && next - first < most && follows[static_cast<size_t>(next)]) ++next;
    passages.push_back({number, first, next - first});
    first = next;
  }
}

std::vector<int> order_batch(std::vector<RowAt>& rows, int chains) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const RowAt& a, const RowAt& b) { return a.run > b.run; });
  std::vector<int> chained(static_cast<size_t>(chains), 0);
  for (const RowAt& row : rows) {
    for (int k = 0; k < row.run; ++k) ++chained[static_cast<size_t>(k)];
  }
  // Steps that no row of the batch can go are none.
  while (!chained.empty() && chained.back() == 0) chained.pop_back();
  return chained;
}

void fill_batch(const Chunks& chunks, const BatchPlan& plan, std::vector<RowAt>& rows,
                TrainingBatch& batch) {
  batch.n = static_cast<int>(rows.size());
  batch.chained = order_batch(rows, plan.chains);
  // Values of layer index `layer`, or y, `ahead` positions on.
  constexpr size_t kState = ~size_t{0};
  const auto gather = [&](int count, int ahead, size_t layer, std::vector<float>& out) {
    const size_t dim = static_cast<size_t>(chunks.at(rows[0].chunk).dim);
    out.resize(static_cast<size_t>(count) * dim);
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      const FeatureChunk& chunk = chunks.at(rows[i].chunk);
      const std::vector<float>& values = layer == kState ? chunk.y : chunk.x[layer];
      std::copy_n(values.data() + static_cast<size_t>(rows[i].row + ahead) * dim, dim,
                  out.data() + i * dim);
    }
  };
  const size_t n_steps = std::max<size_t>(1, batch.chained.size());
  batch.x.resize(plan.layer.size());
  batch.y.resize(n_steps);
  for (size_t k = 0; k < n_steps; ++k) {
    const int n = k == 0 ? batch.n : batch.chained[k];
    const int ahead = static_cast<int>(k);
    gather(n, ahead, kState, batch.y[k]);
    for (size_t l = 0; l < plan.layer.size(); ++l) {
      batch.x[l].resize(std::max(batch.x[l].size(), n_steps));
      if (k == 0 ? plan.layer[l] : plan.chained_layer[l]) gather(n, ahead, l, batch.x[l][k]);
    }
  }
  batch.state.clear();
  if (!batch.chained.empty()) gather(batch.chained[0], -1, kState, batch.state);
  batch.tokens.resize(plan.tokens ? batch.chained.size() : 0);
  for (size_t k = 0; k < batch.tokens.size(); ++k) {
    batch.tokens[k].clear();
    for (int i = 0; i < batch.chained[k]; ++i) {
      // The one after the position before.
      const RowAt& at = rows[static_cast<size_t>(i)];
      batch.tokens[k].push_back(chunks.at(at.chunk).next[static_cast<size_t>(at.row) + k - 1]);
    }
  }
}

void ChunksInMemory::open(std::span<const int> chunks) {
  std::erase_if(chunks_, [&](const auto& entry) {
    return std::find(chunks.begin(), chunks.end(), entry.first) == chunks.end();
  });
  for (const int c : chunks) {
    if (!chunks_.contains(c)) chunks_.emplace(c, features_.load(c));
  }
}

Batches::Batches(const FeatureSource& features, const RowSplit& split, int chains, int rows,
                 uint64_t seed)
    : split_(split), chains_(chains), batch_rows_(rows), seed_(seed) {
  n_chunks_ = split.first_chunk + (split.first_row > 0 ? 1 : 0);
  const double chunk_rows = static_cast<double>(features.n_rows) / features.n_chunks;
  const double chunk_bytes =
      chunk_rows * static_cast<double>((features.layers.size() + 1) * sizeof(float)) * features.dim;
  chunks_per_window_ =
      std::clamp(static_cast<int>(static_cast<double>(kWindowBytes) / chunk_bytes), 1, n_chunks_);
  n_windows_ = (n_chunks_ + chunks_per_window_ - 1) / chunks_per_window_;
}

Batches Batches::of_passages(const FeatureSource& features, const RowSplit& split, int passage,
                             int rows, uint64_t seed) {
  Batches batches(features, split, 0, rows, seed);
  batches.passage_ = passage;
  return batches;
}

int64_t Batches::count(std::span<const RowAt> rows) const {
  if (passage_ == 0) return std::ssize(rows);
  int64_t n = 0;
  for (const RowAt& passage : rows) n += passage.run;
  return n;
}

void Batches::open_window(int epoch, int window, OpenChunks& where) {
  if (open_epoch_ == epoch && open_window_ == window) return;
  const std::vector<size_t> order = shuffled_order(
      static_cast<size_t>(n_chunks_), derived_seed(seed_, static_cast<uint64_t>(epoch), 0));
  const int begin = window * chunks_per_window_;
  const int end = std::min(n_chunks_, begin + chunks_per_window_);
  std::vector<int> members;
  for (int i = begin; i < end; ++i) members.push_back(static_cast<int>(order[i]));
  where.open(members);
  std::vector<RowAt> all;
  for (const int c : members) {
    const std::span<const uint8_t> follows = where.follows(c);
    const int rows = c == split_.first_chunk ? split_.first_row : static_cast<int>(follows.size());
    if (passage_ > 0) {
      append_passages(follows, c, 0, rows, passage_, all);
    } else {
      append_rows(follows, c, 0, rows, chains_, all);
    }
  }
  rows_.resize(all.size());
  const std::vector<size_t> shuffled = shuffled_order(
      all.size(),
      derived_seed(seed_, static_cast<uint64_t>(epoch), static_cast<uint64_t>(window) + 1));
  starts_.assign(1, 0);
  for (size_t i = 0; i < all.size(); ++i) {
    rows_[i] = all[shuffled[i]];
    starts_.push_back(starts_.back() + count({&rows_[i], 1}));
  }
  open_epoch_ = epoch;
  open_window_ = window;
}

bool Batches::next(int epochs, BatchPlace& place, OpenChunks& where, std::vector<RowAt>& rows) {
  rows.clear();
  while (rows.empty()) {
    if (place.epoch >= epochs) return false;
    if (place.window < n_windows_) {
      take(place, where, rows);
    } else {
      place = {place.epoch + 1, 0, 0};  // a file may say so
    }
  }
  return true;
}

// The rows at `place`, none of a window of prompts alone or where a passage is more than a batch.
void Batches::take(BatchPlace& place, OpenChunks& where, std::vector<RowAt>& rows) {
  open_window(place.epoch, place.window, where);
  // Batches of about the size asked for, none of them small.
  const int64_t n_rows = starts_.back();
  const int64_t n_batches = std::max<int64_t>(1, (n_rows + batch_rows_ / 2) / batch_rows_);
  const auto at = [&](int64_t batch) {
    return std::ranges::lower_bound(starts_, n_rows * batch / n_batches) - starts_.begin();
  };
  const int64_t batch = std::min<int64_t>(place.batch, n_batches - 1);  // a file may say more
  rows.assign(rows_.begin() + at(batch), rows_.begin() + at(batch + 1));
  place.batch = static_cast<int>(batch) + 1;
  if (place.batch < n_batches) return;
  place.batch = 0;
  if (++place.window < n_windows_) return;
  place.window = 0;
  ++place.epoch;
}

}  // namespace specbound
