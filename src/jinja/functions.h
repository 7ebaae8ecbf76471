// The filters, tests, methods and functions of Jinja and Python that chat templates use, as jinja2
// and its sandbox have them (nothing changes a list or a dict).
#pragma once

#include <string_view>

#include "jinja/value.h"

namespace specbound::jinja {

struct CallValues {
  List list;
  Names named;

  // The argument at `position` or of that name; null if it is not given.
  const Value* find(size_t position, std::string_view name) const;
};

// Each throws NotUnderstood for a name or an argument it does not know, and for what Python would
// refuse.
Value apply_filter(std::string_view name, const Value& v, const CallValues& args, Heap& heap);
bool apply_test(std::string_view name, const Value& v, const CallValues& args, Heap& heap);
Value call_method(const Value& object, std::string_view name, const CallValues& args, Heap& heap);
// Throws Refused too.
Value call_function(Function function, const CallValues& args, Heap& heap);

Value attribute_of(const Value& object, std::string_view name, Heap& heap);  // object.name
// Of a dict object.name is the method, in Python's eyes, whatever stands in it under that name.
bool is_dict_method(std::string_view name);
Value item_of(const Value& object, const Value& key, Heap& heap);  // object[key]
// object[from:to:step]; null where nothing stands.
Value slice_of(const Value& object, const Value* from, const Value* to, const Value* step,
               Heap& heap);

}  // namespace specbound::jinja
