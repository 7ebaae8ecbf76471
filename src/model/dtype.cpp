#include "model/dtype.h"

namespace specbound {
namespace {

// Only the first few can run; the rest are known so that a file holding them can be described.
constexpr DTypeInfo kTypes[] = {
    {DType::kF32, "F32", 1, 4},           {DType::kF16, "F16", 1, 2},
    {DType::kBF16, "BF16", 1, 2},         {DType::kQ8_0, "Q8_0", 32, 34},
    {DType::kQ4_0, "Q4_0", 32, 18},       {DType::kQ4_1, "Q4_1", 32, 20},
    {DType::kQ5_0, "Q5_0", 32, 22},       {DType::kQ5_1, "Q5_1", 32, 24},
    {DType::kQ8_1, "Q8_1", 32, 36},       {DType::kQ2_K, "Q2_K", 256, 84},
    {DType::kQ3_K, "Q3_K", 256, 110},     {DType::kQ4_K, "Q4_K", 256, 144},
    {DType::kQ5_K, "Q5_K", 256, 176},     {DType::kQ6_K, "Q6_K", 256, 210},
    {DType::kQ8_K, "Q8_K", 256, 292},     {DType::kIQ2_XXS, "IQ2_XXS", 256, 66},
    {DType::kIQ2_XS, "IQ2_XS", 256, 74},  {DType::kIQ3_XXS, "IQ3_XXS", 256, 98},
    {DType::kIQ1_S, "IQ1_S", 256, 50},    {DType::kIQ4_NL, "IQ4_NL", 32, 18},
    {DType::kIQ3_S, "IQ3_S", 256, 110},   {DType::kIQ2_S, "IQ2_S", 256, 82},
    {DType::kIQ4_XS, "IQ4_XS", 256, 136}, {DType::kIQ1_M, "IQ1_M", 256, 56},
    {DType::kTQ1_0, "TQ1_0", 256, 54},    {DType::kTQ2_0, "TQ2_0", 256, 66},
    {DType::kMXFP4, "MXFP4", 32, 17},     {DType::kI8, "I8", 1, 1},
    {DType::kI16, "I16", 1, 2},           {DType::kI32, "I32", 1, 4},
    {DType::kI64, "I64", 1, 8},           {DType::kF64, "F64", 1, 8},
};

}  // namespace

const DTypeInfo* dtype_info(DType type) {
  for (const DTypeInfo& info : kTypes) {
    if (info.type == type) return &info;
  }
  return nullptr;
}

std::optional<DType> runs_as(DType stored) {
  switch (stored) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ4_K:
      return stored;
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ2_K:
    case DType::kQ3_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
      return DType::kQ8_0;
    default:
      return std::nullopt;
  }
}

bool takes_int8_rows(DType type) {
  const std::optional<DType> running = runs_as(type);
  return running == DType::kQ8_0 || running == DType::kQ4_0 || running == DType::kQ4_K;
}

}  // namespace specbound
