#include "convert/published_heads.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "convert/hf_files.h"
#include "convert/hf_rope.h"
#include "error.h"
#include "json/json_reader.h"
#include "model/codec.h"
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
constexpr uint64_t kMostInner = 1 << 20;
constexpr double kRopeTheta = 10000;  // where config.json does not say it

// For Taker: of queries and keys.
int paired_rows(const ModelConfig& config) {
  return config.rope_style == RopeStyle::kInterleaved ? config.head_dim : 0;
}

// Tensors of a checkpoint, each taken once, in the type that is wanted.
class Taker {
 public:
  Taker(const Checkpoint& checkpoint, std::optional<DType> type)
      : checkpoint_(checkpoint), type_(type) {}

  // head_rows: as row_in_halves() takes them; 0: rows stay where they are.
  HeadTensor matrix(const std::string& name, int n_out, int n_in, int head_rows = 0) {
    const uint64_t shape[] = {static_cast<uint64_t>(n_out), static_cast<uint64_t>(n_in)};
    const SafeTensor& tensor = take_floats(name, shape);
    std::vector<std::byte> moved;
    const std::span<const std::byte> bytes = ordered(tensor, n_out, head_rows, moved);
    HeadTensor out = {n_out, n_in};
    out.type = type_.value_or(*tensor.type);
    if (const DTypeInfo& info = *dtype_info(out.type); static_cast<unsigned>(n_in) % info.block) {
      fail(name, format("expected rows of whole %s blocks (%u elements), found rows of %d",
                        info.name, info.block, n_in));
    }
    if (out.type != *tensor.type) {
      out.encoded = encode_floats(floats(bytes, *tensor.type), out.type);
    } else if (head_rows > 0) {
      out.encoded = std::move(moved);
    } else {
      out.encoded.assign(bytes.begin(), bytes.end());
    }
    return out;
  }
  HeadTensor vector(const std::string& name, int n, int head_rows = 0) {
    const uint64_t shape[] = {static_cast<uint64_t>(n)};
    const SafeTensor& tensor = take_floats(name, shape);
    std::vector<std::byte> moved;
    return {1, n, floats(ordered(tensor, n, head_rows, moved), *tensor.type)};
  }
  // Of n integers T, which the file calls `dtype`.
  template <class T>
  std::vector<T> integers(const std::string& name, int n, const char* dtype) {
    const uint64_t shape[] = {static_cast<uint64_t>(n)};
    const SafeTensor& tensor = take(name, shape);
    if (tensor.dtype != dtype) {
      fail(name, format("expected %s, found %s", dtype, printable(tensor.dtype).c_str()));
    }
    std::vector<T> values(static_cast<size_t>(n));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
  }
  bool has(const std::string& name) const { return checkpoint_.find(name) != nullptr; }
  bool has_any(const std::string& prefix) const {
    return std::ranges::any_of(checkpoint_.tensors(), [&](const SafeTensor* tensor) {
      return tensor->name.starts_with(prefix);
    });
  }
  // That `name`, if it is there, holds `matrix` but for what rounding did to either.
  void check_same(const std::string& name, const Matrix& matrix) {
    if (!has(name)) return;
    const uint64_t n_in = matrix.n_in, shape[] = {static_cast<uint64_t>(matrix.n_out), n_in};
    const SafeTensor& tensor = take_floats(name, shape);
    const size_t bytes = dtype_info(*tensor.type)->bytes * n_in;
    const size_t model_bytes = matrix.bytes() / matrix.n_out;
    std::vector<float> theirs(n_in), own(n_in);
    double squares = 0, errors = 0;
    const int step = std::max(1, matrix.n_out / kSampledRows);
    for (int row = 0; row < matrix.n_out; row += step) {
      dequantize(tensor.bytes.data() + row * bytes, *tensor.type, n_in, theirs.data());
      dequantize(matrix.data + row * model_bytes, matrix.type, n_in, own.data());
      for (uint64_t i = 0; i < n_in; ++i) {
        squares += double{own[i]} * own[i];
        errors += (double{theirs[i]} - own[i]) * (double{theirs[i]} - own[i]);
      }
    }
    if (errors <= kMostError * squares) return;
    fail(name, format("expected the model's own, found one that differs by %.3g of its size",
                      std::sqrt(errors / squares)));
  }
  // Tables that old files store.
  void skip(const std::string& name) {
    if (const SafeTensor* tensor = checkpoint_.find(name)) taken_.insert(tensor);
  }
  [[noreturn]] void fail(const std::string& name, const std::string& what) const {
    throw Error(ErrorCode::kFormat, format("%s: tensor '%s': %s", checkpoint_.directory().c_str(),
                                           printable(name).c_str(), what.c_str()));
  }
  void refuse_leftovers(const std::string& why, const std::string& advice = "") const {
    for (const SafeTensor* tensor : checkpoint_.tensors()) {
      if (taken_.contains(tensor)) continue;
      fail(tensor->name, "expected no more " + why + ", found it" + advice);
    }
  }

