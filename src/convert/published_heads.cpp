#include "convert/published_heads.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/head_tensors.h"
#include "convert/hf_config.h"
#include "convert/hf_files.h"
#include "error.h"
#include "json/json_reader.h"
#include "model/config.h"
#include "model/weights.h"

namespace specbound {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostConfig = size_t{16} << 20;  // bytes
constexpr const char* kMedusaFile = "medusa_lm_head.safetensors";
constexpr const char* kHydraFile = "hydra_lm_head.safetensors";
constexpr const char* kMedusaHeads = "medusa_num_heads";
constexpr const char* kHydraHeads = "hydra_num_heads";
constexpr const char* kEagleInput = "fc.weight";
constexpr const char* kEagle3Layer = "midlayer.";
constexpr const char* kEmbedding = "embed_tokens.weight";
constexpr const char* kMtpInput = "input_proj.weight";
constexpr uint64_t kMostMtpLayers = 64;
constexpr const char* kAdapterInput = "layers.0.input_layernorm.weight";
constexpr const char* kExitLayer = "exit_layer";
constexpr uint64_t kMostInner = 1 << 20;
constexpr double kRopeTheta = 10000;  // where config.json does not say it

// Where config.json names a size of the model, it must be the model's.
void check_sizes(const JsonObject& config, const HeadsBase& base) {
  for (const auto& [key, size] :
       {std::pair("hidden_size", base.dim), std::pair("vocab_size", base.vocab_size)}) {
    const std::optional<uint64_t> found = config.whole(key);
    if (!found || *found == static_cast<uint64_t>(size)) continue;
    config.bad(key, format("%d, the model's", size), json_text(*config.find(key)));
  }
}

NewHead read_medusa(const JsonObject& config, HeadTensors& tensors, const HeadsBase& base) {
  const auto n_heads = config.bounded(kMedusaHeads, 1, kMostMedusaHeads);
  const auto n_layers = config.bounded("medusa_num_layers", 0, kMostMedusaBlocks, 1);
  NewHead head;
  head.kind = HeadKind::kMedusa;
  for (uint64_t i = 0; i < n_heads; ++i) {
    NewMedusaHead& one = head.medusa.emplace_back();
    const std::string prefix = std::to_string(i) + ".";
    for (uint64_t j = 0; j < n_layers; ++j) {
      const std::string linear = prefix + std::to_string(j) + ".linear.";
      HeadTensor map = tensors.matrix(linear + "weight", base.dim, base.dim);
      one.blocks.push_back({std::move(map), tensors.vector(linear + "bias", base.dim)});
    }
    one.lm_head =
        tensors.matrix(prefix + std::to_string(n_layers) + ".weight", base.vocab_size, base.dim);
  }
  tensors.refuse_leftovers(
      format("than %llu heads of %llu layers have, as config.json says",
             static_cast<unsigned long long>(n_heads), static_cast<unsigned long long>(n_layers)),
      format("; write %s and medusa_num_layers there as the tensors have them", kMedusaHeads));
  return head;
}

// Heads on a path's embeddings. Hydra++'s prefix layer and cross attention are other heads.
NewHead read_hydra(const JsonObject& config, HeadTensors& tensors, const HeadsBase& base) {
  const auto n_heads = static_cast<int>(config.bounded(kHydraHeads, 1, kMostMedusaHeads));
  const auto n_layers =
      static_cast<int>(config.bounded("hydra_num_layers", 1, kMostMedusaBlocks, 1));
  if (const std::string arch = config.text("hydra_head_arch").value_or("mlp"); arch != "mlp") {
    config.unsupported("hydra_head_arch", "mlp", "'" + printable(arch) + "'");
  }
  if (!config.flag("grounded_heads").value_or(false)) {
    config.unsupported("grounded_heads", "true, heads that see what stands before them", "false");
  }
  if (const uint64_t offset = config.whole("hidden_state_offset").value_or(0); offset != 0) {
    config.unsupported("hidden_state_offset", "0, the final state", std::to_string(offset));
  }
  const int dim = base.dim;
  NewHead head;
  head.kind = HeadKind::kHydra;
  for (int i = 0; i < n_heads; ++i) {
    NewMedusaHead& one = head.medusa.emplace_back();
    const std::string layers = format("hydra_mlp.%d.", i);
    const std::string lm_head = format("hydra_lm_head.%d.", i);
    const int n_in = (i + 2) * dim;
    for (int j = 0; j < n_layers; ++j) {
      std::string layer = layers + std::to_string(j) + ".";
      if (j > 1 && !tensors.has(layer + "linear.weight")) layer = layers + "1.";
      NewMedusaHead::Block& block = one.blocks.emplace_back();
      block.map = tensors.matrix(layer + "linear.weight", dim, j == 0 ? n_in : dim);
      block.bias = tensors.vector(layer + "linear.bias", dim);
      if (j > 0) continue;
      block.residual = tensors.matrix(layer + "res_connection.weight", dim, n_in);
      block.residual_bias = tensors.vector(layer + "res_connection.bias", dim);
    }
    one.lm_head = tensors.matrix(lm_head + "weight", base.vocab_size, dim);
    one.lm_bias = tensors.vector(lm_head + "bias", base.vocab_size);
  }
  tensors.refuse_leftovers(
      format("than %d heads of %d layers have, as config.json says", n_heads, n_layers));
  return head;
}

// Of a layer's queries and keys.
HeadOrder paired_rows(const ModelConfig& config) {
  return {config.rope_style == RopeStyle::kInterleaved ? config.head_dim : 0};
}

// How a layer rotates.
enum class LayerRotation { kUnscaled, kOwn, kModel };  // EAGLE's as the model where nothing scales

// Where rope_theta stands: transformers 5 has it in an object with the scaling.
JsonObject rope_of(const JsonObject& file) {
  const auto parameters = file.object("rope_parameters");
  return parameters && parameters->find("rope_theta") ? *parameters : file;
}

// The layer turns whole heads by one theta and scales nothing.
void refuse_scaling(const JsonObject& file) {
  if (file.find("rope_scaling")) {
    file.unsupported("rope_scaling", "none", json_text(*file.find("rope_scaling")));
  }
  const auto parameters = file.object("rope_parameters");
  for (const JsonObject& place : {file, parameters.value_or(file)}) {
    const double share = place.number("partial_rotary_factor").value_or(1);
    if (share != 1) place.unsupported("partial_rotary_factor", "1", format("%g", share));
  }
  if (!parameters) return;
  const std::string type = parameters->text("rope_type").value_or("default");
  if (type != "default") {
    parameters->unsupported("rope_type", "default", "'" + printable(type) + "'");
  }
  for (const char* kind : {"full_attention", "sliding_attention"}) {
    if (parameters->find(kind)) {
      parameters->unsupported(kind, "one rotation", "one for each kind of layer");
    }
  }
}

// What the layer is run with is the model's, but for its own rotation: a config.json that says
// otherwise is of another one.
void check_layer(const JsonObject& file, const Gguf& model, const ModelConfig& config,
                 LayerRotation rotation) {
  const auto whole = [&](const char* key, int expected) {
    const std::optional<uint64_t> found = file.whole(key);
    if (!found || *found == static_cast<uint64_t>(expected)) return;
    file.bad(key, format("%d, as the model has", expected), json_text(*file.find(key)));
  };
  const auto real = [](const JsonObject& place, const char* key, double expected,
                       std::optional<double> unsaid) {
    const std::optional<double> found = place.number(key) ? place.number(key) : unsaid;
    if (!found || std::abs(*found - expected) <= 1e-6 * expected) return;
    place.bad(key, format("%g, as the model has", expected), format("%g", *found));
  };
  const bool of_model = rotation == LayerRotation::kModel;  // and the file too
  whole("num_hidden_layers", of_model ? config.n_layers : 1);
  whole("num_attention_heads", config.n_heads);
  whole("num_key_value_heads", config.n_kv_heads);
  whole("head_dim", config.head_dim);
  real(file, "rms_norm_eps", config.norm_eps, {});
  const JsonObject rope = rope_of(file);
  if (rotation == LayerRotation::kUnscaled) {
    real(rope, "rope_theta", config.rope_theta, kRopeTheta);
  }
  if (of_model) real(rope, "rope_theta", config.rope_theta, {});
  if (!of_model) refuse_scaling(file);
  const std::string activation = file.text("hidden_act").value_or("silu");
  if (activation != "silu") {
    file.unsupported("hidden_act", "silu", "'" + printable(activation) + "'");
  }
  if (rotation != LayerRotation::kUnscaled) return;
  if (config.rope_scale != 1 || config.rope_original_context > 0 ||
      config.rope_dim != config.head_dim || model.find_tensor("rope_freqs.weight")) {
    throw Error(ErrorCode::kUnsupported,
                format("%s: expected a model whose positions are not scaled, as those of an EAGLE "
                       "layer are not, found one with scaled rotation",
                       model.path().c_str()));
  }
}

// The matrices of attention in the block `name`, whose q, k and v are of `n_in`.
void read_attention(HeadTensors& tensors, const std::string& name, int n_in,
                    const ModelConfig& config, NewHead& head) {
  const int q_dim = config.q_dim(), kv_dim = config.kv_dim();
  const std::string attention = name + "self_attn.";
  head.q = tensors.matrix(attention + "q_proj.weight", q_dim, n_in, paired_rows(config));
  head.k = tensors.matrix(attention + "k_proj.weight", kv_dim, n_in, paired_rows(config));
  head.v = tensors.matrix(attention + "v_proj.weight", kv_dim, n_in);
  head.o = tensors.matrix(attention + "o_proj.weight", config.dim, q_dim);
  tensors.skip(attention + "rotary_emb.inv_freq");
}

// The matrices of the block `name`, and `biases` of q, k and v.
void read_block(const JsonObject& file, HeadTensors& tensors, const std::string& name, int n_in,
                bool biases, const ModelConfig& config, NewHead& head) {
  const int dim = config.dim, q_dim = config.q_dim(), kv_dim = config.kv_dim();
  const int inner = static_cast<int>(file.bounded("intermediate_size", 32, kMostInner));
  if (inner % 32 != 0) file.refuse("intermediate_size", "a multiple of 32");
  const std::string attention = name + "self_attn.", mlp = name + "mlp.";
  read_attention(tensors, name, n_in, config, head);
  head.gate = tensors.matrix(mlp + "gate_proj.weight", inner, dim);
  head.up = tensors.matrix(mlp + "up_proj.weight", inner, dim);
  head.down = tensors.matrix(mlp + "down_proj.weight", dim, inner);
  if (!biases) return;
  head.q_bias = tensors.vector(attention + "q_proj.bias", q_dim, paired_rows(config));
  head.k_bias = tensors.vector(attention + "k_proj.bias", kv_dim, paired_rows(config));
  head.v_bias = tensors.vector(attention + "v_proj.bias", kv_dim);
}

NewHead read_eagle(const JsonObject& file, HeadTensors& tensors, const Gguf& model,
                   const ModelConfig& config) {
  check_layer(file, model, config, LayerRotation::kUnscaled);
  const int dim = config.dim;
  const bool bias = file.flag("bias").value_or(tensors.has("fc.bias"));
  const std::string layer = "layers.0.";
  const bool biases = file.flag("qkv_bias").value_or(tensors.has(layer + "self_attn.q_proj.bias"));

  NewHead head;
  head.kind = HeadKind::kEagle;
  head.map = tensors.matrix(kEagleInput, dim, 2 * dim);
  if (bias) head.map_bias = tensors.vector("fc.bias", dim);
  read_block(file, tensors, layer, dim, biases, config, head);
  head.norm = tensors.vector(layer + "post_attention_layernorm.weight", dim);
  tensors.check_same(kEmbedding, map_weights(model, config).token_embd);
  tensors.refuse_leftovers("than an EAGLE layer has");
  return head;
}

// The layers after which EAGLE-3 takes states, from 1.
std::array<int, 3> states_of(const JsonObject& file, int n_layers) {
  constexpr const char* kIds = "eagle_aux_hidden_state_layer_ids";
  const auto ascend = [&](const std::array<int, 3>& layers) {
    return 1 <= layers[0] && layers[0] < layers[1] && layers[1] < layers[2] &&
           layers[2] <= n_layers;
  };
  std::array<int, 3> layers = eagle3_layers(n_layers);
  const std::optional<JsonObject> said = file.object("eagle_config");
  const nlohmann::json* ids = said ? said->find(kIds) : nullptr;
  if (!ids) {
    if (ascend(layers)) return layers;
    file.unsupported("eagle_config",
                     format("%s, where the model has no 7 layers to take states from", kIds),
                     format("none, for %d layers", n_layers));
  }
  const auto is_layer = [&](const nlohmann::json& id) {
    return id.is_number_unsigned() && id.get<uint64_t>() < static_cast<uint64_t>(n_layers);
  };
  if (ids->is_array() && ids->size() == layers.size() && std::ranges::all_of(*ids, is_layer)) {
    for (size_t i = 0; i < layers.size(); ++i) layers[i] = (*ids)[i].get<int>() + 1;
    if (ascend(layers)) return layers;
  }
  said->bad(kIds, format("3 ascending layers from 0 to %d", n_layers - 1), json_text(*ids));
}

// The tokens that an EAGLE-3 layer guesses; empty: all.
std::vector<int32_t> eagle3_tokens(HeadTensors& tensors, int n_tokens, int vocab_size) {
  constexpr const char *kOffsets = "d2t", *kKnown = "t2d";
  if (n_tokens == vocab_size) {  // nobody looks at them
    tensors.skip(kOffsets);
    tensors.skip(kKnown);
    return {};
  }
  const std::vector<int64_t> offsets = tensors.offsets(kOffsets, n_tokens);
  std::vector<int32_t> tokens;
  std::vector<uint8_t> known(static_cast<size_t>(vocab_size), 0);
  for (int i = 0; i < n_tokens; ++i) {
    const int64_t offset = offsets[static_cast<size_t>(i)];
    if (offset < -i || offset >= vocab_size - i) {
      tensors.fail(kOffsets, format("expected i + d2t[i] from 0 to %d, found d2t[%d] = %lld",
                                    vocab_size - 1, i, static_cast<long long>(offset)));
    }
    const auto token = static_cast<int32_t>(i + offset);
    if (known[static_cast<size_t>(token)]++) {
      tensors.fail(kOffsets, format("expected each token once, found %d again at %d", token, i));
    }
    tokens.push_back(token);
  }
  if (tensors.has(kKnown) && tensors.flags(kKnown, vocab_size) != known) {
    tensors.fail(kKnown, "expected true for the tokens of d2t alone, found others");
  }
  return tokens;
}

NewHead read_eagle3(const JsonObject& file, HeadTensors& tensors, const Gguf& model,
                    const ModelConfig& config) {
  check_layer(file, model, config, LayerRotation::kOwn);
  const int dim = config.dim, vocab_size = config.vocab_size;
  const auto vocabulary = static_cast<uint64_t>(vocab_size);
  const auto n_tokens =
      static_cast<int>(file.bounded("draft_vocab_size", 1, vocabulary, vocabulary));
  NewHead head;
  head.kind = HeadKind::kEagle3;
  head.states = states_of(file, config.n_layers);
  head.rope_theta = rope_of(file).number("rope_theta", 1, 1e12).value_or(kRopeTheta);
  head.map = tensors.matrix(kEagleInput, dim, 3 * dim);
  read_block(file, tensors, kEagle3Layer, 2 * dim, false, config, head);
  head.embedding_norm = tensors.vector("midlayer.input_layernorm.weight", dim);
  head.state_norm = tensors.vector("midlayer.hidden_norm.weight", dim);
  head.ffn_norm = tensors.vector("midlayer.post_attention_layernorm.weight", dim);
  head.norm = tensors.vector("norm.weight", dim);
  head.lm_head = tensors.matrix("lm_head.weight", n_tokens, dim);
  head.tokens = eagle3_tokens(tensors, n_tokens, vocab_size);
  tensors.check_same(kEmbedding, map_weights(model, config).token_embd);
  tensors.refuse_leftovers("than an EAGLE-3 layer has");
  return head;
}

// An adapter behind an early layer of the model, which the authors' program is told and the file
// does not name.
NewHead read_kangaroo(const JsonObject& file, HeadTensors& tensors, const Gguf& model,
                      const ModelConfig& config) {
  check_layer(file, model, config, LayerRotation::kOwn);
  if (!file.find(kExitLayer)) {
    file.refuse(kExitLayer,
                "the layer that the adapter stands behind, as the authors' program is told by "
                "--exitlayer; write it there");
  }
  const auto last = static_cast<uint64_t>(config.n_layers - 1);
  NewHead head;
  head.kind = HeadKind::kKangaroo;
  head.layer = static_cast<int>(file.bounded(kExitLayer, 1, last));
  head.rope_theta = rope_of(file).number("rope_theta", 1, 1e12).value_or(kRopeTheta);
  head.attn_norm = tensors.vector(kAdapterInput, config.dim);
  read_attention(tensors, "layers.0.", config.dim, config, head);
  head.norm = tensors.vector("norm.weight", config.dim);
  tensors.refuse_leftovers("than a Kangaroo adapter has");
  return head;
}

// The first of the layers that the model's own checkpoint has, whatever else is there: drafts run
// it on what it said, as vLLM does.
NewHead read_mtp(const JsonObject& file, HeadTensors& tensors, const Gguf& model,
                 const ModelConfig& config) {
  check_layer(file, model, config, LayerRotation::kModel);
  const auto n_layers = static_cast<int>(file.bounded(kMtpCount, 1, kMostMtpLayers, 1));
  const int dim = config.dim;
  const std::string layer = std::string(kMtpLayers) + "0.";
  NewHead head;
  head.kind = HeadKind::kMtp;
  head.map = tensors.matrix(layer + kMtpInput, dim, 2 * dim, {.halves_swapped = true});
  read_block(file, tensors, layer, dim, tensors.has(layer + "self_attn.q_proj.bias"), config, head);
  head.embedding_norm = tensors.vector(layer + "token_layernorm.weight", dim);
  head.state_norm = tensors.vector(layer + "hidden_layernorm.weight", dim);
  head.attn_norm = tensors.vector(layer + "input_layernorm.weight", dim);
  head.ffn_norm = tensors.vector(layer + "post_attention_layernorm.weight", dim);
  head.norm = tensors.vector(layer + "final_layernorm.weight", dim);
  const Weights weights = map_weights(model, config);
  tensors.check_same("model." + std::string(kEmbedding), weights.token_embd);
  if (!weights.tied) tensors.check_same("lm_head.weight", weights.lm_head);
  tensors.refuse_leftovers("than a layer of MiMo has", "", layer);
  if (const std::string more = kMtpLayers + std::to_string(n_layers) + "."; tensors.has_any(more)) {
    file.bad(kMtpCount, "as many as there are tensors of", format("%d", n_layers));
  }
  return head;
}

Checkpoint open_checkpoint(const std::string& directory) {
  const fs::path folder(directory);
  std::error_code ignored;
  for (const char* name : {kMedusaFile, kHydraFile}) {
    if (!fs::exists(folder / name, ignored)) continue;
    return Checkpoint::of(Safetensors::open((folder / name).string()), directory);
  }
  for (const auto& [name, instead] :
       {std::pair("medusa_lm_head.pt", kMedusaFile), {"hydra_lm_head.pt", kHydraFile}}) {
    if (!fs::exists(folder / name, ignored)) continue;
    throw Error(ErrorCode::kFile,
                format("%s: expected safetensors, found %s: such files are programs and are not "
                       "read; save the heads as %s",
                       directory.c_str(), name, instead));
  }
  return Checkpoint::open(directory);
}

size_t elements(const SafeTensor& tensor) {
  size_t n = 1;
  for (const uint64_t size : tensor.shape) n *= size;
  return n;
}

// A whole model with a layer of its own that drafts, and no others' heads beside.
bool is_of_model(const JsonObject& file, const HeadTensors& tensors) {
  return !file.find(kMedusaHeads) && !file.find(kHydraHeads) && tensors.has_any(kMtpLayers);
}

// What making the file takes at most: its tensors, the file of them, and one tensor as floats.
size_t memory_needed(const JsonObject& file, const Checkpoint& checkpoint,
                     std::optional<DType> type) {
  size_t output = 0, largest = 0;
  const std::vector<const SafeTensor*> tensors = checkpoint.tensors();
  // Of a model's own checkpoint that layer alone is taken.
  const std::string first_layer = std::string(kMtpLayers) + "0.";
  const bool of_model = is_of_model(file, HeadTensors(checkpoint, type));
  for (const SafeTensor* tensor : tensors) {
    // Looked at where it lies.
    if (of_model ? !tensor->name.starts_with(first_layer) : tensor->name == kEmbedding) continue;
    const size_t n = elements(*tensor);
    if (tensor->shape.size() < 2) {
      output += n * sizeof(float);
    } else if (type) {
      output += n / dtype_info(*type)->block * dtype_info(*type)->bytes;
    } else {
      output += tensor->bytes.size();
    }
    largest = std::max(largest, n * sizeof(float));
  }
  return 2 * output + largest;
}

size_t parameters(const NewHead& head) {
  size_t n = 0;
  const auto add = [&](const HeadTensor& tensor) {
    n += static_cast<size_t>(tensor.n_out) * static_cast<size_t>(tensor.n_in);
  };
  for (const HeadTensor* tensor :
       {&head.map, &head.q, &head.k, &head.v, &head.o, &head.gate, &head.up, &head.down, &head.norm,
        &head.map_bias, &head.q_bias, &head.k_bias, &head.v_bias, &head.embedding_norm,
        &head.state_norm, &head.attn_norm, &head.ffn_norm, &head.lm_head}) {
    add(*tensor);
  }
  for (const NewMedusaHead& one : head.medusa) {
    for (const NewMedusaHead::Block& block : one.blocks) {
      for (const HeadTensor* tensor :
           {&block.map, &block.bias, &block.residual, &block.residual_bias}) {
        add(*tensor);
      }
    }
    add(one.lm_head);
    add(one.lm_bias);
  }
  return n;
}

}  // namespace

