// Heads files for tiny models: seeded random heads of every kind, and the same file taken apart, so
// that a test can write what write_exit_heads() never would.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/exit_heads.h"
#include "model/gguf_writer.h"
#include "tiny_gguf.h"

namespace specbound::test {

// Random values; they depend on the seed alone.
inline HeadTensor random_head_tensor(int n_out, int n_in, uint64_t seed, float deviation = 0.1f) {
  TinyRandom random(seed);
  HeadTensor tensor{n_out, n_in, std::vector<float>(static_cast<size_t>(n_out) * n_in)};
  for (float& value : tensor.values) value = deviation * random.normal();
  return tensor;
}

inline NewHead random_head(HeadKind kind, int layer, int dim, int shortlist, int inner,
                           uint64_t seed) {
  NewHead head;
  head.kind = kind;
  head.layer = layer;
  switch (kind) {
    case HeadKind::kFull:
      head.map = random_head_tensor(dim, dim, seed);
      break;
    case HeadKind::kFolded:
      head.folded = random_head_tensor(shortlist, dim, seed);
      break;
    case HeadKind::kChained:
      head.map = random_head_tensor(dim, 2 * dim, seed);
      if (inner == 0) break;
      head.inner = random_head_tensor(inner, 2 * dim, seed + 1);
      head.outer = random_head_tensor(dim, inner, seed + 2);
      break;
    case HeadKind::kLayer:
    case HeadKind::kMedusa:
    case HeadKind::kEagle:
    case HeadKind::kEagle3:
    case HeadKind::kHydra:
    case HeadKind::kMtp:
    case HeadKind::kKangaroo:
      SB_CHECK(false);  // random_layer(), random_medusa(), random_hydra(), random_eagle(), ..
  }
  head.margin_scale = 1 + 0.25f * static_cast<float>(layer);
  head.margin_offset = -0.5f;
  return head;
}

// A draft layer for a model of these widths.
inline NewHead random_layer(const HeadsBase& base, int inner, uint64_t seed) {
  NewHead head;
  head.kind = HeadKind::kLayer;
  const int dim = base.dim;
  head.map = random_head_tensor(dim, 2 * dim, seed);
  head.q = random_head_tensor(base.q_dim, dim, seed + 1, 0.2f);
  head.k = random_head_tensor(base.kv_dim, dim, seed + 2, 0.2f);
  head.v = random_head_tensor(base.kv_dim, dim, seed + 3, 0.2f);
  head.o = random_head_tensor(dim, base.q_dim, seed + 4, 0.2f);
  head.gate = random_head_tensor(inner, dim, seed + 5);
  head.up = random_head_tensor(inner, dim, seed + 6);
  head.down = random_head_tensor(dim, inner, seed + 7);
  head.norm = random_head_tensor(1, dim, seed + 8, 1.0f);
  return head;
}

// The same head with its matrices in Q8_0, by which engines make the same bits.
inline NewHead quantized_head(NewHead head) {
  std::vector<HeadTensor*> matrices = {&head.map,  &head.q,  &head.k,    &head.v,      &head.o,
                                       &head.gate, &head.up, &head.down, &head.lm_head};
  for (NewMedusaHead& one : head.medusa) {
    matrices.push_back(&one.lm_head);
    for (NewMedusaHead::Block& block : one.blocks) {
      matrices.insert(matrices.end(), {&block.map, &block.residual});
    }
  }
  for (HeadTensor* tensor : matrices) {
    if (tensor->encoded.empty()) continue;
    const auto* values = reinterpret_cast<const float*>(tensor->encoded.data());
    tensor->values.assign(values, values + tensor->encoded.size() / sizeof(float));
    tensor->encoded.clear();
    tensor->type = DType::kQ8_0;
  }
  return head;
}

// A matrix in the bytes of F32.
inline HeadTensor random_f32_tensor(int n_out, int n_in, uint64_t seed, float deviation = 0.1f) {
  HeadTensor tensor = random_head_tensor(n_out, n_in, seed, deviation);
  const auto bytes = std::as_bytes(std::span(tensor.values));
  tensor.encoded.assign(bytes.begin(), bytes.end());
  tensor.values.clear();
  tensor.type = DType::kF32;
  return tensor;
}

inline NewHead random_medusa(const HeadsBase& base, int n_heads, int n_blocks, uint64_t seed) {
  NewHead head;
  head.kind = HeadKind::kMedusa;
  for (int k = 0; k < n_heads; ++k) {
    NewMedusaHead& one = head.medusa.emplace_back();
    for (int b = 0; b < n_blocks; ++b) {
      one.blocks.push_back(
          {random_f32_tensor(base.dim, base.dim, ++seed), random_f32_tensor(1, base.dim, ++seed)});
    }
    one.lm_head = random_f32_tensor(base.vocab_size, base.dim, ++seed, 0.3f);
  }
  return head;
}

inline NewHead random_hydra(const HeadsBase& base, int n_heads, int n_blocks, uint64_t seed) {
  NewHead head = random_medusa(base, n_heads, n_blocks, seed);
  head.kind = HeadKind::kHydra;
  for (int k = 0; k < n_heads; ++k) {
    NewMedusaHead& one = head.medusa[static_cast<size_t>(k)];
    NewMedusaHead::Block& first = one.blocks.at(0);
    const int n_in = (k + 2) * base.dim;
    first.map = random_f32_tensor(base.dim, n_in, seed += 100);
    first.residual = random_f32_tensor(base.dim, n_in, seed + 1);
    first.residual_bias = random_head_tensor(1, base.dim, seed + 2);
    one.lm_bias = random_head_tensor(1, base.vocab_size, seed + 3);
  }
  return head;
}

// With the model's own lm_head, as train-heads makes them.
inline NewHead with_shared_lm_head(NewHead head) {
  for (NewMedusaHead& one : head.medusa) one.lm_head = one.lm_bias = {};
  return head;
}

inline NewHead random_eagle(const HeadsBase& base, int inner, bool biases, uint64_t seed) {
  NewHead head;
  head.kind = HeadKind::kEagle;
  const int dim = base.dim;
  head.map = random_f32_tensor(dim, 2 * dim, seed);
  head.q = random_f32_tensor(base.q_dim, dim, seed + 1, 0.2f);
  head.k = random_f32_tensor(base.kv_dim, dim, seed + 2, 0.2f);
  head.v = random_f32_tensor(base.kv_dim, dim, seed + 3, 0.2f);
  head.o = random_f32_tensor(dim, base.q_dim, seed + 4, 0.2f);
  head.gate = random_f32_tensor(inner, dim, seed + 5);
  head.up = random_f32_tensor(inner, dim, seed + 6);
  head.down = random_f32_tensor(dim, inner, seed + 7);
  head.norm = random_head_tensor(1, dim, seed + 8, 1.0f);
  if (!biases) return head;
  head.map_bias = random_head_tensor(1, dim, seed + 9);
  head.q_bias = random_head_tensor(1, base.q_dim, seed + 10);
  head.k_bias = random_head_tensor(1, base.kv_dim, seed + 11);
  head.v_bias = random_head_tensor(1, base.kv_dim, seed + 12);
  return head;
}

// Guesses every second token of the vocabulary, from behind the first three layers of the model.
inline NewHead random_eagle3(const HeadsBase& base, int inner, uint64_t seed) {
  NewHead head = random_eagle(base, inner, false, seed);
  head.kind = HeadKind::kEagle3;
  const int dim = base.dim;
  head.map = random_f32_tensor(dim, 3 * dim, seed);
  head.q = random_f32_tensor(base.q_dim, 2 * dim, seed + 1, 0.2f);
  head.k = random_f32_tensor(base.kv_dim, 2 * dim, seed + 2, 0.2f);
  head.v = random_f32_tensor(base.kv_dim, 2 * dim, seed + 3, 0.2f);
  head.embedding_norm = random_head_tensor(1, dim, seed + 9, 1.0f);
  head.state_norm = random_head_tensor(1, dim, seed + 10, 1.0f);
  head.ffn_norm = random_head_tensor(1, dim, seed + 11, 1.0f);
  for (int token = 1; token < base.vocab_size; token += 2) head.tokens.push_back(token);
  head.lm_head = random_f32_tensor(static_cast<int>(head.tokens.size()), dim, seed + 12, 0.3f);
  head.states = {1, 2, 3};
  head.rope_theta = 3000;
  return head;
}

inline NewHead random_mtp(const HeadsBase& base, int inner, bool biases, uint64_t seed) {
  NewHead head = random_eagle(base, inner, biases, seed);
  head.kind = HeadKind::kMtp;
  head.map_bias = {};
  const int dim = base.dim;
  head.embedding_norm = random_head_tensor(1, dim, seed + 13, 1.0f);
  head.state_norm = random_head_tensor(1, dim, seed + 14, 1.0f);
  head.attn_norm = random_head_tensor(1, dim, seed + 15, 1.0f);
  head.ffn_norm = random_head_tensor(1, dim, seed + 16, 1.0f);
  return head;
}

// An adapter behind layer `layer`.
inline NewHead random_kangaroo(const HeadsBase& base, int layer, uint64_t seed) {
  NewHead head = random_eagle(base, 32, false, seed);
  head.kind = HeadKind::kKangaroo;
  head.layer = layer;
  head.map = head.gate = head.up = head.down = {};
  head.attn_norm = random_head_tensor(1, base.dim, seed + 9, 1.0f);
  head.rope_theta = 10000;
  return head;
}

// Heads of all kinds but those before the layers alone at the layers 1 and 2, a chained one at 0
// too, for a model of 3 layers or more and more than `shortlist` tokens.
inline NewHeads random_heads(const HeadsBase& base, int shortlist = 32, int inner = 32,
                             uint64_t seed = 1) {
  NewHeads heads;
  heads.base = base;
  for (int i = 0; i < shortlist; ++i) heads.shortlist.push_back(base.vocab_size - 1 - i);
  for (HeadKind kind : {HeadKind::kFull, HeadKind::kFolded, HeadKind::kChained}) {
    for (int layer = kind == HeadKind::kChained ? 0 : 1; layer <= 2; ++layer) {
      heads.heads.push_back(random_head(kind, layer, base.dim, shortlist, inner, seed += 10));
    }
  }
  heads.defaults.kind = HeadKind::kFolded;
  heads.defaults.check_layers = {1, 2};
  heads.defaults.shortlist = 16;
  return heads;
}

// A heads file in parts, each free to be wrong.
struct HeadsFile {
  std::map<std::string, std::string> texts;
  std::map<std::string, uint32_t> numbers;
  std::map<std::string, float> reals;
  std::map<std::string, std::vector<int32_t>> integers;
  std::map<std::string, std::vector<float>> real_arrays;
  std::map<std::string, std::vector<std::string>> text_arrays;
  std::vector<TinyTensor> tensors;
  std::set<std::string> without;  // keys left out

