// Rotary embeddings in config.json: hf_config.h.
#pragma once

#include "convert/hf_config.h"
#include "json/json_reader.h"

namespace specbound {

// `config` needs its architecture, dimensions and max_seq_len. Throws as read_hf_config().
HfRope read_hf_rope(const JsonObject& file, const HfConfig& config);

}  // namespace specbound
