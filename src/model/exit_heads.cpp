#include "model/exit_heads.h"

#include <algorithm>
#include <utility>

#include "error.h"
#include "model/heads_reader.h"
#include "numerics/int8_formula.h"

namespace specbound {
namespace {

// The ranges of the speculator's settings.
constexpr uint64_t kMaxWidth = 16;
constexpr double kMaxAlpha = 100;
constexpr double kLeastTemperature = 0.05, kMostTemperature = 100;

HeadsBase read_base(const HeadsReader& in) {
  HeadsBase base;
  base.architecture = in.text("specbound.base.architecture");
  base.n_layers = in.number("specbound.base.n_layers", 1, kMostHeadLayers);
  base.dim = in.number("specbound.base.dim", 1, kMostHeadDim);
  base.vocab_size = in.number("specbound.base.vocab_size", 1, kMostHeadVocab);
  base.fingerprint = in.text("specbound.base.fingerprint");
  return base;
}

void check_made_for(const std::string& path, const HeadsBase& model, const HeadsBase& found) {
  const auto refuse = [&](const std::string& expected_text, const std::string& found_text) {
    throw Error(ErrorCode::kFormat,
                format("%s: made for another model: expected %s, found %s", path.c_str(),
                       expected_text.c_str(), found_text.c_str()));
  };
  if (found.architecture != model.architecture) {
    refuse("architecture " + model.architecture, printable(found.architecture));
  }
  const auto check = [&](const char* pattern_name, int expected_value, int found_value) {
    if (found_value == expected_value) return;
    refuse(format("%s %d", pattern_name, expected_value), format("%d", found_value));
  };
  check("number of layers", model.n_layers, found.n_layers);
  check("dim", model.dim, found.dim);
  check("vocabulary size", model.vocab_size, found.vocab_size);
  if (found.fingerprint != model.fingerprint) {
    refuse("fingerprint " + model.fingerprint, printable(found.fingerprint));
  }
}

// 1 where the file says nothing.
std::vector<float> read_temperatures(const HeadsReader& in, size_t n_heads) {
  if (!in.has_key(kTemperatureKey)) return std::vector<float>(n_heads, 1.0f);
  std::vector<float> temperatures = in.finite_reals(kTemperatureKey, n_heads);
  for (const float t : temperatures) {
    if (t >= kLeastTemperature && t <= kMostTemperature) continue;
    in.bad(kTemperatureKey, format("%g to %g", kLeastTemperature, kMostTemperature),
           format("%g", t));
  }
  return temperatures;
}

// Which heads there are, by kind, then layer; their weights are still to be found.
std::vector<HeadWeights> read_directory(const HeadsReader& in, const HeadsBase& base) {
  constexpr const char *kLayers = "specbound.head_layers", *kKinds = "specbound.head_kinds";
  const std::vector<int32_t> layers = in.integers(kLayers);
  if (layers.empty() && !in.has(kHeadsText) && !in.has(kHeadsMasks) && !in.has_key(kMaskTokenKey)) {
    in.bad(kLayers, "at least one head, a text or mask tokens", "none");
  }
  const size_t most = std::size(kHeadKinds) * (static_cast<size_t>(base.n_layers) + 1);
  if (layers.size() > most) {
    in.bad(kLayers, format("at most %zu heads, one of a kind at a layer", most),
           format("%zu", layers.size()));
  }
  const auto kinds = in.texts(kKinds, layers.size());
  const auto scales = in.finite_reals("specbound.margin_scale", layers.size());
  const auto offsets = in.finite_reals("specbound.margin_offset", layers.size());
  const auto temperatures = read_temperatures(in, layers.size());
  std::vector<HeadWeights> heads;
  for (size_t i = 0; i < layers.size(); ++i) {
    HeadWeights head;
    head.layer = layers[i];
    head.kind = in.kind(kKinds, kinds[i]);
    head.margin_scale = scales[i];
    head.margin_offset = offsets[i];
    head.temperature = temperatures[i];
    const int first = has_state(head.kind) ? 0 : 1;
    const int last = stands_before(head.kind) ? 0 : base.n_layers - 1;
    if (head.layer < first || head.layer > last) {
      in.bad(kLayers,
             format("layers from %d to %d for %s heads", first, last, head_kind_name(head.kind)),
             format("%d", head.layer));
    }
    heads.push_back(head);
  }
  const auto place = [](const HeadWeights& head) { return std::pair(head.kind, head.layer); };
  std::sort(heads.begin(), heads.end(),
            [&](const auto& a, const auto& b) { return place(a) < place(b); });
  const auto twice =
      std::adjacent_find(heads.begin(), heads.end(),
                         [&](const auto& a, const auto& b) { return place(a) == place(b); });
  if (twice != heads.end()) {
    in.bad(kLayers, "one head of a kind at a layer",
           format("two %s heads at layer %d", head_kind_name(twice->kind), twice->layer));
  }
  const auto adapters = std::ranges::count(heads, HeadKind::kKangaroo, &HeadWeights::kind);
  if (adapters > 1) in.bad(kLayers, "one kangaroo head", format("%zd", adapters));
  return heads;
}

// The matrix or, of 1 row, the vector `name` of a block.
Matrix block_matrix(HeadsReader& in, const std::string& name, int n_out, int n_in, bool published) {
  return published ? in.published_matrix(name, n_out, n_in)
                   : in.matrix(name, n_out, n_in, {DType::kQ8_0});
}

const float* block_vector(HeadsReader& in, const std::string& name, int n) {
  return reinterpret_cast<const float*>(in.matrix(name, 1, n, {DType::kF32}).data);
}

// base.q_dim is 0 where the model is not known; as many heads then as the tensors have.
void read_attention(HeadsReader& in, const std::string& prefix, const HeadsBase& base, int n_in,
                    HeadWeights& head) {
  const bool published = is_published(head.kind);
  const auto any = [](int n) { return n > 0 ? n : HeadsReader::kAny; };
  const auto matrix = [&](const char* name, int n_out, int n) {
    return block_matrix(in, prefix + name + ".weight", n_out, n, published);
  };
  LayerWeights& block = head.block;
  block.wq = matrix("q", any(base.q_dim), n_in);
  block.wk = matrix("k", any(base.kv_dim), n_in);
  block.wv = matrix("v", block.wk.n_out, n_in);
  block.wo = matrix("o", base.dim, block.wq.n_out);
}

void read_block(HeadsReader& in, const std::string& prefix, const HeadsBase& base,
                HeadWeights& head) {
  const int dim = base.dim;
  const bool published = is_published(head.kind), eagle3 = head.kind == HeadKind::kEagle3;
  const bool mtp = head.kind == HeadKind::kMtp;
  const auto matrix = [&](const char* name, int n_out, int n_in) {
    return block_matrix(in, prefix + name + ".weight", n_out, n_in, published);
  };
  const auto vector = [&](const std::string& name, int n) {
    return block_vector(in, prefix + name, n);
  };
  const auto bias = [&](const std::string& name, int n) -> const float* {
    const bool can = published && !eagle3;
    return can && in.has(prefix + name + ".bias") ? vector(name + ".bias", n) : nullptr;
  };
  LayerWeights& block = head.block;
  head.map = matrix("map", dim, eagle3 ? 3 * dim : 2 * dim);
  read_attention(in, prefix, base, eagle3 ? 2 * dim : dim, head);
  block.w_gate = matrix("gate", 0, dim);
  block.w_up = matrix("up", block.w_gate.n_out, dim);
  block.w_down = matrix("down", dim, block.w_gate.n_out);
  head.norm = vector("norm.weight", dim);
  if (!mtp) head.map_bias = bias("map", dim);
  block.bq = bias("q", block.wq.n_out);
  block.bk = bias("k", block.wk.n_out);
  block.bv = bias("v", block.wk.n_out);
  if (!eagle3 && !mtp) return;
  if (mtp) block.attn_norm = vector("attn_norm.weight", dim);
  block.ffn_norm = vector("ffn_norm.weight", dim);
  head.embedding_norm = vector("embedding_norm.weight", dim);
  head.state_norm = vector("state_norm.weight", dim);
}

void read_kangaroo(HeadsReader& in, const std::string& prefix, const HeadsBase& base,
                   HeadWeights& head) {
  read_attention(in, prefix, base, base.dim, head);
  head.block.attn_norm = block_vector(in, prefix + "attn_norm.weight", base.dim);
  head.norm = block_vector(in, prefix + "norm.weight", base.dim);
  head.rope_theta = in.real(kKangarooThetaKey, 1, 1e12);
}

void read_eagle3(HeadsReader& in, const std::string& prefix, const HeadsBase& base,
                 HeadWeights& head) {
  read_block(in, prefix, base, head);
  head.tokens = in.tokens(prefix + "tokens", base.vocab_size);
  const int n_tokens = head.tokens.empty() ? base.vocab_size : static_cast<int>(head.tokens.size());
  head.lm_head = in.published_matrix(prefix + "lm_head.weight", n_tokens, base.dim);
  head.rope_theta = in.real(kEagle3ThetaKey, 1, 1e12);
  const std::vector<int32_t> layers = in.integers(kEagle3LayersKey);
  const std::string expected = format("3 ascending layers from 1 to %d", base.n_layers);
  if (layers.size() != head.states.size()) {
    in.bad(kEagle3LayersKey, expected, format("%zu", layers.size()));
  }
  int before = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] <= before || layers[i] > base.n_layers) {
      in.bad(kEagle3LayersKey, expected, format("%d at %zu", layers[i], i));
    }
    before = head.states[i] = layers[i];
  }
}

