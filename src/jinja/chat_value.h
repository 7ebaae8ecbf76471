// What a chat template is given: JSON with its keys in the order in which they came, for that is
// the order in which templates write them. Tool schemas and the arguments of calls are such values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace specbound {

struct ChatValue {
  using List = std::vector<ChatValue>;
  using Dict = std::vector<std::pair<std::string, ChatValue>>;  // each key once

  std::variant<std::nullptr_t, bool, int64_t, double, std::string, List, Dict> value = nullptr;

  ChatValue() = default;
  ChatValue(bool b) : value(b) {}
  ChatValue(int64_t i) : value(i) {}
  ChatValue(double d) : value(d) {}
  ChatValue(const char* text) : value(std::string(text)) {}
  ChatValue(std::string text) : value(std::move(text)) {}
  ChatValue(List list) : value(std::move(list)) {}
  ChatValue(Dict dict) : value(std::move(dict)) {}

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value); }
  const std::string* text() const { return std::get_if<std::string>(&value); }
  const List* list() const { return std::get_if<List>(&value); }
  const Dict* dict() const { return std::get_if<Dict>(&value); }

  // Of a dict: what it holds under that key, null if nothing or if it is no dict.
  const ChatValue* find(std::string_view key) const {
    if (const Dict* entries = dict()) {
      for (const auto& [name, entry] : *entries) {
        if (name == key) return &entry;
      }
    }
    return nullptr;
  }

  // Values and keys, and the bytes of its strings.
  struct Size {
    size_t values = 0, bytes = 0;
  };
  void add_to(Size& size) const {
    ++size.values;
    if (const std::string* string = text()) size.bytes += string->size();
    if (const List* items = list()) {
      for (const ChatValue& item : *items) item.add_to(size);
    }
    if (const Dict* entries = dict()) {
      for (const auto& [name, entry] : *entries) {
        size.bytes += name.size();
        entry.add_to(size);
      }
    }
  }
};

}  // namespace specbound
