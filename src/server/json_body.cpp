#include "server/json_body.h"

#include "error.h"
#include "server/api_error.h"
#include "text/utf8_check.h"

namespace specbound::server {

namespace {

void check_utf8(std::string_view body) {
  const size_t good = utf8_prefix(body);
  if (good == body.size()) return;
  throw ApiError(400, format("the body: expected UTF-8, found something else at byte %zu", good));
}

}  // namespace

Json parse_body(std::string_view body) {
  check_utf8(body);
  size_t values = 0;
  const auto bounded = [&values](int depth, Json::parse_event_t event, Json&) {
    using Event = Json::parse_event_t;
    if (event == Event::array_end || event == Event::object_end) return true;
    if (depth >= kMaxJsonDepth) {
      throw ApiError(
          400, format("the body: expected JSON of at most %d levels, found more", kMaxJsonDepth));
    }
    if (++values > kMaxJsonValues) {
      throw ApiError(
          400, format("the body: expected JSON of at most %zu values, found more", kMaxJsonValues));
    }
    return true;
  };
  Json json;
  try {
    json = Json::parse(body, bounded);
  } catch (const Json::parse_error& e) {
    throw ApiError(400, format("the body: expected JSON, found an error at byte %zu of %zu", e.byte,
                               body.size()));
  } catch (const Json::exception&) {  // the one other: a number above all that a double can be
    throw ApiError(400, "the body: a number is out of range");
  }
  if (!json.is_object()) {
    throw ApiError(400, format("the body: expected a JSON object, found %s", json.type_name()));
  }
  return json;
}

}  // namespace specbound::server
