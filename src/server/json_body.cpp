#include "server/json_body.h"

#include "error.h"
#include "server/api_error.h"
#include "text/utf8.h"

namespace specbound::server {

namespace {

constexpr size_t kMaxModelBytes = 4096;  // each event of a stream repeats it

}  // namespace

Json parse_body(std::string_view body) {
  if (const size_t good = utf8_prefix(body); good != body.size()) {
    throw ApiError(400, format("the body: expected UTF-8, found something else at byte %zu", good));
  }
  Json json;
  try {
    json = parse_json(body, "the body", {kMaxJsonDepth, kMaxJsonValues, true});
  } catch (const Error& e) {
    throw ApiError(400, e.what());
  }
  if (!json.is_object()) {
    throw ApiError(400, "the body: expected a JSON object, found " + json_text(json));
  }
  return json;
}

std::vector<int32_t> read_tokens(const Json& value, const std::string& path, int vocab_size) {
  std::vector<int32_t> ids;
  ids.reserve(value.size());
  for (size_t i = 0; i < value.size(); ++i) {
    const std::optional<int64_t> id = whole_number(value[i]);
    if (!id || *id < 0 || *id >= vocab_size) {
      throw ApiError(400,
                     format("%s[%zu]: expected a token id from 0 to %d, found %s", path.c_str(), i,
                            vocab_size - 1, json_text(value[i]).c_str()),
                     path);
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

void Fields::fail(ErrorCode, const char* key, const std::string& expected,
                  const std::string& found) const {
  throw ApiError(400, name(key) + ": expected " + expected + ", found " + found, name(key));
}

std::vector<int32_t> Fields::tokens(const char* name, int vocab_size) const {
  const Json* value = find(name);
  if (!value || !value->is_array()) refuse(name, "an array of token ids");
  return read_tokens(*value, this->name(name), vocab_size);
}

std::string read_model_name(const Fields& fields) {
  std::string name = fields.text("model").value_or("");
  if (name.size() > kMaxModelBytes) {
    throw ApiError(
        400, format("model: expected at most %zu bytes, found %zu", kMaxModelBytes, name.size()),
        "model");
  }
  return name;
}

}  // namespace specbound::server
