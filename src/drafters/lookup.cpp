#include "drafters/lookup.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "error.h"

namespace specbound {
namespace {

using Places = std::array<Continuation, LookupIndex::kMost>;

// The next shorter context that is told apart from one of `length` tokens; 0: none.
int shorter(int length) {
  const auto order = std::ranges::find_if(LookupIndex::kOrders, [&](int o) { return o < length; });
  return order == LookupIndex::kOrders.end() ? 0 : *order;
}

// What a LookupIndex of the datastore would find: behind the longest match, then behind the shorter
// contexts that it tells apart. Of the places of each some are looked at, evenly through the order
// of what is behind them, so that shares stay what they are. Returns how many.
int find_in(const Datastore& store, std::span<const int32_t> context, Places& found) {
  constexpr size_t kLookedAt = 64;
  const Datastore::Match longest = store.longest(context, 1, LookupIndex::kLongest);
  size_t n = 0;
  for (int length = longest.length; length > 0 && n < found.size(); length = shorter(length)) {
    const std::span<const uint32_t> places =
        length == longest.length ? longest.places
                                 : store.find(context.last(static_cast<size_t>(length)));
    const size_t total = std::min(places.size(), kLookedAt);
    std::array<int32_t, kLookedAt> tokens;
    for (size_t i = 0; i < total; ++i) {
      tokens[i] = store.behind(places[i * places.size() / total], static_cast<size_t>(length));
    }
    std::sort(tokens.begin(), tokens.begin() + total);
    const size_t first = n;  // those of this length
    for (size_t i = 0; i < total;) {
      const int32_t token = tokens[i];
      const size_t begin = i;
      while (i < total && tokens[i] == token) ++i;
      const auto count = static_cast<int>(i - begin);
      const auto same = [&](const Continuation& c) { return c.token == token; };
      if (token == Datastore::kBetween) continue;
      if (std::any_of(found.begin(), found.begin() + first, same)) continue;
      if (n == found.size() && found[n - 1].count >= count) continue;
      n = std::min(n + 1, found.size());
      found[n - 1] = {token, length, count, static_cast<int>(total)};
      const auto rarer = [&](const Continuation& c) { return c.count < count; };
      const auto at = std::find_if(found.begin() + first, found.begin() + n - 1, rarer);
      std::rotate(at, found.begin() + n - 1, found.begin() + n);
    }
  }
  return static_cast<int>(n);
}

// What is known of `token`, among what was found before or behind it.
Lookup::Found& found_of(std::vector<Lookup::Found>& found, int32_t token) {
  const auto same = std::ranges::find(found, token, &Lookup::Found::token);
  return same == found.end() ? found.emplace_back(Lookup::Found{token, {}, 0}) : *same;
}

}  // namespace

const LookupIndex& LookupMemory::index() const {
  if (!indexing_.valid()) return index_;
  const size_t given = std::exchange(given_, 0), added = std::exchange(added_, 0);
  index_ = indexing_.get();  // without memory nothing was given
  given_ = given;
  added_ = added;
  return index_;
}

void LookupMemory::give(std::span<const int32_t> tokens) {
  if (tokens.empty() && given_ == 0) return;
  std::vector<int32_t> text(tokens.begin(), tokens.end());
  if (!text.empty() && text.back() != kBetween) text.push_back(kBetween);
  const std::span<const int32_t> kept = replies();
  const size_t given = text.size();
  text.insert(text.end(), kept.begin(), kept.end());
  const auto indexed = [text = std::move(text)] {
    LookupIndex index;
    index.assign(text);
    return index;
  };
  index_ = {};
  try {
    indexing_ = std::async(std::launch::async, indexed);
  } catch (const std::system_error&) {  // no thread can be had
    index_ = indexed();
  }
  given_ = given;
}

void LookupMemory::assign(std::span<const int32_t> replies) {
  const std::span<const int32_t> given = index().text().first(given_);
  std::vector<int32_t> text(given.begin(), given.end());
  text.insert(text.end(), replies.begin(), replies.end());
  index_.assign(text);
  added_ = 0;
}

void LookupMemory::add(std::span<const int32_t> reply) {
  if (!takes_replies_) return;
  const std::span<const int32_t> old = replies();
  if (old.size() + reply.size() >= kMostTokens) {
    const size_t added = std::min(added_, old.size() / 2);
    assign(old.last(old.size() / 2));
    added_ = added;
  }
  const std::span<const int32_t> taken = reply.last(std::min(reply.size(), kMostTokens / 2 - 1));
  for (const int32_t token : taken) index_.push(token);
  index_.push(kBetween);
  added_ += taken.size() + 1;
}

void Lookup::begin(std::span<const int32_t> text) {
  const std::span<const int32_t> before = text_.text();
  const bool goes_on =
      text.size() >= before.size() && std::equal(before.begin(), before.end(), text.begin());
  const bool open = !replies_.empty() && replies_.back().end == 0;
  if (goes_on && open && text.size() == before.size()) return;  // the reply goes on
  if (!goes_on) {
    forget();
  } else if (open) {
    replies_.back().end = before.size();  // what comes now is the next prompt
  }
  for (const int32_t token : text.subspan(text_.text().size())) text_.push(token);
  replies_.push_back({text.size(), 0});
}

void Lookup::forget() {
  const std::span<const int32_t> text = text_.text();
  for (const Reply& reply : replies_) {
    const size_t end = reply.end > 0 ? reply.end : text.size();
    if (memory_ && end > reply.begin) memory_->add(text.subspan(reply.begin, end - reply.begin));
  }
  replies_.clear();
  text_.assign({});
}

void Lookup::find(std::span<const int32_t> context, float temperature, const DrawPlace& place,
                  std::vector<Found>& found) const {
  found.clear();
  Places places;
  const int n = text_.find(context, places);
  for (int i = 0; i < n; ++i) {
    found.push_back({places[i].token, {.text = CandidateOdds::cell(places[i])}, places[i].length});
  }
  const int remembered = memory_ ? memory_->index().find(context, places) : 0;
  for (int i = 0; i < remembered; ++i) {
    if (places[i].token == LookupMemory::kBetween) continue;
    Found& one = found_of(found, places[i].token);
    one.features.memory = CandidateOdds::cell(places[i]);
    one.length = std::max(one.length, places[i].length);
  }
  const int stored = store_ ? find_in(*store_, context, places) : 0;
  for (int i = 0; i < stored; ++i) {
    found_of(found, places[i].token).features.store = CandidateOdds::cell(places[i]);
  }
  for (Found& one : found) {
    one.features.temperature = temperature;
    if (temperature > 0) one.features.noise = CandidateOdds::noise(gumbel(place, one.token));
  }
  for (Found& one : found) {
    int longest = 0, noise = 0;
    for (const Found& other : found) {
      if (&other == &one || other.length == 0) continue;
      longest = std::max(longest, other.length);
      noise = std::max(noise, other.features.noise);
    }
    one.features.rival = CandidateOdds::rival(longest);
    one.features.rival_noise = noise;
  }
}

}  // namespace specbound
