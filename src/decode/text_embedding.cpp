#include "decode/text_embedding.h"

#include <cmath>

#include "error.h"

namespace specbound {

std::optional<std::vector<float>> text_embedding(Session& session,
                                                 std::span<const float> output_norm,
                                                 std::span<const int32_t> text,
                                                 const std::atomic<bool>& abort) {
  const ModelConfig& config = session.backend().config();
  const size_t dim = static_cast<size_t>(config.dim);
  SB_CHECK(output_norm.size() == dim);
  std::vector<double> sum(dim);
  const auto squares = [](const auto& row) {
    double squares = 0;
    for (const double x : row) squares += x * x;
    return squares;
  };
  const bool whole = session.read(text, [&](int n) {
    for (int slot = 0; slot < n; ++slot) {
      const std::span<const float> h = session.backend().inspect().hidden(slot);
      const double scale = 1 / std::sqrt(squares(h) / static_cast<double>(dim) +
                                         static_cast<double>(config.norm_eps));
      for (size_t i = 0; i < dim; ++i) sum[i] += h[i] * scale * output_norm[i];
    }
    return !abort.load(std::memory_order_relaxed);
  });
  if (!whole) return std::nullopt;
  const double length = std::sqrt(squares(sum));
  if (!(length > 0 && std::isfinite(length))) {
    throw Error(ErrorCode::kFormat, "the model's states are no numbers: expected a vector");
  }
  std::vector<float> embedding;
  for (const double x : sum) embedding.push_back(static_cast<float>(x / length));
  return embedding;
}

}  // namespace specbound
