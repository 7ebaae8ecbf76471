// The flags of idle learning, the same for front ends that serve people.
#pragma once

#include "cli/flags.h"
#include "learning/idle_learning.h"

namespace specbound {

// `options.mode` is what holds without the flag. Questions are those that tuning asks too.
void add_learning_flags(Flags& flags, IdleLearningOptions& options);

// Learns where it may, and says so. What keeps it from that is no reason to end the program.
void begin_learning(IdleLearning& learning, bool quiet);

}  // namespace specbound
