#include "convert/special_tokens.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "error.h"
#include "model/mapped_file.h"

namespace specbound {
namespace {

using nlohmann::json;

constexpr size_t kMaxTemplate = size_t{4} << 20;  // bytes

// "<s>" or { "content": "<s>", ... }.
std::optional<std::string> token_text(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  const auto content = value.is_object() ? value.find("content") : value.end();
  if (!value.is_object() || content == value.end() || !content->is_string()) return std::nullopt;
  return content->get<std::string>();
}

class Reader {
 public:
  Reader(const HfFiles& files, const FindToken& find, HfVocabulary& vocabulary)
      : files_(files),
        find_(find),
        vocabulary_(vocabulary),
        config_(files.config, files.path("config.json")),
        tokenizer_(files.tokenizer, files.path("tokenizer.json")),
        tokenizer_config_(files.tokenizer_config, files.path("tokenizer_config.json")),
        special_tokens_(files.special_tokens, files.path("special_tokens_map.json")),
        generation_(files.generation, files.path("generation_config.json")) {}

  void read() {
    read_id("bos_token", "bos_token_id", vocabulary_.bos);
    read_id("eos_token", "eos_token_id", vocabulary_.eos);
    read_id("unk_token", "unk_token_id", vocabulary_.unknown);
    read_id("pad_token", "pad_token_id", vocabulary_.padding);
    read_post_processor();
    take_flag("add_bos_token", vocabulary_.bos, vocabulary_.add_bos);
    take_flag("add_eos_token", vocabulary_.eos, vocabulary_.add_eos);
    if (offsets_only_ && !vocabulary_.add_bos) vocabulary_.add_bos = false;
    if (offsets_only_ && !vocabulary_.add_eos) vocabulary_.add_eos = false;
    // Without a post-processor tokenizers add nothing; a reader of GGUF may think otherwise.
    if (vocabulary_.model == "gpt2" && !vocabulary_.add_bos) vocabulary_.add_bos = false;
    read_ends();
    read_chat_template();
  }

 private:
  bool exists(uint64_t id) const { return id < vocabulary_.tokens.size(); }

  void read_id(const char* text_key, const char* id_key, std::optional<uint32_t>& id) {
    for (const JsonObject* file : {&tokenizer_config_, &special_tokens_}) {
      const json* value = file->find(text_key);
      const auto text = value ? token_text(*value) : std::nullopt;
      if (text) {
        if (const auto found = find_(*text)) {
          id = found;
          return;
        }
      }
    }
    for (const uint64_t stated : listed_ids(config_, id_key)) {
      if (exists(stated)) {
        id = static_cast<uint32_t>(stated);
        return;
      }
    }
  }

  // A whole number or a list of them; what is neither, such as -1, names no token.
  static std::vector<uint64_t> listed_ids(const JsonObject& file, const char* key) {
    const json* value = file.find(key);
    std::vector<uint64_t> ids;
    if (!value) return ids;
    for (const json& id : value->is_array() ? *value : json::array({*value})) {
      if (id.is_number_unsigned()) ids.push_back(id.get<uint64_t>());
    }
    return ids;
  }

  void note(const std::string& text) { vocabulary_.notes.push_back(text); }

  // What tokenizer_config.json states counts more than what the post-processor does.
  void take_flag(const char* key, const std::optional<uint32_t>& id, std::optional<bool>& adds) {
    const std::optional<bool> stated = tokenizer_config_.flag(key);
    if (!stated) return;
    if (*stated && !id) {
      note(format("tokenizer_config.json has %s: true, but there is no such token: none is added",
                  key));
      return;
    }
    if (adds && *adds != *stated) {
      note(
          format("tokenizer_config.json has %s: %s, and the post_processor of tokenizer.json does "
                 "otherwise: the former is taken",
                 key, *stated ? "true" : "false"));
    }
    adds = stated;
  }

  void read_post_processor() {
    const auto post = tokenizer_.object("post_processor");
    if (!post) return;
    const json* list = post->find("processors");
    if (!list) return read_processor(*post);
    if (!list->is_array()) post->bad("processors", "a list", json_text(*list));
    for (const json& processor : *list) {
      read_processor(JsonObject(processor, "tokenizer.json: post_processor"));
    }
  }

  void read_processor(const JsonObject& processor) {
    const std::string type = processor.text("type").value_or("none");
    if (type == "ByteLevel") {  // offsets only: tokenizer_config.json says what is added
      offsets_only_ = true;
      return;
    }
    const json* single = processor.find("single");
    if (type != "TemplateProcessing" || !single || !single->is_array()) {
      processor.unsupported("type", "ByteLevel or TemplateProcessing with a list 'single'",
                            "'" + printable(type) + "'");
    }
    read_template(*single);
  }