void read_medusa(HeadsReader& in, const std::string& prefix, const HeadsBase& base,
                 HeadWeights& head) {
  const bool hydra = head.kind == HeadKind::kHydra;
  const int n_heads = in.number(hydra ? kHydraHeadsKey : kMedusaHeadsKey, 1, kMostMedusaHeads);
  const int n_blocks =
      in.number(hydra ? kHydraBlocksKey : kMedusaBlocksKey, hydra ? 1 : 0, kMostMedusaBlocks);
  const auto vector = [&](const std::string& name, int n) {
    return reinterpret_cast<const float*>(in.matrix(name, 1, n, {DType::kF32}).data);
  };
  for (int k = 1; k <= n_heads; ++k) {
    const std::string name = prefix + std::to_string(k) + ".";
    MedusaHead& one = head.medusa.emplace_back();
    for (int b = 0; b < n_blocks; ++b) {
      const std::string block = name + std::to_string(b) + ".";
      const bool wide = hydra && b == 0;
      const int n_in = wide ? (k + 1) * base.dim : base.dim;
      MedusaHead::Block& made = one.blocks.emplace_back();
      made.map = in.published_matrix(block + "weight", base.dim, n_in);
      made.bias = vector(block + "bias", base.dim);
      if (!wide) continue;
      made.residual = in.published_matrix(block + "residual.weight", base.dim, n_in);
      made.residual_bias = vector(block + "residual.bias", base.dim);
    }
    if (!in.has(name + "lm_head.weight")) continue;
    one.lm_head = in.published_matrix(name + "lm_head.weight", base.vocab_size, base.dim);
    if (hydra) one.lm_bias = vector(name + "lm_head.bias", base.vocab_size);
  }
}

