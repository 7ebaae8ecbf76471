#include "model/random_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

#include "error.h"
#include "numerics/half.h"

namespace specbound {

namespace {

// xorshift64*
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1du;
  }

 private:
  uint64_t state_;
};

constexpr size_t kMatrixAlignment = 64;  // of each matrix in the bytes

// Every matrix of a model in the order of the pass, the embedding first.
template <class F>
void each_matrix(Weights& weights, const ModelConfig& c, DType type, F visit) {
  const auto matrix = [&](Matrix& m, int n_out, int n_in) {
    m = {type, n_out, n_in, nullptr};
    visit(m);
  };
  weights.n_experts_used = c.n_experts_used;
  matrix(weights.token_embd, c.vocab_size, c.dim);
  weights.layers.resize(static_cast<size_t>(c.n_layers));
  for (LayerWeights& w : weights.layers) {
    matrix(w.wq, c.q_dim(), c.dim);
    matrix(w.wk, c.kv_dim(), c.dim);
    matrix(w.wv, c.kv_dim(), c.dim);
    matrix(w.wo, c.dim, c.q_dim());
    if (c.n_experts > 0) matrix(w.router, c.n_experts, c.dim);
    const int n = std::max(c.n_experts, 1);
    matrix(w.w_gate, n * c.ffn_dim, c.dim);
    matrix(w.w_up, n * c.ffn_dim, c.dim);
    matrix(w.w_down, n * c.dim, c.ffn_dim);
  }
  matrix(weights.lm_head, c.vocab_size, c.dim);
}

size_t aligned(size_t bytes) {
  return (bytes + kMatrixAlignment - 1) / kMatrixAlignment * kMatrixAlignment;
}

}  // namespace

void fill_random(std::span<std::byte> bytes, DType type, float scale, uint64_t seed) {
  Random random(seed);
  if (type == DType::kQ8_0) {
    SB_CHECK(bytes.size() % sizeof(BlockQ8_0) == 0);
    const uint16_t d = float_to_half(scale / 127);
    for (size_t at = 0; at < bytes.size(); at += sizeof(BlockQ8_0)) {
      BlockQ8_0 block;
      block.d = d;
      for (int i = 0; i < 32; i += 8) {
        // -128 is no quantized value.
        const uint64_t r = random.next();
        std::memcpy(block.q + i, &r, 8);
        for (int k = i; k < i + 8; ++k) block.q[k] = std::max<int8_t>(block.q[k], -127);
      }
      std::memcpy(bytes.data() + at, &block, sizeof block);
    }
    return;
  }
  SB_CHECK(type == DType::kF16 && bytes.size() % 2 == 0);
  // 4096 values, again and again: only their number counts.
  uint16_t table[4096];
  for (uint16_t& half : table) {
    half = float_to_half(scale * (static_cast<float>(random.next() >> 40) * 0x1p-23f - 1));
  }
  for (size_t at = 0; at < bytes.size(); at += 8) {
    const uint64_t r = random.next();
    for (size_t i = 0; i < 4 && at + 2 * i < bytes.size(); ++i) {
      std::memcpy(bytes.data() + at + 2 * i, &table[r >> (12 * i) & 4095], 2);
    }
  }
}

size_t RandomWeights::bytes_needed(const ModelConfig& config, DType type) {
  Weights weights;
  size_t bytes = 0;
  each_matrix(weights, config, type, [&](const Matrix& m) { bytes += aligned(m.bytes()); });
  return bytes + kMatrixAlignment;
}

RandomWeights::RandomWeights(const ModelConfig& config, DType type, uint64_t seed)
    : ones_(static_cast<size_t>(config.dim), 1.0f), bytes_(bytes_needed(config, type)) {
  void* begin = bytes_.data();
  size_t space = bytes_.size();
  SB_CHECK(std::align(kMatrixAlignment, 1, begin, space));
  auto* at = static_cast<std::byte*>(begin);
  each_matrix(weights_, config, type, [&](Matrix& m) {
    // Rows keep their magnitude from layer to layer.
    const float scale = std::sqrt(3.0f / static_cast<float>(m.n_in));
    fill_random({at, m.bytes()}, type, scale, seed++);
    m.data = at;
    at += aligned(m.bytes());
  });
  for (LayerWeights& w : weights_.layers) w.attn_norm = w.ffn_norm = ones_.data();
  weights_.output_norm = ones_.data();
}

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
    case HeadKind::kLayer:
    case HeadKind::kMedusa:
    case HeadKind::kEagle:
    case HeadKind::kEagle3:
    case HeadKind::kHydra:
    case HeadKind::kMtp:
    case HeadKind::kKangaroo:
      SB_CHECK(false);  // nothing asks for it
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

std::vector<int32_t> any_tokens(int n, int vocab_size) {
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  uint32_t state = 1;
  for (int32_t& token : tokens) {
    state = state * 1664525u + 1013904223u;
    token = static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(vocab_size));
  }
  return tokens;
}

}  // namespace specbound
