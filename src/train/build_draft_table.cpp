#include "train/build_draft_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "error.h"
#include "numerics/half.h"

namespace specbound {
namespace {

constexpr double kLeast = 0.02;  // a token less likely is not listed
constexpr double kLoad = 0.75;   // of the slots

struct Listed {
  int32_t token;
  double p;
  bool operator<(const Listed& other) const {
    return p > other.p || (p == other.p && token < other.token);
  }
};

// The best of all that were added and are likely enough.
struct List {
  int size = 0;
  std::array<Listed, TableGuess::kMost> items;

  void add(const Listed& item) {
    if (!(item.p >= kLeast)) return;
    if (size == TableGuess::kMost && !(item < items[size - 1])) return;
    int at = size < TableGuess::kMost ? size++ : size - 1;
    for (; at > 0 && item < items[at - 1]; --at) items[at] = items[at - 1];
    items[at] = item;
  }
  const Listed* begin() const { return items.data(); }
  const Listed* end() const { return items.data() + size; }
};

// One context: what followed it lies in the order's counts.
struct Context {
  uint64_t hash;
  uint32_t first, types, total;
  uint32_t shorter;  // the context without its oldest token, in the order before
  double rest;       // the chance that discounting leaves to the shorter one
};
struct Count {
  int32_t token;
  uint32_t times;
};

// All contexts of one length, by hash.
struct Order {
  std::vector<Context> contexts;
  std::vector<Count> counts;         // of each context together, by token
  std::array<double, 4> discount{};  // by times, 3 and more alike
};

struct Seen {
  uint64_t hash, shorter;
  int32_t token;
};

class Counts {
 public:
  Counts(std::span<const TrainingText> texts, const DraftTableOptions& options)
      : vocab_size_(options.vocab_size) {
    for (int n = 0; n <= options.max_context; ++n) orders_.push_back(count(texts, n));
  }

  int longest() const { return static_cast<int>(orders_.size()) - 1; }
  const std::vector<Context>& contexts(int n) const { return orders_[n].contexts; }

  // Of `token` after the context: interpolated with all shorter ones.
  double chance(int n, uint32_t context, int32_t token) const {
    double p = 0, share = 1;
    for (; n >= 0; --n) {
      const Order& order = orders_[n];
      const Context& c = order.contexts[context];
      const auto begin = order.counts.begin() + c.first, end = begin + c.types;
      const auto found = std::lower_bound(begin, end, token,
                                          [](const Count& a, int32_t id) { return a.token < id; });
      if (found != end && found->token == token) {
        const double d = order.discount[std::min<uint32_t>(found->times, 3)];
        p += share * (found->times - d) / c.total;
      }
      share *= c.rest;
      context = c.shorter;
    }
    return p + share / vocab_size_;
  }

  // The likeliest tokens after the context, best first; `shorter`: those of the one without its
  // oldest token.
  List likeliest(int n, uint32_t context, const List& shorter) const {
    const Order& order = orders_[n];
    const Context& c = order.contexts[context];
    const double from_shorter = c.rest * (shorter.size > 0 ? shorter.items[0].p : kLeast);
    List list;
    for (uint32_t i = c.first; i < c.first + c.types; ++i) {
      const auto [token, times] = order.counts[i];
      if (static_cast<double>(times) / c.total + from_shorter < kLeast) continue;
      list.add({token, chance(n, context, token)});
    }
    if (from_shorter < kLeast) return list;
    for (int i = 0; i < shorter.size; ++i) {
      const int32_t token = shorter.items[i].token;
      if (!followed_by(order, c, token)) list.add({token, chance(n, context, token)});
    }
    return list;
  }

 private:
  // How often.
  static uint32_t followed_by(const Order& order, const Context& c, int32_t token) {
    const auto begin = order.counts.begin() + c.first, end = begin + c.types;
    const auto found = std::lower_bound(begin, end, token,
                                        [](const Count& a, int32_t id) { return a.token < id; });
    return found != end && found->token == token ? found->times : 0;
  }

