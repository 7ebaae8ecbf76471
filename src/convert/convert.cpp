#include "convert/convert.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "convert/checkpoint.h"
#include "convert/hf_config.h"
#include "convert/hf_rope.h"
#include "convert/hf_tokenizer.h"
#include "convert/quantize_plan.h"
#include "convert/tensor_encoder.h"
#include "error.h"
#include "model/codec.h"
#include "model/config.h"
#include "model/gguf.h"
#include "model/gguf_writer.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace specbound {
namespace {

namespace fs = std::filesystem;

// ---- which tensor becomes which: names, shapes and layout as convert_hf_to_gguf.py has them ----

struct PlannedTensor {
  std::string name;                        // in the GGUF file
  std::vector<const SafeTensor*> sources;  // of as many rows each, one below the other
  uint64_t n_out, n_in;                    // rows of one and their length; a vector has rows of 1
  bool is_vector;
  DType type;  // norms and biases F32; matrices as asked, in the rows' limits
  // Rows of a head, whose halves become interleaved pairs: row_in_halves(). 0: rows stay.
  uint64_t head_rows;
  bool add_one;  // to every element: norms that are stored as weight - 1

  uint64_t elements_of_one() const { return n_out * n_in; }
  uint64_t elements() const { return sources.size() * elements_of_one(); }
};

class Planner {
 public:
  Planner(const HfConfig& config, const Checkpoint& checkpoint, DType type)
      : config_(config), checkpoint_(checkpoint), type_(type) {}

  // Throws Error(kFormat) for missing or mis-shaped tensors (expected and found),
  // Error(kUnsupported) for elements that are not F32, F16 or BF16 and for tensors that the
  // architecture does not know.
  std::vector<PlannedTensor> plan() {
    matrix("model.embed_tokens.weight", "token_embd.weight", config_.vocab_size, config_.dim);
    for (uint64_t l = 0; l < config_.n_layers; ++l) layer(l);
    from_.clear(), to_.clear();
    norm("model.norm", "output_norm", config_.dim);
    if (!config_.tied) matrix("lm_head.weight", "output.weight", config_.vocab_size, config_.dim);
    refuse_leftovers();
    return std::move(planned_);
  }
  int n_aside() const { return n_aside_; }  // tensors of multi-token prediction, after plan()

 private:
  void layer(uint64_t l) {
    const std::string number = std::to_string(l);
    from_ = "model.layers." + number + ".";
    to_ = "blk." + number + ".";
    const Architecture& a = *config_.model;
    norm("input_layernorm", "attn_norm", config_.dim);
    attention();
    // Gemma 2 has norms on both sides of either part, and other names for them.
    if (a.post_norms) {
      norm("post_attention_layernorm", "post_attention_norm", config_.dim);
      norm("pre_feedforward_layernorm", "ffn_norm", config_.dim);
      norm("post_feedforward_layernorm", "post_ffw_norm", config_.dim);
    } else {
      norm("post_attention_layernorm", "ffn_norm", config_.dim);
    }
    if (a.experts) {
      matrix("mlp.gate.weight", "ffn_gate_inp.weight", config_.n_experts, config_.dim);
      experts("gate_proj", "ffn_gate_exps", config_.expert_ffn_dim, config_.dim);
      experts("up_proj", "ffn_up_exps", config_.expert_ffn_dim, config_.dim);
      experts("down_proj", "ffn_down_exps", config_.dim, config_.expert_ffn_dim);
      return;
    }
    if (a.fused) {
      matrix("mlp.gate_up_proj.weight", "ffn_up.weight", 2 * config_.ffn_dim, config_.dim);
    } else {
      matrix("mlp.gate_proj.weight", "ffn_gate.weight", config_.ffn_dim, config_.dim);
      matrix("mlp.up_proj.weight", "ffn_up.weight", config_.ffn_dim, config_.dim);
    }
    matrix("mlp.down_proj.weight", "ffn_down.weight", config_.dim, config_.ffn_dim);
  }

