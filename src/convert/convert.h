// A Hugging Face model directory as one GGUF file: config.json, the weights as safetensors, the
// tokenizer and the chat template. Tensors pass one by one in pieces, so memory depends on the
// vocabulary and the number of threads alone. Before weights are touched, this program's own
// readers are asked about what is going to be written.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "numerics/dtype.h"

namespace specbound {

struct ConvertOptions {
  std::string directory;
  std::string output;              // a file that is not there yet, or will be replaced
  DType type = DType::kF16;        // of matrices: F32 or one that quantize_type() gives
  std::string name;                // general.name; empty: that of the directory
  std::optional<std::string> pre;  // tokenizer.ggml.pre, instead of what is found
  int n_threads = 1;
  // Bytes written of all; may throw, which ends the work and leaves no file.
  std::function<void(size_t done, size_t total)> progress;
};

struct Converted {
  std::string hf_architecture, architecture, name;  // "LlamaForCausalLM", "llama", ...
  size_t tensors = 0, parameters = 0;
  size_t bytes = 0;                 // of tensors
  std::map<DType, size_t> by_type;  // bytes
  size_t n_tokens = 0;
  std::string tokenizer, pre;  // tokenizer.ggml.model and .pre
  bool chat_template = false;
  std::vector<std::string> notes;  // what got lost, one line each
};

// F32 or one that quantize_type() gives, in any case of letters; nullopt for another name.
std::optional<DType> convert_type(std::string_view name);

// What a model in this directory is called: the directory's name, or in Hugging Face's cache
// (models--OWNER--NAME/snapshots/REVISION) that of the repository.
std::string model_name(const std::string& directory);

// Writes the file, whole or not at all. Throws Error.
Converted convert_model(const ConvertOptions& options);

}  // namespace specbound
