#include "server/completion_request.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "error.h"
#include "server/api_error.h"
#include "server/json_body.h"
#include "server/response_format.h"

namespace specbound::server {

namespace {

constexpr int kMostMaxTokens = 1 << 30;
constexpr int kMaxTopLogprobs = 20;
constexpr int kMaxReplies = 8;

// ---- what is asked for and cannot be had ----

bool is_empty(const Json& value) {
  if (value.is_string()) return value == "";  // whose own empty() is of null alone
  return (value.is_array() || value.is_object()) && value.empty();
}
bool is_false(const Json& value) {
  return value == false || is_empty(value);
}
bool is_zero(const Json& value) {
  return value.is_number() && value.get<double>() == 0;
}
bool is_one(const Json& value) {
  return value.is_number() && value.get<double>() == 1;
}
bool is_off(const Json& value) {
  return value.is_number() && value.get<double>() <= 0;
}
bool is_text(const Json& value) {
  return is_empty(value) || value == Json::array({"text"}) ||
         (value.is_object() && value.contains("type") && value["type"] == "text");
}
bool calls_nothing(const Json& value) {
  return value == "none" || value == "auto";
}
bool is_never(const Json&) {
  return false;
}

bool is_split(const Json& value) {
  return value == "auto" || value == "deepseek";
}

struct Refused {
  const char* name;
  bool (*harmless)(const Json&);  // values that ask for nothing
  const char* why;
};

constexpr const char* kLength = "max_tokens says how long a reply may be";
constexpr const char* kVariables = "chat_template_kwargs has what the template may ask for";
constexpr const char* kFilters = "no such sampler; temperature, top_k, top_p and min_p are there";
// Of OpenAI, llama.cpp, vLLM, TGI and Ollama.
constexpr Refused kRefused[] = {
    {"best_of", is_one, "no reply is picked out of several: best_of must be 1"},
    {"functions", is_empty, "tools has them"},
    {"function_call", calls_nothing, "tool_choice says what is called"},
    {"n_probs", is_zero, "logprobs returns logarithms of probabilities"},
    {"suffix", is_empty, "text cannot be put before a suffix"},
    {"echo", is_false, "the prompt is not repeated"},
    {"modalities", is_text, "only text can be had"},
    {"audio", is_never, "only text can be had"},
    {"verbosity", is_never, "how much a model says cannot be set"},
    {"web_search_options", is_never, "nothing is searched"},
    {"n_predict", is_never, kLength},
    {"max_new_tokens", is_never, kLength},
    {"num_predict", is_never, kLength},
    {"min_tokens", is_zero, "no reply is kept from its end; ignore_eos goes on to max_tokens"},
    {"repetition_penalty", is_one, "repeat_penalty is its name here"},
    {"mirostat", is_zero, kFilters},
    {"typical_p", is_one, kFilters},
    {"typ_p", is_one, kFilters},
    {"top_n_sigma", is_off, kFilters},
    {"xtc_probability", is_zero, kFilters},
    {"samplers", is_empty, "their order is fixed; top_k, top_p, min_p and temperature set them"},
    {"dry_multiplier", is_zero, "no such sampler; repeat_penalty is there"},
    {"dynatemp_range", is_zero, "no such sampler; temperature is there"},
    {"use_beam_search", is_false, "no beams are searched"},
    {"stop_token_ids", is_empty, "stop ends replies at texts"},
    {"bad_words", is_empty, "logit_bias keeps tokens out of replies, -100 each"},
    {"allowed_token_ids", is_empty, "grammar holds replies to texts"},
    {"guided_json", is_empty, "response_format or json_schema holds replies to a schema"},
    {"guided_grammar", is_empty, "grammar holds replies to one, as GBNF"},
    {"guided_regex", is_empty, "grammar holds replies to a form, as GBNF"},
    {"guided_choice", is_empty, "grammar holds replies to texts, as root ::= \"a\" | \"b\""},
    {"structured_outputs", is_empty, "response_format or grammar says what replies must be"},
    {"format", is_empty, "response_format says what replies must be"},
    {"lora", is_empty, "no adapter can be put to the model"},
    {"reasoning_effort", is_empty, kVariables},
    {"enable_thinking", is_never, kVariables},
    {"thinking", is_never, kVariables},
    {"documents", is_empty, kVariables},
    {"chat_template", is_empty, "the server's --chat-template-file says how chats are written"},
    {"reasoning_format", is_split, "the server's --reasoning-format says where thoughts go"},
    {"continue_final_message", is_false, "add_generation_prompt: false goes on with a message"},
    {"include_stop_str_in_output", is_false, "replies end in front of what stop names"},
    {"truncate_prompt_tokens", is_never, "no part of a prompt is left out"},
    {"length_penalty", is_one, "no beams are searched"},
    {"no_repeat_ngram_size", is_zero, "no such sampler; repeat_penalty is there"},
    {"mirostat_mode", is_zero, kFilters},
    {"tfs_z", is_one, kFilters},
    {"options", is_empty, "its fields stand in the request itself"},
};

void check_refused(const Fields& fields) {
  for (const auto& [name, harmless, why] : kRefused) {
    const Json* value = fields.find(name);
    if (value && !harmless(*value)) {
      throw ApiError(400, format("%s: %s", name, why), name, "unsupported_value");
    }
  }
}

// ---- how the reply is made ----

std::optional<uint64_t> read_seed(const Fields& fields, std::optional<uint64_t> otherwise) {
  const Json* value = fields.find("seed");
  if (!value) return otherwise;
  if (value->is_number_unsigned()) return value->get<uint64_t>();
  const std::optional<int64_t> number = whole_number(*value);
  if (number == -1) return std::nullopt;
  if (number) return static_cast<uint64_t>(*number);
  fields.refuse("seed", "a whole number of 64 bits; -1 is a random one");
}

StopStrings read_stop(const Fields& fields) {
  const Json* value = fields.find("stop");
  std::vector<std::string> strings;
  if (value->is_string()) {
    strings.push_back(value->get<std::string>());
  } else if (value->is_array()) {
    for (const Json& one : *value) {
      if (!one.is_string()) fields.refuse("stop", "a string or an array of strings");
      strings.push_back(one.get<std::string>());
    }
  } else {
    fields.refuse("stop", "a string or an array of strings");
  }
  try {
    return StopStrings(std::move(strings));
  } catch (const Error& e) {
    throw ApiError(400, std::string("stop: ") + e.what(), "stop");
  }
}

// A token id as JSON has it in a key: digits alone, and one spelling of each.
std::optional<int32_t> token_in_key(const std::string& key, int vocab_size) {
  int32_t id = 0;
  const char* end = key.data() + key.size();
  const auto [stop, error] = std::from_chars(key.data(), end, id);
  const bool whole = error == std::errc() && stop == end && key == std::to_string(id);
  if (!whole || id < 0 || id >= vocab_size) return std::nullopt;
  return id;
}

std::vector<LogitBias> read_logit_bias(const Fields& fields, int vocab_size) {
  const Json* value = fields.find("logit_bias");
  if (!value) return {};
  if (!value->is_object()) fields.refuse("logit_bias", "an object: token ids and their bias");
  if (value->size() > kMaxLogitBias) {
    fields.bad("logit_bias", format("at most %zu tokens", kMaxLogitBias),
               std::to_string(value->size()));
  }
  const Fields entries(*value, "logit_bias.");
  std::vector<LogitBias> bias;
  for (const auto& [key, _] : value->items()) {
    const std::optional<int32_t> id = token_in_key(key, vocab_size);
    if (!id) {
      fields.bad("logit_bias", format("token ids from 0 to %d", vocab_size - 1),
                 json_text(Json(key)));
    }
    const std::optional<double> number = entries.number(key.c_str(), -100, 100);
    if (!number) entries.refuse(key.c_str(), "a number from -100 to 100");
    if (*number != 0) bias.push_back({*id, static_cast<float>(*number)});
  }
  return bias;
}

int read_max_tokens(const Fields& fields, int otherwise) {
  // Those of chats have a new name; both may come, and then they must agree.
  const auto limit = fields.whole("max_tokens", -1, kMostMaxTokens);
  const auto chat_limit = fields.whole("max_completion_tokens", -1, kMostMaxTokens);
  if (limit && chat_limit && *limit != *chat_limit) {
    fields.refuse("max_completion_tokens", "the same as max_tokens, or one of them");
  }
  if (chat_limit) return static_cast<int>(*chat_limit);
  return limit ? static_cast<int>(*limit) : otherwise;
}

ReplySettings read_settings(const Fields& fields, const ReplySettings& defaults, int vocab_size) {
  ReplySettings settings = defaults;
  SamplingParams& p = settings.sampling;
  const auto real = [&](const char* name, float& value, double low, double high) {
    if (const auto number = fields.number(name, low, high)) value = static_cast<float>(*number);
  };
  const auto whole = [&](const char* name, int& value, int low) {
    const auto number = fields.whole(name, low, std::numeric_limits<int>::max());
    if (number) value = static_cast<int>(*number);
  };
  real("temperature", p.temperature, 0, 100);
  real("top_p", p.top_p, 0, 1);
  real("min_p", p.min_p, 0, 1);
  // The float nearest to 0.01, which validate() takes as its lower end, lies below 0.01.
  real("repeat_penalty", p.repeat_penalty, 0.01, 100);
  whole("top_k", p.top_k, 0);
  whole("repeat_last_n", p.repeat_last_n, -1);
  real("frequency_penalty", p.frequency_penalty, -2, 2);
  real("presence_penalty", p.presence_penalty, -2, 2);
  p.logit_bias = read_logit_bias(fields, vocab_size);
  settings.seed = read_seed(fields, defaults.seed);
  settings.max_tokens = read_max_tokens(fields, defaults.max_tokens);
  settings.ignore_eos = fields.flag("ignore_eos").value_or(defaults.ignore_eos);
  if (fields.find("stop")) settings.stop = read_stop(fields);
  if (const auto on = fields.flag("speculation")) settings.speculation = on;
  return settings;
}

void read_common(const Fields& fields, const ReplySettings& defaults, int vocab_size,
                 CompletionRequest& request) {
  check_refused(fields);
  request.model = read_model_name(fields);
  request.n = static_cast<int>(fields.whole("n", 1, kMaxReplies).value_or(1));
  request.stream = fields.flag("stream").value_or(false);
  if (const Json* options = fields.find("stream_options")) {
    if (!options->is_object()) fields.refuse("stream_options", "an object");
    if (!request.stream) {
      throw ApiError(400, "stream_options: only with stream: true", "stream_options");
    }
    request.include_usage =
        Fields(*options, "stream_options.").flag("include_usage").value_or(false);
  }
  request.exits = fields.flag("exits").value_or(false);
  if (request.exits && !request.stream) {
    throw ApiError(400, "exits: only with stream: true", "exits");
  }
  request.settings = read_settings(fields, defaults, vocab_size);
}

// Of a chat: whether, and beside it how many.
std::optional<int> read_chat_logprobs(const Fields& fields) {
  const bool asked = fields.flag("logprobs").value_or(false);
  const std::optional<int64_t> top = fields.whole("top_logprobs", 0, kMaxTopLogprobs);
  if (!asked && top.value_or(0) > 0) {
    throw ApiError(400, "top_logprobs: only with logprobs: true", "top_logprobs");
  }
  if (!asked) return std::nullopt;
  return static_cast<int>(top.value_or(0));
}

// Of a completion: how many.
std::optional<int> read_completion_logprobs(const Fields& fields) {
  const Json* top = fields.find("top_logprobs");
  if (top && !is_zero(*top)) {
    throw ApiError(400, "top_logprobs: logprobs says how many", "top_logprobs",
                   "unsupported_value");
  }
  const Json* value = fields.find("logprobs");
  if (!value || *value == false) return std::nullopt;
  return static_cast<int>(*fields.whole("logprobs", 0, kMaxTopLogprobs));
}

// ---- what is to be answered ----

// The body's one prompt: a string or an array of token ids, alone or in an array.
void read_prompt(const Fields& fields, int vocab_size, CompletionRequest& request) {
  const Json* prompt = fields.find("prompt");
  if (prompt && prompt->is_array() && prompt->size() == 1 && !(*prompt)[0].is_number()) {
    prompt = &(*prompt)[0];
  }
  if (prompt && prompt->is_string()) {
    request.text = prompt->get<std::string>();
  } else if (prompt && prompt->is_array() && !prompt->empty() && (*prompt)[0].is_number()) {
    request.tokens = read_tokens(*prompt, fields.name("prompt"), vocab_size);
  } else {
    fields.refuse("prompt", "one prompt: a string, or an array of token ids");
  }
}

}  // namespace

CompletionRequest parse_chat(std::string_view body, const ReplySettings& defaults, int vocab_size) {
  const Json json = parse_body(body);
  const Fields fields(json);
  CompletionRequest request;
  request.chat = true;
  read_common(fields, defaults, vocab_size, request);
  request.format = read_response_format(fields, body);
  request.logprobs = read_chat_logprobs(fields);
  request.conversation = read_chat(fields, body);
  return request;
}

Chat parse_apply_template(std::string_view body) {
  const Json json = parse_body(body);
  return read_chat(Fields(json), body);
}

CompletionRequest parse_completion(std::string_view body, const ReplySettings& defaults,
                                   int vocab_size) {
  const Json json = parse_body(body);
  const Fields fields(json);
  CompletionRequest request;
  read_common(fields, defaults, vocab_size, request);
  request.format = read_response_format(fields, body);
  request.logprobs = read_completion_logprobs(fields);
  for (const char* name : {"tools", "tool_choice"}) {
    const Json* value = fields.find(name);
    if (value && !is_empty(*value) && !calls_nothing(*value)) {
      throw ApiError(400, std::string(name) + ": only chats call tools", name, "unsupported_value");
    }
  }
  read_prompt(fields, vocab_size, request);
  return request;
}

TokenizeRequest parse_tokenize(std::string_view body) {
  const Json json = parse_body(body);
  const Fields fields(json);
  TokenizeRequest request;
  const std::optional<std::string> content = fields.text("content");
  if (!content) fields.refuse("content", "a string");
  request.content = *content;
  request.add_special = fields.flag("add_special").value_or(false);
  request.with_pieces = fields.flag("with_pieces").value_or(false);
  return request;
}

std::vector<int32_t> parse_detokenize(std::string_view body, int vocab_size) {
  const Json json = parse_body(body);
  return Fields(json).tokens("tokens", vocab_size);
}

}  // namespace specbound::server
