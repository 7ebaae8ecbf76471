// The hidden states of replies, taken while the model writes them: what FeaturePasses would run the
// model over all of them again for. Of heads that stand before any layer, on an engine whose rows
// are at hand. By docs/architecture.md 4 they are the same, to the bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "corpus/features.h"
#include "engine/backend.h"

namespace specbound {

class WrittenStates {
 public:
  // Whether the backend shows all that a store of these layers, without prompts, wants.
  static bool possible(std::span<const int> layers, Backend& backend);

  // Of a store that is possible(). All must outlive it; output_norm (dim). `holds_out`: texts come
  // into the store in the order that hold_out() gives them.
  WrittenStates(FeatureStore& store, Backend& backend, std::span<const float> output_norm,
                bool holds_out);

  // Behind those of a reply so far, the one of its next token: of the last layer's row h (dim) that
  // it is drawn from. Throws Error(kFormat) for a row that is no number.
  void add(std::vector<uint16_t>& reply, std::span<const float> h) const;
  // The next text, of whose learnt tokens these are the states (tokens, dim). Between rounds.
  // Throws as FeatureStore does.
  void take(const TrainingText& text, std::vector<uint16_t> reply);
  // There are no more: those that were held out come into the store.
  void finish();
  // Where texts are held out: nine tenths of what the store may hold are there, and no more is to
  // be written.
  bool full() const {
    const int64_t there = store_.n_rows() + held_rows_;
    return holds_out_ && (over_ || !store_.fits(held_rows_ + there / 9));
  }

 private:
  struct Held {
    uint64_t place;
    TrainingText text;
    std::vector<uint16_t> states;
  };
  void store(const TrainingText& text, std::span<const uint16_t> reply);

  FeatureStore& store_;
  Backend& backend_;
  std::span<const float> norm_;
  const bool holds_out_;
  bool over_ = false;  // a text did not fit: it and those behind it are not there
  std::vector<Held> held_;
  int64_t held_rows_ = 0;         // of these
  std::vector<uint16_t> states_;  // (2, dim), scratch
};

}  // namespace specbound