 private:
  static constexpr int kSampledRows = 256;
  static constexpr double kMostError = 0.05;  // of squares: a model of 4 bits has 0.01

  static std::vector<float> floats(std::span<const std::byte> bytes, DType from) {
    std::vector<float> out(bytes.size() / dtype_info(from)->bytes);
    dequantize(bytes.data(), from, out.size(), out.data());
    return out;
  }
  // Its rows as the model has them, where that is another order in `moved`.
  static std::span<const std::byte> ordered(const SafeTensor& tensor, int n_rows, int head_rows,
                                            std::vector<std::byte>& moved) {
    if (head_rows == 0) return tensor.bytes;
    moved.resize(tensor.bytes.size());
    const size_t row_bytes = moved.size() / static_cast<size_t>(n_rows);
    for (int row = 0; row < n_rows; ++row) {
      const uint64_t from = row_in_halves(row, head_rows);
      std::ranges::copy(tensor.bytes.subspan(from * row_bytes, row_bytes),
                        moved.begin() + static_cast<std::ptrdiff_t>(row * row_bytes));
    }
    return moved;
  }
  const SafeTensor& take(const std::string& name, std::span<const uint64_t> shape) {
    const SafeTensor* tensor = checkpoint_.find(name);
    if (!tensor) fail(name, "expected it, found none of this name");
    if (!std::ranges::equal(tensor->shape, shape)) {
      fail(name, format("expected the shape %s, of the model's sizes, found %s",
                        shape_text(shape).c_str(), shape_text(tensor->shape).c_str()));
    }
    taken_.insert(tensor);
    return *tensor;
  }
  const SafeTensor& take_floats(const std::string& name, std::span<const uint64_t> shape) {
    const SafeTensor& tensor = take(name, shape);
    if (tensor.type) return tensor;
    fail(name, format("expected F32, F16 or BF16, found %s", printable(tensor.dtype).c_str()));
  }

  const Checkpoint& checkpoint_;
  const std::optional<DType> type_;
  std::unordered_set<const SafeTensor*> taken_;
};

// Where config.json names a size of the model, it must be the model's.
void check_sizes(const JsonObject& config, const HeadsBase& base) {
  for (const auto& [key, size] :
       {std::pair("hidden_size", base.dim), std::pair("vocab_size", base.vocab_size)}) {
    const std::optional<uint64_t> found = config.whole(key);
    if (!found || *found == static_cast<uint64_t>(size)) continue;
    config.bad(key, format("%d, the model's", size), json_text(*config.find(key)));
  }
}

