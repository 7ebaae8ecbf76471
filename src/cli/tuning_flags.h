// The flags of the texts that `tune` and `theory` look at.
#pragma once

#include "cli/flags.h"
#include "tools/tuning_texts.h"

namespace specbound {

// --data, which may be given again, and --temps.
void add_tuning_texts(Flags& flags, TuningTextOptions& options);

}  // namespace specbound