  Order count(std::span<const TrainingText> texts, int n) const {
    std::vector<Seen> seen;
    for (const TrainingText& text : texts) {
      for (size_t i = 0; i + 1 < text.tokens.size(); ++i) {
        if (!text.learn[i] || i + 1 < static_cast<size_t>(n)) continue;
        Seen s{0, 0, text.tokens[i + 1]};
        for (int k = 0; k < n; ++k) {
          s.shorter = s.hash;
          s.hash = DraftTable::extend(s.hash, text.tokens[i - k]);
        }
        seen.push_back(s);
      }
    }
    std::sort(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) {
      return a.hash < b.hash || (a.hash == b.hash && a.token < b.token);
    });
    Order order;
    for (size_t i = 0; i < seen.size();) {
      Context c{seen[i].hash, static_cast<uint32_t>(order.counts.size()), 0, 0, 0, 1};
      if (n > 0) c.shorter = find(orders_[n - 1], seen[i].shorter);
      while (i < seen.size() && seen[i].hash == c.hash) {
        const size_t begin = i;
        while (i < seen.size() && seen[i].hash == c.hash && seen[i].token == seen[begin].token) ++i;
        order.counts.push_back({seen[begin].token, static_cast<uint32_t>(i - begin)});
        ++c.types;
        c.total += static_cast<uint32_t>(i - begin);
      }
      order.contexts.push_back(c);
    }
    set_discounts(order);
    return order;
  }

  static uint32_t find(const Order& order, uint64_t hash) {
    const auto found = std::lower_bound(order.contexts.begin(), order.contexts.end(), hash,
                                        [](const Context& c, uint64_t h) { return c.hash < h; });
    SB_CHECK(found != order.contexts.end() && found->hash == hash);
    return static_cast<uint32_t>(found - order.contexts.begin());
  }

  // Chen and Goodman's modified Kneser-Ney discounts, from how many were seen once, twice, ...
  static void set_discounts(Order& order) {
    std::array<double, 5> n{};
    for (const Count& c : order.counts) {
      if (c.times <= 4) ++n[c.times];
    }
    order.discount = {0, 0.5, 0.5, 0.5};  // where there is too little to tell
    if (n[1] > 0 && n[2] > 0 && n[3] > 0) {
      const double y = n[1] / (n[1] + 2 * n[2]);
      for (int k = 1; k <= 3; ++k) {
        order.discount[k] = std::clamp(k - (k + 1) * y * n[k + 1] / n[k], 0.1, 0.25 + 0.5 * k);
      }
    }
    for (Context& c : order.contexts) {
      double rest = 0;
      for (uint32_t i = c.first; i < c.first + c.types; ++i) {
        rest += order.discount[std::min<uint32_t>(order.counts[i].times, 3)];
      }
      c.rest = rest / c.total;
    }
  }

  int vocab_size_;
  std::vector<Order> orders_;
};

struct Entry {
  double gain;  // a byte
  uint64_t hash;
  int n;
  List list;
};

size_t bytes_of(const List& list) {
  return static_cast<size_t>(2 * sizeof(uint32_t) / kLoad + 0.999) +
         static_cast<size_t>(list.size) * (sizeof(int32_t) + sizeof(uint16_t));
}

std::vector<Entry> ranked(const Counts& counts) {
  std::vector<Entry> entries;
  std::vector<List> shorter, lists;  // by context of the order before, of this one
  for (int n = 0; n <= counts.longest(); ++n) {
    const std::vector<Context>& contexts = counts.contexts(n);
    shorter = std::move(lists);
    lists.clear();
    for (uint32_t i = 0; i < contexts.size(); ++i) {
      lists.push_back(counts.likeliest(n, i, n > 0 ? shorter[contexts[i].shorter] : List()));
      if (n == 0 || lists[i].size == 0) continue;
      Entry entry{0, contexts[i].hash, n, lists[i]};
      for (const Listed& listed : entry.list) {
        entry.gain +=
            listed.p * std::log(listed.p / counts.chance(n - 1, contexts[i].shorter, listed.token));
      }
      entry.gain *= contexts[i].total / static_cast<double>(bytes_of(entry.list));
      if (entry.gain > 0) entries.push_back(std::move(entry));
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    if (a.gain != b.gain) return a.gain > b.gain;
    return a.n != b.n ? a.n < b.n : a.hash < b.hash;
  });
  return entries;
}

// As a half that is not above it: chances must not sum to more than 1.
uint16_t half_below(double log_p) {
  const float value = std::min(static_cast<float>(log_p), 0.0f);
  uint16_t half = float_to_half(value);
  if (half_to_float(half) > value) ++half;  // the next one down, of a number below 0
  return half;
}

}  // namespace

