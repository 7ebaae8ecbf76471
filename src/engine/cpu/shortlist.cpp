// The two parts lie apart, each cut among the threads by itself into whole chunks of peaks, so that
// no thread waits for another's logits. Chunks are fixed, and joined in order, the list's first:
// the bits know nothing of threads.
#include "engine/cpu/shortlist.h"

#include <algorithm>

#include "error.h"
#include "numerics/float_mode.h"

namespace specbound {
namespace {

// Rows of lm_head as they lie in it.
Matrix some_rows(const Weights& weights, int n) {
  Matrix rows = weights.lm_head;
  rows.n_out = n;
  return rows;
}

}  // namespace

size_t Shortlist::bytes_needed(const ModelConfig& config, const Weights& weights, int listed,
                               bool repack) {
  const Matrix met = some_rows(weights, std::min(kMostMet, config.vocab_size));
  const PartitionedMatrix parts[] = {{some_rows(weights, listed)}, {met}};
  // Gathered rows are first taken together with their tiles.
  return LinearStore::bytes_needed(parts, repack) + parts[0].matrix.bytes() +
         (tile_type(met, repack) ? 0 : met.bytes());
}

Shortlist::Shortlist(const ModelConfig& config, const Weights& weights,
                     std::span<const int32_t> ids, const Kernels& kernels, ThreadPool& pool,
                     bool repack)
    : config_(config),
      lm_head_(weights.lm_head),
      kernels_(kernels),
      pool_(pool),
      n_listed_(static_cast<int>(ids.size())),
      met_at_(round_up(n_listed_, kPeakChunk)),
      thread_tiles_(pool.size()),
      ids_(ids.begin(), ids.end()),
      can_say_(config.vocab_size) {
  const char* what = "shortlist";
  Matrix listed = some_rows(weights, n_listed_);
  listed_rows_ = Pages<std::byte>(listed.bytes(), what);
  listed = gathered_rows(lm_head_, ids, listed_rows_.data());
  const PartitionedMatrix part{listed, kPeakChunk};
  store_.emplace(std::span(&part, 1), repack, pool, nullptr);
  listed_ = store_->linear(listed);
  if (listed_.tiles) listed_rows_ = {};
  for (const int32_t id : ids) can_say_[id] = true;

  const int most = std::min(kMostMet, config.vocab_size);
  met_.in_place = some_rows(weights, most);
  met_.unit = kPeakChunk;
  if (const std::optional<DType> type = tile_type(lm_head_, repack)) {
    TileMatrix& tiles = tiles_.emplace(TileMatrix{*type, most, lm_head_.n_in, nullptr, nullptr});
    met_q_ = Pages<uint8_t>(tiles.q_bytes(), what);
    met_d_ = Pages<uint16_t>(tiles.d_count(), what);
    tiles.q = met_q_.data();
    tiles.d = met_d_.data();
    met_.tiles = thread_tiles_.data();
  } else {
    met_rows_ = Pages<std::byte>(met_.in_place.bytes(), what);
    met_.in_place.data = met_rows_.data();
  }
  set_met(0);
  ids_.resize(ids.size() + most);
  z_ = Pages<float>(met_at_ + most, what);
  peaks_ = Pages<PeakChunk>(round_up(met_at_ + most, kPeakChunk) / kPeakChunk, what);
  for (int t = 0; t < pool.size(); ++t) rows_.emplace_back(1, config.dim);
}

void Shortlist::meet(int32_t token) {
  if (can_say_[token]) return;
  const int n = met_.n_out(), most = static_cast<int>(ids_.size()) - n_listed_;
  int32_t& id = ids_[n_listed_ + next_];
  if (n == most) can_say_[id] = false;
  id = token;
  can_say_[token] = true;
  if (tiles_) {
    repack_output(lm_head_, token, *tiles_, next_, met_q_.data(), met_d_.data());
  } else {
    const size_t row_bytes = lm_head_.bytes() / lm_head_.n_out;
    gathered_rows(lm_head_, {&token, 1}, met_rows_.data() + next_ * row_bytes);
  }
  next_ = (next_ + 1) % most;
  if (n < most) set_met(n + 1);
}

void Shortlist::forget() {
  for (const int32_t id : std::span(ids_).subspan(n_listed_, met_.n_out())) can_say_[id] = false;
  next_ = 0;
  set_met(0);
  looked_ = 0;
}

// The first n rows of the text's are taken.
void Shortlist::set_met(int n) {
  met_.in_place.n_out = n;
  if (!tiles_) return;
  for (int t = 0; t < pool_.size(); ++t) {
    const Slice mine = met_.slice_of(t, pool_.size());
    const size_t tile = mine.begin / kTileOutputs;
    TileMatrix& part = thread_tiles_[t] = *tiles_;
    part.n_out = mine.end - mine.begin;
    part.q += tile * part.tile_q();
    part.d += tile * part.tile_d();
  }
}

void Shortlist::look(const float* y, float temperature, int thread) {
  const Rows rows = rows_[thread].rows(1, config_.dim, y, config_.dim);
  if (listed_.int8()) kernels_.quantize(y, 0, 0, rows.quantized.n_blocks(), rows.quantized);
  look_at(listed_, rows, 0, temperature, thread);
  look_at(met_, rows, met_at_, temperature, thread);
}

// This thread's part of w's logits, which lie from z[first] on, and its chunks of peaks.
void Shortlist::look_at(const Linear& w, const Rows& rows, int first, float temperature,
                        int thread) {
  const int threads = pool_.size();
  const Slice mine = w.slice_of(thread, threads);
  if (mine.begin == mine.end) return;
  const int n = mine.end - mine.begin, at = first + mine.begin;
  float* z = z_.data();
  multiply(kernels_, w, rows, {z + first, w.n_out()}, false, thread, threads);
  if (const float cap = config_.final_softcap; cap > 0) kernels_.softcap(z + at, cap, n);
  kernels_.peak_chunks(z + at, n, temperature, peaks_.data() + at / kPeakChunk);
}

ExitPeak Shortlist::peak(float temperature) {
  const FloatMode mode;
  const int n_met = met_.n_out(), n = n_met > 0 ? met_at_ + n_met : n_listed_;
  ExitPeak peak;
  int place = 0;  // a chunk's peak is found within it, never between the two parts
  peak.confidence = kernels_.join_peaks(peaks_.data(), round_up(n, kPeakChunk) / kPeakChunk,
                                        temperature, z_.data(), n, &place);
  if (place >= met_at_) place -= met_at_ - n_listed_;
  peak.token = ids_[place];
  if (met_at_ > n_listed_) std::copy_n(&z_.data()[met_at_], n_met, &z_.data()[n_listed_]);
  looked_ = static_cast<size_t>(n_listed_ + n_met);
  return peak;
}

}  // namespace specbound
