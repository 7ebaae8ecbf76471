#include "decode/text_embedding.h"

#include <algorithm>
#include <cmath>

#include "error.h"
#include "numerics/float_mode.h"

namespace specbound {
namespace {

double squares_of(const auto& row) {
  double squares = 0;
  for (const double x : row) squares += x * x;
  return squares;
}

}  // namespace

TextEmbedding::TextEmbedding(Sessions& sessions, std::span<const float> output_norm,
                             std::span<const int32_t> text)
    : sessions_(sessions), output_norm_(output_norm), unread_(text), sum_(output_norm.size()) {
  const Backend& backend = sessions.backend();
  SB_CHECK(std::ssize(output_norm) == backend.config().dim);
  SB_CHECK(!text.empty() && std::ssize(text) <= backend.n_ctx());
  sessions.for_other_text().forget();
  sequence_ = sessions.selected();
  sessions.hold(sequence_, true);
}

TextEmbedding::~TextEmbedding() {
  sessions_.give_back(sequence_);
}

std::optional<std::vector<float>> TextEmbedding::go_on() {
  const FloatMode mode;
  sessions_.select(sequence_);
  const size_t n = std::min(unread_.size(), static_cast<size_t>(kPrefillChunk));
  read(unread_.first(n));
  unread_ = unread_.subspan(n);
  if (!unread_.empty()) return std::nullopt;
  return scaled();
}

// Through all layers, as many together as the backend shows.
void TextEmbedding::read(std::span<const int32_t> tokens) {
  Backend& backend = sessions_.backend();
  ChunkRows* const chunk = backend.chunk_rows();
  const int n_layers = backend.config().n_layers;
  const size_t most = static_cast<size_t>(chunk ? chunk->most_rows() : kMaxRows);
  while (!tokens.empty()) {
    const std::span<const int32_t> part = tokens.first(std::min(tokens.size(), most));
    const int n = static_cast<int>(part.size());
    if (chunk) {
      const ChunkRows::Part rows{sequence_, part};
      chunk->embed_chunk({&rows, 1});
      chunk->run_chunk(n_layers);
    } else {
      for (int slot = 0; slot < n; ++slot) backend.embed(slot, part[static_cast<size_t>(slot)]);
      backend.run_layers(0, n, backend.kv_len(n_layers), 1, n_layers);
    }
    for (int i = 0; i < n; ++i) add(chunk ? chunk->chunk_row(i) : backend.inspect().hidden(i));
    tokens = tokens.subspan(part.size());
  }
}

void TextEmbedding::add(std::span<const float> state) {
  const double mean = squares_of(state) / static_cast<double>(state.size());
  const double scale = 1 / std::sqrt(mean + sessions_.backend().config().norm_eps);
  for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += state[i] * scale * output_norm_[i];
}

std::vector<float> TextEmbedding::scaled() const {
  const double length = std::sqrt(squares_of(sum_));
  if (!(length > 0 && std::isfinite(length))) {
    throw Error(ErrorCode::kFormat, "the model's states are no numbers: expected a vector");
  }
  std::vector<float> embedding;
  for (const double x : sum_) embedding.push_back(static_cast<float>(x / length));
  return embedding;
}

}  // namespace specbound
