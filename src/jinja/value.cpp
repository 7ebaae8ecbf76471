#include "jinja/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "jinja/text.h"

namespace specbound::jinja {

namespace {

constexpr int kMaxListDepth = 32;  // of lists in lists

bool is_number(const Value& v) {
  return v.is(Kind::kInt) || v.is(Kind::kFloat) || v.is(Kind::kBool);
}

double as_double(const Value& v) {
  return v.is(Kind::kFloat)  ? v.number
         : v.is(Kind::kBool) ? static_cast<double>(v.boolean)
                             : static_cast<double>(v.integer);
}

int64_t as_int(const Value& v) {
  return v.is(Kind::kBool) ? static_cast<int64_t>(v.boolean) : v.integer;
}

int sign(int64_t a, int64_t b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

// repr(): the shortest digits that give the number again.
std::string float_text(double d) {
  if (!std::isfinite(d)) throw NotUnderstood();
  char buffer[40];
  const double size = std::fabs(d);
  const bool with_exponent = d != 0 && (size < 1e-4 || size >= 1e16);
  const auto form = with_exponent ? std::chars_format::scientific : std::chars_format::fixed;
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, d, form);
  std::string out(buffer, end.ptr);
  if (!with_exponent && out.find('.') == out.npos) out += ".0";
  return out;
}

// The quotes that repr() puts around a string, and what it writes for those characters in it that
// cannot be seen.
Text quoted(const Text& text) {
  const std::string_view bytes = text.bytes();
  const bool has_single = bytes.find('\'') != bytes.npos;
  const char quote = has_single && bytes.find('"') == bytes.npos ? '"' : '\'';
  std::string out(1, quote);
  for (const std::string_view character : characters(bytes)) {
    const char c = character[0];
    constexpr std::string_view kPlain = "\\\n\r\t", kShort = "\\nrt";
    if (character.size() > 1) {
      if (!is_printable(character)) throw NotUnderstood();
      out += character;
    } else if (const size_t i = kPlain.find(c); i != kPlain.npos) {
      out += '\\';
      out += kShort[i];
    } else if (c == quote) {
      out += '\\';
      out += c;
    } else if (c < 0x20 || c == 0x7f) {  // bytes that are no UTF-8, too
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\x%02x", static_cast<unsigned>(c) & 0xff);
      out += buffer;
    } else {
      out += c;
    }
  }
  return Text(out + quote, text.has_input());
}

Text repr(const Value& v, Heap& heap, int depth) {
  if (depth > kMaxListDepth) throw NotUnderstood();
  heap.step();
  Text out;
  const auto add = [&](const Text& text) {
    heap.touch(text.size());
    out += text;
  };
  switch (v.kind) {
    case Kind::kString:
      heap.touch(v.text->size());
      return quoted(*v.text);
    case Kind::kList:
      if (v.form == ListForm::kGenerator) throw NotUnderstood();
      for (const Value& item : *v.list) {
        out += !out.empty() ? ", " : v.form == ListForm::kTuple ? "(" : "[";
        add(repr(item, heap, depth + 1));
      }
      if (v.form == ListForm::kTuple)
        return out += v.list->empty() ? "()" : v.list->size() == 1 ? ",)" : ")";
      return out += v.list->empty() ? "[]" : "]";
    case Kind::kDict:
      for (const auto& [key, value] : *v.dict) {
        out += out.empty() ? "{" : ", ";
        add(repr(key, heap, depth + 1));
        out += ": ";
        add(repr(value, heap, depth + 1));
      }
      return out += v.dict->empty() ? "{}" : "}";
    case Kind::kUndefined:
      return Text("Undefined");
    default:
      return to_text(v, heap);
  }
}

}  // namespace

void Heap::step(size_t n) {
  if (n > static_cast<size_t>(std::max<int64_t>(budget_.steps, 0))) {
    budget_.steps = 0;
    throw NotUnderstood();
  }
  budget_.steps -= static_cast<int64_t>(n);
}

void Heap::grow(size_t bytes) {
  bytes_ += bytes;
  if (bytes_ > budget_.bytes) throw NotUnderstood();
  touch(bytes);
}

Value Heap::text(Text t) {
  grow(sizeof t + t.size());
  texts_.push_back(std::move(t));
  return Value::of(&texts_.back());
}

Value Heap::list(List l, ListForm form) {
  grow(sizeof l + l.size() * sizeof(Value));
  lists_.push_back(std::move(l));
  return {.kind = Kind::kList, .is_markup = false, .form = form, .list = &lists_.back()};
}

Value Heap::dict(Dict d) {
  grow(sizeof d + d.size() * sizeof(Dict::value_type));
  dicts_.push_back(std::move(d));
  return {.kind = Kind::kDict, .dict = &dicts_.back()};
}

Value Heap::names(Dict d) {
  Value v = dict(std::move(d));
  v.kind = Kind::kNamespace;
  return v;
}

Value Heap::given(const ChatValue& v, bool input, int depth) {
  if (depth > kMaxListDepth) throw NotUnderstood();
  step();
  if (const bool* b = std::get_if<bool>(&v.value)) return Value::of(*b);
  if (const int64_t* i = std::get_if<int64_t>(&v.value)) return Value::of(*i);
  if (const double* d = std::get_if<double>(&v.value)) return Value::of(*d);
  if (const std::string* string = v.text()) return text(Text(*string, input));
  if (const ChatValue::List* items = v.list()) {
    List out;
    for (const ChatValue& item : *items) out.push_back(given(item, input, depth + 1));
    return list(std::move(out));
  }
  if (const ChatValue::Dict* entries = v.dict()) {
    Dict out;
    for (const auto& [key, entry] : *entries) {
      const Value name = text(Text(key, input));
      out.emplace_back(name, given(entry, input, depth + 1));
    }
    return dict(std::move(out));
  }
  return Value::none();
}

const Value* find(const Names& names, std::string_view name) {
  for (const auto& [each, value] : names) {
    if (each == name) return &value;
  }
  return nullptr;
}

const Value* find(const Dict& dict, std::string_view key) {
  for (const auto& [each, value] : dict) {
    if (each.is(Kind::kString) && each.text->bytes() == key) return &value;
  }
  return nullptr;
}

const Value* find(const Dict& dict, const Value& key, Heap& heap) {
  if (key.is(Kind::kString)) {
    heap.step(1 + dict.size() / 8);
    return find(dict, key.text->bytes());
  }
  if (key.is(Kind::kList) || key.is(Kind::kDict)) throw NotUnderstood();  // not hashable
  for (const auto& [each, value] : dict) {
    if (equal(each, key, heap)) return &value;
  }
  return nullptr;
}

bool truth(const Value& v) {
  switch (v.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return v.boolean;
    case Kind::kInt:
      return v.integer != 0;
    case Kind::kFloat:
      return v.number != 0;
    case Kind::kString:
      return !v.text->empty();
    case Kind::kList:
      return !v.list->empty() || v.form == ListForm::kGenerator;
    case Kind::kDict:
      return !v.dict->empty();
    default:
      return true;
  }
}

bool equal(const Value& a, const Value& b, Heap& heap, int depth) {
  if (depth > kMaxListDepth) throw NotUnderstood();
  heap.step();
  if (is_number(a) && is_number(b)) {
    if (a.is(Kind::kFloat) || b.is(Kind::kFloat)) return as_double(a) == as_double(b);
    return as_int(a) == as_int(b);
  }
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      heap.touch(std::min(a.text->size(), b.text->size()));
      return a.text->bytes() == b.text->bytes();
    case Kind::kList:
      if (a.form != b.form) return false;
      if (a.form == ListForm::kGenerator) return a.list == b.list;
      return a.list->size() == b.list->size() &&
             std::equal(
                 a.list->begin(), a.list->end(), b.list->begin(),
                 [&](const Value& x, const Value& y) { return equal(x, y, heap, depth + 1); });
    case Kind::kDict:
      if (a.dict->size() != b.dict->size()) return false;
      for (const auto& [key, value] : *a.dict) {
        const Value* other = find(*b.dict, key, heap);
        if (!other || !equal(value, *other, heap, depth + 1)) return false;
      }
      return true;
    case Kind::kNamespace:
      return a.dict == b.dict;
    default:
      throw NotUnderstood();
  }
}

