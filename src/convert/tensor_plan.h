// Which tensor of a Hugging Face checkpoint becomes which tensor of a GGUF file: names, shapes and
// layout as llama.cpp's convert_hf_to_gguf.py writes them. What the architecture needs must be
// there, in its shape, and nothing else but tables that follow from the configuration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convert/checkpoint.h"
#include "convert/hf_config.h"
#include "numerics/dtype.h"

namespace specbound {

struct PlannedTensor {
  std::string name;  // in the GGUF file
  const SafeTensor* source;
  uint64_t n_out, n_in;  // rows and their length; a vector has rows of 1
  bool is_vector;
  DType type;  // norms and biases F32; matrices as asked, in the rows' limits
  // Rows of a head, of which row i and i + head_rows/2 become neighbours, so that halves become
  // interleaved pairs: the layout in which GGUF's llama rotates. 0: rows stay where they are.
  uint64_t head_rows;
  bool add_one;  // to every element: norms that are stored as weight - 1
};

// Elements [begin, begin + count) of the planned tensor, in the order of the GGUF file.
void load_elements(const PlannedTensor& tensor, uint64_t begin, uint64_t count, float* out);

// Throws Error(kFormat) for missing or mis-shaped tensors (expected and found), Error(kUnsupported)
// for elements that are not F32, F16 or BF16 and for tensors that the architecture does not know.
std::vector<PlannedTensor> plan_tensors(const HfConfig& config, const Checkpoint& checkpoint,
                                        DType type);

}  // namespace specbound
