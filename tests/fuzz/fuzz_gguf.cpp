// libFuzzer target: any bytes as a GGUF file, then every question a program asks of it. Whatever
// the file says, the answer is a value or an Error. Weight data inside is looked at only at its
// ends.
//
// Started with an empty corpus directory, it fills it with small well-formed files first:
//   mkdir corpus && fuzz_gguf -max_total_time=30 corpus
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "../unit/gguf_bytes.h"
#include "../unit/tiny_gguf.h"
#include "empty_corpus.h"
#include "error.h"
#include "model/gguf.h"

namespace specbound::test {
namespace {

std::vector<std::vector<std::byte>> seeds() {
  std::vector<std::vector<std::byte>> files = {every_value_type(2).bytes,
                                               every_value_type(3).bytes};
  for (const char* architecture : {"llama", "qwen2", "qwen3", "qwen3moe", "gemma", "gemma2",
                                   "gemma3", "phi3", "smollm3", "ernie4_5"}) {
    TinySpec spec;
    spec.architecture = architecture;
    spec.dim = spec.ffn_dim = spec.vocab_size = spec.head_dim = 8;
    spec.n_layers = spec.n_heads = spec.n_kv_heads = 1;
    spec.tied = true;
    spec.long_rope = spec.architecture == "phi3";
    spec.rope_freqs = !spec.long_rope && spec.architecture != "gemma3";
    files.push_back(tiny_model(spec));
    spec.vocabulary = true;
    spec.vocab_size = 300;
    spec.type = DType::kF16;
    files.push_back(tiny_model(spec));
  }
  return files;
}

}  // namespace
}  // namespace specbound::test

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  specbound::test::fill_empty_corpus(*argc, *argv, specbound::test::seeds());
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    specbound::test::exercise(specbound::Gguf::parse(bytes, "fuzz.gguf"));
  } catch (const specbound::Error&) {
  }
  return 0;
}
