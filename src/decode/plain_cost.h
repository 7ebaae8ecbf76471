// What a plain round takes behind a text of some length: a line through those measured, the newest
// of which say most. Attention reads the whole text; in a small model it soon is most of a round.
#pragma once

#include <array>
#include <cstddef>

namespace specbound {

class PlainCost {
 public:
  // Where fewer rounds speak for a length, three of about that one are waited for and count as
  // their median, for one may have been interrupted; or each for itself, if the text moves on.
  static constexpr double kFew = 2.5;

  // Of a plain round behind `length` tokens; one that took no time says nothing.
  void add(int length, double seconds);

  // Seconds; 0 before the first three.
  double at(int length) const;
  // How many rounds speak for that length, those at far ones less; the newest, so never many.
  double rounds(int length) const;

 private:
  struct Plain {
    int length;
    double seconds;
  };
  double slope() const;
  void take(int length, double seconds);

  std::array<Plain, 3> waiting_;
  size_t n_waiting_ = 0;
  // Weighted: their number, means, and sums of squares and products about these.
  double weight_ = 0, length_ = 0, seconds_ = 0;
  double squares_ = 0, products_ = 0;
};

}  // namespace specbound
