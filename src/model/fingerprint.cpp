// Which model a heads file belongs to, told from a part of the model's bytes, and which vocabulary
// a datastore.
#include <algorithm>
#include <span>

#include "error.h"
#include "model/datastore.h"
#include "model/exit_heads.h"
#include "model/word_hash.h"

namespace specbound {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kSampledPages = 128;  // of a cold file: a few milliseconds

// Pages of the tensors laid end to end, in file order, evenly from the first to the last.
void add_sampled_pages(const Gguf& model, WordHash& hash) {
  uint64_t total = 0;
  for (const GgufTensor& t : model.tensors()) total += t.bytes.size();
  const uint64_t n_pages = (total + kPage - 1) / kPage, n = std::min(n_pages, kSampledPages);
  auto tensor = model.tensors().begin();
  uint64_t tensor_begin = 0;  // of *tensor
  for (uint64_t i = 0; i < n; ++i) {
    // The last page is the last one sampled; no product overflows below 2^57 pages.
    const uint64_t page = n == 1 ? 0 : i * (n_pages - 1) / (n - 1);
    uint64_t at = page * kPage;
    const uint64_t end = std::min(at + kPage, total);
    while (at < end) {
      while (at >= tensor_begin + tensor->bytes.size()) {
        tensor_begin += tensor->bytes.size();
        ++tensor;
      }
      const uint64_t n_bytes = std::min(end, tensor_begin + tensor->bytes.size()) - at;
      hash.add(tensor->bytes.subspan(at - tensor_begin, n_bytes));
      at += n_bytes;
    }
  }
}

}  // namespace

std::string model_fingerprint(const Gguf& model) {
  WordHash hash;
  for (const GgufTensor& t : model.tensors()) {
    hash.add(std::as_bytes(std::span(t.name.data(), t.name.size())));
    hash.add(static_cast<uint64_t>(t.type));
    hash.add(std::as_bytes(std::span(t.shape)));
  }
  add_sampled_pages(model, hash);
  return format("%016llx", static_cast<unsigned long long>(hash.value()));
}

// What ids stand for; how text is cut into them says nothing of that.
uint64_t vocabulary_fingerprint(const Gguf& model) {
  WordHash hash;
  const auto tokens = model.get_strings("tokenizer.ggml.tokens");
  for (const std::string_view token : tokens.value_or(std::vector<std::string_view>())) {
    hash.add(std::as_bytes(std::span(token.data(), token.size())));
  }
  return hash.value();
}

HeadsBase heads_base(const Gguf& model, const ModelConfig& config) {
  return {config.architecture,      config.n_layers, config.dim,     config.vocab_size,
          model_fingerprint(model), config.q_dim(),  config.kv_dim()};
}

std::string ExitHeads::fingerprint() const {
  return model_fingerprint(gguf_);
}

}  // namespace specbound
