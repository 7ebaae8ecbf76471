// Settings for a new heads file, guessed from what its heads did on the rows kept for validation: a
// start that works until `specbound tune` has measured.
#pragma once

#include "train/head_trainer.h"

namespace specbound {

// The head, threshold and depth of the highest speed under a plain model of costs: a layer costs
// the same for a few rows as for one, and a check little. `shortlist`: of the file.
HeadDefaults guess_defaults(const std::vector<HeadReport>& reports, int n_layers, int shortlist);

// The same of a file with a draft table, and with the chained head of layer 0 where `hybrid`.
HeadDefaults table_defaults(HeadDefaults guessed, bool hybrid);

}  // namespace specbound
