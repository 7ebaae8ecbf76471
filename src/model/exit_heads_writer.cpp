// A heads file from trained values: encoded, read back by the reader that will open it, then
// written.
#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "error.h"
#include "model/codec.h"
#include "model/exit_heads.h"
#include "model/gguf_writer.h"

namespace specbound {
namespace {

void add_settings(GgufWriter& writer, const NewHeads& heads) {
  const HeadsBase& base = heads.base;
  const auto number = [](int value) { return static_cast<uint32_t>(value); };
  writer.add_string("general.architecture", kHeadsArchitecture);
  writer.add_string("specbound.base.architecture", base.architecture);
  writer.add_uint("specbound.base.n_layers", number(base.n_layers));
  writer.add_uint("specbound.base.dim", number(base.dim));
  writer.add_uint("specbound.base.vocab_size", number(base.vocab_size));
  writer.add_string("specbound.base.fingerprint", base.fingerprint);

  std::vector<int32_t> layers;
  std::vector<std::string_view> kinds;
  std::vector<float> scales, offsets, temperatures;
  for (const NewHead& head : heads.heads) {
    layers.push_back(head.layer);
    kinds.push_back(head_kind_name(head.kind));
    scales.push_back(head.margin_scale);
    offsets.push_back(head.margin_offset);
    temperatures.push_back(head.temperature);
  }
  writer.add_ints("specbound.head_layers", layers);
  writer.add_strings("specbound.head_kinds", kinds);
  writer.add_floats("specbound.margin_scale", scales);
  writer.add_floats("specbound.margin_offset", offsets);
  if (std::ranges::any_of(temperatures, [](float t) { return t != 1; })) {
    writer.add_floats(kTemperatureKey, temperatures);
  }

  const HeadDefaults& d = heads.defaults;
  const std::vector<int32_t> check_layers(d.check_layers.begin(), d.check_layers.end());
  writer.add_string("specbound.kind", head_kind_name(d.kind));
  writer.add_ints("specbound.check_layers", check_layers);
  writer.add_uint("specbound.shortlist_size", number(d.shortlist));
  writer.add_float("specbound.alpha", d.alpha);
  writer.add_float("specbound.tau", d.tau);
  writer.add_uint("specbound.d_max", number(d.d_max));
  writer.add_uint("specbound.w_max", number(d.w_max));
  for (const NewHead& head : heads.heads) {
    if (head.kind == HeadKind::kEagle3) {
      const std::vector<int32_t> states(head.states.begin(), head.states.end());
      writer.add_ints(kEagle3LayersKey, states);
      writer.add_float(kEagle3ThetaKey, static_cast<float>(head.rope_theta));
    }
    if (head.kind == HeadKind::kKangaroo) {
      writer.add_float(kKangarooThetaKey, static_cast<float>(head.rope_theta));
    }
    if (!is_by_place(head.kind)) continue;
    SB_CHECK(!head.medusa.empty());
    const bool hydra = head.kind == HeadKind::kHydra;
    writer.add_uint(hydra ? kHydraHeadsKey : kMedusaHeadsKey,
                    static_cast<uint32_t>(head.medusa.size()));
    writer.add_uint(hydra ? kHydraBlocksKey : kMedusaBlocksKey,
                    static_cast<uint32_t>(head.medusa[0].blocks.size()));
  }
  if (heads.masks.token >= 0) {
    writer.add_uint(kMaskTokenKey, number(heads.masks.token));
    writer.add_uint(kMaskCountKey, number(heads.masks.count));
  }
  if (heads.learnt > 0) {
    writer.add_uint(kLearntKey, static_cast<uint32_t>(std::min<int64_t>(heads.learnt, UINT32_MAX)));
  }
}

}  // namespace

std::vector<std::byte> exit_heads_file(const std::string& name, const NewHeads& heads) {
  GgufWriter writer;
  add_settings(writer, heads);
  const auto add_tokens = [&](const std::string& tensor_name, const std::vector<int32_t>& tokens) {
    const uint64_t n = tokens.size();
    if (n == 0) return;
    writer.add_tensor(tensor_name, DType::kI32, std::span(&n, 1), std::as_bytes(std::span(tokens)));
  };
  add_tokens("exit.shortlist", heads.shortlist);
  add_tokens("exit.text", heads.text);
  std::vector<std::vector<std::byte>> encoded;  // each alive until written
  const auto add = [&](const std::string& tensor_name, const HeadTensor& tensor, DType type) {
    const DTypeInfo& info = *dtype_info(type);
    if (tensor.n_in % info.block != 0) {
      throw Error(ErrorCode::kUnsupported,
                  format("%s: tensor '%s': expected rows of whole %s blocks (%u elements), found "
                         "rows of %d",
                         name.c_str(), tensor_name.c_str(), info.name, info.block, tensor.n_in));
    }
    const uint64_t shape[] = {static_cast<uint64_t>(tensor.n_in),
                              static_cast<uint64_t>(tensor.n_out)};
    if (!tensor.encoded.empty()) {
      SB_CHECK(tensor.encoded.size() == shape[0] * shape[1] / info.block * info.bytes);
      writer.add_tensor(tensor_name, type, shape, tensor.encoded);
      return;
    }
    SB_CHECK(tensor.values.size() == shape[0] * shape[1]);
    encoded.push_back(encode_floats(tensor.values, type));
    writer.add_tensor(tensor_name, type, shape, encoded.back());
  };
  if (heads.masks.rows.n_out > 0) add("exit.masks.weight", heads.masks.rows, DType::kF32);
  for (const NewHead& head : heads.heads) {
    const std::string prefix = format("exit.%d.%s.", head.layer, head_kind_name(head.kind));
    switch (head.kind) {
      case HeadKind::kFull:
        add(prefix + "weight", head.map, DType::kF16);
        break;
      case HeadKind::kFolded:
        add(prefix + "weight", head.folded, DType::kQ8_0);
        break;
      case HeadKind::kChained:
        add(prefix + "map.weight", head.map, DType::kQ8_0);
        if (head.inner.n_out == 0) break;
        add(prefix + "inner.weight", head.inner, DType::kQ8_0);
        add(prefix + "outer.weight", head.outer, DType::kQ8_0);
        break;
      case HeadKind::kEagle3:
        add(prefix + "lm_head.weight", head.lm_head, head.lm_head.type);
        add_tokens(prefix + "tokens", head.tokens);
        [[fallthrough]];
      case HeadKind::kLayer:
      case HeadKind::kEagle:
      case HeadKind::kMtp:
      case HeadKind::kKangaroo:
        for (const auto& [name, tensor] : {std::pair("map", &head.map),
                                           {"q", &head.q},
                                           {"k", &head.k},
                                           {"v", &head.v},
                                           {"o", &head.o},
                                           {"gate", &head.gate},
                                           {"up", &head.up},
                                           {"down", &head.down}}) {
          if (tensor->n_out == 0) continue;
          add(prefix + name + ".weight", *tensor,
              is_published(head.kind) ? tensor->type : DType::kQ8_0);
        }
        for (const auto& [name, tensor] : {std::pair("map", &head.map_bias),
                                           {"q", &head.q_bias},
                                           {"k", &head.k_bias},
                                           {"v", &head.v_bias}}) {
          if (tensor->n_out > 0) add(prefix + name + ".bias", *tensor, DType::kF32);
        }
        for (const auto& [name, tensor] : {std::pair("embedding_norm", &head.embedding_norm),
                                           {"state_norm", &head.state_norm},
                                           {"attn_norm", &head.attn_norm},
                                           {"ffn_norm", &head.ffn_norm},
                                           {"norm", &head.norm}}) {
          if (tensor->n_out > 0) add(prefix + name + ".weight", *tensor, DType::kF32);
        }
        break;
      case HeadKind::kMedusa:
      case HeadKind::kHydra:
        for (size_t k = 0; k < head.medusa.size(); ++k) {
          const std::string name = prefix + std::to_string(k + 1) + ".";
          const NewMedusaHead& one = head.medusa[k];
          for (size_t b = 0; b < one.blocks.size(); ++b) {
            const auto& [map, bias, residual, residual_bias] = one.blocks[b];
            const std::string block = name + std::to_string(b) + ".";
            add(block + "weight", map, map.type);
            add(block + "bias", bias, DType::kF32);
            if (residual.n_out == 0) continue;
            add(block + "residual.weight", residual, residual.type);
            add(block + "residual.bias", residual_bias, DType::kF32);
          }
          if (one.lm_head.n_out == 0) continue;
          add(name + "lm_head.weight", one.lm_head, one.lm_head.type);
          if (one.lm_bias.n_out > 0) add(name + "lm_head.bias", one.lm_bias, DType::kF32);
        }
    }
  }
  std::vector<std::byte> bytes = writer.serialize();
  ExitHeads::from_gguf(Gguf::parse(bytes, name), &heads.base);
  return bytes;
}

void write_exit_heads(const std::string& path, const NewHeads& heads) {
  write_gguf(path, exit_heads_file(path, heads));
}

}  // namespace specbound
