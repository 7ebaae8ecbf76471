// The filter tojson as transformers has it: json.dumps() of Python.
#pragma once

#include <string>

#include "jinja/value.h"

namespace specbound::jinja {

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  int indent = -1;  // -1: one line
  std::string comma = ", ", colon = ": ";
};

// Throws NotUnderstood for what Python's json refuses.
Text to_json(const Value& v, const JsonStyle& style, Heap& heap);

}  // namespace specbound::jinja
