// A hash of a run of tokens, for looking it up: runs that share one are told apart by whoever finds
// them.
#pragma once

#include <cstdint>
#include <span>

namespace specbound {

// `length`: what the hash is to tell apart beside the tokens.
inline uint64_t run_hash(std::span<const int32_t> run, uint64_t length = 1) {
  uint64_t hash = 0x2545f4914f6cdd1du * length;
  for (const int32_t token : run) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace specbound
