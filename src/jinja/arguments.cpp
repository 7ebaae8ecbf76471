#include "jinja/arguments.h"

#include <utility>

namespace specbound::jinja {

std::string capitalized(std::string_view text) {
  std::string out = lower(text);
  if (!out.empty()) out[0] = upper(out.substr(0, 1))[0];
  return out;
}

std::string titled(std::string_view text) {
  std::string out = lower(text);
  bool inside = false;  // of a word
  for (char& c : out) {
    const bool letter = c >= 'a' && c <= 'z';
    if (letter && !inside) c = static_cast<char>(c - 'a' + 'A');
    inside = letter;
  }
  return out;
}

std::string words_capitalized(std::string_view text) {
  std::string out = lower(text);
  bool inside = false;
  for (char& c : out) {
    if (!inside && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    inside = std::string_view("- \t\n\r\f\v({[<").find(c) == std::string_view::npos;
  }
  return out;
}

size_t count_of(const Value* v) {
  return v && int_of(*v) >= 0 ? static_cast<size_t>(int_of(*v)) : static_cast<size_t>(-1);
}

Value replaced(const Text& text, std::string_view from, const Text& to, const Value* at_most,
               Heap& heap) {
  if (from.empty()) throw NotUnderstood();
  heap.step(1 + text.size() * from.size() / 256);
  heap.grow(text.size() + text.size() / from.size() * to.size());
  return heap.text(replace(text, from, to, count_of(at_most)));
}

Value strip_of(const Text& text, const Value* set, Side side, Heap& heap) {
  heap.touch(text.size() * (set && set->is(Kind::kString) ? 1 + set->text->size() / 64 : 1));
  const std::string_view rest = set && !set->is(Kind::kNone)
                                    ? strip(text.bytes(), string_of(*set), side)
                                    : strip(text.bytes(), side);
  return heap.text(text.part(rest));
}

Value by_attribute(const Value& item, std::string_view path, Heap& heap) {
  Value v = item;
  for (const std::string_view part : split(path, ".")) {
    if (part.empty() || (part[0] >= '0' && part[0] <= '9')) throw NotUnderstood();
    v = attribute_of(v, part, heap);
  }
  return v;
}

Value joined(const Value& v, const CallValues& args, Heap& heap) {
  const Value* between = args.find(0, "d");
  const Value* path = args.find(1, "attribute");
  const Text separator = between ? to_text(*between, heap) : Text();
  Text out;
  bool first = true;
  for (const Value& item : *elements(v, heap)) {
    const Text text = to_text(path ? by_attribute(item, string_of(*path), heap) : item, heap);
    heap.grow(separator.size() + text.size());
    if (!first) out += separator;
    first = false;
    out += text;
  }
  return heap.text(std::move(out));
}

Value items_of(const Value& v, Heap& heap) {
  List out;
  if (v.is(Kind::kUndefined)) return heap.list({});
  if (!v.is(Kind::kDict)) throw NotUnderstood();
  for (const auto& [key, value] : *v.dict) out.push_back(heap.list({key, value}, ListForm::kTuple));
  return heap.list(std::move(out));
}

}  // namespace specbound::jinja
