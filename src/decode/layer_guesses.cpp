#include "decode/layer_guesses.h"

#include <array>
#include <vector>

#include "decode/sampler.h"

namespace specbound {

bool guess_layers(Session& session, int from, int to,
                  const std::function<void(int row, std::span<const LayerTop> layers)>& take,
                  const std::function<bool()>& goes_on,
                  const std::function<float(int layer)>& temperature) {
  Backend& backend = session.backend();
  const int n_layers = backend.config().n_layers;
  const size_t vocab_size = static_cast<size_t>(backend.config().vocab_size);
  std::vector<float> logits(vocab_size * static_cast<size_t>(std::min(kMaxRows, to - from)));
  std::array<std::vector<LayerTop>, kMaxRows> tops;  // [slot][layer - 1]
  tops.fill(std::vector<LayerTop>(static_cast<size_t>(n_layers)));
  return session.revisit(from, to, [&](int layer, int pos, int n) {
    if (!goes_on()) return false;
    backend.logits(0, n, logits.data());
    const float divisor = temperature ? temperature(layer) : 1;
    for (int slot = 0; slot < n; ++slot) {
      const auto z = std::span(logits).subspan(static_cast<size_t>(slot) * vocab_size, vocab_size);
      tops[slot][layer - 1] = {greedy_token(z), backend.confidence(z, divisor)};
    }
    if (layer == n_layers) {
      for (int slot = 0; slot < n; ++slot) take(pos + slot, tops[slot]);
    }
    return true;
  });
}

}  // namespace specbound