  void attention() {
    const Architecture& a = *config_.model;
    const uint64_t q_dim = config_.q_dim(), kv_dim = config_.kv_dim();
    if (a.fused) {
      matrix("self_attn.qkv_proj.weight", "attn_qkv.weight", q_dim + 2 * kv_dim, config_.dim);
    } else {
      const bool moved = config_.interleaved() && !config_.architecture->in_pairs;
      const uint64_t head_rows = moved ? config_.head_dim : 0;
      projection("self_attn.q_proj", "attn_q", q_dim, head_rows);
      projection("self_attn.k_proj", "attn_k", kv_dim, head_rows);
      projection("self_attn.v_proj", "attn_v", kv_dim, 0);
    }
    if (a.qk_norm) {
      norm("self_attn.q_norm", "attn_q_norm", config_.head_dim);
      norm("self_attn.k_norm", "attn_k_norm", config_.head_dim);
    }
    matrix("self_attn.o_proj.weight", "attn_output.weight", config_.dim, q_dim);
    if (config_.o_bias) vector("self_attn.o_proj.bias", "attn_output.bias", config_.dim);
  }

  void projection(const std::string& hf, const std::string& gguf, uint64_t n_out,
                  uint64_t head_rows) {
    matrix(hf + ".weight", gguf + ".weight", n_out, config_.dim, head_rows);
    if (config_.qkv_bias) vector(hf + ".bias", gguf + ".bias", n_out, head_rows);
  }

  void matrix(const std::string& hf, const std::string& gguf, uint64_t n_out, uint64_t n_in,
              uint64_t head_rows = 0) {
    const uint64_t shape[] = {n_out, n_in};
    const SafeTensor& source = take(from_ + hf, shape);
    const std::string name = to_ + gguf;
    const DType type = matrix_type(name, n_in, type_);
    planned_.push_back({name, {&source}, n_out, n_in, false, type, head_rows, false});
  }

  void experts(const char* hf, const char* gguf, uint64_t n_out, uint64_t n_in) {
    const uint64_t shape[] = {n_out, n_in};
    std::vector<const SafeTensor*> sources;
    for (uint64_t e = 0; e < config_.n_experts; ++e) {
      const std::string number = std::to_string(e);
      sources.push_back(&take(from_ + "mlp.experts." + number + "." + hf + ".weight", shape));
    }
    const std::string name = to_ + gguf + ".weight";
    const DType type = matrix_type(name, n_in, type_);
    planned_.push_back({name, std::move(sources), n_out, n_in, false, type, 0, false});
  }

  void vector(const std::string& hf, const std::string& gguf, uint64_t n, uint64_t head_rows = 0,
              bool add_one = false) {
    const uint64_t shape[] = {n};
    const SafeTensor& source = take(from_ + hf, shape);
    planned_.push_back({to_ + gguf, {&source}, n, 1, true, DType::kF32, head_rows, add_one});
  }

  void norm(const std::string& hf, const std::string& gguf, uint64_t n) {
    vector(hf + ".weight", gguf + ".weight", n, 0, config_.architecture->norm_offset);
  }

  const SafeTensor& take(const std::string& name, std::span<const uint64_t> shape) {
    const SafeTensor* tensor = checkpoint_.find(name);
    if (!tensor) fail(ErrorCode::kFormat, name, "expected it, found none of this name");
    if (!std::ranges::equal(tensor->shape, shape)) {
      fail(ErrorCode::kFormat, name,
           format("expected the shape %s, as config.json has it, found %s",
                  shape_text(shape).c_str(), shape_text(tensor->shape).c_str()));
    }
    if (!tensor->type) {
      fail(ErrorCode::kUnsupported, name,
           format("expected F32, F16 or BF16, found %s", tensor->dtype.c_str()));
    }
    taken_.insert(tensor);
    return *tensor;
  }

  // Counts what is left aside.
  void refuse_leftovers() {
    for (const SafeTensor* tensor : checkpoint_.tensors()) {
      const std::string_view name = tensor->name;
      // Tables that old files store, and a head that is not used: the embedding is.
      const bool known =
          name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attention.bias") ||
          name.ends_with(".attention.masked_bias") || (config_.tied && name == "lm_head.weight");
      const bool mtp = config_.architecture->mtp && name.starts_with(kMtpLayers);
      n_aside_ += mtp;
      if (taken_.contains(tensor) || known || mtp) continue;
      fail(ErrorCode::kUnsupported, tensor->name,
           format("expected none of this name in %s", config_.architecture->hf_name));
    }
  }

