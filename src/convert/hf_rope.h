// Rotary embeddings in config.json, hf_config.h, and the order of the rows that they rotate.
#pragma once

#include <cstdint>

#include "convert/hf_config.h"
#include "json/json_reader.h"

namespace specbound {

// `config` needs its architecture, dimensions and max_seq_len. Throws as read_hf_config().
HfRope read_hf_rope(const JsonObject& file, const HfConfig& config);

// Where row `row` of a query or key matrix comes from, whose heads of `head_rows` rows have pairs
// in halves: of a head row i and i + head_rows/2 become neighbours, the layout in which GGUF's
// llama rotates.
constexpr uint64_t row_in_halves(uint64_t row, uint64_t head_rows) {
  const uint64_t inside = row % head_rows;
  return row - inside + inside / 2 + (inside % 2) * (head_rows / 2);
}

}  // namespace specbound
