#include "convert/requantize.h"

#include <cmath>

#include "convert/tensor_encoder.h"
#include "error.h"
#include "model/codec.h"
#include "model/gguf_writer.h"

namespace specbound {
namespace {

class Requantizer {
 public:
  Requantizer(const Gguf& gguf, const RequantizeOptions& options, size_t total)
      : gguf_(gguf), options_(options), total_(total) {}

  void tensor(const GgufTensor& tensor, DType type, const GgufWriter::Write& write) {
    const DTypeInfo* info = dtype_info(tensor.type);
    if (!runs_as(tensor.type)) {  // integers and the like, as they are
      write(tensor.bytes);
      return arrived(tensor.bytes.size());
    }
    TensorSource source;
    source.place = format("%s: tensor '%s'", gguf_.path().c_str(), printable(tensor.name).c_str());
    source.elements = tensor.bytes.size() / info->bytes * info->block;
    source.load = [&](uint64_t begin, uint64_t count, float* out) {
      dequantize(tensor.bytes.data() + begin / info->block * info->bytes, tensor.type, count, out);
    };
    if (type == tensor.type) source.as_is = tensor.bytes;
    const EncodingError error =
        encode_tensor(source, type, options_.n_threads, write,
                      [&](uint64_t elements) { arrived(elements / info->block * info->bytes); });
    error_.squares += error.squares;
    error_.errors += error.errors;
    if (type != tensor.type) result_.weights += source.elements;
  }

  Requantized result() const {
    Requantized result = result_;
    result.relative_error = error_.squares > 0 ? std::sqrt(error_.errors / error_.squares) : 0;
    return result;
  }

 private:
  void arrived(size_t bytes) {
    done_ += bytes;
    if (options_.progress) options_.progress(done_, total_);
  }

  const Gguf& gguf_;
  const RequantizeOptions& options_;
  const size_t total_;
  size_t done_ = 0;  // bytes of the source
  EncodingError error_;
  Requantized result_;
};

void copy_metadata(const Gguf& gguf, DType type, GgufWriter& writer) {
  for (const auto& [key, value] : gguf.metadata()) {
    const bool layout = key == "general.alignment" || key.starts_with("split.");
    if (!layout && key != kFileTypeKey && key != kQuantizationVersionKey) {
      writer.add_value(key, value);
    }
  }
  add_type_keys(type, writer);
}

}  // namespace

Requantized requantize(const Gguf& gguf, const QuantizePlan& plan, const std::string& path,
                       const RequantizeOptions& options) {
  SB_CHECK(options.n_threads >= 1 && plan.types.size() == gguf.tensors().size());
  Requantizer requantizer(gguf, options, plan.bytes_before);
  GgufWriter writer;
  copy_metadata(gguf, plan.type, writer);
  for (size_t i = 0; i < plan.types.size(); ++i) {
    const GgufTensor& tensor = gguf.tensors()[i];
    const DType type = plan.types[i];
    writer.add_tensor(tensor.name, type, tensor.shape,
                      [&tensor, type, &requantizer](const GgufWriter::Write& write) {
                        requantizer.tensor(tensor, type, write);
                      });
  }
  writer.write(path);
  return requantizer.result();
}

}  // namespace specbound
