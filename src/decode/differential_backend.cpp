#include "decode/differential_backend.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "decode/generate.h"
#include "error.h"

namespace specbound {
namespace {

// The first of n elements whose bits differ; n if none does.
template <class T>
size_t first_difference(const T* a, const T* b, size_t n) {
  if (std::memcmp(a, b, n * sizeof(T)) == 0) return n;
  for (size_t i = 0; i < n; ++i) {
    if (std::memcmp(a + i, b + i, sizeof(T)) != 0) return i;
  }
  return n;
}

constexpr std::array<const char*, 9> kSubjects = {
    "token",          "number of tokens",        "stop reason",
    "hidden row",     "row of logits",           "key of a row",
    "value of a row", "length of the K/V cache", "row"};

}  // namespace

std::string describe_value(Difference::What what, uint32_t bits) {
  switch (what) {
    case Difference::What::kHidden:
    case Difference::What::kLogits:
      return format("%.9g (0x%08x)", std::bit_cast<float>(bits), bits);
    case Difference::What::kKey:
    case Difference::What::kValue:
      return format("bits 0x%04x", bits);  // of FP16, or of a byte and a part of its scale
    case Difference::What::kStop:
      return stop_reason_name(static_cast<StopReason>(bits));
    default:
      return std::to_string(bits);
  }
}

std::string describe(const Difference& d) {
  using What = Difference::What;
  std::string text = format("%s at position %d", kSubjects[static_cast<int>(d.what)], d.pos);
  if (d.what == What::kMissing) {
    return text + " never went through all layers with the plain text before it";
  }
  text += " differs (";
  if (d.rows > 0) {
    text += format("%d row%s, slot %d", d.rows, d.rows == 1 ? "" : "s", d.slot);
  } else {
    text += "after the reply";
  }
  if (d.from > 0) {
    text += d.from == d.to ? format(", layer %d", d.from) : format(", layers %d-%d", d.from, d.to);
  }
  text += "): ";
  const bool is_row = d.what == What::kHidden || d.what == What::kLogits || d.what == What::kKey ||
                      d.what == What::kValue;
  if (is_row) text += format("element %d: ", d.element);
  return text + format("expected %s, found %s", describe_value(d.what, d.expected).c_str(),
                       describe_value(d.what, d.found).c_str());
}

size_t DifferentialBackend::bytes_needed(const ModelConfig& config, int positions, int rows) {
  const size_t layers = config.n_layers;
  return static_cast<size_t>(rows) * (layers * config.dim + config.vocab_size) * sizeof(float) +
         static_cast<size_t>(positions) * layers * 2 * config.kv_dim() * sizeof(uint16_t);
}

DifferentialBackend::DifferentialBackend(Backend& backend, int positions, int rows)
    : backend_(backend),
      n_layers_(backend.config().n_layers),
      dim_(backend.config().dim),
      kv_dim_(backend.config().kv_dim()),
      vocab_size_(backend.config().vocab_size),
      positions_(positions),
      rows_(rows),
      hidden_(static_cast<size_t>(rows) * n_layers_ * dim_, "the hidden rows of a reply"),
      logits_(static_cast<size_t>(rows) * vocab_size_, "the logits of a reply"),
      kv_(static_cast<size_t>(positions) * n_layers_ * 2 * kv_dim_, "the K/V of a text"),
      k_(kv_dim_),
      v_(kv_dim_) {
  SB_CHECK(rows >= 1 && positions >= rows);
}

void DifferentialBackend::record(int first) {
  mode_ = Mode::kRecord;
  first_ = end_ = first;
  text_.clear();
  matching_ = 0;
  seen_.clear();
  rows_compared_ = kv_compared_ = 0;
  rows_in_passes_of_.fill(0);
  difference_.reset();
}

void DifferentialBackend::compare(std::span<const int32_t> text) {
  SB_CHECK(mode_ == Mode::kRecord);
  // All tokens but the last, which has not been through the layers yet.
  const int n = static_cast<int>(text.size()) - 1;
  SB_CHECK(n >= 0 && n <= positions_);
  for (int l = 1; l <= n_layers_; ++l) {
    check_length(l, n, n, 1, 0);
    for (int pos = 0; pos < std::min(n, backend_.kv_len(l)); ++pos) {
      backend_.inspect().read_kv(l, pos, {k_at(pos, l), kv_dim_}, {v_at(pos, l), kv_dim_});
    }
  }
  text_.assign(text.begin(), text.end());
  end_ = std::min(end_, n);
  seen_.assign(end_ - first_, false);
  // What is in the cache came from this very text.
  matching_ = n;
  mode_ = Mode::kCompare;
}

void DifferentialBackend::embed(int slot, int32_t token) {
  backend_.embed(slot, token);
  slots_[slot] = {.token = token};
  paths_.reset(slot);
  newest_ = slot;
}

void DifferentialBackend::set_row(int slot, std::span<const float> row) {
  backend_.set_row(slot, row);
  slots_[slot] = {};
  paths_.reset(slot);
  newest_ = slot;
}

void DifferentialBackend::follow(int slot, int parent) {
  backend_.follow(slot, parent);
  paths_.follow(slot, parent);
}

// Position `pos` of the cache now belongs to `token`.
void DifferentialBackend::cached(int pos, int32_t token) {
  if (pos > matching_) return;
  matching_ = is_plain(pos, token) ? pos + 1 : pos;
}

// Row `slot` goes through its first layers, with K and V at `place` of the cache. What is behind
// its root there is the plain text's only while the round is a chain.
void DifferentialBackend::place(int slot, int place) {
  const RowPath& path = paths_[slot];
  Row& row = slots_[slot];
  const int root = place - slot;
  row.place = place;
  row.pos = path.straight ? place : root + path.depth;
  if (path.straight) {
    cached(place, row.token);
    row.plain = place < matching_;
  } else {
    matching_ = std::min(matching_, place);
    row.plain = slots_[path.slots[path.depth - 1]].plain && is_plain(row.pos, row.token);
  }
}

void DifferentialBackend::run_layers(int slot, int n, int pos, int from, int to) {
  // The plain text is no tree.
  if (mode_ == Mode::kRecord) {
    for (int l = from; l <= to; ++l) {
      backend_.run_layers(slot, n, pos, l, l);
      for (int i = 0; i < n; ++i) {
        if (pos + i < first_) continue;
        SB_CHECK(pos + i - first_ < rows_);
        std::memcpy(hidden_at(pos + i, l), backend_.inspect().hidden(slot + i).data(),
                    dim_ * sizeof(float));
      }
    }
    if (to == n_layers_) end_ = std::max(end_, pos + n);
  } else {
    backend_.run_layers(slot, n, pos, from, to);
  }
  for (int i = 0; i < n; ++i) {
    slots_[slot + i].done = to;
    if (from == 1) place(slot + i, pos + i);
  }
  if (mode_ != Mode::kCompare) return;
  for (int i = 0; i < n; ++i) {
    const Row& row = slots_[slot + i];
    if (!recorded(row.pos) || !row.plain || row.skipped) continue;
    for (int l = from; l <= to; ++l) compare_kv(row.pos, row.place, l, slot + i, n);
    compare_row(Difference::What::kHidden, slot + i, n, from, to, hidden_at(row.pos, to),
                backend_.inspect().hidden(slot + i).data(), dim_);
  }
}

void DifferentialBackend::skip_layers(int slot, int n, int pos, int from, int to) {
  backend_.skip_layers(slot, n, pos, from, to);
  for (int i = 0; i < n; ++i) {
    slots_[slot + i].done = to;
    slots_[slot + i].skipped = true;
    if (from == 1) place(slot + i, pos + i);
  }
}

void DifferentialBackend::logits(int slot, int n, float* out) {
  backend_.logits(slot, n, out);
  for (int i = 0; i < n; ++i) {
    const Row& row = slots_[slot + i];
    const float* z = out + static_cast<size_t>(i) * vocab_size_;
    // Of a draft: approximate by right, and never part of the text.
    if (row.done != n_layers_ || row.skipped) continue;
    if (mode_ == Mode::kRecord && recorded(row.pos)) {
      std::memcpy(logits_at(row.pos), z, vocab_size_ * sizeof(float));
    } else if (mode_ == Mode::kCompare && recorded(row.pos) && row.plain) {
      compare_row(Difference::What::kLogits, slot + i, n, n_layers_, n_layers_, logits_at(row.pos),
                  z, vocab_size_);
      seen_[row.pos - first_] = true;
    }
  }
}

void DifferentialBackend::draw(int slot, int n, const DrawRule& rule, std::span<const int32_t> text,
                               RowDraw* draws) {
  drawn_from_.resize(static_cast<size_t>(n) * vocab_size_);
  logits(slot, n, drawn_from_.data());
  backend_.device_sampling()->draw(slot, n, rule, text, draws);
}

void DifferentialBackend::prefill(std::span<const int32_t> tokens, bool (*progress)(void*, int),
                                  void* context) {
  const int begin = backend_.kv_len(1);
  backend_.prefill(tokens, progress, context);
  const int done = backend_.kv_len(1) - begin;
  for (int i = 0; i < done; ++i) cached(begin + i, tokens[i]);
}

void DifferentialBackend::prefill_rows(std::span<const int32_t> tokens) {
  const int begin = backend_.kv_len(1), n = static_cast<int>(tokens.size());
  backend_.prefill_rows(tokens);
  for (int i = 0; i < n; ++i) cached(begin + i, tokens[i]);
}

void DifferentialBackend::keep_path(int pos, const RowPath& path) {
  backend_.keep_path(pos, path);
  const int slot = path.slots[path.depth], len = pos + path.depth + 1;
  // What moved is looked at in finish().
  int plain = 0;
  while (plain <= path.depth && slots_[path.slots[plain]].plain) ++plain;
  matching_ = pos <= matching_ ? pos + plain : std::min(matching_, len);
  if (mode_ != Mode::kCompare) return;
  for (int l = 1; l <= n_layers_; ++l) check_length(l, len, len, newest_ + 1, slot);
}

void DifferentialBackend::truncate(int len) {
  std::vector<int> expected(n_layers_);
  for (int l = 1; l <= n_layers_; ++l) expected[l - 1] = std::min(backend_.kv_len(l), len);
  backend_.truncate(len);
  matching_ = std::min(matching_, len);
  if (mode_ != Mode::kCompare) return;
  const int slot = std::clamp(len - 1 - slots_[0].place, 0, newest_);  // the last one that stays
  for (int l = 1; l <= n_layers_; ++l) {
    check_length(l, len, expected[l - 1], newest_ + 1, slot);
  }
}

void DifferentialBackend::check_length(int layer, int pos, int expected, int rows, int slot) {
  const int found = backend_.kv_len(layer);
  if (found == expected) return;
  report({Difference::What::kKvLen, pos, rows, slot, layer, layer, 0,
          static_cast<uint32_t>(expected), static_cast<uint32_t>(found)});
}

void DifferentialBackend::compare_row(Difference::What what, int slot, int rows, int from, int to,
                                      const float* expected, const float* found, size_t n) {
  ++rows_compared_;
  if (what == Difference::What::kHidden) ++rows_in_passes_of_[rows];
  const size_t at = first_difference(expected, found, n);
  if (at == n) return;
  report({what, slots_[slot].pos, rows, slot, from, to, static_cast<int>(at),
          std::bit_cast<uint32_t>(expected[at]), std::bit_cast<uint32_t>(found[at])});
}

void DifferentialBackend::compare_kv(int pos, int place, int layer, int slot, int rows) {
  if (backend_.kv_len(layer) <= place) return check_length(layer, pos, place + 1, rows, slot);
  ++kv_compared_;
  backend_.inspect().read_kv(layer, place, k_, v_);
  const auto compare = [&](Difference::What what, const uint16_t* expected, const uint16_t* found) {
    const size_t at = first_difference(expected, found, kv_dim_);
    if (at == kv_dim_) return;
    report({what, pos, rows, slot, layer, layer, static_cast<int>(at), expected[at], found[at]});
  };
  compare(Difference::What::kKey, k_at(pos, layer), k_.data());
  compare(Difference::What::kValue, v_at(pos, layer), v_.data());
}

void DifferentialBackend::finish(int same) {
  SB_CHECK(mode_ == Mode::kCompare);
  const int all = static_cast<int>(text_.size()) - 1, n = std::min(same, all);
  if (same > all) {
    for (int l = 1; l <= n_layers_; ++l) check_length(l, n, n, 0, 0);
  }
  const auto missing = std::find(seen_.begin(), seen_.end(), false) - seen_.begin();
  const int pos = std::min(n, first_ + static_cast<int>(missing));
  if (pos < n || (same > all && matching_ < n)) {
    report({.what = Difference::What::kMissing, .pos = std::min(pos, matching_)});
  }
  for (int at = 0; at < std::min(n, matching_); ++at) {
    for (int l = 1; l <= n_layers_; ++l) compare_kv(at, at, l, 0, 0);
  }
  mode_ = Mode::kIdle;
}

void DifferentialBackend::report(const Difference& difference) {
  if (!difference_) difference_ = difference;
}

}  // namespace specbound
