// One prompt decoded plainly and then with speculation, on one backend as in production, and
// everything that must be the same compared. docs/architecture.md 4; `specbound verify`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "decode/differential_backend.h"
#include "decode/generate.h"

namespace specbound {

struct SideBySide {
  GenerateStats plain, speculative;
  std::optional<Difference> difference;  // the first one
  bool aborted = false;                  // by options.abort: nothing is proven
};

// What drafts, given the plain text (prompt and reply, which lives as long as the comparison).
using MakeSpeculator = std::function<Speculator*(std::span<const int32_t> text)>;

// With a `differential`, which must be over `backend`, its bits are compared too. Throws what
// Session does.
SideBySide decode_side_by_side(Backend& backend, DifferentialBackend* differential,
                               const SamplingParams& sampling, std::span<const int32_t> prompt,
                               const GenerateOptions& options,
                               const MakeSpeculator& make_speculator);

}  // namespace specbound
