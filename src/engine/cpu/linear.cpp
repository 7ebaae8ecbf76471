// Repacking at load, and the one place that chooses a matmul kernel.
#include "engine/cpu/linear.h"

#include <numeric>
#include <set>

#include "error.h"
#include "model/codec.h"
#include "model/conversion.h"

namespace specbound {

RowBuffer::RowBuffer(int max_rows, int max_k) : max_k_(round_up(max_k, kQuantBlock)) {
  const size_t size = static_cast<size_t>(max_rows) * max_k_;
  const char* what = "working rows";
  floats_ = Pages<float>(size, what);
  q_ = Pages<int8_t>(size, what);
  blocks_ = Pages<RowBlock>(size / kQuantBlock, what);
}

Rows RowBuffer::rows(int n, int k, const float* outside, int ld) {
  SB_CHECK(k <= max_k_);
  return {outside ? outside : floats_.data(), outside ? ld : max_k_,
          QuantRows{n, k, q_.data(), blocks_.data()}};
}

Rows RowBuffer::group(int first, int n, int k) {
  SB_CHECK(k <= max_k_);
  const size_t block = static_cast<size_t>(first) * (round_up(k, kQuantBlock) / kQuantBlock);
  return {row(first), max_k_,
          QuantRows{n, k, q_.data() + block * kQuantBlock, blocks_.data() + block}};
}

void multiply(const Kernels& kernels, const Linear& w, const Rows& x, const Outputs& y,
              bool accumulate, int thread, int n_threads) {
  const Slice mine = w.slice_of(thread, n_threads);
  if (mine.begin == mine.end) return;
  float* to = y.at(0, mine.begin);
  if (w.tiles) {
    kernels.matmul_tiles(w.tiles[thread], x.quantized, to, y.ld, accumulate);
  } else if (w.int8()) {
    kernels.matmul_q8_0(w.in_place, mine.begin, mine.end, x.quantized, to, y.ld, accumulate);
  } else {
    kernels.matmul_float(w.in_place, mine.begin, mine.end, x.x, x.ld, x.quantized.n_rows, to, y.ld,
                         accumulate);
  }
}

void add_bias(Slice mine, const float* bias, const Outputs& y, int n) {
  for (int r = 0; r < n; ++r) {
    float* row = y.at(r, mine.begin);
    for (int i = mine.begin; i < mine.end; ++i) row[i - mine.begin] += bias[i];
  }
}

void read_row(const Matrix& m, int row, float* out) {
  const size_t row_bytes = m.bytes() / m.n_out;
  dequantize(m.data + row * row_bytes, m.type, m.n_in, out);
}

std::optional<DType> tile_type(const Matrix& m, bool repack) {
  if (!takes_int8_rows(m.type) || (m.type == DType::kQ8_0 && !repack)) return std::nullopt;
  return runs_as(m.type);
}

namespace {

std::string form_of(const Matrix& m, std::optional<DType> tiles) {
  if (!tiles) return " in place";
  if (*tiles != m.type) return " as INT8 tiles";
  const int bits = bits_of_form(*tiles);
  return bits == 8 ? " in tiles" : format(" in %d-bit tiles", bits);
}

}  // namespace

size_t LinearStore::bytes_needed(std::span<const PartitionedMatrix> matrices, bool repack) {
  size_t bytes = 0;
  for (const PartitionedMatrix& partitioned : matrices) {
    const Matrix& m = partitioned.matrix;
    if (const std::optional<DType> type = tile_type(m, repack)) {
      const TileMatrix tiles{*type, m.n_out, m.n_in, nullptr, nullptr};
      bytes += tiles.q_bytes() + tiles.d_count() * sizeof(uint16_t);
    }
  }
  return bytes;
}

LinearStore::LinearStore(std::span<const PartitionedMatrix> matrices, bool repack, ThreadPool& pool,
                         const std::function<void(size_t, size_t)>& progress, KeptTiles* kept) {
  std::set<std::string> forms;
  std::vector<PartitionedMatrix> work;
  const int n_threads = pool.size();
  std::vector<RunSize> sizes(n_threads);
  std::string layout = format("revision %d, %d threads", kTileRevision, n_threads);
  for (const PartitionedMatrix& partitioned : matrices) {
    const Matrix& m = partitioned.matrix;
    SB_CHECK(partitioned.unit % kTileOutputs == 0);
    Stored& stored = matrices_[m.data];
    stored.unit = partitioned.unit;
    const std::optional<DType> type = tile_type(m, repack);
    forms.insert(dtype_info(m.type)->name + form_of(m, type));
    if (!type) continue;
    work.push_back(partitioned);
    layout += format(" %s as %s %dx%d/%d", dtype_info(m.type)->name, dtype_info(*type)->name,
                     m.n_out, m.n_in, partitioned.unit);
    stored.tiles.clear();
    for (int t = 0; t < n_threads; ++t) {
      const Slice mine = slice(m.n_out, t, n_threads, partitioned.unit);
      stored.tiles.push_back({*type, mine.end - mine.begin, m.n_in, nullptr, nullptr});
      sizes[t].q_bytes += stored.tiles.back().q_bytes();
      sizes[t].d_count += stored.tiles.back().d_count();
    }
  }
  description_ = joined(forms);
  for (RunSize& size : sizes) {
    size.q_bytes = round_up(size.q_bytes, KeptTiles::kAlignment);
    size.d_count = round_up(size.d_count, KeptTiles::kAlignment / sizeof(uint16_t));
  }
  if (kept && take_kept(*kept, layout, sizes, work, pool, progress)) return;
  this->repack(work, sizes, pool, progress);
  if (!kept) return;
  std::vector<std::span<const std::byte>> runs;
  for (const Run& run : runs_) {
    runs.push_back(std::as_bytes(std::span(run.q.data(), run.q.size())));
    runs.push_back(std::as_bytes(std::span(run.d.data(), run.d.size())));
  }
  kept->offer(layout, std::move(runs));
}

bool LinearStore::take_kept(KeptTiles& kept, const std::string& layout,
                            std::span<const RunSize> sizes, std::span<const PartitionedMatrix> work,
                            ThreadPool& pool, const std::function<void(size_t, size_t)>& progress) {
  size_t bytes = 0;
  for (const RunSize& size : sizes) bytes += size.bytes();
  const std::optional<KeptTiles::Image> image = kept.find(layout, bytes);
  if (!image) return false;
  SB_CHECK(image->bytes.size() == bytes);
  if (TileChecksum::of(image->bytes, pool, progress) != image->checksum) {
    kept.refuse();
    return false;
  }
  const std::byte* run = image->bytes.data();
  for (size_t t = 0; t < sizes.size(); run += sizes[t++].bytes()) {
    const auto* q = reinterpret_cast<const uint8_t*>(run);
    const auto* d = reinterpret_cast<const uint16_t*>(run + sizes[t].q_bytes);
    for (const PartitionedMatrix& partitioned : work) {
      TileMatrix& mine = matrices_[partitioned.matrix.data].tiles[t];
      mine.q = q;
      mine.d = d;
      q += mine.q_bytes();
      d += mine.d_count();
    }
  }
  return true;
}

void LinearStore::repack(std::span<const PartitionedMatrix> work, std::span<const RunSize> sizes,
                         ThreadPool& pool, const std::function<void(size_t, size_t)>& progress) {
  const int n_threads = pool.size();
  for (const RunSize& size : sizes) {
    const char* what = "repacked weights";
    runs_.push_back({Pages<uint8_t>(size.q_bytes, what, PageSize::kHuge),
                     Pages<uint16_t>(size.d_count, what, PageSize::kHuge)});
  }
  size_t total = 0, done = 0;
  for (const PartitionedMatrix& partitioned : work) total += partitioned.matrix.bytes();
  std::vector<size_t> q_at(n_threads), d_at(n_threads);  // where each thread's run has come to
  for (const PartitionedMatrix& partitioned : work) {
    std::vector<TileMatrix>& tiles = matrices_[partitioned.matrix.data].tiles;
    std::vector<size_t> lost(n_threads);
    pool.run_parts([&](int t) {  // a thread writes what it will read, so the pages are near it
      TileMatrix& mine = tiles[t];
      uint8_t* q = runs_[t].q.data() + q_at[t];
      uint16_t* d = runs_[t].d.data() + d_at[t];
      const int first = slice(partitioned.matrix.n_out, t, n_threads, partitioned.unit).begin;
      lost[t] = repack_tiles(partitioned.matrix, first, mine, q, d);
      mine.q = q;
      mine.d = d;
      q_at[t] += mine.q_bytes();
      d_at[t] += mine.d_count();
    });
    refuse_lost_weights(partitioned.matrix.type,
                        std::accumulate(lost.begin(), lost.end(), size_t{0}));
    done += partitioned.matrix.bytes();
    if (progress) progress(done, total);
  }
}

Linear LinearStore::linear(const Matrix& matrix) const {
  const auto found = matrices_.find(matrix.data);
  if (found == matrices_.end()) return {matrix};
  const Stored& stored = found->second;
  return {matrix, stored.tiles.empty() ? nullptr : stored.tiles.data(), stored.unit};
}

}  // namespace specbound
