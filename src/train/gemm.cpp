// Tiles, and our own product of one: both factors packed into the order that the inner loop reads
// (gemm_micro.h).
#include "train/gemm.h"

#include <dlfcn.h>
#include <strings.h>

#include <algorithm>
#include <vector>

#include "error.h"
#include "train/blocks.h"
#include "train/gemm_micro.h"

namespace specbound {

constinit const MicroKernel kMicroPortable = micro_kernel<16>();

namespace {

// OpenBLAS stays open for the life of the process: closing it would not stop its threads.
struct OpenBlas {
  void* sgemm = nullptr;
  void* dgemm = nullptr;
  std::string name;
};

// Whether it has found kernels that our own do not beat. One that does not know a CPU, as it was
// made before that, falls back to SSE3, which is ten times slower.
bool knows_this_cpu(void* library) {
  const auto name = reinterpret_cast<const char* (*)()>(dlsym(library, "openblas_get_corename"));
  if (!name || !isa_supported(Isa::kAvx2)) return true;
  constexpr const char* kWithAvx2[] = {"Haswell", "Zen", "SkylakeX", "Cooperlake",
                                       "SapphireRapids"};
  return std::ranges::any_of(kWithAvx2,
                             [&](const char* known) { return strcasecmp(known, name()) == 0; });
}

OpenBlas open_blas() {
  OpenBlas blas;
  void* library = nullptr;
  for (const char* file : {"libopenblas.so.0", "libopenblas.so"}) {
    if (!library) library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  }
  if (!library) return blas;
  const auto parallel = reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_parallel"));
  const auto set_threads =
      reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  // Our threads call it, each for its own tile. Only the build with POSIX threads (1) is made for
  // that: one without threads (0) may lack the locks, that with OpenMP (2) wants to be called by
  // OpenMP's own threads, and its number of threads is set for the calling thread alone.
  constexpr int kPosixThreads = 1;
  if (!parallel || parallel() != kPosixThreads || !set_threads) return blas;
  if (!knows_this_cpu(library)) return blas;
  set_threads(1);
  blas.sgemm = dlsym(library, "cblas_sgemm");
  blas.dgemm = dlsym(library, "cblas_dgemm");
  const auto config = reinterpret_cast<const char* (*)()>(dlsym(library, "openblas_get_config"));
  const std::string text = config ? config() : "";  // "OpenBLAS 0.3.21 NO_LAPACKE ..."
  const size_t end = text.find(' ', text.find(' ') + 1);
  blas.name = text.compare(0, 9, "OpenBLAS ") == 0 ? text.substr(0, end) : "OpenBLAS";
  if (!blas.sgemm || !blas.dgemm) return {};
  return blas;
}

const OpenBlas& the_blas() {
  static const OpenBlas blas = open_blas();
  return blas;
}

constexpr int kTileRows = 128, kTileColumns = 256, kDepth = 256;
constexpr int kWidestStrip = 32;  // two vectors of 64 bytes

const MicroKernel& micro_of(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512Vnni) return kMicroAvx512;
  if (isa != Isa::kPortable) return kMicroAvx2;
#endif
  (void)isa;
  return kMicroPortable;
}

void run_micro(const MicroKernel& micro, int k, const float* a, const float* b, float* sums) {
  micro.of_floats(k, a, b, sums);
}
void run_micro(const MicroKernel& micro, int k, const double* a, const double* b, double* sums) {
  micro.of_doubles(k, a, b, sums);
}

// op(a) rows [0, m) and columns [0, k) as strips of so many rows, column by column; rows past m are
// 0.
template <typename T>
void pack(int strip, Op op, const T* a, int lda, int m, int k, T* out) {
  for (int i0 = 0; i0 < m; i0 += strip) {
    const int rows = std::min(strip, m - i0);
    for (int p = 0; p < k; ++p) {
      for (int i = 0; i < rows; ++i) {
        const size_t row = static_cast<size_t>(i0 + i), column = static_cast<size_t>(p);
        out[i] = op == Op::kPlain ? a[row * lda + column] : a[column * lda + row];
      }
      for (int i = rows; i < strip; ++i) out[i] = 0;
      out += strip;
    }
  }
}

template <typename T>
void own_tile(const MicroKernel& micro, Op a_op, Op b_op, int m, int n, int k, T alpha, const T* a,
              int lda, const T* b, int ldb, T beta, T* c, int ldc) {
  const int strip = 2 * micro.vector_bytes / static_cast<int>(sizeof(T));  // columns
  constexpr int kPackedRows = (kTileRows + kMicroRows - 1) / kMicroRows * kMicroRows;
  thread_local std::vector<T> packed_a(size_t{kPackedRows} * kDepth);
  thread_local std::vector<T> packed_b(size_t{kTileColumns} * kDepth);
  T sums[kMicroRows * kWidestStrip];
  for (int p0 = 0; p0 < k || p0 == 0; p0 += kDepth) {
    const int depth = std::min(kDepth, k - p0);
    const T* a_part = a_op == Op::kPlain ? a + p0 : a + static_cast<size_t>(p0) * lda;
    const T* b_part = b_op == Op::kPlain ? b + static_cast<size_t>(p0) * ldb : b + p0;
    pack(kMicroRows, a_op, a_part, lda, m, depth, packed_a.data());
    // Columns of op(b) are packed as rows of its transpose.
    pack(strip, b_op == Op::kPlain ? Op::kTransposed : Op::kPlain, b_part, ldb, n, depth,
         packed_b.data());
    const T old = p0 == 0 ? beta : T{1};
    for (int j = 0; j < n; j += strip) {
      for (int i = 0; i < m; i += kMicroRows) {
        run_micro(micro, depth, packed_a.data() + static_cast<size_t>(i) * depth,
                  packed_b.data() + static_cast<size_t>(j) * depth, sums);
        const int rows = std::min(kMicroRows, m - i), columns = std::min(strip, n - j);
        for (int r = 0; r < rows; ++r) {
          T* out = c + static_cast<size_t>(i + r) * ldc + j;
          const T* sum = sums + r * strip;
          for (int q = 0; q < columns; ++q) {
            out[q] = old == 0 ? alpha * sum[q] : old * out[q] + alpha * sum[q];
          }
        }
      }
    }
  }
}

}  // namespace

