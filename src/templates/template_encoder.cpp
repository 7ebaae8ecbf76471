#include "templates/template_encoder.h"

#include <algorithm>
#include <string_view>
#include <vector>

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

// Tokenizers leave the control tokens that messages spell alone, but not user-defined tokens, and
// some files have a template's tokens among those, or among the ordinary ones. One that is all or
// in part a message's, as where a template writes < and > around a name, is cut apart behind its
// first byte.
std::vector<size_t> cuts_of(const Tokenizer& tokenizer, const std::set<std::string>& marks,
                            std::string_view text, const TextOrigin& origin) {
  std::vector<std::string_view> loose;  // of the marks, those that text could give
  for (const std::string& mark : marks) {
    const int32_t id = token_of(tokenizer, mark);
    if (id >= 0 && !tokenizer.is_control(id)) loose.push_back(mark);
  }
  std::vector<size_t> cuts;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool cut = std::any_of(loose.begin(), loose.end(), [&](std::string_view mark) {
      return text.substr(at).starts_with(mark) && origin.has_input(at, mark.size());
    });
    if (cut) cuts.push_back(at + 1);
  }
  return cuts;
}

}  // namespace

std::vector<int32_t> encode_rendered(const Tokenizer& tokenizer, const std::set<std::string>& marks,
                                     const jinja::Text& text) {
  TextOrigin origin;
  origin.input.reserve(text.size());
  for (const jinja::Text::Part& part : text.parts()) {
    origin.input.resize(origin.input.size() + part.bytes.size(), part.input);
  }
  origin.cuts = cuts_of(tokenizer, marks, text.bytes(), origin);
  std::vector<int32_t> ids = tokenizer.encode(
      text.bytes(), {.add_special = false, .parse_special = true, .origin = &origin});
  // Some templates leave BOS to the vocabulary's add_bos_token (llama.cpp reads them so too).
  const int32_t bos = tokenizer.bos();
  if (tokenizer.add_bos() && (ids.empty() || ids[0] != bos)) ids.insert(ids.begin(), bos);
  return ids;
}

}  // namespace specbound
