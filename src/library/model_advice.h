// Which model a machine runs well, of those that have a short name: what `doctor` ends in.
#pragma once

#include <cstdint>

#include "library/model_name.h"

namespace specbound {

// What a model would run on: a GPU, or the CPU with its memory.
struct RoomForModel {
  uint64_t free_bytes = 0;
  double read_bandwidth = 0;  // bytes a second
};

struct ModelAdvice {
  const ShortName* model = nullptr;
  // What memory gives at most, plainly: a token reads all weights once.
  double tokens_per_second = 0;
  uint64_t largest_file = 0;  // bytes: what fits with its context and the rows under way
};

// With its context and the rows under way.
bool fits_in_memory(const ShortName& model, uint64_t free_bytes);

// The largest model that fits and can give 10 tokens a second, about as fast as one reads; where
// none does, the smallest.
ModelAdvice advised_model(const RoomForModel& room);

}  // namespace specbound