  // Special tokens around the text: [BOS] text [EOS].
  void read_template(const json& single) {
    vocabulary_.add_bos = vocabulary_.add_eos = false;
    bool behind = false;  // the text
    for (const json& part : single) {
      const auto special = part.is_object() ? part.find("SpecialToken") : part.end();
      if (!part.is_object() || special == part.end()) {
        behind = true;
        continue;
      }
      const auto text = JsonObject(*special, "tokenizer.json: post_processor").text("id");
      const auto id = text ? find_(*text) : std::nullopt;
      std::optional<uint32_t>& role = behind ? vocabulary_.eos : vocabulary_.bos;
      std::optional<bool>& added = behind ? vocabulary_.add_eos : vocabulary_.add_bos;
      if (id && !role) role = id;
      if (id && role == id && !*added) {
        added = true;
      } else {
        note(format("the tokenizer puts '%s' %s text, which GGUF cannot say: it is left out",
                    printable(text.value_or("")).c_str(), behind ? "behind" : "in front of"));
      }
    }
  }

  // Chat models list more than one token that ends a reply; GGUF has room for two more. Ids that
  // are text come from the model that this one was made of, whose vocabulary was another.
  void read_ends() {
    std::vector<uint32_t> ends;
    for (const JsonObject* file : {&generation_, &config_}) {
      for (const uint64_t id : listed_ids(*file, "eos_token_id")) {
        const auto end = static_cast<uint32_t>(id);
        if (exists(id) && vocabulary_.tokens[id].type == TokenType::kControl &&
            vocabulary_.eos != end && std::ranges::count(ends, end) == 0) {
          ends.push_back(end);
        }
      }
    }
    const auto take = [&](std::initializer_list<std::string_view> names,
                          std::optional<uint32_t>& id) {
      const auto at = std::ranges::find_if(ends, [&](uint32_t end) {
        return std::ranges::count(names, vocabulary_.tokens[end].text) > 0;
      });
      if (at == ends.end()) return;
      id = *at;
      ends.erase(at);
    };
    take({"<|eom_id|>"}, vocabulary_.eom);
    take({"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|end_of_turn|>"},
         vocabulary_.eot);
    for (const uint32_t end : ends) {
      if (!vocabulary_.eot) {
        vocabulary_.eot = end;
      } else if (!vocabulary_.eom) {
        vocabulary_.eom = end;
      } else {
        note(
            format("token '%s' ends replies too, for which GGUF has no key: it ends none unless "
                   "it is known by name",
                   printable(vocabulary_.tokens[end].text).c_str()));
      }
    }
    // CodeLlama's files name no token behind the middle of a text.
    if (!vocabulary_.eot) vocabulary_.eot = find_("\xE2\x96\x81<EOT>");
  }

  void read_chat_template() {
    if (files_.has("chat_template.jinja")) {
      const MappedFile file(files_.path("chat_template.jinja"));
      const auto* text = reinterpret_cast<const char*>(file.bytes().data());
      set_template(std::string(text, std::min(file.bytes().size(), kMaxTemplate + 1)),
                   vocabulary_.chat_template);
    } else if (const json* value = tokenizer_config_.find("chat_template")) {
      use_template(*value, tokenizer_config_);
    } else if (files_.has("chat_template.json")) {
      const std::string path = files_.path("chat_template.json");
      const json file = read_json(path, kMaxTemplate);
      const JsonObject object(file, path);
      if (const json* value_there = object.find("chat_template")) {
        use_template(*value_there, object);
      }
    }
  }

  // The text, or a list of { "name", "template" }, of which those named default and tool_use count.
  void use_template(const json& value, const JsonObject& file) {
    if (value.is_string()) return set_template(value.get<std::string>(), vocabulary_.chat_template);
    if (!value.is_array()) file.bad("chat_template", "a string or a list", json_text(value));
    for (const json& entry : value) {
      const JsonObject named(entry, "tokenizer_config.json: chat_template");
      const std::string name = named.text("name").value_or("");
      const std::string text = named.text("template").value_or("");
      if (name == "default") set_template(text, vocabulary_.chat_template);
      if (name == "tool_use") set_template(text, vocabulary_.tool_template);
    }
    if (!vocabulary_.chat_template.empty()) return;
    vocabulary_.tool_template.clear();
    note("none of the chat templates is named default: none was taken");
  }

  void set_template(std::string text, std::string& out) {
    if (text.size() > kMaxTemplate) {
      throw Error(ErrorCode::kLimit, format("%s: expected a chat template of at most %zu bytes",
                                            files_.directory.c_str(), kMaxTemplate));
    }
    out = std::move(text);
  }

  const HfFiles& files_;
  const FindToken& find_;
  HfVocabulary& vocabulary_;
  const JsonObject config_, tokenizer_, tokenizer_config_, special_tokens_, generation_;
  bool offsets_only_ = false;  // is what some post-processor is for
};

}  // namespace

std::set<std::string> special_texts(const HfFiles& files) {
  std::set<std::string> texts;
  for (const json* file : {&files.tokenizer_config, &files.special_tokens}) {
    if (!file->is_object()) continue;
    for (const auto& [key, value] : file->items()) {
      const bool list = key == "additional_special_tokens" || key == "extra_special_tokens";
      if (key.ends_with("_token")) {
        if (const auto text = token_text(value)) texts.insert(*text);
      } else if (list && value.is_array()) {
        for (const json& entry : value) {
          if (const auto text = token_text(entry)) texts.insert(*text);
        }
      }
    }
  }
  return texts;
}

void read_special_tokens(const HfFiles& files, const FindToken& find, HfVocabulary& vocabulary) {
  Reader(files, find, vocabulary).read();
}

}  // namespace specbound
