#include "convert/tokenizer_json.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "error.h"
#include "text/pre_patterns.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace specbound {
namespace {

using nlohmann::json;

constexpr std::string_view kSpace = "\xE2\x96\x81";     // U+2581
constexpr std::string_view kSpelledSpace = "\xC4\xA0";  // U+0120, a byte-level space

// ---- the pre-tokenizer: the first name of tokenizer.ggml.pre with the same expressions ----

// One name for each family of expressions that a tokenizer.json can spell out.
constexpr const char* kNames[] = {
    "llama-bpe",    "dbrx",        "qwen2",          "gpt-2",  "smollm",     "tekken",   "gpt-4o",
    "deepseek-llm", "deepseek-v3", "deepseek-coder", "qwen35", "seed-coder", "minicpm5", "viking"};

// Steps of a Sequence, or the one there is.
std::vector<JsonObject> steps_of(const JsonObject& pre_tokenizer) {
  if (pre_tokenizer.text("type") != "Sequence") return {pre_tokenizer};
  const json* list = pre_tokenizer.find("pretokenizers");
  if (!list || !list->is_array()) {
    pre_tokenizer.bad("pretokenizers", "a list", list ? json_text(*list) : "no such key");
  }
  std::vector<JsonObject> steps;
  for (const json& step : *list) steps.emplace_back(step, "tokenizer.json: pre_tokenizer");
  return steps;
}

// The expression as text/pre_patterns.h has it: other characters than ASCII as code points, and the
// end of the text so that a long stretch of spaces is tried once.
std::string spelled(const std::string& regex) {
  if (regex == R"(\s+$)") return R"((?<!\s)\s+\z)";
  std::string out;
  for (std::string_view rest = regex; !rest.empty();) {
    const auto [kind, length, code] = utf8_head(rest);
    if (rest[0] == '\r') {
      out += "\\r";
    } else if (rest[0] == '\n') {
      out += "\\n";
    } else if (length == 1) {
      out += rest[0];
    } else {
      out += format("\\x{%X}", static_cast<unsigned>(code));
    }
    rest.remove_prefix(length);
  }
  return out;
}

std::string split_regex(const JsonObject& step, bool alone) {
  const auto pattern = step.object("pattern");
  const auto regex = pattern ? pattern->text("Regex") : std::nullopt;
  if (!regex) step.unsupported("pattern", "a Regex", "something else");
  const std::string behavior = step.text("behavior").value_or("none");
  const bool invert = step.flag("invert").value_or(false);
  // Expressions that match all of the text may as well remove what they do not match.
  const bool isolates =
      (behavior == "Isolated" && !invert) || (alone && behavior == "Removed" && invert);
  if (!isolates) {
    step.unsupported("behavior", "Isolated",
                     "'" + printable(behavior) + (invert ? "', inverted" : "'"));
  }
  return spelled(*regex);
}

std::vector<std::string> expressions(const JsonObject& pre_tokenizer) {
  const std::vector<JsonObject> steps = steps_of(pre_tokenizer);
  std::vector<std::string> out;
  for (size_t i = 0; i < steps.size(); ++i) {
    const JsonObject& step = steps[i];
    const std::string type = step.text("type").value_or("none");
    if (type == "Split") {
      out.push_back(split_regex(step, steps.size() == 2));
    } else if (type == "Digits") {
      out.push_back(step.flag("individual_digits").value_or(false) ? R"(\p{N})" : R"(\p{N}+)");
    } else if (type == "ByteLevel" && i + 1 == steps.size()) {
      if (step.flag("add_prefix_space").value_or(true)) {
        step.unsupported("add_prefix_space", "false", "true");
      }
      if (step.flag("use_regex").value_or(true)) {
        out.push_back(find_pre_family("gpt-2")->patterns[0].regex);
      }
    } else {
      step.unsupported("type", "Split or Digits steps, then ByteLevel",
                       "'" + printable(type) + "'");
    }
  }
  return out;
}

// `pre_tokenizer`: a ByteLevel step, alone or behind Split and Digits steps. Throws
// Error(kUnsupported) for one that has no name, naming its expressions.
std::string pre_tokenizer_name(const JsonObject& pre_tokenizer, bool ignore_merges) {
  const std::vector<std::string> wanted = expressions(pre_tokenizer);
  for (const char* name : kNames) {
    const PreFamily* family = find_pre_family(name);
    SB_CHECK(family);
    const bool same = std::ranges::equal(
        wanted, family->patterns,
        [](const std::string& a, const PrePattern& b) { return !b.bytes && a == b.regex; });
    if (same && family->ignore_merges == ignore_merges) return name;
  }
  const std::string found =
      joined(wanted, ", ", [](const std::string& regex) { return "'" + printable(regex) + "'"; });
  throw Error(ErrorCode::kUnsupported,
              format("tokenizer.json: pre_tokenizer: expected words cut as by a name that "
                     "tokenizer.ggml.pre can have, found %s%s; pre_name=NAME says which is meant",
                     found.empty() ? "no cuts" : found.substr(0, 300).c_str(),
                     ignore_merges ? " with ignore_merges" : ""));
}

// Whether a step of it, or it itself, is of this type.
bool has_step(const JsonObject& pre_tokenizer, const std::string& type) {
  return std::ranges::any_of(steps_of(pre_tokenizer),
                             [&](const JsonObject& step) { return step.text("type") == type; });
}

// ---- the vocabulary ----

JsonObject model_of(const JsonObject& tokenizer) {
  const auto model = tokenizer.object("model");
  if (!model) tokenizer.bad("model", "an object", "no such key");
  const std::string type = model->text("type").value_or("BPE");
  if (type != "BPE") model->unsupported("type", "BPE", "'" + printable(type) + "'");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model->text(key).value_or("").empty()) {
      model->unsupported(key, "none", json_text(*model->find(key)));
    }
  }
  return *model;
}

