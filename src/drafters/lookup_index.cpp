#include "drafters/lookup_index.h"

#include <algorithm>
#include <utility>

#include "drafters/run_hash.h"

namespace specbound {

namespace {

constexpr size_t kLeastRoom = 1024;  // a power of 2, as all that come of it are

}  // namespace

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
  append(text.subspan(text_.size()));
}

void LookupIndex::push(int32_t token) {
  append({&token, 1});
}

void LookupIndex::append(std::span<const int32_t> tokens) {
  if (tokens.empty()) return;
  const size_t before = text_.size();
  text_.insert(text_.end(), tokens.begin(), tokens.end());
  for (Chain& chain : chains_) chain.before.resize(text_.size());
  const bool roomier = make_room();
  for (size_t order = 0; order < kOrders.size(); ++order) link(order, roomier ? 0 : before);
}

// The places from `first` on, each behind a context, the token there being what came then.
void LookupIndex::link(size_t order, size_t first) {
  const auto tokens = static_cast<size_t>(kOrders[order]);
  Chain& chain = chains_[order];
  const std::span<const int32_t> text = text_;
  for (size_t place = std::max(first, tokens); place < text.size(); ++place) {
    const uint32_t key = hash(text.subspan(place - tokens, tokens));
    int32_t& newest = chain.newest[key & (chain.newest.size() - 1)];
    chain.before[place] = std::exchange(newest, static_cast<int32_t>(place));
  }
}

// True where tables grew, which forgets all places. The text has the same room whether it came at
// once or token by token, as what is found depends on it.
bool LookupIndex::make_room() {
  const size_t needed = 2 * text_.size();
  size_t room = std::max(chains_[0].newest.size(), kLeastRoom);
  while (room < needed) room *= 4;
  if (room == chains_[0].newest.size()) return false;
  for (Chain& chain : chains_) chain.newest.assign(room, 0);
  return true;
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