Gemm::Gemm(ThreadPool& pool, Use use, Isa isa)
    : pool_(pool), name_("own kernels"), micro_(micro_of(isa)) {
  SB_CHECK(isa_supported(isa));
  if (use != Use::kBest || !the_blas().sgemm) return;
  sgemm_ = reinterpret_cast<SGemm>(the_blas().sgemm);
  dgemm_ = reinterpret_cast<DGemm>(the_blas().dgemm);
  name_ = the_blas().name;
}

template <typename T, typename Blas>
void Gemm::tiles(Blas blas, Op a_op, Op b_op, int m, int n, int k, T alpha, const T* a, int lda,
                 const T* b, int ldb, T beta, T* c, int ldc) const {
  if (m == 0 || n == 0) return;
  int rows = kTileRows, columns = kTileColumns;
  const auto count = [&] {
    return static_cast<int64_t>((m + rows - 1) / rows) * ((n + columns - 1) / columns);
  };
  if (count() < 8) rows = 64, columns = 128;  // enough for a few threads
  const int across = (n + columns - 1) / columns;
  for_blocks(pool_, count(), 1, [&](int64_t tile, int64_t) {
    const int i = static_cast<int>(tile / across) * rows;
    const int j = static_cast<int>(tile % across) * columns;
    const int tile_m = std::min(rows, m - i), tile_n = std::min(columns, n - j);
    const T* tile_a = a_op == Op::kPlain ? a + static_cast<size_t>(i) * lda : a + i;
    const T* tile_b = b_op == Op::kPlain ? b + j : b + static_cast<size_t>(j) * ldb;
    T* tile_c = c + static_cast<size_t>(i) * ldc + j;
    if (blas) {
      constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;
      blas(kRowMajor, a_op == Op::kPlain ? kNoTrans : kTrans,
           b_op == Op::kPlain ? kNoTrans : kTrans, tile_m, tile_n, k, alpha, tile_a, lda, tile_b,
           ldb, beta, tile_c, ldc);
    } else {
      own_tile(micro_, a_op, b_op, tile_m, tile_n, k, alpha, tile_a, lda, tile_b, ldb, beta, tile_c,
               ldc);
    }
  });
}

void Gemm::multiply(Op a_op, Op b_op, int m, int n, int k, float alpha, const float* a, int lda,
                    const float* b, int ldb, float beta, float* c, int ldc) const {
  tiles(sgemm_, a_op, b_op, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void Gemm::multiply(Op a_op, Op b_op, int m, int n, int k, double alpha, const double* a, int lda,
                    const double* b, int ldb, double beta, double* c, int ldc) const {
  tiles(dgemm_, a_op, b_op, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

}  // namespace specbound
