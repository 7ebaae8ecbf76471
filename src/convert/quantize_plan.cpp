#include "convert/quantize_plan.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "error.h"
#include "model/exit_heads.h"

namespace specbound {
namespace {

bool is_router(std::string_view name) {
  return name.ends_with(".ffn_gate_inp.weight");
}

bool is_matrix(const GgufTensor& tensor) {
  const size_t n = tensor.shape.size();
  return tensor.name.ends_with(".weight") && !is_router(tensor.name) && (n == 2 || n == 3) &&
         tensor.shape[1] > 1;
}

// The type of a matrix whatever its rows.
DType wanted_type(std::string_view name, DType type, std::optional<DType> head) {
  if (is_router(name)) return DType::kF32;
  if (name != "token_embd.weight" && name != "output.weight") return type;
  const bool four_bits = takes_int8_rows(type) && bits_of_form(type) == 4;
  return head.value_or(four_bits ? DType::kQ8_0 : type);
}

// `type`, or what comes nearest to it for rows of n_in.
DType fitting(DType type, uint64_t n_in) {
  const DTypeInfo* info = dtype_info(type);
  if (n_in % info->block == 0) return type;
  for (const DTypeInfo& other : kDTypes) {
    const bool smaller = other.file_type != 0 && other.block > 1 && other.block < info->block;
    if (smaller && bits_of_form(other.type) == bits_of_form(type)) return fitting(other.type, n_in);
  }
  return DType::kF16;
}

void refuse_what_is_no_model(const Gguf& gguf) {
  if (gguf.get_string("general.architecture") == kHeadsArchitecture) {
    throw Error(ErrorCode::kUnsupported,
                format("%s: expected a model, found exit heads, which train-heads writes as small "
                       "as they can be",
                       gguf.path().c_str()));
  }
  if (gguf.tensors().empty()) {
    throw Error(ErrorCode::kUnsupported,
                format("%s: expected a model with weights, found no tensors: this file is only a "
                       "vocabulary",
                       gguf.path().c_str()));
  }
}

}  // namespace

std::optional<DType> quantize_type(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (const DTypeInfo& info : kDTypes) {
    if (info.file_type != 0 && upper == info.name) return info.type;
  }
  return std::nullopt;
}

DType matrix_type(std::string_view name, uint64_t n_in, DType type, std::optional<DType> head) {
  return fitting(wanted_type(name, type, head), n_in);
}

void add_type_keys(DType type, GgufWriter& writer) {
  constexpr uint32_t kQuantizationVersion = 2;
  const uint32_t file_type = dtype_info(type)->file_type;
  SB_CHECK(file_type != 0 || type == DType::kF32);
  writer.add_uint(kFileTypeKey, file_type);
  writer.add_uint(kQuantizationVersionKey, kQuantizationVersion);
}

QuantizePlan plan_quantization(const Gguf& gguf, DType type, std::optional<DType> head) {
  refuse_what_is_no_model(gguf);
  QuantizePlan plan{type, {}, {}, {}, 0};
  for (const GgufTensor& tensor : gguf.tensors()) {
    DType becomes = tensor.type;
    if (is_matrix(tensor)) {
      if (!runs_as(tensor.type)) {
        throw Error(ErrorCode::kUnsupported,
                    format("%s: tensor '%s': expected a type that can be read, found %s",
                           gguf.path().c_str(), printable(tensor.name).c_str(),
                           dtype_info(tensor.type)->name));
      }
      const DType wanted = wanted_type(tensor.name, type, head);
      becomes = fitting(wanted, tensor.shape[0]);
      if (becomes != wanted) ++plan.odd_rows[becomes];
      if (becomes != tensor.type && takes_int8_rows(tensor.type)) ++plan.requantized[tensor.type];
    }
    plan.types.push_back(becomes);
    plan.bytes_before += tensor.bytes.size();
  }
  return plan;
}

}  // namespace specbound
