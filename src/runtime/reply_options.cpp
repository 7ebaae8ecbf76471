#include "runtime/reply_options.h"

#include <random>

namespace specbound {

namespace {

uint64_t random_seed() {
  std::random_device device;
  return device();  // 32 bits: short enough to type again
}

}  // namespace

SamplingParams SamplingOptions::resolve() const {
  SamplingParams resolved = params;
  resolved.seed = seed ? *seed : random_seed();
  validate(resolved);
  return resolved;
}

}  // namespace specbound
