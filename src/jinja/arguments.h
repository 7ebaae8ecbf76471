// What filters, tests and methods of Jinja share: their operands with the types that they must
// have, and what several of them do. Each throws NotUnderstood for what Python would refuse.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "jinja/functions.h"
#include "jinja/text.h"
#include "jinja/value.h"

namespace specbound::jinja {

inline const Text& text_of(const Value& v) {
  if (!v.is(Kind::kString)) throw NotUnderstood();
  return *v.text;
}

inline const std::string& string_of(const Value& v) {
  return text_of(v).bytes();
}

inline int64_t int_of(const Value& v) {
  if (!v.is(Kind::kInt)) throw NotUnderstood();
  return v.integer;
}

inline const List& list_of(const Value& v) {
  if (!v.is(Kind::kList)) throw NotUnderstood();
  return *v.list;
}

// The argument at `position` or of that name.
inline const Value& needed(const CallValues& args, size_t position, std::string_view name) {
  const Value* v = args.find(position, name);
  if (!v) throw NotUnderstood();
  return *v;
}

// The text in other letters, which change no byte's place: input as a whole if any of it was.
template <typename Change>
Value changed(const Text& text, Heap& heap, const Change& change) {
  if (!has_ascii_case(text.bytes())) throw NotUnderstood();
  return heap.text(Text(change(text.bytes()), text.has_input()));
}
std::string capitalized(std::string_view text);
std::string titled(std::string_view text);             // the method title()
std::string words_capitalized(std::string_view text);  // the filter of that name

Value replaced(const Text& text, std::string_view from, const Text& to, const Value* at_most,
               Heap& heap);
Value strip_of(const Text& text, const Value* set, Side side, Heap& heap);
// What attribute="a.b" names.
Value by_attribute(const Value& item, std::string_view path, Heap& heap);
// join(d, attribute)
Value joined(const Value& v, const CallValues& args, Heap& heap);
// Pairs of keys and values.
Value items_of(const Value& v, Heap& heap);
// A count that Python takes as "no limit" when it is negative.
size_t count_of(const Value* v);

}  // namespace specbound::jinja
