// libFuzzer target: any bytes, cut into several parts, as the files of one split model, then every
// question a program asks of it. The answer is a value or an Error.
//
//   1..4 parts: one byte | for each but the last its size: two bytes, little-endian | their bytes
//
// Started with an empty corpus directory, it fills it with well-formed models first:
//   mkdir corpus && fuzz_split -max_total_time=30 corpus
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../unit/gguf_bytes.h"
#include "../unit/tiny_gguf.h"
#include "empty_corpus.h"
#include "error.h"
#include "model/gguf_split.h"

namespace specbound::test {
namespace {

constexpr size_t kMostParts = 4;

std::vector<std::byte> part(const TinySpec& spec, const std::vector<TinyTensor>& tensors, int no,
                            int count) {
  GgufWriter writer;
  if (no == 0) tiny_metadata(spec, writer);
  writer.add_uint("split.no", no);
  writer.add_uint("split.count", count);
  writer.add_uint("split.tensors.count", static_cast<uint32_t>(tensors.size()));
  for (size_t i = no; i < tensors.size(); i += count) {
    const TinyTensor& t = tensors[i];
    writer.add_tensor(t.name, t.type, t.shape, t.bytes);
  }
  return writer.serialize();
}

std::vector<std::string> seeds() {
  std::vector<std::string> files;
  for (const char* architecture : {"llama", "gemma2", "phi3"}) {
    TinySpec spec;
    spec.architecture = architecture;
    spec.dim = spec.ffn_dim = spec.vocab_size = spec.head_dim = 8;
    spec.n_layers = spec.n_heads = spec.n_kv_heads = 1;
    spec.tied = true;
    for (int count : {1, 2, 4}) {
      std::string head(1, static_cast<char>(count - 1)), body;
      for (int no = 0; no < count; ++no) {
        const std::vector<std::byte> bytes = part(spec, tiny_tensors(spec), no, count);
        body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        if (no + 1 == count) break;
        head += static_cast<char>(bytes.size() & 255);
        head += static_cast<char>(bytes.size() >> 8);
      }
      files.push_back(head + body);
    }
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
  using namespace specbound;
  if (size == 0) return 0;
  const size_t count = 1 + data[0] % test::kMostParts, head = 1 + 2 * (count - 1);
  if (size < head) return 0;
  size_t at = head;
  std::vector<std::vector<std::byte>> files;  // each from an aligned address on
  for (size_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    const size_t asked = last ? size : data[1 + 2 * i] + (size_t{data[2 + 2 * i]} << 8);
    const size_t n = std::min(asked, size - at);
    const auto* bytes = reinterpret_cast<const std::byte*>(data) + at;
    files.emplace_back(bytes, bytes + n);
    at += n;
  }
  try {
    std::vector<Gguf> parts;
    for (size_t i = 0; i < count; ++i) {
      parts.push_back(Gguf::parse(files[i], "part " + std::to_string(i + 1)));
    }
    test::exercise(join_parts(std::move(parts)));
  } catch (const Error&) {
  }
  return 0;
}
