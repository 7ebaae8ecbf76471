// A weight matrix in the form the CPU multiplies by, and the rows it multiplies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/cpu/kept_tiles.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/thread_pool.h"
#include "engine/cpu/tiles.h"
#include "engine/pages.h"
#include "model/weights.h"

namespace specbound {

// Rows on their way into a matmul: floats, and their quantized form where it was asked for.
struct Rows {
  const float* x;  // (n, ld), zero from n_in up to its next multiple of 32
  int ld;
  QuantRows quantized;  // knows n and n_in
};

// Memory for prepared rows.
class RowBuffer {
 public:
  RowBuffer() = default;
  RowBuffer(int max_rows, int max_k);

  float* row(int r) { return floats_.data() + static_cast<size_t>(r) * max_k_; }
  // n rows of k floats, which lie at `outside` (n, ld) if given, else in this buffer.
  Rows rows(int n, int k, const float* outside, int ld);
  // Its rows [first, first + n) of k floats by themselves: panels of 8 begin with them.
  Rows group(int first, int n, int k);

 private:
  Pages<float> floats_;
  Pages<int8_t> q_;
  Pages<RowBlock> blocks_;
  int max_k_ = 0;
};

struct Linear {
  Matrix in_place;
  const TileMatrix* tiles = nullptr;  // [n_threads] each thread's slice_of(); null: used in place
  int unit = kTileOutputs;            // outputs that one thread computes together, whole tiles

  int n_out() const { return in_place.n_out; }
  Slice slice_of(int thread, int n_threads) const {
    return slice(in_place.n_out, thread, n_threads, unit);
  }
  bool int8() const { return takes_int8_rows(in_place.type); }
};

// Where outputs go: a run of the outputs, `first` being its first one, of every row.
struct Outputs {
  float* data;  // (rows, ld)
  int ld;
  int first = 0;

  float* at(int row, int output) const {
    return data + static_cast<size_t>(row) * ld + (output - first);
  }
};

// This thread's outputs of y = or += W x.
void multiply(const Kernels& kernels, const Linear& w, const Rows& x, const Outputs& y,
              bool accumulate, int thread, int n_threads);

// This thread's outputs `mine` of y (n, ..) += bias (n_out).
void add_bias(Slice mine, const float* bias, const Outputs& y, int n);

// out (n_in) = one row of a matrix as floats, of the type that it is stored in.
void read_row(const Matrix& matrix, int row, float* out);

// A matrix whose outputs are split among threads `unit` together.
struct PartitionedMatrix {
  Matrix matrix;
  int unit = kTileOutputs;
};

// The form of the tiles in which a matrix lies; none: used in place.
std::optional<DType> tile_type(const Matrix& matrix, bool repack);

// The repacked copies of matrices that take INT8 rows. What one thread reads in a pass lies in one
// run, in the order it is read: the hardware prefetcher then crosses from matrix to matrix.
class LinearStore {
 public:
  // Repacks `matrices`, which lie in one run in this order, with all threads of the pool;
  // `progress(done, total)` in bytes of the source, or of what was kept while that is read. Without
  // `repack` Q8_0 stays in place. What `kept` has of these matrices is used where it lies, nothing
  // repacked; else it is offered the runs. Throws Error(kUnsupported) where a conversion loses
  // weights.
  LinearStore(std::span<const PartitionedMatrix> matrices, bool repack, ThreadPool& pool,
              const std::function<void(size_t, size_t)>& progress, KeptTiles* kept = nullptr);

  static size_t bytes_needed(std::span<const PartitionedMatrix> matrices, bool repack);

  Linear linear(const Matrix& matrix) const;
  // "Q8_0 in tiles", "F16 in place", "Q4_K in 4-bit tiles, Q6_K as INT8 tiles", ...
  std::string description() const { return description_; }

 private:
  struct Run {
    Pages<uint8_t> q;
    Pages<uint16_t> d;
  };
  // Of a thread's run: q, then d, each in whole KeptTiles::kAlignment.
  struct RunSize {
    size_t q_bytes = 0, d_count = 0;
    size_t bytes() const { return q_bytes + d_count * sizeof(uint16_t); }
  };
  struct Stored {
    int unit;
    std::vector<TileMatrix> tiles;  // [n_threads]; empty: used in place
  };
  bool take_kept(KeptTiles& kept, const std::string& layout, std::span<const RunSize> sizes,
                 std::span<const PartitionedMatrix> work, ThreadPool& pool,
                 const std::function<void(size_t, size_t)>& progress);
  void repack(std::span<const PartitionedMatrix> work, std::span<const RunSize> sizes,
              ThreadPool& pool, const std::function<void(size_t, size_t)>& progress);

  std::vector<Run> runs_;                                  // [n_threads]; none where they are kept
  std::unordered_map<const std::byte*, Stored> matrices_;  // by where the source lies
  std::string description_;
};

}  // namespace specbound
