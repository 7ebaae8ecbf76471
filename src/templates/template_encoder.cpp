#include "templates/template_encoder.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "error.h"

namespace specbound {

size_t bracketed(std::string_view text) {
  constexpr size_t kLongest = 40;
  if (text.empty() || std::string_view("<[]").find(text[0]) == text.npos) return 0;
  const size_t close = text.substr(0, kLongest).find_first_of(text[0] == '<' ? ">" : "[]", 1);
  return close == text.npos ? 0 : close + 1;
}

int32_t token_of(const Tokenizer& tokenizer, const std::string& text) {
  try {
    const std::vector<int32_t> ids =
        tokenizer.encode(text, {.add_special = false, .parse_special = true});
    return ids.size() == 1 && tokenizer.piece(ids[0], true) == text ? ids[0] : -1;
  } catch (const Error&) {  // not even its bytes are tokens
    return -1;
  }
}

namespace {

class TextEncoder {
 public:
  TextEncoder(const Tokenizer& tokenizer, const std::set<std::string>& marks)
      : tokenizer_(tokenizer) {
    for (const int32_t id : {tokenizer.bos(), tokenizer.eos()}) {
      if (id < 0) continue;
      const std::string piece = tokenizer.piece(id, true);
      specials_.emplace(piece, id);
      if (tokenizer.is_control(id) && !piece.empty() && bracketed(piece) != piece.size()) {
        bare_.emplace_back(piece, id);
      }
    }
    for (const std::string& mark : marks) {
      const int32_t id = token_of(tokenizer, mark);
      if (id >= 0 && !tokenizer.is_control(id)) loose_.push_back(mark);
    }
  }

  std::vector<int32_t> run(const jinja::Text& text) {
    for (const jinja::Text::Part& part : text.parts()) {
      part.input ? add(part.bytes, true) : own(part.bytes);
    }
    flush();
    // Some templates leave BOS to the vocabulary's add_bos_token (llama.cpp reads them so too).
    const int32_t bos = tokenizer_.bos();
    if (tokenizer_.add_bos() && (ids_.empty() || ids_[0] != bos)) ids_.insert(ids_.begin(), bos);
    return std::move(ids_);
  }

 private:
  void own(std::string_view text) {
    while (!text.empty()) {
      if (const size_t size = bracketed(text)) {
        const int32_t id = control(std::string(text.substr(0, size)));
        if (id >= 0) {
          flush();
          ids_.push_back(id);
          text.remove_prefix(size);
          continue;
        }
      }
      size_t size = std::min(text.find_first_of("<[]", 1), text.size());
      const auto here = std::find_if(bare_.begin(), bare_.end(), [&](const auto& special) {
        return text.starts_with(special.first);
      });
      if (here != bare_.end()) {
        flush();
        ids_.push_back(here->second);
        text.remove_prefix(here->first.size());
        continue;
      }
      for (const auto& special : bare_) size = std::min(size, text.find(special.first, 1));
      add(text.substr(0, size), false);
      text.remove_prefix(size);
    }
  }

  int32_t control(const std::string& text) {
    const auto [found, is_new] = specials_.try_emplace(text, -1);
    if (is_new) {
      const int32_t id = token_of(tokenizer_, text);
      if (id >= 0 && tokenizer_.is_control(id)) found->second = id;
    }
    return found->second;
  }

  void add(std::string_view text, bool input) {
    stretch_ += text;
    is_input_.resize(stretch_.size(), input);
  }

  // Tokenizers leave control tokens in text alone, but not user-defined tokens, and some files have
  // a template's tokens among those. One that is all or in part a message's, as where a template
  // writes < and > around a name, is cut apart behind its first byte.
  void flush() {
    const std::string_view all = stretch_;
    size_t begin = 0;
    for (size_t at = 0; at < all.size(); ++at) {
      const bool cut = std::any_of(loose_.begin(), loose_.end(), [&](const std::string& token) {
        return all.substr(at).starts_with(token) && has_input(at, token.size());
      });
      if (!cut) continue;
      encode(all.substr(begin, at + 1 - begin));
      begin = at + 1;
    }
    encode(all.substr(begin));
    stretch_.clear();
    is_input_.clear();
  }

  bool has_input(size_t at, size_t size) const {
    const auto first = is_input_.begin() + static_cast<ptrdiff_t>(at);
    const auto last = first + static_cast<ptrdiff_t>(size);
    return std::find(first, last, true) != last;
  }

  void encode(std::string_view text) {
    if (text.empty()) return;
    const std::vector<int32_t> ids =
        tokenizer_.encode(text, {.add_special = false, .parse_special = false});
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

  const Tokenizer& tokenizer_;
  std::vector<std::pair<std::string, int32_t>> bare_;  // BOS and EOS, spelled without brackets
  std::vector<std::string> loose_;  // of the template's marks, those that text could give
  std::unordered_map<std::string, int32_t> specials_;
  std::string stretch_;
  std::vector<bool> is_input_;  // of its bytes
  std::vector<int32_t> ids_;
};

}  // namespace

std::vector<int32_t> encode_rendered(const Tokenizer& tokenizer, const std::set<std::string>& marks,
                                     const jinja::Text& text) {
  return TextEncoder(tokenizer, marks).run(text);
}

}  // namespace specbound