  [[noreturn]] void fail(ErrorCode code, const std::string& name, const std::string& what) const {
    throw Error(code, format("%s: tensor '%s': %s", checkpoint_.directory().c_str(),
                             printable(name).c_str(), what.c_str()));
  }

  const HfConfig& config_;
  const Checkpoint& checkpoint_;
  const DType type_;
  std::string from_, to_;  // what names begin with, of the layer under way
  std::vector<PlannedTensor> planned_;
  std::unordered_set<const SafeTensor*> taken_;
  int n_aside_ = 0;
};

// Elements [begin, begin + count) of the planned tensor, in the order of the GGUF file.
void load_elements(const PlannedTensor& tensor, uint64_t begin, uint64_t count, float* out) {
  SB_CHECK(begin + count <= tensor.elements());
  const uint64_t of_one = tensor.elements_of_one();
  if (begin / of_one != (begin + count - 1) / of_one) {
    for (uint64_t done = 0; done < count;) {
      const uint64_t n = std::min(of_one - (begin + done) % of_one, count - done);
      load_elements(tensor, begin + done, n, out + done);
      done += n;
    }
    return;
  }
  const SafeTensor& source = *tensor.sources[begin / of_one];
  begin %= of_one;
  const DType from = *source.type;
  const uint64_t bytes = dtype_info(from)->bytes;
  if (tensor.head_rows == 0) {
    dequantize(source.bytes.data() + begin * bytes, from, count, out);
  } else {
    for (uint64_t done = 0; done < count;) {
      const uint64_t row = (begin + done) / tensor.n_in, column = (begin + done) % tensor.n_in;
      const uint64_t n = std::min(tensor.n_in - column, count - done);
      const uint64_t element = row_in_halves(row, tensor.head_rows) * tensor.n_in + column;
      dequantize(source.bytes.data() + element * bytes, from, n, out + done);
      done += n;
    }
  }
  if (tensor.add_one) {
    for (uint64_t i = 0; i < count; ++i) out[i] += 1;
  }
}

// ---- the file ----

// Readers know by the model's name alone that Phi-3's special tokens drop the white space behind
// them.
std::string phi3_name(const std::string& name) {
  return name_strips_white_space(name) ? name : "Phi-3 " + name;
}

void add_floats(GgufWriter& writer, const char* name, std::span<const float> values) {
  if (values.empty()) return;
  const uint64_t shape[] = {values.size()};
  writer.add_tensor(name, DType::kF32, shape, std::as_bytes(values));
}

// What is in the file so far, read back: what nothing here could open is not written.
void check_readable(const GgufWriter& writer, const std::string& directory) {
  const std::vector<std::byte> bytes = writer.serialize();
  const Gguf gguf = Gguf::parse(bytes, directory);
  read_config(gguf);
  Tokenizer::from_gguf(gguf);
}

class Writing {
 public:
  Writing(const ConvertOptions& options, std::vector<PlannedTensor> plan)
      : options_(options), plan_(std::move(plan)) {
    for (const PlannedTensor& tensor : plan_) total_ += bytes_of(tensor);
  }

  void add_tensors(GgufWriter& writer) {
    for (const PlannedTensor& tensor : plan_) {
      std::vector<uint64_t> shape = {tensor.n_in, tensor.n_out};
      if (tensor.is_vector) shape = {tensor.n_out};
      if (tensor.sources.size() > 1) shape.push_back(tensor.sources.size());
      writer.add_tensor(tensor.name, tensor.type, shape,
                        [this, &tensor](const GgufWriter::Write& write) { encode(tensor, write); });
    }
  }

  void count(Converted& converted) const {
    for (const PlannedTensor& tensor : plan_) {
      converted.parameters += tensor.elements();
      converted.by_type[tensor.type] += bytes_of(tensor);
    }
    converted.tensors += plan_.size();
    converted.bytes += total_;
  }