void read_weights(HeadsReader& in, const HeadsBase& base, int n_shortlist, HeadWeights& head) {
  const int dim = base.dim;
  const std::string prefix = format("exit.%d.%s.", head.layer, head_kind_name(head.kind));
  if (!says_all(head.kind) && n_shortlist == 0) {
    in.bad_tensor("exit.shortlist", format("the tokens of %s heads", head_kind_name(head.kind)),
                  "no such tensor");
  }
  constexpr int kLeastTokens = 16;  // of a layer: as many as a round has rows
  if (head.kind == HeadKind::kLayer && n_shortlist < kLeastTokens) {
    in.bad_tensor("exit.shortlist", format("%d tokens or more for a layer", kLeastTokens),
                  format("%d", n_shortlist));
  }
  switch (head.kind) {
    case HeadKind::kFull:
      head.map = in.matrix(prefix + "weight", dim, dim, {DType::kF16, DType::kF32});
      break;
    case HeadKind::kFolded:
      head.folded = in.matrix(prefix + "weight", n_shortlist, dim, {DType::kQ8_0});
      break;
    case HeadKind::kChained:
      // Each half of its rows is whole blocks.
      if (dim % kQuantBlock != 0) {
        in.bad_tensor(prefix + "map.weight",
                      format("a model with rows of a multiple of %d", kQuantBlock),
                      format("%d", dim));
      }
      head.map = in.matrix(prefix + "map.weight", dim, 2 * dim, {DType::kQ8_0});
      // Both or none: D of a missing C has no shape.
      if (!in.has(prefix + "inner.weight") && !in.has(prefix + "outer.weight")) break;
      head.inner = in.matrix(prefix + "inner.weight", 0, 2 * dim, {DType::kQ8_0});
      head.outer = in.matrix(prefix + "outer.weight", dim, head.inner.n_out, {DType::kQ8_0});
      break;
    case HeadKind::kLayer:
    case HeadKind::kEagle:
    case HeadKind::kMtp:
      read_block(in, prefix, base, head);
      break;
    case HeadKind::kEagle3:
      read_eagle3(in, prefix, base, head);
      break;
    case HeadKind::kKangaroo:
      read_kangaroo(in, prefix, base, head);
      break;
    case HeadKind::kMedusa:
    case HeadKind::kHydra:
      read_medusa(in, prefix, base, head);
  }
}

