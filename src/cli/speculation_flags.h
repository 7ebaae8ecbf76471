// The flags of speculation: what drafts, with what settings. docs/architecture.md 9, 10.
#pragma once

#include "cli/flags.h"
#include "runtime/speculation_options.h"

namespace specbound {

// Where drafts may leave: --preset --d-max --tau --alpha --check-layers --no-anneal
// --no-depth-bound.
void add_exit_flags(Flags& flags, SpecBoundOptions& options);
// The settings of every drafter: those of add_exit_flags, --w-max --no-width-bound --heads --head
// --shortlist --confidence --ngram-max --exit-layer --skip-layers --model-draft --accept.
void add_drafter_flags(Flags& flags, SpeculationOptions& options);
// Those, --spec, --speculator and --controller.
void add_speculation_flags(Flags& flags, SpeculationOptions& options);

}  // namespace specbound
