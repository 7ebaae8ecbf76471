// A tiny model on a CPU backend, and what the exactness tests record of it.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/cpu/cpu_backend.h"
#include "engine/kv_type.h"
#include "model/config.h"
#include "model/gguf.h"
#include "model/weights.h"
#include "tiny_gguf.h"

namespace specbound::test {

// A model parsed once; backends over it are made as a test needs them.
struct TinyModel {
  std::vector<std::byte> bytes;
  Gguf gguf;
  ModelConfig config;
  Weights weights;
  KvType kv = KvType::kFp16;  // of its backends

  explicit TinyModel(const TinySpec& spec, KvType kv = KvType::kFp16)
      : TinyModel(tiny_model(spec)) {
    this->kv = kv;
  }
  explicit TinyModel(std::vector<std::byte> file)
      : bytes(std::move(file)),
        gguf(Gguf::parse(bytes, "tiny")),
        config(read_config(gguf)),
        weights(map_weights(gguf, config)) {}

  std::unique_ptr<Backend> backend(Isa isa, int threads, bool repack = true, int n_ctx = 0) const {
    CpuOptions options;
    options.isa = isa;
    options.n_threads = threads;
    options.repack = repack;
    options.n_ctx = n_ctx;
    options.kv = kv;
    return make_cpu_backend(config, weights, options);
  }
};

inline constexpr KvType kKvTypesTested[] = {KvType::kFp16, KvType::kInt8};

inline std::vector<Isa> supported_isas() {
  std::vector<Isa> isas;
  for (Isa isa : kIsas) {
    if (isa_supported(isa)) {
      isas.push_back(isa);
    } else {
      MESSAGE("SKIP " << std::string(isa_name(isa)) << ": this CPU lacks it");
    }
  }
  return isas;
}

template <class T>
bool same_bits(const T* a, const T* b, size_t n) {
  return n == 0 || std::memcmp(a, b, n * sizeof(T)) == 0;  // of nothing there may be no address
}

inline std::vector<int32_t> token_ids(int n, int vocab_size, uint64_t seed = 7) {
  TinyRandom random(seed);
  std::vector<int32_t> ids(n);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.next() % vocab_size);
  return ids;
}

// Rows up to `slot` of the round at `pos` go through the layers up to `layer`, which those before
// them have gone through.
inline void bring(Backend& backend, int layer, int pos, int slot) {
  if (layer == 0) return;
  const int begin = backend.kv_len(1), n = pos + slot + 1 - begin;
  if (n > 0) backend.run_layers(slot + 1 - n, n, begin, 1, layer);
}

// Everything a run leaves behind: hidden rows at every layer, logits, K and V.
struct Record {
  int dim, kv_dim, vocab_size, n_layers;
  std::vector<float> hidden, logits;  // (pos, layer, dim), (pos, vocab_size)
  std::vector<uint16_t> k, v;         // (pos, layer, kv_dim)

  Record(const ModelConfig& c, int positions)
      : dim(c.dim), kv_dim(c.kv_dim()), vocab_size(c.vocab_size), n_layers(c.n_layers) {
    hidden.resize(size_t(positions) * n_layers * dim);
    logits.resize(size_t(positions) * vocab_size);
    k.resize(size_t(positions) * n_layers * kv_dim);
    v.resize(k.size());
  }
  float* hidden_at(int pos, int layer) {
    return &hidden[(size_t(pos) * n_layers + layer - 1) * dim];
  }
  float* logits_at(int pos) { return &logits[size_t(pos) * vocab_size]; }

  void read_kv(const Backend& backend, int pos) {
    for (int l = 1; l <= n_layers; ++l) {
      const size_t at = (size_t(pos) * n_layers + l - 1) * kv_dim;
      backend.inspect().read_kv(l, pos, {&k[at], size_t(kv_dim)}, {&v[at], size_t(kv_dim)});
    }
  }
  // Positions [begin, end) of two runs, bit for bit; names what differs first.
  static std::string difference(const Record& a, const Record& b, int begin, int end) {
    for (int pos = begin; pos < end; ++pos) {
      for (int l = 1; l <= a.n_layers; ++l) {
        const size_t h = (size_t(pos) * a.n_layers + l - 1) * a.dim;
        const size_t kv = (size_t(pos) * a.n_layers + l - 1) * a.kv_dim;
        const std::string at = format(" at position %d, layer %d", pos, l);
        if (!same_bits(&a.k[kv], &b.k[kv], a.kv_dim)) return "K" + at;
        if (!same_bits(&a.v[kv], &b.v[kv], a.kv_dim)) return "V" + at;
        if (!same_bits(&a.hidden[h], &b.hidden[h], a.dim)) return "hidden row" + at;
      }
      const size_t at = size_t(pos) * a.vocab_size;
      if (!same_bits(&a.logits[at], &b.logits[at], a.vocab_size)) {
        return format("logits at position %d", pos);
      }
    }
    return "";
  }
};

// Positions [begin, end) in passes of `rows` rows from slot `slot` on, layer by layer.
inline void run_positions(Backend& backend, const std::vector<int32_t>& ids, int begin, int end,
                          int rows, int slot, Record& record) {
  const ModelConfig& c = backend.config();
  for (int pos = begin; pos < end; pos += rows) {
    const int n = std::min(rows, end - pos);
    for (int i = 0; i < n; ++i) backend.embed(slot + i, ids[pos + i]);
    for (int l = 1; l <= c.n_layers; ++l) {
      backend.run_layers(slot, n, pos, l, l);
      for (int i = 0; i < n; ++i) {
        std::memcpy(record.hidden_at(pos + i, l), backend.inspect().hidden(slot + i).data(),
                    c.dim * sizeof(float));
      }
    }
    backend.logits(slot, n, record.logits_at(pos));
    for (int i = 0; i < n; ++i) record.read_kv(backend, pos + i);
  }
}

}  // namespace specbound::test
