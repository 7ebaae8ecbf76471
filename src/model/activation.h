// What the gate of a feed-forward block goes through; formulas are in engine/float_formula.h. Free
// of all else, for kernels too.
#pragma once

namespace specbound {

enum class Activation {
  kSilu,
  kGelu,  // tanh approximation: gemma, gemma2
};

}  // namespace specbound
