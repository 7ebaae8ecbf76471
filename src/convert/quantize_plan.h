// Which tensor of a model becomes which type when it is quantized.
//
//   matrices             the type asked for: tensors "*.weight" of two dimensions, or of three,
//                        which are those of experts
//   embedding and head   token_embd.weight and output.weight: Q8_0 where 4 bits were asked for, as
//                        logits come from them directly, or what the caller says
//   rows of odd length   Q4_K needs multiples of 256: else Q4_0, of as many bits; that and Q8_0
//                        need multiples of 32: else F16
//   routers of experts   F32 from Hugging Face, else as they are: small, and much hangs on them
//   all else             as it is: norms, biases, tables
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "model/gguf.h"
#include "model/gguf_writer.h"

namespace specbound {

// F16, BF16, Q8_0, Q4_0 or Q4_K, in any case of letters; nullopt for another name.
std::optional<DType> quantize_type(std::string_view name);

// What a matrix of rows of n_in becomes where `type` is asked for, F32 or one of the above: see the
// top. `head` is the type of the embedding and the output matrix.
DType matrix_type(std::string_view name, uint64_t n_in, DType type,
                  std::optional<DType> head = std::nullopt);

struct QuantizePlan {
  DType type;                           // what was asked for
  std::vector<DType> types;             // [gguf.tensors()]
  std::map<DType, size_t> odd_rows;     // matrices that took this type because of their rows
  std::map<DType, size_t> requantized;  // matrices quantized before that take another type now
  size_t bytes_before = 0;              // of all tensors
};

// `head` is the type of the embedding and the output matrix. Throws Error(kUnsupported) for files
// that are no models: of exit heads, vocabularies; and for matrices of types that cannot be read.
QuantizePlan plan_quantization(const Gguf& gguf, DType type, std::optional<DType> head);

constexpr const char* kFileTypeKey = "general.file_type";
constexpr const char* kQuantizationVersionKey = "general.quantization_version";

// Both keys, for a model that is mostly of this type, F32 or one of the above (ggml's numbers).
void add_type_keys(DType type, GgufWriter& writer);

}  // namespace specbound
