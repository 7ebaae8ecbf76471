#include "text/vocabulary.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstring>
#include <limits>
#include <string>

#include "error.h"
#include "text/tokenizer.h"

namespace specbound {

namespace {

// Multiply and rotate over 8-byte words; texts are short, so the tail matters most.
uint32_t hash_of(std::string_view text) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15u;
  uint64_t h = text.size() * kMultiplier;
  const char* at = text.data();
  size_t left = text.size();
  const auto mix = [&](uint64_t word) { h = std::rotl((h ^ word) * kMultiplier, 29); };
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    mix(word);
  }
  uint64_t word = 0;
  for (size_t i = 0; i < left; ++i) word = word << 8 | static_cast<unsigned char>(at[i]);
  mix(word);
  return static_cast<uint32_t>((h * kMultiplier) >> 32);
}

// Tokens that end a reply by their name, whatever id the file declares: chat models often keep the
// base model's EOS and end turns with another token.
constexpr std::string_view kEndNames[] = {
    "</s>",
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|eom_id|>",
    "<EOT>",
    "\xE2\x96\x81<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<eos>",
    "<|end_of_turn|>",
    "<end_of_utterance>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81"
    "of\xE2\x96\x81"
    "sentence\xEF\xBD\x9C>",
};

// What models of code write where the text in the middle is over: padding, or the beginning of
// another file or repository. Each kind by the file's key, without one by name, as in llama.cpp;
// but prompts spell these out, so their types stay what the file says.
struct MiddleEnd {
  const char* key;
  std::array<std::string_view, 5> names;
};
constexpr MiddleEnd kMiddleEnds[] = {
    {"tokenizer.ggml.fim_pad_token_id",
     {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {"tokenizer.ggml.fim_rep_token_id",
     {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {"tokenizer.ggml.fim_sep_token_id", {"<|file_sep|>"}},
};

// Where messages come in channels (gpt-oss), <|end|> ends one of several in a reply, which ends
// with a call or with what says so.
void end_channels(Vocabulary& v) {
  const auto find = [&](std::string_view name) { return v.index.find(name); };
  if (find("<|channel|>") < 0 || find("<|message|>") < 0) return;
  for (const char* name : {"<|return|>", "<|call|>"}) {
    const int32_t id = find(name);
    if (id < 0) continue;
    v.ends[id] = true;
    v.types[id] = TokenType::kControl;
  }
  if (const int32_t id = find("<|end|>"); id >= 0 && id != v.eos) v.ends[id] = false;
}

[[noreturn]] void broken(const Gguf& gguf, const std::string& what) {
  throw Error(ErrorCode::kFormat, format("%s: %s", gguf.path().c_str(), what.c_str()));
}

// nullopt: the key is absent, or names what is no token: such files work elsewhere, so that is
// said and no more (llama.cpp warns likewise); -1: the file says there is none.
std::optional<int32_t> special_id(const Gguf& gguf, const char* key, Vocabulary& v) {
  const std::optional<uint64_t> id = gguf.get_uint(key);
  if (!id) return std::nullopt;
  if (*id == std::numeric_limits<uint32_t>::max()) return -1;
  if (*id >= v.texts.size()) {
    v.notes.push_back(
        format("%s is %llu, but the vocabulary has %zu tokens: read as if that key were not there",
               key, static_cast<unsigned long long>(*id), v.texts.size()));
    return std::nullopt;
  }
  return static_cast<int32_t>(*id);
}

void find_ends(const Gguf& gguf, Vocabulary& v) {
  v.ends.resize(v.texts.size());
  const auto end = [&](int32_t id) {
    if (id >= 0) v.ends[id] = true;
  };
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    end(special_id(gguf, key, v).value_or(-1));
  }
  end(v.eos);
  for (const std::string_view name : kEndNames) {
    const int32_t id = v.index.find(name);
    if (id < 0) continue;
    v.ends[id] = true;
    v.types[id] =
        TokenType::kControl;  // whatever the file says: text must not end a reply by itself
  }
  for (const MiddleEnd& kind : kMiddleEnds) {
    if (const std::optional<int32_t> id = special_id(gguf, kind.key, v)) {
      end(*id);
      continue;
    }
    for (const std::string_view name : kind.names) end(v.index.find(name));
  }
  end_channels(v);
}

// A default id, if the token there is what it should be.
int32_t id_at(const Vocabulary& vocabulary, int32_t id, TokenType type) {
  return vocabulary.contains(id) && vocabulary.types[id] == type ? id : -1;
}

}  // namespace

bool name_strips_white_space(std::string_view model_name) {
  std::string name(model_name);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name.find("phi-3") != name.npos || name.find("phi3") != name.npos;
}

bool strips_white_space_behind(std::string_view special) {
  return special != "<unk>" && special != "<s>" && special != "<|endoftext|>";
}

TokenIndex::TokenIndex(size_t n_tokens)
    : slots_(std::bit_ceil(n_tokens * 2 + 2), Slot{0, -1, nullptr, 0}) {}

int32_t TokenIndex::add(std::string_view text, int32_t id) {
  const uint32_t hash = hash_of(text);
  const size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  for (int n = 0; n < kMostProbes; ++n, i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.id < 0) {
      slot = {hash, id, text.data(), text.size()};
      return -1;
    }
    if (slot.hash == hash && std::string_view(slot.text, slot.size) == text) return slot.id;
  }
  return kNoPlace;
}

int32_t TokenIndex::find(std::string_view text) const {
  const uint32_t hash = hash_of(text);
  const size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  for (int n = 0; n < kMostProbes; ++n, i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.id < 0) return -1;
    if (slot.hash == hash && std::string_view(slot.text, slot.size) == text) return slot.id;
  }
  return -1;
}

