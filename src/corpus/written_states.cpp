#include "corpus/written_states.h"

#include <algorithm>

#include "corpus/corpus.h"
#include "error.h"

namespace specbound {

bool WrittenStates::possible(std::span<const int> layers, Backend& backend) {
  return layers.size() == 1 && layers[0] == 0 && backend.chunk_rows() && !backend.gpu();
}

WrittenStates::WrittenStates(FeatureStore& store, Backend& backend,
                             std::span<const float> output_norm, bool holds_out)
    : store_(store),
      backend_(backend),
      norm_(output_norm),
      holds_out_(holds_out),
      states_(2 * output_norm.size()) {
  SB_CHECK(possible(store.layers(), backend) && std::ssize(output_norm) == store.dim());
}

void WrittenStates::add(std::vector<uint16_t>& reply, std::span<const float> h) const {
  reply.resize(reply.size() + norm_.size());
  write_state(h, backend_.config().norm_eps, norm_, std::span(reply).last(norm_.size()));
}

void WrittenStates::take(const TrainingText& text, std::vector<uint16_t> reply) {
  if (const uint64_t place = holds_out_ ? held_out_place(text) : 0) {
    held_rows_ += learnt_tokens(text);
    held_.push_back({place, text, std::move(reply)});
  } else {
    store(text, reply);
  }
}

void WrittenStates::finish() {
  std::ranges::stable_sort(held_, {}, &Held::place);
  for (const Held& held : held_) store(held.text, held.states);
  held_.clear();
  held_rows_ = 0;
}

void WrittenStates::store(const TrainingText& text, std::span<const uint16_t> reply) {
  const size_t dim = norm_.size();
  SB_CHECK(reply.size() == static_cast<size_t>(learnt_tokens(text)) * dim);
  over_ = over_ || !store_.fits(learnt_tokens(text));
  if (over_) return;
  const int end = FeatureStore::end_of(text);
  for (int at = 0; at < end; ++at) {
    if (!store_.takes(text, at)) continue;
    backend_.embed(0, text.tokens[at]);
    const float rms = write_state(backend_.inspect().hidden(0), backend_.config().norm_eps, {},
                                  std::span(states_).first(dim));
    std::ranges::copy(reply.first(dim), states_.begin() + static_cast<ptrdiff_t>(dim));
    reply = reply.subspan(dim);
    store_.add(text, at, states_, {&rms, 1});
  }
  store_.end_text();
}

}  // namespace specbound
