#include "convert/hf_tokenizer.h"

#include <charconv>
#include <map>
#include <string_view>
#include <utility>

#include "convert/sentencepiece_model.h"
#include "convert/special_tokens.h"
#include "convert/tokenizer_json.h"
#include "error.h"
#include "model/mapped_file.h"

namespace specbound {
namespace {

using nlohmann::json;

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581
constexpr std::string_view kBar = "\xEF\xBD\x9C";    // U+FF5C
constexpr float kAddedScore = -1000, kUnusedScore = -10000;

struct AddedToken {
  std::string text;
  bool special = false;
  bool strips_left = false, strips_right = false;  // white space beside it
  bool is_word = false;                            // found only between other words
};
using AddedTokens = std::map<uint64_t, AddedToken>;

AddedToken read_added(const JsonObject& entry) {
  AddedToken token;
  const auto text = entry.text("content");
  if (!text || text->empty()) entry.bad("content", "a token's text", text ? "none" : "no such key");
  token.text = *text;
  token.special = entry.flag("special").value_or(false);
  token.strips_right = entry.flag("rstrip").value_or(false);
  token.strips_left = entry.flag("lstrip").value_or(false);
  token.is_word = entry.flag("single_word").value_or(false);
  return token;
}

// From the least believed file to the most.
AddedTokens read_added_tokens(const HfFiles& files) {
  AddedTokens added;
  const JsonObject plain(files.added_tokens, files.path("added_tokens.json"));
  for (const auto& [text, id] : plain.value().items()) {
    if (!id.is_number_unsigned()) plain.bad(printable(text).c_str(), "an id", json_text(id));
    added[id.get<uint64_t>()] = {text};
  }
  const JsonObject tokenizer(files.tokenizer, files.path("tokenizer.json"));
  if (const json* list = tokenizer.find("added_tokens")) {
    if (!list->is_array()) tokenizer.bad("added_tokens", "a list", json_text(*list));
    for (const json& value : *list) {
      const JsonObject entry(value, files.path("tokenizer.json") + ": added_tokens");
      added[entry.bounded("id", 0, UINT32_MAX)] = read_added(entry);
    }
  }
  const JsonObject config(files.tokenizer_config, files.path("tokenizer_config.json"));
  if (const auto decoder = config.object("added_tokens_decoder")) {
    for (const auto& [key, value] : decoder->value().items()) {
      uint64_t id = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size()) {
        config.bad("added_tokens_decoder", "ids as keys", "'" + printable(key) + "'");
      }
      added[id] = read_added(
          JsonObject(value, files.path("tokenizer_config.json") + ": added_tokens_decoder"));
    }
  }
  return added;
}

// Tokens that ought to be control tokens and are not always marked as such (gemma, deepseek).
bool looks_special(std::string_view text) {
  const auto between = [&](const std::string& begin, const std::string& end) {
    return text.starts_with(begin) && text.ends_with(end);
  };
  return text == "<pad>" || text == "<mask>" || text == "<2mass>" || text == "[@BOS@]" ||
         between("<|", "|>") || between("<" + std::string(kBar), std::string(kBar) + ">") ||
         between("<unused", ">");
}

std::string with_spaces(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const bool space = text.starts_with(kSpace);
    out += space ? ' ' : text[0];
    text.remove_prefix(space ? kSpace.size() : 1);
  }
  return out;
}

void read_tokenizer_model(const std::string& path, uint64_t n_rows, HfVocabulary& out) {
  const MappedFile file(path);
  SentencePieceModel model = read_sentencepiece(file.bytes(), path);
  if (model.pieces.size() > n_rows) {
    throw Error(ErrorCode::kLimit,
                format("%s: expected at most %llu pieces, the rows of the embedding, found %zu",
                       path.c_str(), static_cast<unsigned long long>(n_rows), model.pieces.size()));
  }
  out.model = "llama";
  out.pre = "default";
  out.add_space_prefix = model.add_dummy_prefix;
  for (SentencePieceModel::Piece& piece : model.pieces) {
    if (piece.type == TokenType::kUserDefined) piece.text = with_spaces(piece.text);
    out.tokens.push_back({std::move(piece.text), piece.score, piece.type});
  }
  const auto set = [&](int32_t id, std::optional<uint32_t>& role) {
    if (id >= 0 && static_cast<uint64_t>(id) < out.tokens.size()) role = static_cast<uint32_t>(id);
  };
  set(model.unk_id, out.unknown);
  set(model.bos_id, out.bos);
  set(model.eos_id, out.eos);
  set(model.pad_id, out.padding);
  if (model.normalizes) {
    out.notes.push_back(
        "tokenizer.model asks for text to be normalized, which neither transformers nor GGUF does");
  }
}

