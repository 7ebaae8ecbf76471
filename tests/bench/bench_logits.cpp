// What a model makes of given token ids: logits behind each of them.
// bench_logits -m FILE [-t N] < IDS > LOGITS: decimal ids, one row of float32 for each.
#include <cstdio>

#include "bench_model.h"

using namespace specbound;

int main(int argc, char** argv) try {
  const bench::Arguments a = bench::parse(argc, argv);
  std::vector<int32_t> ids;
  for (int id; std::scanf("%d", &id) == 1;) ids.push_back(id);
  const bench::Model model(a, static_cast<int>(ids.size()));
  std::vector<float> logits(static_cast<size_t>(model.config.vocab_size));
  for (size_t pos = 0; pos < ids.size(); ++pos) {
    if (ids[pos] < 0 || ids[pos] >= model.config.vocab_size) {
      throw Error(ErrorCode::kUsage, format("token %d is not in the vocabulary", ids[pos]));
    }
    model.backend->embed(0, ids[pos]);
    model.backend->run_layers(0, 1, static_cast<int>(pos), 1, model.config.n_layers);
    model.backend->logits(0, 1, logits.data());
    std::fwrite(logits.data(), sizeof(float), logits.size(), stdout);
  }
  return 0;
} catch (const Error& e) {
  std::fprintf(stderr, "bench_logits: %s\n", e.what());
  return 1;
}
