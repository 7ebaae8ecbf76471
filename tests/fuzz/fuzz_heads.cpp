// libFuzzer target: any bytes as a file of exit heads, by itself and for a tiny model; where it
// fits that model, every head looks at a row. Whatever the file says, the answer is an Error or a
// guess: a token of the vocabulary with a confidence from 0 to 1.
//
// Started with an empty corpus directory, it fills it with well-formed files first:
//   mkdir corpus && fuzz_heads -max_total_time=30 corpus
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "../unit/tiny_heads.h"
#include "empty_corpus.h"
#include "engine/cpu/cpu_backend.h"
#include "error.h"
#include "model/exit_heads.h"

using namespace specbound;

namespace {

constexpr int kLayers = 3;

struct Engine {
  std::vector<std::byte> bytes;
  Gguf gguf;
  ModelConfig config;
  Weights weights;
  HeadsBase base;
  std::unique_ptr<Backend> backend;

  explicit Engine(const test::TinySpec& spec)
      : bytes(test::tiny_model(spec)),
        gguf(Gguf::parse(bytes, "tiny")),
        config(read_config(gguf)),
        weights(map_weights(gguf, config)),
        base(heads_base(gguf, config)) {
    CpuOptions options;
    options.n_threads = 1;
    options.n_ctx = 8;
    backend = make_cpu_backend(config, weights, options);
  }
};

const Engine& engine() {
  static const Engine engine([] {
    test::TinySpec spec;
    spec.n_layers = kLayers;
    spec.dim = spec.ffn_dim = spec.head_dim = 32;
    spec.n_heads = spec.n_kv_heads = 1;
    spec.vocab_size = 40;
    spec.type = DType::kQ8_0;
    return spec;
  }());
  return engine;
}

void check_row(const ExitHeads& heads) {
  const Engine& e = engine();
  Backend& backend = *e.backend;
  backend.set_exit_heads(&heads, heads.defaults().shortlist);
  backend.truncate(0);
  backend.embed(0, 7);
  for (int layer = 0; layer < kLayers; ++layer) {
    if (layer > 0) backend.run_layers(0, 1, 0, layer, layer);
    for (HeadKind kind : kHeadKinds) {
      const int head = heads.find(kind, layer);
      if (head < 0) continue;
      const ExitPeak peak = backend.exit_check(head, 0, 1.1f);
      SB_CHECK(peak.token >= 0 && peak.token < e.config.vocab_size);
      SB_CHECK(peak.confidence >= 0 && peak.confidence <= 1);
    }
  }
  backend.set_exit_heads(nullptr, 0);
}

// Every byte of every matrix can be read.
void read_all(const ExitHeads& heads) {
  unsigned sum = 0;
  for (const HeadWeights& head : heads.heads()) {
    for (const Matrix* m : head.matrices()) {
      for (size_t i = 0; i < m->bytes(); ++i) sum += std::to_integer<unsigned>(m->data[i]);
    }
  }
  for (int32_t id : heads.shortlist()) {
    SB_CHECK(id >= 0 && id < heads.base().vocab_size);
    sum += static_cast<unsigned>(id);
  }
  const MaskTokens& masks = heads.masks();
  SB_CHECK(masks.count <= kMostMasks && masks.token < heads.base().vocab_size);
  for (int i = 0; masks.rows && i < masks.count * heads.base().dim; ++i) {
    SB_CHECK(masks.rows[i] == masks.rows[i]);
  }
  for (int32_t id : heads.text()) SB_CHECK(id >= -1 && id < heads.base().vocab_size);
  volatile unsigned kept = sum;
  (void)kept;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const auto corpus = test::empty_corpus(*argc, *argv);
  if (!corpus) return 0;
  NewHeads heads = test::random_heads(engine().base, 16);
  int number = 0;
  const auto write = [&](const NewHeads& some) {
    write_exit_heads(test::seed_path(*corpus, number++), some);
  };
  heads.heads.push_back(test::random_layer(heads.base, 32, 9));
  heads.heads.push_back(test::random_medusa(heads.base, 2, 1, 11));
  heads.heads.push_back(test::random_eagle(heads.base, 32, true, 13));
  heads.heads.push_back(test::random_eagle3(heads.base, 32, 15));
  heads.heads.push_back(test::random_hydra(heads.base, 2, 1, 17));
  heads.heads.push_back(test::random_mtp(heads.base, 32, true, 19));
  heads.heads.push_back(test::random_kangaroo(heads.base, 1, 20));
  heads.heads.push_back(test::with_shared_lm_head(test::random_medusa(heads.base, 2, 1, 21)));
  for (const NewHead& head : heads.heads) {
    NewHeads one = heads;
    one.heads = {head};
    one.defaults = {};
    one.defaults.kind = head.kind;
    write(one);
  }
  write({.base = heads.base, .text = {3, 4, 5, -1}});
  write({.base = heads.base, .masks = {.rows = test::random_head_tensor(2, heads.base.dim, 23)}});
  write({.base = heads.base, .masks = {.token = 3, .count = 2}});
  // All kinds in one file, small enough for packaging/test.sh's longest input.
  std::erase_if(heads.heads, [](const NewHead& head) { return head.layer != 1; });
  heads.defaults.check_layers = {1};
  write(heads);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const HeadsBase* const bases[] = {nullptr, &engine().base};
  for (const HeadsBase* base : bases) {
    try {
      const ExitHeads heads = ExitHeads::from_gguf(Gguf::parse(bytes, "fuzz.gguf"), base);
      read_all(heads);
      if (base && heads.can_guess()) check_row(heads);
    } catch (const Error&) {
    }
  }
  return 0;
}