MaskTokens read_masks(HeadsReader& in, const HeadsBase& base) {
  const bool rows = in.has(kHeadsMasks), token = in.has_key(kMaskTokenKey);
  MaskTokens masks;
  if (rows && token) {
    in.bad(kMaskTokenKey, format("no such key beside '%s'", kHeadsMasks), "both");
  } else if (token) {
    masks.token = in.number(kMaskTokenKey, 0, static_cast<uint64_t>(base.vocab_size) - 1);
    masks.count = in.number(kMaskCountKey, 1, kMostMasks);
  } else if (rows) {
    const Matrix found = in.matrix(kHeadsMasks, HeadsReader::kAny, base.dim, {DType::kF32});
    if (found.n_out > kMostMasks) {
      in.bad_tensor(kHeadsMasks, format("up to %d rows", kMostMasks), format("%d", found.n_out));
    }
    masks.rows = reinterpret_cast<const float*>(found.data);
    masks.count = found.n_out;
  }
  return masks;
}

HeadDefaults read_defaults(const HeadsReader& in, const ExitHeads& heads) {
  constexpr const char* kCheckLayers = "specbound.check_layers";
  constexpr const char* kShortlist = "specbound.shortlist_size";
  HeadDefaults d;
  d.kind = in.kind("specbound.kind", in.text("specbound.kind"));
  const std::vector<int> layers = heads.layers(d.kind);
  if (layers.empty()) {
    in.bad("specbound.kind", "a kind of which there are heads", head_kind_name(d.kind));
  }
  d.check_layers = in.integers(kCheckLayers);
  int before = -1;
  for (const int layer : d.check_layers) {
    if (!std::binary_search(layers.begin(), layers.end(), layer)) {
      in.bad(kCheckLayers, format("layers with a %s head", head_kind_name(d.kind)),
             format("%d", layer));
    }
    if (layer <= before) {
      in.bad(kCheckLayers, "ascending layers", format("%d after %d", layer, before));
    }
    before = layer;
  }
  if (d.check_layers.empty()) d.check_layers = layers;
  const int all = static_cast<int>(heads.shortlist().size());
  d.shortlist = in.number(kShortlist, 0, all);
  if (d.shortlist == 0) d.shortlist = all;
  if (d.shortlist != all && d.shortlist % 16 != 0) {
    in.bad(kShortlist, format("a multiple of 16, or all %d tokens", all),
           format("%d", d.shortlist));
  }
  d.alpha = in.real("specbound.alpha", 0, kMaxAlpha);
  d.tau = in.real("specbound.tau", 0, 1);
  d.d_max = in.number("specbound.d_max", 1, INT32_MAX);
  d.w_max = in.number("specbound.w_max", 1, kMaxWidth);
  return d;
}

}  // namespace