int compare(const Value& a, const Value& b, Heap& heap) {
  if (a.is(Kind::kString) && b.is(Kind::kString)) {
    heap.touch(std::min(a.text->size(), b.text->size()));
    return sign(a.text->bytes().compare(b.text->bytes()),
                0);  // bytes of UTF-8 sort as their characters do
  }
  if (!is_number(a) || !is_number(b)) throw NotUnderstood();
  if (!a.is(Kind::kFloat) && !b.is(Kind::kFloat)) return sign(as_int(a), as_int(b));
  const double x = as_double(a), y = as_double(b);
  return x < y ? -1 : x > y ? 1 : 0;
}

bool contains(const Value& container, const Value& item, Heap& heap) {
  switch (container.kind) {
    case Kind::kString:
      if (!item.is(Kind::kString)) throw NotUnderstood();
      heap.step(1 + container.text->size() * item.text->size() / 256);
      return container.text->bytes().find(item.text->bytes()) != std::string::npos;
    case Kind::kDict:
      return find(*container.dict, item, heap) != nullptr;
    case Kind::kList:
      return std::any_of(container.list->begin(), container.list->end(),
                         [&](const Value& v) { return equal(v, item, heap); });
    case Kind::kUndefined:
      return false;
    default:
      throw NotUnderstood();
  }
}

Text to_text(const Value& v, Heap& heap) {
  switch (v.kind) {
    case Kind::kUndefined:
      return Text();
    case Kind::kNone:
      return Text("None");
    case Kind::kBool:
      return Text(v.boolean ? "True" : "False");
    case Kind::kInt:
      return Text(std::to_string(v.integer));
    case Kind::kFloat:
      return Text(float_text(v.number));
    case Kind::kString:
      return *v.text;
    case Kind::kList:
    case Kind::kDict:
      return repr(v, heap, 0);
    default:
      throw NotUnderstood();
  }
}

const List* elements(const Value& v, Heap& heap) {
  List out;
  switch (v.kind) {
    case Kind::kList:
      return v.list;
    case Kind::kUndefined:
      break;
    case Kind::kString:
      for (const std::string_view character : characters(v.text->bytes())) {
        out.push_back(heap.text(v.text->part(character)));
      }
      break;
    case Kind::kDict:
      for (const auto& entry : *v.dict) out.push_back(entry.first);
      break;
    default:
      throw NotUnderstood();
  }
  return heap.list(std::move(out)).list;
}

int64_t length(const Value& v, Heap& heap) {
  switch (v.kind) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      heap.touch(v.text->size());
      return static_cast<int64_t>(count_characters(v.text->bytes()));
    case Kind::kList:
      if (v.form == ListForm::kGenerator) throw NotUnderstood();
      return static_cast<int64_t>(v.list->size());
    case Kind::kDict:
      return static_cast<int64_t>(v.dict->size());
    default:
      throw NotUnderstood();
  }
}

}  // namespace specbound::jinja
