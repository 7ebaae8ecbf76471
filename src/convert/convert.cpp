#include "convert/convert.h"

#include <filesystem>
#include <span>
#include <utility>

#include "convert/checkpoint.h"
#include "convert/hf_config.h"
#include "convert/hf_tokenizer.h"
#include "convert/quantize_plan.h"
#include "convert/tensor_encoder.h"
#include "convert/tensor_plan.h"
#include "error.h"
#include "model/config.h"
#include "model/gguf.h"
#include "model/gguf_writer.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace specbound {
namespace {

namespace fs = std::filesystem;

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
      writer.add_tensor(tensor.name, tensor.type, shape,
                        [this, &tensor](const GgufWriter::Write& write) { encode(tensor, write); });
    }
  }

  void count(Converted& converted) const {
    for (const PlannedTensor& tensor : plan_) {
      converted.parameters += tensor.n_out * tensor.n_in;
      converted.by_type[tensor.type] += bytes_of(tensor);
    }
    converted.tensors += plan_.size();
    converted.bytes += total_;
  }

 private:
  static size_t bytes_of(const PlannedTensor& tensor) {
    const DTypeInfo* info = dtype_info(tensor.type);
    return tensor.n_out * tensor.n_in / info->block * info->bytes;
  }

  void encode(const PlannedTensor& tensor, const GgufWriter::Write& write) {
    const DTypeInfo* info = dtype_info(tensor.type);
    TensorSource source;
    source.place = format("%s: tensor '%s'", options_.directory.c_str(),
                          printable(tensor.source->name).c_str());
    source.elements = tensor.n_out * tensor.n_in;
    source.load = [&tensor](uint64_t begin, uint64_t count, float* out) {
      load_elements(tensor, begin, count, out);
    };
    if (tensor.type == tensor.source->type && tensor.head_rows == 0 && !tensor.add_one) {
      source.as_is = tensor.source->bytes;
    }
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
  Writing writing(options, plan_tensors(config, checkpoint, options.type));

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
