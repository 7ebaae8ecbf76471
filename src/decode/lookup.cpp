#include "decode/lookup.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "error.h"

namespace specbound {

const LookupIndex& LookupMemory::index() const {
  if (!indexing_.valid()) return index_;
  const size_t given = std::exchange(given_, 0);
  index_ = indexing_.get();  // without memory nothing was given
  given_ = given;
  return index_;
}

void LookupMemory::give(std::span<const int32_t> tokens) {
  SB_CHECK(given_ == 0 && index_.text().empty());
  if (tokens.empty()) return;
  std::vector<int32_t> text(tokens.begin(), tokens.end());
  if (text.back() != kBetween) text.push_back(kBetween);
  const auto indexed = [text = std::move(text)] {
    LookupIndex index;
    index.assign(text);
    return index;
  };
  given_ = tokens.size() + (tokens.back() != kBetween ? 1 : 0);
  try {
    indexing_ = std::async(std::launch::async, indexed);
  } catch (const std::system_error&) {  // no thread can be had
    index_ = indexed();
  }
}

void LookupMemory::assign(std::span<const int32_t> replies) {
  if (index().text().size() > given_) {
    const std::span<const int32_t> given = index().text().first(given_);
    index_.assign(std::vector<int32_t>(given.begin(), given.end()));
  }
  for (const int32_t token : replies) index_.push(token);
}

void LookupMemory::add(std::span<const int32_t> reply) {
  if (!takes_replies_) return;
  const std::span<const int32_t> old = replies();
  if (old.size() + reply.size() >= kMostTokens) assign(old.last(old.size() / 2));
  for (const int32_t token : reply.last(std::min(reply.size(), kMostTokens / 2 - 1))) {
    index_.push(token);
  }
  index_.push(kBetween);
}

void Lookup::begin(std::span<const int32_t> text) {
  const std::span<const int32_t> before = text_.text();
  const bool goes_on =
      text.size() >= before.size() && std::equal(before.begin(), before.end(), text.begin());
  if (!goes_on) {
    forget();
  } else if (!replies_.empty() && replies_.back().end == 0) {
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
  std::array<Continuation, LookupIndex::kMost> places;
  const int n = text_.find(context, places);
  for (int i = 0; i < n; ++i) {
    found.push_back({places[i].token, {.text = CandidateOdds::cell(places[i])}, places[i].length});
  }
  const int remembered = memory_ ? memory_->index().find(context, places) : 0;
  for (int i = 0; i < remembered; ++i) {
    const Continuation& next = places[i];
    if (next.token == LookupMemory::kBetween) continue;
    const int cell = CandidateOdds::cell(next);
    const auto same = std::ranges::find(found, next.token, &Found::token);
    if (same == found.end()) {
      found.push_back({next.token, {.memory = cell}, next.length});
    } else {
      same->features.memory = cell;
      same->length = std::max(same->length, next.length);
    }
  }
  for (Found& one : found) {
    one.features.temperature = temperature;
    if (temperature > 0) one.features.noise = CandidateOdds::noise(gumbel(place, one.token));
  }
  for (Found& one : found) {
    int longest = 0, noise = 0;
    for (const Found& other : found) {
      if (&other == &one) continue;
      longest = std::max(longest, other.length);
      noise = std::max(noise, other.features.noise);
    }
    one.features.rival = CandidateOdds::rival(longest);
    one.features.rival_noise = noise;
  }
}

}  // namespace specbound
