// Whole replies on the CUDA engine over the SIMT executor.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <span>

#include "decode/differential_backend.h"
#include "decode/side_by_side.h"
#include "unit/engine_rig.h"

namespace specbound::test {

// A reply of n_reply tokens to n_prompt, drafted by `speculator`, beside plain decoding: the same
// text, each row and K and V by their bits; more than `drafted` tokens of it were drafted.
inline void check_plain_bits(Backend& backend, Speculator& speculator, const SamplingParams& params,
                             int n_prompt, int n_reply, int64_t drafted) {
  backend.truncate(0);
  DifferentialBackend differential(backend, n_prompt + n_reply, n_reply);
  GenerateOptions options;
  options.max_tokens = n_reply;
  const SideBySide reply = decode_side_by_side(
      backend, &differential, params, token_ids(n_prompt, backend.config().vocab_size), options,
      [&](std::span<const int32_t>) { return &speculator; });
  if (reply.difference) FAIL_CHECK(describe(*reply.difference));
  CHECK(reply.speculative.counters.drafted_tokens > drafted);
  CHECK(differential.rows_compared() >= 2 * n_reply);
}

}  // namespace specbound::test