std::vector<const Matrix*> HeadWeights::matrices() const {
  std::vector<const Matrix*> all = {&map,          &folded,     &inner,        &outer,
                                    &block.wq,     &block.wk,   &block.wv,     &block.wo,
                                    &block.w_gate, &block.w_up, &block.w_down, &lm_head};
  for (const MedusaHead& one : medusa) {
    for (const MedusaHead::Block& b : one.blocks) {
      all.insert(all.end(), {&b.map, &b.residual});
    }
    all.push_back(&one.lm_head);
  }
  std::erase_if(all, [](const Matrix* m) { return m->n_out == 0; });
  return all;
}

ModelConfig draft_layer_config(const ModelConfig& model, const HeadWeights& head) {
  ModelConfig config = model;
  config.n_layers = 1;
  config.ffn_dim = head.block.w_gate.n_out;
  config.n_experts = config.n_experts_used = 0;
  config.activation = Activation::kSilu;
  config.embedding_scale = 1;
  config.window = 0;
  config.windowed_rope_theta = 0;
  config.attn_softcap = 0;
  config.no_rope_step = 0;
  if (head.rope_theta == 0) return config;
  config.rope_theta = head.rope_theta;
  config.rope_scale = config.rope_attn_factor = 1;
  config.yarn.reset();
  config.rope_original_context = 0;
  config.rope_dim = config.head_dim;
  return config;
}

const char* head_kind_name(HeadKind kind) {
  constexpr const char* kNames[] = {"full",  "folded", "chained", "layer", "medusa",
                                    "eagle", "eagle3", "hydra",   "mtp",   "kangaroo"};
  static_assert(std::size(kNames) == std::size(kHeadKinds));
  return kNames[static_cast<size_t>(kind)];
}

std::optional<HeadKind> parse_head_kind(std::string_view name) {
  for (HeadKind kind : kHeadKinds) {
    if (name == head_kind_name(kind)) return kind;
  }
  return std::nullopt;
}

ExitHeads ExitHeads::open(const std::string& path, const Gguf& model, const ModelConfig& config) {
  Gguf file = Gguf::open(path);
  const HeadsBase base = heads_base(model, config);
  return from_gguf(std::move(file), &base);
}

ExitHeads ExitHeads::from_gguf(Gguf file, const HeadsBase* model) {
  ExitHeads heads;
  heads.gguf_ = std::move(file);
  HeadsReader in(heads.gguf_);
  if (const auto architecture = in.text("general.architecture");
      architecture != kHeadsArchitecture) {
    in.bad("general.architecture", format("'%s', a file of exit heads", kHeadsArchitecture),
           "'" + printable(architecture) + "'");
  }
  heads.base_ = read_base(in);
  if (model) {
    check_made_for(heads.path(), *model, heads.base_);
    heads.base_.q_dim = model->q_dim;
    heads.base_.kv_dim = model->kv_dim;
  }
  in.refuse_table();
  heads.heads_ = read_directory(in, heads.base_);
  heads.shortlist_ = in.tokens("exit.shortlist", heads.base_.vocab_size);
  for (HeadWeights& head : heads.heads_) {
    read_weights(in, heads.base_, static_cast<int>(heads.shortlist_.size()), head);
  }
  heads.text_ = in.text_tokens(heads.base_.vocab_size);
  heads.masks_ = read_masks(in, heads.base_);
  in.refuse_leftovers();
  if (heads.can_guess()) heads.defaults_ = read_defaults(in, heads);
  if (heads.gguf_.find(kLearntKey)) heads.learnt_ = in.count(kLearntKey, UINT32_MAX);
  return heads;
}

int ExitHeads::find(HeadKind kind, int layer) const {
  for (size_t i = 0; i < heads_.size(); ++i) {
    if (heads_[i].kind == kind && heads_[i].layer == layer) return static_cast<int>(i);
  }
  return -1;
}

std::vector<int> ExitHeads::layers(HeadKind kind) const {
  std::vector<int> layers;
  for (const HeadWeights& head : heads_) {
    if (head.kind == kind) layers.push_back(head.layer);
  }
  return layers;
}

size_t ExitHeads::bytes() const {
  return gguf_.file_size();
}

}  // namespace specbound