 private:
  static size_t bytes_of(const PlannedTensor& tensor) {
    const DTypeInfo* info = dtype_info(tensor.type);
    return tensor.elements() / info->block * info->bytes;
  }

  void encode(const PlannedTensor& tensor, const GgufWriter::Write& write) {
    const DTypeInfo* info = dtype_info(tensor.type);
    TensorSource source;
    source.place = format("%s: tensor '%s'", options_.directory.c_str(),
                          printable(tensor.sources[0]->name).c_str());
    source.elements = tensor.elements();
    source.load = [&tensor](uint64_t begin, uint64_t count, float* out) {
      load_elements(tensor, begin, count, out);
    };
    const bool whole = tensor.sources.size() == 1 && tensor.head_rows == 0 && !tensor.add_one;
    if (whole && tensor.type == tensor.sources[0]->type) source.as_is = tensor.sources[0]->bytes;
    encode_tensor(source, tensor.type, options_.n_threads, write, [&](uint64_t elements) {
      done_ += elements / info->block * info->bytes;
      if (options_.progress) options_.progress(done_, total_);
    });
  }

  const ConvertOptions& options_;
  const std::vector<PlannedTensor> plan_;
  size_t total_ = 0, done_ = 0;  // bytes
};

}  // namespace

std::optional<DType> convert_type(std::string_view name) {
  if (name == "F32" || name == "f32") return DType::kF32;
  return quantize_type(name);
}

std::string model_name(const std::string& directory) {
  std::error_code error;
  fs::path path = fs::weakly_canonical(fs::absolute(directory, error), error);
  if (!path.has_filename()) path = path.parent_path();
  const fs::path snapshots = path.parent_path();
  const std::string repository = snapshots.parent_path().filename().string();
  if (snapshots.filename() == "snapshots" && repository.starts_with("models--")) {
    return repository.substr(repository.rfind("--") + 2);
  }
  return path.filename().string();
}

Converted convert_model(const ConvertOptions& options) {
  const HfFiles files = HfFiles::read(options.directory);
  const HfConfig config = read_hf_config(files.config, files.path("config.json"));
  const Checkpoint checkpoint = Checkpoint::open(options.directory);
  Planner planner(config, checkpoint, options.type);
  Writing writing(options, planner.plan());

  Converted converted;
  converted.name = options.name.empty() ? model_name(options.directory) : options.name;
  if (config.model->fused && strips_white_space(files)) {
    converted.name = phi3_name(converted.name);
  }
  const HfVocabulary vocabulary = read_hf_tokenizer(files, config.vocab_size, options.pre,
                                                    name_strips_white_space(converted.name));
  converted.hf_architecture = config.architecture->hf_name;
  converted.architecture = config.architecture->gguf_name;
  converted.n_tokens = vocabulary.tokens.size();
  converted.tokenizer = vocabulary.model;
  converted.pre = vocabulary.pre;
  converted.chat_template = !vocabulary.chat_template.empty();
  converted.notes = vocabulary.notes;
  if (const int n = planner.n_aside(); n > 0) {
    converted.notes.push_back(
        format("%d tensors of multi-token prediction (%s*) are left aside: with --heads the same "
               "directory becomes a heads file of them",
               n, kMtpLayers));
  }

  GgufWriter writer;
  add_config_keys(config, writer);
  writer.add_string("general.type", "model");
  writer.add_string("general.name", converted.name);
  add_type_keys(options.type, writer);
  add_vocabulary_keys(vocabulary, writer);
  const std::pair<const char*, const std::vector<float>&> tables[] = {
      {"rope_freqs.weight", config.rope.factors},
      {"rope_factors_long.weight", config.rope.long_factors},
      {"rope_factors_short.weight", config.rope.short_factors}};
  for (const auto& [name, factors] : tables) {
    add_floats(writer, name, factors);
    converted.tensors += !factors.empty();
    converted.bytes += factors.size() * sizeof(float);
  }
  check_readable(writer, options.directory);

  writing.add_tensors(writer);
  writing.count(converted);
  writer.write(options.output);
  return converted;
}

}  // namespace specbound
