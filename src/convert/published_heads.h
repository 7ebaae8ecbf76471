// Draft heads as their authors publish them, for a model that is there: a directory of config.json
// and safetensors. What the tensors are called and how they lie:
//
//   Medusa    config.json   medusa_num_heads, medusa_num_layers (1 where it is not said)
//             medusa_lm_head.safetensors or model.safetensors, heads i = 0..:
//               i.j.linear.weight (dim, dim), i.j.linear.bias (dim) for each layer j
//               i.LAYERS.weight (vocab_size, dim)
//   Hydra     config.json   hydra_num_heads, hydra_num_layers (1), grounded_heads: true,
//             hydra_head_arch: mlp, hidden_state_offset: 0
//             hydra_lm_head.safetensors or model.safetensors, heads i = 0..:
//               hydra_mlp.i.0.{linear,res_connection}.weight (dim, (i + 2) dim), .bias (dim)
//               hydra_mlp.i.j.linear.weight (dim, dim), .bias (dim) for each further layer j, which
//               are one in the published code: any but the first may be left out
//               hydra_lm_head.i.weight (vocab_size, dim), .bias (vocab_size)
//   EAGLE     config.json   intermediate_size, num_attention_heads, num_key_value_heads, ..., as
//             Llama's; bias and qkv_bias (as the tensors are where it is not said)
//             model.safetensors:
//               fc.weight (dim, 2 dim), of [embedding, state]; fc.bias (dim)
//               layers.0.self_attn.{q,k,v,o}_proj.weight, of the model's heads; .{q,k,v}_proj.bias
//               layers.0.post_attention_layernorm.weight (dim)
//               layers.0.mlp.{gate,up,down}_proj.weight
//               embed_tokens.weight (vocab_size, dim): the model's own, which is taken in its place
//   EAGLE-3   config.json   as EAGLE's, without biases and with a rope_theta of its own;
//             draft_vocab_size (vocab_size where it is not said);
//             eagle_config.eagle_aux_hidden_state_layer_ids, from 0 (1, L/2 - 1 and L - 4)
//             model.safetensors:
//               fc.weight (dim, 3 dim), of the states after those layers
//               midlayer.{hidden_norm,input_layernorm,post_attention_layernorm}.weight (dim)
//               midlayer.self_attn.{q,k,v}_proj.weight (.., 2 dim), of [embedding, state]
//               midlayer.self_attn.o_proj.weight, midlayer.mlp.{gate,up,down}_proj.weight
//               norm.weight (dim), lm_head.weight (draft_vocab_size, dim)
//               d2t I64 (draft_vocab_size): row i is token i + d2t[i]; t2d BOOL (vocab_size):
//               which tokens there are; both only where some are missing
//               embed_tokens.weight as EAGLE's
//   Kangaroo  config.json   as Llama's, of 1 layer; exit_layer, that the adapter stands behind: the
//             authors' program is told, so it is written there by hand; rope_theta (10000 where it
//             is not said; the authors' program knows no other)
//             model.safetensors:
//               layers.0.input_layernorm.weight (dim), norm.weight (dim)
//               layers.0.self_attn.{q,k,v,o}_proj.weight, of the model's heads
//   MiMo      the model's own directory: config.json, num_nextn_predict_layers
//             model.safetensors, whatever else it has:
//               model.mtp_layers.0.{token,hidden}_layernorm.weight (dim), of embedding and state
//               model.mtp_layers.0.input_proj.weight (dim, 2 dim), of [state, embedding]
//               model.mtp_layers.0.{input,post_attention,final}_layernorm.weight (dim)
//               model.mtp_layers.0.self_attn and .mlp as EAGLE's; further layers are left out
//               model.embed_tokens.weight, lm_head.weight: the model's own
//
// Every shape is held against the model, whose dim and vocabulary config.json may also name.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "convert/checkpoint.h"
#include "model/exit_heads.h"
#include "model/gguf.h"

namespace specbound {

// `config` is the file at `config_path`, `model` one that runs. `type`: of matrices, F32, F16, BF16
// or Q8_0; none: each stays what it is. Values are checked when the file is written. Throws
// Error(kFormat | kUnsupported) naming the file and the key or tensor, what was expected and what
// was found.
NewHeads read_published_heads(const nlohmann::json& config, const std::string& config_path,
                              const Checkpoint& checkpoint, const Gguf& model,
                              std::optional<DType> type);

struct ConvertHeadsOptions {
  std::string directory;
  std::string model;   // the GGUF file that they are for
  std::string output;  // a file that is not there yet, or will be replaced
  std::optional<DType> type;
  // Told the bytes of memory that it takes, before they are taken; may throw.
  std::function<void(size_t)> reserve = {};
};
struct ConvertedHeads {
  HeadKind kind = HeadKind::kMedusa;
  size_t parameters = 0, bytes = 0;
  std::string what;  // "5 Medusa heads of 1 block"
};
// Writes a heads file, whole or not at all; it is made in memory. Throws Error.
ConvertedHeads convert_heads(const ConvertHeadsOptions& options);

}  // namespace specbound
