#include "model/random_heads.h"

#include <algorithm>
#include <numeric>

#include "error.h"
#include "model/random_weights.h"

namespace specbound {

namespace {

HeadTensor random_tensor(int n_out, int n_in, DType type, uint64_t& seed) {
  HeadTensor tensor{n_out, n_in};
  const DTypeInfo& info = *dtype_info(type);
  const size_t n = static_cast<size_t>(n_out) * static_cast<size_t>(n_in);
  tensor.encoded.resize(n / info.block * info.bytes);
  fill_random(tensor.encoded, type, 0.05f, seed++);
  return tensor;
}

NewHead random_head(const ModelConfig& config, const RandomHeads::Head& head, int shortlist,
                    uint64_t& seed) {
  const int dim = config.dim;
  NewHead made;
  made.layer = head.layer;
  made.kind = head.kind;
  switch (head.kind) {
    case HeadKind::kFolded:
      made.folded = random_tensor(shortlist, dim, DType::kQ8_0, seed);
      break;
    case HeadKind::kFull:
      made.map = random_tensor(dim, dim, DType::kF16, seed);
      break;
    case HeadKind::kChained:
      made.map = random_tensor(dim, 2 * dim, DType::kQ8_0, seed);
      made.inner = random_tensor(dim, 2 * dim, DType::kQ8_0, seed);
      made.outer = random_tensor(dim, dim, DType::kQ8_0, seed);
      break;
    case HeadKind::kTable:
    case HeadKind::kHybrid:
      SB_CHECK(has_weights(head.kind));
  }
  return made;
}

}  // namespace

RandomHeads::RandomHeads(const ModelConfig& config, const std::vector<Head>& heads, int shortlist) {
  SB_CHECK(!heads.empty() && shortlist >= 1 && shortlist <= config.vocab_size);
  if (config.dim % 32 != 0) {
    throw Error(ErrorCode::kUnsupported,
                format("exit heads need a dim that is a multiple of 32, found %d", config.dim));
  }
  NewHeads file;
  file.base = {config.architecture, config.n_layers, config.dim, config.vocab_size,
               "0000000000000000"};
  file.shortlist.resize(static_cast<size_t>(shortlist));
  std::iota(file.shortlist.begin(), file.shortlist.end(), 0);
  uint64_t seed = 1;
  for (const Head& head : heads) {
    file.heads.push_back(random_head(config, head, shortlist, seed));
    if (head.kind == heads[0].kind) file.defaults.check_layers.push_back(head.layer);
  }
  file.defaults.kind = heads[0].kind;
  file.defaults.shortlist = shortlist;
  file.defaults.d_max = std::max(1, config.n_layers - 1);
  bytes_ = exit_heads_file("random heads", file);
  heads_ = std::make_unique<ExitHeads>(
      ExitHeads::from_gguf(Gguf::parse(bytes_, "random heads"), &file.base));
}

size_t random_head_bytes(const ModelConfig& config, HeadKind kind, int shortlist) {
  const size_t dim = static_cast<size_t>(config.dim);
  const size_t q8 = kind == HeadKind::kFolded    ? static_cast<size_t>(shortlist) * dim
                    : kind == HeadKind::kChained ? 5 * dim * dim
                                                 : 0;
  return q8 / 32 * sizeof(BlockQ8_0) + (kind == HeadKind::kFull ? 2 * dim * dim : 0);
}

}  // namespace specbound
