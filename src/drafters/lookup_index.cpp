#include "drafters/lookup_index.h"

#include <algorithm>

#include "drafters/run_hash.h"

namespace specbound {

uint32_t LookupIndex::hash(std::span<const int32_t> context) {
  return static_cast<uint32_t>(run_hash(context));
}

void LookupIndex::assign(std::span<const int32_t> text) {
  const bool goes_on =
      text.size() >= text_.size() && std::equal(text_.begin(), text_.end(), text.begin());
  if (!goes_on) {
    text_.clear();
    for (Chain& chain : chains_) chain = {};
  }
  for (const int32_t token : text.subspan(text_.size())) push(token);
}

// `place`: behind a context, the token there being what came then.
void LookupIndex::push(int32_t token) {
  const int place = static_cast<int>(text_.size());
  if (chains_[0].newest.size() < 2 * text_.size() + 2) grow();
  for (Chain& chain : chains_) chain.before.push_back(0);
  for (size_t order = 0; order < kOrders.size(); ++order) link(order, place);
  text_.push_back(token);
}

void LookupIndex::link(size_t order, int place) {
  if (place < kOrders[order]) return;
  Chain& chain = chains_[order];
  const std::span<const int32_t> before = std::span(text_).first(static_cast<size_t>(place));
  int32_t& newest = chain.newest[hash(before.last(static_cast<size_t>(kOrders[order]))) &
                                 (chain.newest.size() - 1)];
  chain.before[static_cast<size_t>(place)] = newest;
  newest = place;
}

// Twice the room, and all places told anew.
void LookupIndex::grow() {
  const size_t room = std::max<size_t>(4 * chains_[0].newest.size(), 1024);
  for (size_t order = 0; order < kOrders.size(); ++order) {
    chains_[order].newest.assign(room, 0);
    for (size_t place = 0; place < text_.size(); ++place) link(order, static_cast<int>(place));
  }
}

// Tokens before `place` that are those at the end of `context`.
int LookupIndex::match(std::span<const int32_t> context, int place) const {
  const int most = std::min({kLongest, place, static_cast<int>(context.size())});
  int length = 0;
  while (length < most && text_[static_cast<size_t>(place - 1 - length)] ==
                              context[context.size() - 1 - static_cast<size_t>(length)]) {
    ++length;
  }
  return length;
}

int LookupIndex::find(std::span<const int32_t> context,
                      std::array<Continuation, kMost>& found) const {
  int n = 0, longer = kLongest + 1;  // matches that an order before has told
  for (size_t order = 0; order < kOrders.size() && n < kMost; ++order) {
    const auto tokens = static_cast<size_t>(kOrders[order]);
    const Chain& chain = chains_[order];
    if (context.size() < tokens || chain.newest.empty()) continue;
    const int first = n;  // those of this order
    int total = 0, looked = 0;
    int place = chain.newest[hash(context.last(tokens)) & (chain.newest.size() - 1)];
    for (; place > 0 && looked < kPlaces[order]; ++looked) {
      const int length = match(context, place);
      const int32_t token = text_[static_cast<size_t>(place)];
      place = chain.before[static_cast<size_t>(place)];
      if (length < kOrders[order] || length >= longer) continue;
      ++total;
      const auto same = std::find_if(found.begin(), found.begin() + n,
                                     [&](const Continuation& c) { return c.token == token; });
      if (same != found.begin() + n) {
        if (same - found.begin() < first) continue;  // behind a longer match too
        ++same->count;
        same->length = std::max(same->length, length);
      } else if (n < kMost) {
        found[static_cast<size_t>(n++)] = {token, length, 1, 0};
      }
    }
    for (int i = first; i < n; ++i) found[static_cast<size_t>(i)].total = total;
    std::stable_sort(found.begin() + first, found.begin() + n,
                     [](const Continuation& a, const Continuation& b) {
                       return a.length != b.length ? a.length > b.length : a.count > b.count;
                     });
    longer = kOrders[order];
  }
  return n;
}

}  // namespace specbound