void SpecialTokens::add(std::string_view text, int32_t id, bool always) {
  if (!text.empty()) entries_.push_back({text, id, always});
}

void SpecialTokens::prepare() {
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.text < b.text; });
  for (const Entry& entry : entries_) {
    const auto first = static_cast<unsigned char>(entry.text[0]);
    starts_[1][first] = any_[1] = true;
    if (entry.always) starts_[0][first] = any_[0] = true;
  }
}

std::optional<SpecialTokens::Match> SpecialTokens::find(std::string_view text, size_t from,
                                                        bool parse_special,
                                                        const TextOrigin* origin) const {
  if (!any_[parse_special]) return std::nullopt;
  for (size_t at = from; at < text.size(); ++at) {
    if (!starts_[parse_special][static_cast<unsigned char>(text[at])]) continue;
    const auto match = match_at(text, at, parse_special, origin);
    if (match && !(origin && hides_own(text, *match, *origin))) return match;
  }
  return std::nullopt;
}

// A message that ends as a user-defined token begins must not take the control token behind it.
bool SpecialTokens::hides_own(std::string_view text, const Match& match,
                              const TextOrigin& origin) const {
  if (!match.always || !origin.has_input(match.position, match.size)) return false;
  for (size_t at = match.position + 1; at < match.position + match.size; ++at) {
    if (origin.input[at]) continue;
    const auto other = match_at(text, at, true, &origin);
    if (other && !other->always && !origin.has_input(other->position, other->size)) return true;
  }
  return false;
}

// Narrows the sorted entries byte by byte to those that begin like the text here. The entry that
// ends with this byte, if any, is the first of them.
std::optional<SpecialTokens::Match> SpecialTokens::match_at(std::string_view text, size_t position,
                                                            bool parse_special,
                                                            const TextOrigin* origin) const {
  std::optional<Match> longest;
  bool any = parse_special;  // not those alone that are always matched
  auto first = entries_.begin(), last = entries_.end();
  for (size_t n = 0; position + n < text.size(); ++n) {
    const auto wanted = static_cast<unsigned char>(text[position + n]);
    const auto byte_of = [n](const Entry& e) { return static_cast<unsigned char>(e.text[n]); };
    if (first->text.size() == n) ++first;
    first = std::partition_point(first, last, [&](const Entry& e) { return byte_of(e) < wanted; });
    last = std::partition_point(first, last, [&](const Entry& e) { return byte_of(e) == wanted; });
    if (first == last) break;
    if (origin && origin->input[position + n]) any = false;
    if (first->text.size() == n + 1) {
      if (any || first->always) longest = Match{position, n + 1, first->id, first->always};
      if (last - first == 1) break;
    }
  }
  return longest;
}

