#include "server/json_body.h"

#include "error.h"
#include "json/json_reader.h"
#include "server/api_error.h"
#include "text/utf8.h"

namespace specbound::server {

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

}  // namespace specbound::server
