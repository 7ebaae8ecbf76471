// What a plain round takes behind a text of some length: a line through those measured, the newest
// of which say most. Attention reads the whole text; in a small model it soon is most of a round.
#pragma once

namespace specbound {

class PlainCost {
 public:
  // Of a plain round behind `length` tokens; one that took no time says nothing.
  void add(int length, double seconds);

  // Seconds; 0 before the first.
  double at(int length) const;
  // Over what it is at the mean length of late; 1 before the first.
  double relative(int length) const;
  // How many rounds speak for that length, those at far ones less; the newest, so never many.
  double rounds(int length) const;

 private:
  double slope() const;

  // Weighted: their number, means, and sums of squares and products about these.
  double weight_ = 0, length_ = 0, seconds_ = 0;
  double squares_ = 0, products_ = 0;
};

}  // namespace specbound
