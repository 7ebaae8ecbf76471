// The CPU engine: INT8 weights repacked into tiles of 16 outputs (or used in place), float weights
// in place from the map, SIMD chosen at run time, a pool of threads that runs the layers in step.
// The first layers may run on a GPU.
#pragma once

#include <functional>
#include <memory>

#include "engine/backend.h"
#include "engine/first_layers.h"
#include "engine/kv_type.h"
#include "model/weights.h"

namespace specbound {

class KeptTiles;

inline constexpr int kMaxThreads = 256;

enum class Isa { kPortable, kAvx2, kAvxVnni, kAvx512Vnni };
inline constexpr Isa kIsas[] = {Isa::kPortable, Isa::kAvx2, Isa::kAvxVnni,
                                Isa::kAvx512Vnni};  // the fastest last
const char* isa_name(Isa isa);
bool isa_supported(Isa isa);  // by this CPU and this build
Isa best_isa();

struct CpuOptions {
  int n_ctx = 0;      // 0: the model's max_seq_len, at most 4096
  int n_threads = 0;  // 0: one per physical core
  // Texts with K/V of their own at most; as many as memory has room for, at least one.
  int n_sequences = 1;
  KvType kv = KvType::kFp16;  // of all layers: of first_layers too
  bool repack = true;         // Q8_0 into tiles at load; false reads the map in place (same bits)
  Isa isa = best_isa();
  // A backend whose threads, if it has any, this one runs on too, whatever n_threads says: where
  // two models take turns, idle threads of the one must not spin while the other works. null: its
  // own.
  const Backend* beside = nullptr;
  // What runs layers 1..n, of the same model and n_ctx, with one text's K/V: this backend takes no
  // memory for those. null: all are the CPU's.
  std::shared_ptr<FirstLayers> first_layers = nullptr;
  // Keeps the model's tiles from one start to the next, outlives the backend. null: nobody does.
  KeptTiles* kept_tiles = nullptr;
  // Called during repacking with bytes done and total, from the loading thread.
  std::function<void(size_t done, size_t total)> progress;
};

// The context a backend of this model gets when `asked` (0: the default of CpuOptions) is wanted:
// known before anything is loaded. Throws Error(kUsage).
int checked_context(int asked, const ModelConfig& config);

// `weights` (and the map behind them) must outlive the backend. Throws Error(kLimit) when the K/V
// cache or the tiles cannot be had, Error(kUsage) for senseless options.
std::unique_ptr<Backend> make_cpu_backend(const ModelConfig& config, const Weights& weights,
                                          const CpuOptions& options);

}  // namespace specbound
