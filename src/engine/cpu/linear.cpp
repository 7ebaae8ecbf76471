// Repacking at load, and the one place that chooses a matmul kernel.
#include "engine/cpu/linear.h"

#include <algorithm>
#include <set>

#include "error.h"
#include "model/half.h"

namespace specbound {

RowBuffer::RowBuffer(int max_rows, int max_k) : max_k_(round_up(max_k, kQuantBlock)) {
  const size_t size = static_cast<size_t>(max_rows) * max_k_;
  const char* what = "working rows";
  floats_ = Pages<float>(size, what);
  q_ = Pages<int8_t>(size, what);
  scale_ = Pages<float>(size / kQuantBlock, what);
  bias_ = Pages<int32_t>(size / kQuantBlock, what);
}

Rows RowBuffer::rows(int n, int k, const float* outside, int ld) {
  SB_CHECK(k <= max_k_);
  return {outside ? outside : floats_.data(), outside ? ld : max_k_,
          QuantRows{n, k, q_.data(), scale_.data(), bias_.data()}};
}

void multiply(const Kernels& kernels, const Linear& w, const Rows& x, float* y, int ldy,
              bool accumulate, int thread, int n_threads) {
  const Slice mine = output_slice(w.n_out(), thread, n_threads);
  if (mine.begin == mine.end) return;
  if (w.tiles) {
    kernels.matmul_tiles(w.tiles[thread], x.quantized, y + mine.begin, ldy, accumulate);
  } else if (w.int8()) {
    kernels.matmul_q8_0(w.in_place, mine.begin, mine.end, x.quantized, y, ldy, accumulate);
  } else {
    kernels.matmul_float(w.in_place, mine.begin, mine.end, x.x, x.ld, x.quantized.n_rows, y, ldy,
                         accumulate);
  }
}

void read_row(const Matrix& m, int row, float* out) {
  const size_t first = static_cast<size_t>(row) * m.n_in;
  switch (m.type) {
    case DType::kF32:
      std::copy_n(reinterpret_cast<const float*>(m.data) + first, m.n_in, out);
      return;
    case DType::kF16: {
      const auto* half = reinterpret_cast<const uint16_t*>(m.data) + first;
      std::transform(half, half + m.n_in, out, half_to_float);
      return;
    }
    case DType::kBF16: {
      const auto* bfloat = reinterpret_cast<const uint16_t*>(m.data) + first;
      std::transform(bfloat, bfloat + m.n_in, out, bfloat_to_float);
      return;
    }
    case DType::kQ8_0: {
      const auto* block = reinterpret_cast<const BlockQ8_0*>(m.data) + first / kQuantBlock;
      for (int k = 0; k < m.n_in; ++k) {
        const BlockQ8_0& b = block[k / kQuantBlock];
        out[k] = half_to_float(b.d) * static_cast<float>(b.q[k % kQuantBlock]);
      }
      return;
    }
    default:
      SB_CHECK(!"matrix of a type that map_weights refuses");
  }
}

// In the order a pass reads them.
static std::vector<Matrix> matrices_of(const Weights& weights) {
  std::vector<Matrix> matrices;
  for (const LayerWeights& w : weights.layers) {
    matrices.insert(matrices.end(), {w.wq, w.wk, w.wv, w.wo, w.w_gate, w.w_up, w.w_down});
  }
  matrices.push_back(weights.lm_head);
  return matrices;
}

size_t LinearStore::bytes_needed(const Weights& weights, bool repack) {
  size_t bytes = 0;
  for (const Matrix& m : matrices_of(weights)) {
    const TileMatrix tiles{m.n_out, m.n_in, nullptr, nullptr};
    if (repack && m.type == DType::kQ8_0) {
      bytes += tiles.q_bytes() + tiles.d_count() * sizeof(uint16_t);
    }
  }
  return bytes;
}

LinearStore::LinearStore(const Weights& weights, bool repack, ThreadPool& pool,
                         const std::function<void(size_t, size_t)>& progress) {
  std::set<std::string> forms;
  std::vector<Matrix> work;
  size_t total = 0;
  for (const Matrix& m : matrices_of(weights)) {
    const bool tiled = repack && m.type == DType::kQ8_0;
    forms.insert(std::string(dtype_info(m.type)->name) + (tiled ? " in tiles" : " in place"));
    if (!tiled) continue;
    work.push_back(m);
    total += m.bytes();
  }
  for (const std::string& form : forms) description_ += (description_.empty() ? "" : ", ") + form;

  const int n_threads = pool.size();
  const auto part = [n_threads](const Matrix& m, int thread) {
    const Slice mine = output_slice(m.n_out, thread, n_threads);
    return TileMatrix{mine.end - mine.begin, m.n_in, nullptr, nullptr};
  };
  for (int t = 0; t < n_threads; ++t) {
    size_t q_bytes = 0, d_count = 0;
    for (const Matrix& m : work) {
      q_bytes += part(m, t).q_bytes();
      d_count += part(m, t).d_count();
    }
    const char* what = "repacked weights";
    runs_.push_back({Pages<uint8_t>(q_bytes, what, PageSize::kHuge),
                     Pages<uint16_t>(d_count, what, PageSize::kHuge)});
  }
  std::vector<size_t> q_at(n_threads), d_at(n_threads);  // where each thread's run has come to
  size_t done = 0;
  for (const Matrix& m : work) {
    std::vector<TileMatrix>& tiles = tiles_[m.data];
    tiles.resize(n_threads);
    pool.run([&](int t) {  // a thread writes what it will read, so the pages are near it
      TileMatrix& mine = tiles[t];
      mine = part(m, t);
      uint8_t* q = runs_[t].q.data() + q_at[t];
      uint16_t* d = runs_[t].d.data() + d_at[t];
      repack_tiles(m, output_slice(m.n_out, t, n_threads).begin, mine, q, d);
      mine.q = q;
      mine.d = d;
      q_at[t] += mine.q_bytes();
      d_at[t] += mine.d_count();
    });
    done += m.bytes();
    if (progress) progress(done, total);
  }
}

Linear LinearStore::linear(const Matrix& matrix) const {
  const auto found = tiles_.find(matrix.data);
  return {matrix, found == tiles_.end() ? nullptr : found->second.data()};
}

}  // namespace specbound
