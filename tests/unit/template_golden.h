// What Jinja2 makes of chat templates: tests/golden/make_template_renders.py.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/ordered_json.h"
#include "templates/chat_template.h"

namespace specbound::test {

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline const nlohmann::json& template_renders() {
  static const nlohmann::json data =
      nlohmann::json::parse(read_text(SPECBOUND_GOLDEN "/template_renders.json"));
  return data;
}

// The Jinja text of an entry: in it, or the file it names.
inline std::string template_source(const nlohmann::json& entry) {
  const auto own = entry.find("template");
  if (own != entry.end()) return *own;
  const std::string name = entry["name"];
  return read_text(SPECBOUND_TEST_DATA "/chat-templates/" + name + ".jinja");
}

// The text of its render `i`, which is one.
inline std::string render_of(const nlohmann::json& entry, size_t i) {
  const nlohmann::json& render = entry["renders"][i];
  if (render.is_string()) return render;
  return entry["head"].get<std::string>() + render[0].get<std::string>();
}

inline std::vector<ChatMessage> chat_messages(const nlohmann::json& list) {
  using Role = ChatMessage::Role;
  std::vector<ChatMessage> out;
  for (const nlohmann::json& m : list) {
    const Role role = m["role"] == "user"     ? Role::kUser
                      : m["role"] == "system" ? Role::kSystem
                                              : Role::kAssistant;
    out.push_back({role, m["content"]});
  }
  return out;
}

// With all that a request may hold: tests/golden/make_tool_renders.py.
inline const ChatValue& tool_renders() {
  static const ChatValue data =
      server::ordered_value(read_text(SPECBOUND_GOLDEN "/tool_renders.json"));
  return data;
}

// Size and FNV-1a.
inline std::string digest(const std::string& text) {
  uint64_t value = 0xcbf29ce484222325u;
  for (const char c : text) value = (value ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%zu %016llx", text.size(),
                static_cast<unsigned long long>(value));
  return buffer;
}

}  // namespace specbound::test
