#include "convert/hf_vocabulary.h"

#include <string_view>

#include "text/pre_patterns.h"
#include "text/spm_tokenizer.h"

namespace specbound {

void add_vocabulary_keys(const HfVocabulary& v, GgufWriter& writer) {
  writer.add_string("tokenizer.ggml.model", v.model);
  writer.add_string("tokenizer.ggml.pre", v.pre);
  if (v.composes) writer.add_bool(kComposesKey, *v.composes);
  std::vector<std::string_view> texts;
  std::vector<float> scores;
  std::vector<int32_t> types;
  for (const HfVocabulary::Token& token : v.tokens) {
    texts.push_back(token.text);
    scores.push_back(token.score);
    types.push_back(static_cast<int32_t>(token.type));
  }
  writer.add_strings("tokenizer.ggml.tokens", texts);
  if (v.model == "llama") writer.add_floats("tokenizer.ggml.scores", scores);
  writer.add_ints("tokenizer.ggml.token_type", types);
  if (v.model == "gpt2") {
    const std::vector<std::string_view> merges(v.merges.begin(), v.merges.end());
    writer.add_strings("tokenizer.ggml.merges", merges);
  }
  const auto add_id = [&](const char* key, const std::optional<uint32_t>& id) {
    if (id) writer.add_uint(key, *id);
  };
  add_id("tokenizer.ggml.bos_token_id", v.bos);
  add_id("tokenizer.ggml.eos_token_id", v.eos);
  add_id("tokenizer.ggml.unknown_token_id", v.unknown);
  add_id("tokenizer.ggml.padding_token_id", v.padding);
  add_id("tokenizer.ggml.eot_token_id", v.eot);
  add_id("tokenizer.ggml.eom_token_id", v.eom);
  const auto add_flag = [&](const char* key, const std::optional<bool>& flag) {
    if (flag) writer.add_bool(key, *flag);
  };
  add_flag("tokenizer.ggml.add_bos_token", v.add_bos);
  add_flag("tokenizer.ggml.add_eos_token", v.add_eos);
  add_flag("tokenizer.ggml.add_space_prefix", v.add_space_prefix);
  if (v.space_at_start) writer.add_bool(kSpaceAtStartKey, true);
  if (!v.chat_template.empty()) writer.add_string("tokenizer.chat_template", v.chat_template);
  if (!v.tool_template.empty()) {
    writer.add_string("tokenizer.chat_template.tool_use", v.tool_template);
  }
}

}  // namespace specbound
