#include "decode/side_by_side.h"

#include <algorithm>
#include <vector>

namespace specbound {
namespace {

// Where each token of a reply came from.
struct Origin {
  int rows, slot;
};

// Overwrites the cached K/V with those of other tokens: what plain decoding left there must not
// stand in for what speculation fails to write.
void poison(Backend& backend, std::span<const int32_t> text) {
  const int n = std::min(static_cast<int>(text.size()) + kMaxRows, backend.n_ctx());
  std::vector<int32_t> other(n);
  for (int pos = 0; pos < n; ++pos) {
    other[pos] = (text[pos % text.size()] + 1) % backend.config().vocab_size;
  }
  backend.truncate(0);
  backend.prefill(other);
  backend.truncate(0);
}

// Both texts begin with the prompt of n_prompt tokens; `origins` are those of what follows in
// `found`.
std::optional<Difference> compare_texts(std::span<const int32_t> plain,
                                        std::span<const int32_t> found, size_t n_prompt,
                                        std::span<const Origin> origins, StopReason plain_stop,
                                        StopReason found_stop) {
  const size_t n = std::min(plain.size(), found.size());
  Difference d;
  for (size_t pos = n_prompt; pos < n; ++pos) {
    if (plain[pos] == found[pos]) continue;
    const Origin& origin = origins[pos - n_prompt];
    d.pos = static_cast<int>(pos);
    d.rows = origin.rows;
    d.slot = origin.slot;
    d.expected = static_cast<uint32_t>(plain[pos]);
    d.found = static_cast<uint32_t>(found[pos]);
    return d;
  }
  d.pos = static_cast<int>(n);
  if (plain.size() != found.size()) {
    d.what = Difference::What::kCount;
    d.expected = static_cast<uint32_t>(plain.size());
    d.found = static_cast<uint32_t>(found.size());
    return d;
  }
  if (plain_stop == found_stop) return std::nullopt;
  d.what = Difference::What::kStop;
  d.expected = static_cast<uint32_t>(plain_stop);
  d.found = static_cast<uint32_t>(found_stop);
  return d;
}

}  // namespace

SideBySide decode_side_by_side(Backend& backend, DifferentialBackend* differential,
                               const SamplingParams& sampling, std::span<const int32_t> prompt,
                               const GenerateOptions& options,
                               const MakeSpeculator& make_speculator) {
  SideBySide result;
  Backend& engine = differential ? *differential : backend;
  Session plain(engine, Sampler(sampling));
  if (differential) differential->record(static_cast<int>(prompt.size()) - 1);
  result.plain = plain.generate(prompt, options);
  if (result.plain.stop == StopReason::kAborted) {
    result.aborted = true;
    return result;
  }
  const std::span<const int32_t> text = plain.tokens();
  if (differential) differential->compare(text);
  poison(engine, text);

  std::vector<int32_t> shown(prompt.begin(), prompt.end());  // as its readers saw it
  std::vector<Origin> origins;
  GenerateOptions watched = options;
  watched.on_round = [&](const RoundEvent& round) {
    for (const TokenEvent& token : round.tokens) {
      shown.push_back(token.token);
      origins.push_back({token.rows, token.slot});
    }
    if (options.on_round) options.on_round(round);
  };
  Session drafted(engine, Sampler(sampling));  // a new one: the prompt is read again
  drafted.set_speculator(make_speculator(text));
  result.speculative = drafted.generate(prompt, watched);
  if (result.speculative.stop == StopReason::kAborted) {
    result.aborted = true;
    return result;
  }
  for (const std::span<const int32_t> found : {std::span<const int32_t>(shown), drafted.tokens()}) {
    if (result.difference) break;
    result.difference = compare_texts(text, found, prompt.size(), origins, result.plain.stop,
                                      result.speculative.stop);
  }
  if (!differential) return result;
  differential->finish(result.difference ? result.difference->pos : static_cast<int>(text.size()));
  // A row's bits come before the token that they give.
  const std::optional<Difference>& bits = differential->difference();
  if (bits && (!result.difference || bits->pos < result.difference->pos)) result.difference = bits;
  return result;
}

}  // namespace specbound