NewHeads read_published_heads(const nlohmann::json& config, const std::string& config_path,
                              const Checkpoint& checkpoint, const Gguf& model,
                              std::optional<DType> type) {
  const JsonObject file(config, config_path);
  const ModelConfig model_config = read_config(model);
  NewHeads heads;
  heads.base = heads_base(model, model_config);
  HeadTensors tensors(checkpoint, type);
  if (file.find(kMedusaHeads)) {
    check_sizes(file, heads.base);
    heads.heads.push_back(read_medusa(file, tensors, heads.base));
  } else if (file.find(kHydraHeads)) {
    check_sizes(file, heads.base);
    heads.heads.push_back(read_hydra(file, tensors, heads.base));
  } else if (is_of_model(file, tensors)) {
    check_sizes(file, heads.base);
    heads.heads.push_back(read_mtp(file, tensors, model, model_config));
  } else if (tensors.has_any(kEagle3Layer)) {
    check_sizes(file, heads.base);
    heads.heads.push_back(read_eagle3(file, tensors, model, model_config));
  } else if (tensors.has(kEagleInput)) {
    check_sizes(file, heads.base);
    heads.heads.push_back(read_eagle(file, tensors, model, model_config));
  } else if (tensors.has(kAdapterInput)) {
    check_sizes(file, heads.base);
    heads.heads.push_back(read_kangaroo(file, tensors, model, model_config));
    heads.defaults.d_max = std::max(heads.defaults.d_max, heads.heads[0].layer);
  } else {
    throw Error(
        ErrorCode::kUnsupported,
        format("%s: expected '%s' or '%s', of Medusa or Hydra heads, or a tensor '%s' beside it, "
               "of an EAGLE layer, '%s', of a Kangaroo adapter, or '%s0.%s', of a model's own, "
               "found none of them",
               config_path.c_str(), kMedusaHeads, kHydraHeads, kEagleInput, kAdapterInput,
               kMtpLayers, kMtpInput));
  }
  heads.defaults.kind = heads.heads[0].kind;
  return heads;
}

