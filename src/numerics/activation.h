// What the gate of a feed-forward block goes through; the formulas are in numerics/float_formula.h.
#pragma once

namespace specbound {

enum class Activation {
  kSilu,
  kGelu,  // tanh approximation: gemma, gemma2
};

}  // namespace specbound