// Of texts that lie in the JSON.
TokenIndex read_vocab(const JsonObject& model, uint64_t n_rows, HfVocabulary& out) {
  const auto vocab = model.object("vocab");
  if (!vocab || vocab->value().empty()) model.bad("vocab", "tokens", "none");
  TokenIndex ids(vocab->value().size());
  for (const auto& [text, id] : vocab->value().items()) {
    const auto fail = [&, &name = text](const std::string& expected, const std::string& found) {
      vocab->bad(printable(name).c_str(), expected, found);
    };
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= n_rows) {
      fail(format("an id below %llu, the rows of the embedding",
                  static_cast<unsigned long long>(n_rows)),
           json_text(id));
    }
    if (text.empty()) fail("a token's text", "an empty one");
    const auto number = id.get<uint32_t>();
    if (number >= out.tokens.size()) out.tokens.resize(number + 1, {"", 0, TokenType::kUnused});
    if (!out.tokens[number].text.empty()) {
      fail("an id of its own",
           format("%u, which '%s' has too", number, printable(out.tokens[number].text).c_str()));
    }
    out.tokens[number] = {text, 0, TokenType::kNormal};
    if (ids.add(text, static_cast<int32_t>(number)) == TokenIndex::kNoPlace) {
      fail("texts as vocabularies have them", "one of many whose hashes collide");
    }
  }
  return ids;
}

// A merge, in both spellings: "left right" and ["left", "right"].
std::pair<std::string_view, std::string_view> merge_parts(const JsonObject& model,
                                                          const json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
  }
  if (!merge.is_string()) model.bad("merges", "pairs of texts", json_text(merge));
  const std::string_view text = merge.get_ref<const std::string&>();
  const size_t space = text.find(' ');
  if (space == text.npos || text.find(' ', space + 1) != text.npos) {
    model.bad("merges", "two texts with one space between", json_text(merge));
  }
  return {text.substr(0, space), text.substr(space + 1)};
}