Vocabulary Vocabulary::read(const Gguf& gguf, VocabularyDefaults defaults) {
  constexpr const char* kTokens = "tokenizer.ggml.tokens";
  constexpr const char* kTypes = "tokenizer.ggml.token_type";
  const auto texts = gguf.get_strings(kTokens);
  if (!texts || texts->empty()) {
    broken(gguf, format("%s is %s: no text can be turned into tokens", kTokens,
                        texts ? "empty" : "missing"));
  }
  const size_t n = texts->size();
  if (n > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    broken(gguf, format("%s has %zu entries; ids end at 2147483647", kTokens, n));
  }
  const auto types = gguf.get_ints(kTypes);
  if (!types)
    broken(gguf, format("%s is missing: which tokens are control tokens is unknown", kTypes));
  if (types->size() != n) {
    broken(gguf, format("%s has %zu entries for %zu tokens", kTypes, types->size(), n));
  }

  Vocabulary v;
  size_t total = 0;
  for (const std::string_view text : *texts) total += text.size();
  v.storage.reserve(total);  // never grows: the views stay valid, also when the Vocabulary is moved
  v.texts.reserve(n);
  v.types.reserve(n);
  v.index = TokenIndex(n);
  for (size_t i = 0; i < n; ++i) {
    const std::string_view text = (*texts)[i];
    const auto id = static_cast<int32_t>(i);
    const int32_t type = (*types)[i];
    if (type < 1 || type > 6) {
      broken(gguf, format("token %d has type %d; types are 1..6", id, type));
    }
    const size_t begin = v.storage.size();
    v.storage.insert(v.storage.end(), text.begin(), text.end());
    v.texts.emplace_back(v.storage.data() + begin, text.size());
    v.types.push_back(static_cast<TokenType>(type));
    if (text.empty()) continue;
    const int32_t other = v.index.add(v.texts.back(), id);
    if (other == TokenIndex::kNoPlace) {
      broken(gguf, format("token %d, \"%s\": its hash collides with more than %d others, as no "
                          "vocabulary's do by chance",
                          id, printable(text).c_str(), kMostProbes - 1));
    }
    if (other >= 0) {
      broken(gguf, format("tokens %d and %d are both \"%s\"", other, id, printable(text).c_str()));
    }
  }

  v.bos = special_id(gguf, "tokenizer.ggml.bos_token_id", v)
              .value_or(id_at(v, defaults.bos, TokenType::kControl));
  v.eos = special_id(gguf, "tokenizer.ggml.eos_token_id", v)
              .value_or(id_at(v, defaults.eos, TokenType::kControl));
  v.unknown = special_id(gguf, "tokenizer.ggml.unknown_token_id", v)
                  .value_or(id_at(v, defaults.unknown, TokenType::kUnknown));
  find_ends(gguf, v);

  v.add_bos =
      gguf.get_bool("tokenizer.ggml.add_bos_token").value_or(defaults.add_bos && v.bos >= 0);
  v.add_eos = gguf.get_bool("tokenizer.ggml.add_eos_token").value_or(false);
  if (v.add_bos && v.bos < 0) broken(gguf, "add_bos_token is true, but there is no BOS token");
  if (v.add_eos && v.eos < 0) broken(gguf, "add_eos_token is true, but there is no EOS token");

  v.strips_white_space = name_strips_white_space(gguf.get_string("general.name").value_or(""));
  for (int32_t id = 0; id < v.size(); ++id) {
    const TokenType type = v.types[id];
    if (type == TokenType::kControl || type == TokenType::kUnknown ||
        type == TokenType::kUserDefined || id == v.bos || id == v.eos) {
      if (v.texts[id].size() > kMostSpecialBytes) {
        broken(gguf,
               format("token %d stands for itself in text and has %zu bytes: expected at most "
                      "%zu",
                      id, v.texts[id].size(), kMostSpecialBytes));
      }
      v.specials.add(v.texts[id], id, type == TokenType::kUserDefined);
    }
  }
  v.specials.prepare();
  return v;
}

}  // namespace specbound
