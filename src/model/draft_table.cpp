#include "model/draft_table.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "error.h"
#include "numerics/half.h"

namespace specbound {
namespace {

template <class T>
T at(std::span<const std::byte> array, size_t i) {
  T value;
  std::memcpy(&value, array.data() + i * sizeof(T), sizeof(T));
  return value;
}

size_t first_of(uint32_t place) {
  return place / TableGuess::kMost;
}
size_t count_of(uint32_t place) {
  return place % TableGuess::kMost + 1;
}

}  // namespace

float TableGuess::confidence(float temperature) const {
  if (size == 0) return 0;
  double listed = 0, sum = 0, best = 0;
  for (int i = 0; i < size; ++i) {
    const double p = std::exp(static_cast<double>(log_p[i]));
    const double weight = std::pow(p, 1.0 / temperature);
    listed += p;
    sum += weight;
    best = std::max(best, weight);
  }
  if (listed < 1) sum += std::pow(1 - listed, 1.0 / temperature);
  return sum > 0 ? static_cast<float>(best / sum) : 0;
}

uint64_t DraftTable::extend(uint64_t hash, int32_t token) {
  hash = (hash ^ (static_cast<uint32_t>(token) + 1ull)) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

uint32_t DraftTable::key_of(uint64_t hash) {
  return std::max(static_cast<uint32_t>(hash), kFree + 1);
}

uint32_t DraftTable::first_slot(uint64_t hash, uint32_t slots) {
  return static_cast<uint32_t>((hash >> 32) * slots >> 32);
}

DraftTable::DraftTable(const Arrays& arrays)
    : arrays_(arrays), slots_(static_cast<uint32_t>(arrays.keys.size() / sizeof(uint32_t))) {
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    contexts_ += at<uint32_t>(arrays_.keys, slot) != kFree;
  }
}

std::string DraftTable::problem(const Arrays& arrays, int vocab_size) {
  const auto wrong = [](const std::string& expected, size_t found) {
    return "expected " + expected + format(", found %zu", found);
  };
  if (arrays.max_context < 1 || arrays.max_context > kMaxContext) {
    return format("expected contexts of 1 to %d tokens, found %d", kMaxContext, arrays.max_context);
  }
  const size_t slots = arrays.keys.size() / sizeof(uint32_t);
  const size_t entries = arrays.tokens.size() / sizeof(int32_t);
  if (slots == 0 || slots > UINT32_MAX / TableGuess::kMost) return wrong("1 to 2^30 keys", slots);
  if (arrays.places.size() != arrays.keys.size()) {
    return wrong(format("%zu places, one a key", slots), arrays.places.size() / sizeof(uint32_t));
  }
  if (arrays.log_p.size() / sizeof(uint16_t) != entries) {
    return wrong(format("%zu log p, one a token", entries), arrays.log_p.size() / sizeof(uint16_t));
  }
  for (size_t i = 0; i < entries; ++i) {
    const int32_t token = at<int32_t>(arrays.tokens, i);
    if (token < 0 || token >= vocab_size) {
      return format("expected token ids from 0 to %d, found %d at %zu", vocab_size - 1, token, i);
    }
    const float log_p = half_to_float(at<uint16_t>(arrays.log_p, i));
    if (!(std::isfinite(log_p) && log_p <= 0)) {
      return format("expected log p that are finite and not above 0, found %g at %zu",
                    static_cast<double>(log_p), i);
    }
  }
  for (size_t slot = 0; slot < slots; ++slot) {
    if (at<uint32_t>(arrays.keys, slot) == kFree) continue;
    const uint32_t place = at<uint32_t>(arrays.places, slot);
    if (first_of(place) + count_of(place) > entries) {
      return format("expected places within %zu tokens, found %zu and %zu more at %zu", entries,
                    first_of(place), count_of(place), slot);
    }
  }
  return "";
}

size_t DraftTable::bytes() const {
  return arrays_.keys.size() + arrays_.places.size() + arrays_.tokens.size() + arrays_.log_p.size();
}

TableGuess DraftTable::lookup(std::span<const int32_t> history) const {
  TableGuess guess;
  if (slots_ == 0) return guess;
  const int longest =
      static_cast<int>(std::min(history.size(), static_cast<size_t>(arrays_.max_context)));
  std::array<uint64_t, kMaxContext + 1> hashes{};
  for (int n = 1; n <= longest; ++n) {
    hashes[n] = extend(hashes[n - 1], history[history.size() - n]);
  }
  for (int n = longest; n >= 1; --n) {
    const uint32_t key = key_of(hashes[n]);
    uint32_t slot = first_slot(hashes[n], slots_);
    for (int probe = 0; probe < kMaxProbes; ++probe, slot = slot + 1 < slots_ ? slot + 1 : 0) {
      const uint32_t found = at<uint32_t>(arrays_.keys, slot);
      if (found == kFree) break;
      if (found != key) continue;
      const uint32_t place = at<uint32_t>(arrays_.places, slot);
      guess.context = n;
      guess.size = static_cast<int>(count_of(place));
      for (int i = 0; i < guess.size; ++i) {
        guess.ids[i] = at<int32_t>(arrays_.tokens, first_of(place) + i);
        guess.log_p[i] = half_to_float(at<uint16_t>(arrays_.log_p, first_of(place) + i));
      }
      return guess;
    }
  }
  return guess;
}

DraftTable::Arrays NewDraftTable::arrays() const {
  return {max_context, std::as_bytes(std::span(keys)), std::as_bytes(std::span(places)),
          std::as_bytes(std::span(tokens)), std::as_bytes(std::span(log_p))};
}

}  // namespace specbound
