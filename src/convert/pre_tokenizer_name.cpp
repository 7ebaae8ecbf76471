#include "convert/pre_tokenizer_name.h"

#include <algorithm>
#include <vector>

#include "error.h"
#include "text/pre_patterns.h"
#include "text/utf8.h"

namespace specbound {
namespace {

using nlohmann::json;

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

}  // namespace

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
  std::string found;
  for (const std::string& regex : wanted)
    found += (found.empty() ? "'" : ", '") + printable(regex) + "'";
  throw Error(ErrorCode::kUnsupported,
              format("tokenizer.json: pre_tokenizer: expected words cut as by a name that "
                     "tokenizer.ggml.pre can have, found %s%s; pre_name=NAME says which is meant",
                     found.empty() ? "no cuts" : found.substr(0, 300).c_str(),
                     ignore_merges ? " with ignore_merges" : ""));
}

bool has_step(const JsonObject& pre_tokenizer, const std::string& type) {
  return std::ranges::any_of(steps_of(pre_tokenizer),
                             [&](const JsonObject& step) { return step.text("type") == type; });
}

}  // namespace specbound
