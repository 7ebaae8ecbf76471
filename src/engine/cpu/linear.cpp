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
  scale_ = Pages<float>(size / kQuantBlock, what);
  bias_ = Pages<int32_t>(size / kQuantBlock, what);
  minus_sum_ = Pages<float>(size / kQuantBlock, what);
}

Rows RowBuffer::rows(int n, int k, const float* outside, int ld) {
  SB_CHECK(k <= max_k_);
  return {outside ? outside : floats_.data(), outside ? ld : max_k_,
          QuantRows{n, k, q_.data(), scale_.data(), bias_.data(), minus_sum_.data()}};
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

void read_row(const Matrix& m, int row, float* out) {
  const size_t row_bytes = m.bytes() / m.n_out;
  dequantize(m.data + row * row_bytes, m.type, m.n_in, out);
}

std::optional<DType> tile_type(const Matrix& m, bool repack) {
  if (!takes_int8_rows(m.type) || (m.type == DType::kQ8_0 && !repack)) return std::nullopt;
  return runs_as(m.type);
}

namespace {

const char* form_of(const Matrix& m, std::optional<DType> tiles) {
  return !tiles                      ? " in place"
         : *tiles != m.type          ? " as INT8 tiles"
         : bits_of_form(*tiles) == 8 ? " in tiles"
                                     : " in 4-bit tiles";
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
                         const std::function<void(size_t, size_t)>& progress) {
  std::set<std::string> forms;
  std::vector<PartitionedMatrix> work;
  size_t total = 0;
  for (const PartitionedMatrix& partitioned : matrices) {
    const Matrix& m = partitioned.matrix;
    SB_CHECK(partitioned.unit % kTileOutputs == 0);
    matrices_[m.data].unit = partitioned.unit;
    const std::optional<DType> tiles = tile_type(m, repack);
    forms.insert(dtype_info(m.type)->name + std::string(form_of(m, tiles)));
    if (!tiles) continue;
    work.push_back(partitioned);
    total += m.bytes();
  }
  description_ = joined(forms);

  const int n_threads = pool.size();
  const auto slice_of = [n_threads](const PartitionedMatrix& partitioned, int thread) {
    return slice(partitioned.matrix.n_out, thread, n_threads, partitioned.unit);
  };
  const auto part = [&](const PartitionedMatrix& partitioned, int thread) {
    const Slice mine = slice_of(partitioned, thread);
    return TileMatrix{*tile_type(partitioned.matrix, repack), mine.end - mine.begin,
                      partitioned.matrix.n_in, nullptr, nullptr};
  };
  for (int t = 0; t < n_threads; ++t) {
    size_t q_bytes = 0, d_count = 0;
    for (const PartitionedMatrix& partitioned : work) {
      q_bytes += part(partitioned, t).q_bytes();
      d_count += part(partitioned, t).d_count();
    }
    const char* what = "repacked weights";
    runs_.push_back({Pages<uint8_t>(q_bytes, what, PageSize::kHuge),
                     Pages<uint16_t>(d_count, what, PageSize::kHuge)});
  }
  std::vector<size_t> q_at(n_threads), d_at(n_threads);  // where each thread's run has come to
  size_t done = 0;
  for (const PartitionedMatrix& partitioned : work) {
    std::vector<TileMatrix>& tiles = matrices_[partitioned.matrix.data].tiles;
    tiles.resize(n_threads);
    std::vector<size_t> lost(n_threads);
    pool.run_parts([&](int t) {  // a thread writes what it will read, so the pages are near it
      TileMatrix& mine = tiles[t];
      mine = part(partitioned, t);
      uint8_t* q = runs_[t].q.data() + q_at[t];
      uint16_t* d = runs_[t].d.data() + d_at[t];
      lost[t] = repack_tiles(partitioned.matrix, slice_of(partitioned, t).begin, mine, q, d);
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