NewHead read_medusa(const JsonObject& config, Taker& tensors, const HeadsBase& base) {
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
NewHead read_hydra(const JsonObject& config, Taker& tensors, const HeadsBase& base) {
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

// What the layer is run with is the model's, but for its own rotation where it `rotates`: a
// config.json that says otherwise is of another one.
void check_layer(const JsonObject& file, const Gguf& model, const ModelConfig& config,
                 bool rotates) {
  const auto whole = [&](const char* key, int expected) {
    const std::optional<uint64_t> found = file.whole(key);
    if (!found || *found == static_cast<uint64_t>(expected)) return;
    file.bad(key, format("%d, as the model has", expected), json_text(*file.find(key)));
  };
  const auto real = [&](const char* key, double expected, std::optional<double> unsaid) {
    const std::optional<double> found = file.number(key) ? file.number(key) : unsaid;
    if (!found || std::abs(*found - expected) <= 1e-6 * expected) return;
    file.bad(key, format("%g, as the model has", expected), format("%g", *found));
  };
  whole("num_hidden_layers", 1);
  whole("num_attention_heads", config.n_heads);
  whole("num_key_value_heads", config.n_kv_heads);
  whole("head_dim", config.head_dim);
  real("rms_norm_eps", config.norm_eps, {});
  if (!rotates) real("rope_theta", config.rope_theta, kRopeTheta);
  if (file.find("rope_scaling")) {
    file.unsupported("rope_scaling", "none", json_text(*file.find("rope_scaling")));
  }
  const std::string activation = file.text("hidden_act").value_or("silu");
  if (activation != "silu") {
    file.unsupported("hidden_act", "silu", "'" + printable(activation) + "'");
  }
  if (rotates) return;
  if (config.rope_scale != 1 || config.rope_original_context > 0 ||
      config.rope_dim != config.head_dim || model.find_tensor("rope_freqs.weight")) {
    throw Error(ErrorCode::kUnsupported,
                format("%s: expected a model whose positions are not scaled, as those of an EAGLE "
                       "layer are not, found one with scaled rotation",
                       model.path().c_str()));
  }
}

// The matrices of the block `name`, whose q, k and v are of `n_in`.
void read_block(const JsonObject& file, Taker& tensors, const std::string& name, int n_in,
                const ModelConfig& config, NewHead& head) {
  const int dim = config.dim, q_dim = config.q_dim(), kv_dim = config.kv_dim();
  const int inner = static_cast<int>(file.bounded("intermediate_size", 32, kMostInner));
  if (inner % 32 != 0) file.refuse("intermediate_size", "a multiple of 32");
  const std::string attention = name + "self_attn.", mlp = name + "mlp.";
  head.q = tensors.matrix(attention + "q_proj.weight", q_dim, n_in, paired_rows(config));
  head.k = tensors.matrix(attention + "k_proj.weight", kv_dim, n_in, paired_rows(config));
  head.v = tensors.matrix(attention + "v_proj.weight", kv_dim, n_in);
  head.o = tensors.matrix(attention + "o_proj.weight", dim, q_dim);
  head.gate = tensors.matrix(mlp + "gate_proj.weight", inner, dim);
  head.up = tensors.matrix(mlp + "up_proj.weight", inner, dim);
  head.down = tensors.matrix(mlp + "down_proj.weight", dim, inner);
  tensors.skip(attention + "rotary_emb.inv_freq");
}

NewHead read_eagle(const JsonObject& file, Taker& tensors, const Gguf& model,
                   const ModelConfig& config) {
  check_layer(file, model, config, false);
  const int dim = config.dim, q_dim = config.q_dim(), kv_dim = config.kv_dim();
  const bool bias = file.flag("bias").value_or(tensors.has("fc.bias"));
  const std::string layer = "layers.0.", attention = layer + "self_attn.";
  const bool qkv_bias = file.flag("qkv_bias").value_or(tensors.has(attention + "q_proj.bias"));

  NewHead head;
  head.kind = HeadKind::kEagle;
  head.map = tensors.matrix(kEagleInput, dim, 2 * dim);
  if (bias) head.map_bias = tensors.vector("fc.bias", dim);
  read_block(file, tensors, layer, dim, config, head);
  if (qkv_bias) {
    head.q_bias = tensors.vector(attention + "q_proj.bias", q_dim, paired_rows(config));
    head.k_bias = tensors.vector(attention + "k_proj.bias", kv_dim, paired_rows(config));
    head.v_bias = tensors.vector(attention + "v_proj.bias", kv_dim);
  }
  head.norm = tensors.vector(layer + "post_attention_layernorm.weight", dim);
  tensors.check_same(kEmbedding, map_weights(model, config).token_embd);
  tensors.refuse_leftovers("than an EAGLE layer has");
  return head;
}

// The layers after which EAGLE-3 takes states, from 1.
std::array<int, 3> eagle3_layers(const JsonObject& file, int n_layers) {
  constexpr const char* kIds = "eagle_aux_hidden_state_layer_ids";
  const auto ascend = [&](const std::array<int, 3>& layers) {
    return 1 <= layers[0] && layers[0] < layers[1] && layers[1] < layers[2] &&
           layers[2] <= n_layers;
  };
  std::array<int, 3> layers = {2, n_layers / 2, n_layers - 3};
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
std::vector<int32_t> eagle3_tokens(Taker& tensors, int n_tokens, int vocab_size) {
  constexpr const char *kOffsets = "d2t", *kKnown = "t2d";
  if (n_tokens == vocab_size) {  // nobody looks at them
    tensors.skip(kOffsets);
    tensors.skip(kKnown);
    return {};
  }
  const std::vector<int64_t> offsets = tensors.integers<int64_t>(kOffsets, n_tokens, "I64");
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
  if (tensors.has(kKnown) && tensors.integers<uint8_t>(kKnown, vocab_size, "BOOL") != known) {
    tensors.fail(kKnown, "expected true for the tokens of d2t alone, found others");
  }
  return tokens;
}

NewHead read_eagle3(const JsonObject& file, Taker& tensors, const Gguf& model,
                    const ModelConfig& config) {
  check_layer(file, model, config, true);
  const int dim = config.dim, vocab_size = config.vocab_size;
  const auto vocabulary = static_cast<uint64_t>(vocab_size);
  const auto n_tokens =
      static_cast<int>(file.bounded("draft_vocab_size", 1, vocabulary, vocabulary));
  NewHead head;
  head.kind = HeadKind::kEagle3;
  head.states = eagle3_layers(file, config.n_layers);
  head.rope_theta = file.number("rope_theta", 1, 1e12).value_or(kRopeTheta);
  head.map = tensors.matrix(kEagleInput, dim, 3 * dim);
  read_block(file, tensors, kEagle3Layer, 2 * dim, config, head);
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

// What making the file takes at most: its tensors, the file of them, and one tensor as floats.
size_t memory_needed(const Checkpoint& checkpoint, std::optional<DType> type) {
  size_t output = 0, largest = 0;
  for (const SafeTensor* tensor : checkpoint.tensors()) {
    if (tensor->name == kEmbedding) continue;  // looked at where it lies
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
        &head.state_norm, &head.ffn_norm, &head.lm_head}) {
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
  Taker tensors(checkpoint, type);
  if (file.find(kMedusaHeads)) {
    check_sizes(file, heads.base);
    heads.heads.push_back(read_medusa(file, tensors, heads.base));
  } else if (file.find(kHydraHeads)) {
    check_sizes(file, heads.base);
    heads.heads.push_back(read_hydra(file, tensors, heads.base));
  } else if (tensors.has_any(kEagle3Layer)) {
    check_sizes(file, heads.base);
    heads.heads.push_back(read_eagle3(file, tensors, model, model_config));
  } else if (tensors.has(kEagleInput)) {
    check_sizes(file, heads.base);
    heads.heads.push_back(read_eagle(file, tensors, model, model_config));
  } else {
    throw Error(
        ErrorCode::kUnsupported,
        format("%s: expected '%s' or '%s', of Medusa or Hydra heads, or a tensor '%s' beside it, "
               "of an EAGLE layer, found none of them",
               config_path.c_str(), kMedusaHeads, kHydraHeads, kEagleInput));
  }
  heads.defaults.kind = heads.heads[0].kind;
  return heads;
}

ConvertedHeads convert_heads(const ConvertHeadsOptions& options) {
  const std::string config_path = (fs::path(options.directory) / "config.json").string();
  const nlohmann::json config = read_json(config_path, kMostConfig);
  const Checkpoint checkpoint = open_checkpoint(options.directory);
  const Gguf model = Gguf::open(options.model);
  if (options.reserve) options.reserve(memory_needed(checkpoint, options.type));
  const NewHeads heads = read_published_heads(config, config_path, checkpoint, model, options.type);
  write_exit_heads(options.output, heads);

  ConvertedHeads done;
  done.bytes = fs::file_size(options.output);
  const NewHead& head = heads.heads[0];
  done.kind = head.kind;
  done.parameters = parameters(head);
  done.what = "an EAGLE layer";
  if (head.kind == HeadKind::kEagle) return done;
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