// Calls `visit` with the parts and the id of what they make, by rank.
template <typename Visit>
void for_each_merge(const JsonObject& model, const TokenIndex& ids, Visit visit) {
  const json* merges = model.find("merges");
  if (!merges || !merges->is_array()) {
    model.bad("merges", "a list", merges ? json_text(*merges) : "no such key");
  }
  std::string joined;
  for (const json& merge : *merges) {
    const auto [left, right] = merge_parts(model, merge);
    joined.assign(left).append(right);
    const int32_t made = ids.find(joined);
    if (left.empty() || right.empty() || ids.find(left) < 0 || ids.find(right) < 0 || made < 0) {
      model.bad("merges", "tokens that make a token",
                "'" + printable(left) + "' and '" + printable(right) + "'");
    }
    visit(left, right, static_cast<uint32_t>(made));
  }
}

// GGUF puts a space between the parts: one inside is spelled as the byte-level alphabet has it.
std::string gguf_part(std::string_view part) {
  std::string out;
  for (const char c : part) {
    if (c == ' ') {
      out += kSpelledSpace;
    } else {
      out += c;
    }
  }
  return out;
}

void read_byte_level_normalizer(const JsonObject& tokenizer, HfVocabulary& out) {
  out.composes = false;
  const auto normalizer = tokenizer.object("normalizer");
  if (!normalizer) return;
  const std::string type = normalizer->text("type").value_or("none");
  const json* steps = normalizer->find("normalizers");
  if (type == "Sequence" && steps && steps->is_array() && steps->empty()) return;
  if (type != "NFC") {
    normalizer->unsupported("type", "NFC or no normalizer", "'" + printable(type) + "'");
  }
  out.composes = true;
}

// Whether text gets a space in front; throws for a normalizer that does more than spell spaces.
bool adds_space(const JsonObject& normalizer) {
  const std::string type = normalizer.text("type").value_or("none");
  if (type == "Sequence") {
    const json* steps = normalizer.find("normalizers");
    if (!steps || !steps->is_array()) normalizer.bad("normalizers", "a list", "none");
    bool adds = false;
    for (const json& step : *steps) {
      adds |= adds_space(JsonObject(step, "tokenizer.json: normalizer"));
    }
    return adds;
  }
  if (type == "Prepend" && normalizer.text("prepend") == kSpace) return true;
  const auto pattern = type == "Replace" ? normalizer.object("pattern") : std::nullopt;
  if (pattern && pattern->text("String") == " " && normalizer.text("content") == kSpace) {
    return false;
  }
  normalizer.unsupported("type", "Prepend and Replace that spell spaces U+2581",
                         "'" + printable(type) + "'");
}

// The same of a pre-tokenizer that leaves the text in one piece.
bool adds_space_whole(const JsonObject& pre) {
  const std::string type = pre.text("type").value_or("none");
  if (type == "Metaspace") {
    if (pre.text("replacement").value_or(std::string(kSpace)) != kSpace) {
      pre.unsupported("replacement", "U+2581", json_text(*pre.find("replacement")));
    }
    if (pre.flag("split").value_or(true)) pre.unsupported("split", "false", "true");
    if (const auto scheme = pre.text("prepend_scheme")) return *scheme != "never";
    return pre.flag("add_prefix_space").value_or(true);
  }
  // Gemma's: spaces are spelled otherwise by then, so that none is found.
  const auto pattern = type == "Split" ? pre.object("pattern") : std::nullopt;
  if (pattern && pattern->text("String") == " ") return false;
  pre.unsupported("type", "ByteLevel, or Metaspace in one piece", "'" + printable(type) + "'");
}

bool is_byte_token(std::string_view text) {
  const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
  return text.size() == 6 && text.starts_with("<0x") && hex(text[3]) && hex(text[4]) &&
         text[5] == '>';
}

