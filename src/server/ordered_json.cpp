#include "server/ordered_json.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "error.h"
#include "json/json_writer.h"

namespace specbound::server {

namespace {

using Json = nlohmann::json;

class Builder final : public nlohmann::json_sax<Json> {
 public:
  ChatValue take() { return std::move(root_); }

  bool null() override { return put({}); }
  bool boolean(bool b) override { return put(b); }
  bool number_integer(number_integer_t i) override { return put(static_cast<int64_t>(i)); }
  bool number_unsigned(number_unsigned_t u) override {
    const bool fits = u <= static_cast<uint64_t>(INT64_MAX);
    return fits ? put(static_cast<int64_t>(u)) : put(static_cast<double>(u));
  }
  bool number_float(number_float_t d, const string_t&) override { return put(d); }
  bool string(string_t& text) override { return put(std::move(text)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(ChatValue::Dict()); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(ChatValue::List()); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    Level& level = levels_.back();
    auto& entries = std::get<ChatValue::Dict>(level.value.value);
    const auto [at, is_new] = level.places.try_emplace(name, entries.size());
    if (is_new) entries.emplace_back(std::move(name), ChatValue());
    level.place = at->second;
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  struct Level {
    ChatValue value;
    std::map<std::string, size_t> places;  // of the keys, which a client may have made to collide
    size_t place = 0;                      // that the next value goes to
  };

  bool open(ChatValue container) {
    levels_.push_back({std::move(container), {}, 0});
    return true;
  }

  bool close() {
    ChatValue done = std::move(levels_.back().value);
    levels_.pop_back();
    return put(std::move(done));
  }

  bool put(ChatValue value) {
    if (levels_.empty()) {
      root_ = std::move(value);
    } else if (auto* list = std::get_if<ChatValue::List>(&levels_.back().value.value)) {
      list->push_back(std::move(value));
    } else {
      auto& entries = std::get<ChatValue::Dict>(levels_.back().value.value);
      entries[levels_.back().place].second = std::move(value);
    }
    return true;
  }

  ChatValue root_;
  std::vector<Level> levels_;
};

}  // namespace

ChatValue ordered_value(std::string_view json) {
  Builder builder;
  SB_CHECK(Json::sax_parse(json.begin(), json.end(), &builder));
  return builder.take();
}

namespace {

void write(const ChatValue& value, std::string& out) {
  if (const auto* list = value.list()) {
    out += '[';
    for (const ChatValue& item : *list) {
      if (&item != list->data()) out += ',';
      write(item, out);
    }
    out += ']';
  } else if (const auto* entries = value.dict()) {
    out += '{';
    for (const auto& [key, entry] : *entries) {
      if (&key != &entries->front().first) out += ',';
      out += dump(Json(key)) + ':';
      write(entry, out);
    }
    out += '}';
  } else if (const auto* b = std::get_if<bool>(&value.value)) {
    out += *b ? "true" : "false";
  } else if (const auto* i = std::get_if<int64_t>(&value.value)) {
    out += std::to_string(*i);
  } else if (const auto* d = std::get_if<double>(&value.value)) {
    out += dump(Json(*d));
  } else {
    out += value.is_null() ? "null" : dump(Json(*value.text()));
  }
}

}  // namespace

std::string json_of(const ChatValue& value) {
  std::string out;
  write(value, out);
  return out;
}

}  // namespace specbound::server