ConvertedHeads convert_heads(const ConvertHeadsOptions& options) {
  const std::string config_path = (fs::path(options.directory) / "config.json").string();
  const nlohmann::json config = read_json(config_path, kMostConfig);
  const Checkpoint checkpoint = open_checkpoint(options.directory);
  const Gguf model = Gguf::open(options.model);
  if (options.reserve) {
    options.reserve(memory_needed(JsonObject(config, config_path), checkpoint, options.type));
  }
  const NewHeads heads = read_published_heads(config, config_path, checkpoint, model, options.type);
  write_exit_heads(options.output, heads);

  ConvertedHeads done;
  done.bytes = fs::file_size(options.output);
  const NewHead& head = heads.heads[0];
  done.kind = head.kind;
  done.parameters = parameters(head);
  if (head.kind == HeadKind::kEagle) {
    done.what = "an EAGLE layer";
    return done;
  }
  if (head.kind == HeadKind::kMtp) {
    done.what = "a multi-token prediction layer";
    return done;
  }
  if (head.kind == HeadKind::kKangaroo) {
    done.what = format("a Kangaroo adapter behind layer %d", head.layer);
    return done;
  }
  if (head.kind == HeadKind::kEagle3) {
    done.what = format("an EAGLE-3 layer of %d tokens", head.lm_head.n_out);
    return done;
  }
  const size_t n_heads = head.medusa.size(), n_blocks = head.medusa[0].blocks.size();
  done.what = format("%zu %s head%s of %zu block%s", n_heads,
                     head.kind == HeadKind::kHydra ? "Hydra" : "Medusa", n_heads == 1 ? "" : "s",
                     n_blocks, n_blocks == 1 ? "" : "s");
  return done;
}

}  // namespace specbound