NewDraftTable build_draft_table(std::span<const TrainingText> texts,
                                const DraftTableOptions& options) {
  SB_CHECK(options.max_context >= 1 && options.max_context <= DraftTable::kMaxContext);
  SB_CHECK(options.vocab_size >= 1);
  NewDraftTable table;
  const Counts counts(texts, options);
  std::vector<Entry> entries = ranked(counts);
  size_t bytes = 0, kept = 0;
  while (kept < entries.size() && bytes + bytes_of(entries[kept].list) <= options.max_bytes) {
    bytes += bytes_of(entries[kept++].list);
  }
  if (kept == 0) return table;
  entries.resize(kept);

  table.max_context = options.max_context;
  const uint32_t slots = static_cast<uint32_t>(static_cast<double>(kept) / kLoad) + 1;
  table.keys.assign(slots, DraftTable::kFree);
  table.places.assign(slots, 0);
  for (const Entry& entry : entries) {
    uint32_t slot = DraftTable::first_slot(entry.hash, slots);
    int probe = 0;
    while (probe < DraftTable::kMaxProbes && table.keys[slot] != DraftTable::kFree) {
      slot = slot + 1 < slots ? slot + 1 : 0;
      ++probe;
    }
    if (probe == DraftTable::kMaxProbes) continue;  // too crowded: few, and the least useful
    table.keys[slot] = DraftTable::key_of(entry.hash);
    table.places[slot] =
        static_cast<uint32_t>(table.tokens.size() * TableGuess::kMost + entry.list.size - 1);
    for (const Listed& listed : entry.list) {
      table.tokens.push_back(listed.token);
      table.log_p.push_back(half_below(std::log(static_cast<double>(listed.p))));
    }
  }
  return table;
}

DraftTableReport judge_draft_table(const DraftTable& table, std::span<const TrainingText> texts) {
  constexpr int kBins = 20;
  std::array<double, kBins> sure{}, hits{};
  DraftTableReport report;
  double known = 0, right = 0, confidence = 0;
  for (const TrainingText& text : texts) {
    for (size_t i = 0; i + 1 < text.tokens.size(); ++i) {
      if (!text.learn[i]) continue;
      ++report.tokens;
      const TableGuess guess = table.lookup(std::span(text.tokens).first(i + 1));
      if (guess.size == 0) continue;
      const double p = std::exp(static_cast<double>(guess.log_p[0]));
      const bool hit = guess.ids[0] == text.tokens[i + 1];
      const int bin = std::min(static_cast<int>(p * kBins), kBins - 1);
      known += 1;
      right += hit;
      confidence += p;
      sure[bin] += p;
      hits[bin] += hit;
    }
  }
  if (report.tokens == 0) return report;
  const double n = static_cast<double>(report.tokens);
  for (int bin = 0; bin < kBins; ++bin) report.ece += std::abs(sure[bin] - hits[bin]) / n;
  report.known = known / n;
  report.right = right / n;
  report.confidence = confidence / n;
  return report;
}

}  // namespace specbound