  // Of the tensors that write_exit_heads() writes for these heads, and their settings.
  explicit HeadsFile(const Gguf& written) {
    for (const auto& entry : written.metadata()) {
      const std::string key(entry.first);
      const GgufValue& value = entry.second;
      if (value.is_array) {
        if (value.type == GgufType::kI32) integers[key] = *written.get_ints(key);
        if (value.type == GgufType::kF32) real_arrays[key] = *written.get_floats(key);
        if (value.type != GgufType::kString) continue;
        const auto strings = *written.get_strings(key);
        text_arrays[key].assign(strings.begin(), strings.end());
      } else {
        if (value.type == GgufType::kString) texts[key] = *written.get_string(key);
        if (value.type == GgufType::kU32) numbers[key] = *written.get_uint(key);
        if (value.type == GgufType::kF32) reals[key] = *written.get_float(key);
      }
    }
    for (const GgufTensor& t : written.tensors()) {
      tensors.push_back({std::string(t.name), t.type, t.shape, {t.bytes.begin(), t.bytes.end()}});
    }
  }

  TinyTensor& tensor(const std::string& name) {
    for (TinyTensor& t : tensors) {
      if (t.name == name) return t;
    }
    SB_CHECK(false);
    return tensors.front();
  }
  void remove(const std::string& name) {
    std::erase_if(tensors, [&](const TinyTensor& t) { return t.name == name; });
  }

  std::vector<std::byte> bytes() const {
    GgufWriter writer;
    const auto each = [&](const auto& entries, auto&& add) {
      for (const auto& [key, value] : entries) {
        if (!without.count(key)) add(key, value);
      }
    };
    each(texts, [&](auto& key, auto& value) { writer.add_string(key, value); });
    each(numbers, [&](auto& key, auto& value) { writer.add_uint(key, value); });
    each(reals, [&](auto& key, auto& value) { writer.add_float(key, value); });
    each(integers, [&](auto& key, auto& value) { writer.add_ints(key, value); });
    each(real_arrays, [&](auto& key, auto& value) { writer.add_floats(key, value); });
    each(text_arrays, [&](auto& key, auto& value) {
      writer.add_strings(key, std::vector<std::string_view>(value.begin(), value.end()));
    });
    for (const TinyTensor& t : tensors) writer.add_tensor(t.name, t.type, t.shape, t.bytes);
    return writer.serialize();
  }
};

}  // namespace specbound::test