// The last id below n_rows that a token has, and behind it none.
void place_added_tokens(const AddedTokens& added, const std::set<std::string>& specials,
                        uint64_t n_rows, bool strips, HfVocabulary& out) {
  size_t beyond = 0, otherwise = 0, words = 0;
  for (const auto& [id, token] : added) {
    if (id >= n_rows) {
      ++beyond;
      continue;
    }
    if (id >= out.tokens.size()) out.tokens.resize(id + 1, {"", 0, TokenType::kUnused});
    HfVocabulary::Token& place = out.tokens[id];
    const bool same = place.text == token.text || place.text == with_spaces(token.text);
    if (!place.text.empty() && !same) {
      out.notes.push_back(format("token %llu was '%s' and is '%s' now",
                                 static_cast<unsigned long long>(id), printable(place.text).c_str(),
                                 printable(token.text).c_str()));
    }
    const bool control =
        token.special || specials.contains(token.text) || looks_special(token.text);
    const bool unknown = place.type == TokenType::kUnknown && place.text == token.text;
    place = {control ? token.text : with_spaces(token.text), kAddedScore,
             unknown   ? TokenType::kUnknown
             : control ? TokenType::kControl
                       : TokenType::kUserDefined};
    const bool stripped = strips && strips_white_space_behind(token.text);
    otherwise += token.strips_left || token.strips_right != stripped;
    words += token.is_word;
  }
  if (beyond > 0) {
    out.notes.push_back(
        format("%zu added tokens have ids beyond the %llu rows of the embedding: they are left out",
               beyond, static_cast<unsigned long long>(n_rows)));
  }
  if (otherwise > 0) {
    out.notes.push_back(format(
        "%zu added tokens swallow or keep white space beside them in a way that GGUF cannot say",
        otherwise));
  }
  if (words > 0) {
    out.notes.push_back(
        format("%zu added tokens count only as words of their own (single_word), which GGUF cannot "
               "say: they are found inside of words too",
               words));
  }
}

}  // namespace

bool strips_white_space(const HfFiles& files) {
  for (const auto& entry : read_added_tokens(files)) {
    if (entry.second.strips_right) return true;
  }
  return false;
}

HfVocabulary read_hf_tokenizer(const HfFiles& files, uint64_t n_rows,
                               const std::optional<std::string>& pre, bool strips) {
  HfVocabulary out;
  const JsonObject tokenizer(files.tokenizer, files.path("tokenizer.json"));
  const bool byte_level = is_byte_level(tokenizer);
  if (pre && !byte_level) {
    throw Error(
        ErrorCode::kUsage,
        format("pre_name=%s: expected a byte-level tokenizer.json in %s, found another kind "
               "of tokenizer, which has no such name",
               printable(*pre).c_str(), files.directory.c_str()));
  }
  if (byte_level) {
    read_byte_level(tokenizer, pre, n_rows, out);
  } else if (files.has("tokenizer.model")) {
    read_tokenizer_model(files.path("tokenizer.model"), n_rows, out);
  } else if (files.has("tokenizer.json")) {
    read_byte_fallback(tokenizer, n_rows, out);
  } else {
    throw Error(ErrorCode::kFile,
                format("%s: expected tokenizer.json or tokenizer.model, found neither",
                       files.directory.c_str()));
  }

  const AddedTokens added = read_added_tokens(files);
  place_added_tokens(added, special_texts(files), n_rows, strips, out);
  for (size_t id = 0; id < n_rows; ++id) {
    if (id == out.tokens.size()) out.tokens.push_back({"", 0, TokenType::kUnused});
    if (out.tokens[id].text.empty()) {
      out.tokens[id] = {format("[PAD%zu]", id), kUnusedScore, TokenType::kUnused};
    }
  }

  const JsonObject config(files.tokenizer_config, files.path("tokenizer_config.json"));
  if (const auto stated = config.flag("add_prefix_space"); stated && out.model == "llama") {
    out.add_space_prefix = stated;
  }
  out.space_at_start = out.add_space_prefix.value_or(false) && spaces_start_alone(tokenizer);
  std::map<std::string, uint32_t> ids;
  for (const auto& [id, token] : added) {
    if (id < n_rows) ids.emplace(token.text, static_cast<uint32_t>(id));
  }
  for (size_t id = 0; id < out.tokens.size(); ++id) {
    ids.emplace(out.tokens[id].text, static_cast<uint32_t>(id));
  }
  const FindToken find = [&ids](const std::string& text) {
    const auto at = ids.find(text);
    return at == ids.end() ? std::nullopt : std::optional(at->second);
  };
  read_special_tokens(files, find, out);
  return out;
}

}  // namespace specbound