// Pairs of tokens that scores would merge and no merge of the file does. Tokens longer than any
// word are left out: counting takes the square of their size.
size_t count_other_merges(const HfVocabulary& vocabulary, const TokenIndex& ids,
                          const std::vector<uint32_t>& ways) {
  constexpr size_t kLongest = 256;  // bytes
  size_t other = 0;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (ways[id] == 0) continue;  // not made by merging: characters, bytes, special tokens
    const std::string_view text = vocabulary.tokens[id].text;
    if (text.size() > kLongest) continue;
    uint32_t possible = 0;
    for (size_t cut = utf8_head(text).length; cut < text.size();
         cut += utf8_head(text.substr(cut)).length) {
      possible += ids.find(text.substr(0, cut)) >= 0 && ids.find(text.substr(cut)) >= 0;
    }
    other += possible > ways[id] ? possible - ways[id] : 0;
  }
  return other;
}

}  // namespace

bool is_byte_level(const JsonObject& tokenizer) {
  const auto pre = tokenizer.object("pre_tokenizer");
  return pre && has_step(*pre, "ByteLevel");
}

bool spaces_start_alone(const JsonObject& tokenizer) {
  const auto pre = tokenizer.object("pre_tokenizer");
  return pre && pre->text("type") == "Metaspace" && pre->text("prepend_scheme") == "first";
}

void read_byte_level(const JsonObject& tokenizer, const std::optional<std::string>& pre,
                     uint64_t n_rows, HfVocabulary& out) {
  const JsonObject model = model_of(tokenizer);
  out.model = "gpt2";
  const bool ignore_merges = model.flag("ignore_merges").value_or(false);
  out.pre = pre ? *pre : pre_tokenizer_name(*tokenizer.object("pre_tokenizer"), ignore_merges);
  read_byte_level_normalizer(tokenizer, out);
  const TokenIndex ids = read_vocab(model, n_rows, out);
  for_each_merge(model, ids, [&](std::string_view left, std::string_view right, uint32_t) {
    out.merges.push_back(gguf_part(left) + " " + gguf_part(right));
  });
}

void read_byte_fallback(const JsonObject& tokenizer, uint64_t n_rows, HfVocabulary& out) {
  const JsonObject model = model_of(tokenizer);
  if (!model.flag("byte_fallback").value_or(false)) {
    model.unsupported("byte_fallback", "true, or a ByteLevel pre-tokenizer", "false");
  }
  out.model = "llama";
  out.pre = "default";
  const auto normalizer = tokenizer.object("normalizer");
  const auto pre = tokenizer.object("pre_tokenizer");
  const bool normalizer_adds = normalizer && adds_space(*normalizer);
  const bool pre_adds = pre && adds_space_whole(*pre);
  out.add_space_prefix = normalizer_adds || pre_adds;

  const TokenIndex ids = read_vocab(model, n_rows, out);
  std::vector<uint32_t> ways(out.tokens.size(), 0);  // merges that make a token
  float score = 0;
  for_each_merge(model, ids, [&](std::string_view, std::string_view, uint32_t id) {
    if (ways[id]++ == 0) out.tokens[id].score = score;
    score -= 1;
  });
  for (size_t id = 0; id < out.tokens.size(); ++id) {
    HfVocabulary::Token& token = out.tokens[id];
    if (ways[id] == 0) token.score = score - static_cast<float>(id);
    if (is_byte_token(token.text)) token.type = TokenType::kByte;
    if (!token.text.empty() && token.text == model.text("unk_token")) {
      token.type = TokenType::kUnknown;
      out.unknown = static_cast<uint32_t>(id);
    }
  }
  if (const size_t other = count_other_merges(out, ids, ways)) {
    out.notes.push_back(
        format("tokenizer.json lacks %zu merges that a vocabulary with scores would make: text may "
               "be cut otherwise than by Hugging Face",
               other));
  }
}

}  // namespace specbound
