#include "text/jinja_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja_text.h"

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

// Python's shortest text; what it would write with an exponent is left alone.
std::string float_text(double d) {
  char buffer[32];
  if (!std::isfinite(d) || (d != 0 && (std::fabs(d) < 1e-4 || std::fabs(d) >= 1e15))) {
    throw NotUnderstood();
  }
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::fixed);
  std::string out(buffer, end.ptr);
  if (out.find('.') == out.npos) out += ".0";
  return out;
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

Value Heap::list(List l) {
  grow(sizeof l + l.size() * sizeof(Value));
  lists_.push_back(std::move(l));
  return {.kind = Kind::kList, .list = &lists_.back()};
}

Value Heap::dict(Dict d) {
  grow(sizeof d + d.size() * sizeof(Dict::value_type));
  for (const auto& entry : d) grow(entry.first.size());
  dicts_.push_back(std::move(d));
  return {.kind = Kind::kDict, .dict = &dicts_.back()};
}

Value Heap::names(Dict d) {
  Value v = dict(std::move(d));
  v.kind = Kind::kNamespace;
  return v;
}

const Value* find(const Dict& dict, std::string_view key) {
  for (const auto& [name, value] : dict) {
    if (name == key) return &value;
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
      return !v.list->empty();
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
      return a.list->size() == b.list->size() &&
             std::equal(
                 a.list->begin(), a.list->end(), b.list->begin(),
                 [&](const Value& x, const Value& y) { return equal(x, y, heap, depth + 1); });
    case Kind::kDict:
      if (a.dict->size() != b.dict->size()) return false;
      for (const auto& [key, value] : *a.dict) {
        heap.step(b.dict->size());
        const Value* other = find(*b.dict, key);
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
      heap.step(container.dict->size());
      return item.is(Kind::kString) && find(*container.dict, item.text->bytes());
    case Kind::kList:
      return std::any_of(container.list->begin(), container.list->end(),
                         [&](const Value& v) { return equal(v, item, heap); });
    case Kind::kUndefined:
      return false;
    default:
      throw NotUnderstood();
  }
}

Text to_text(const Value& v) {
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
    default:
      throw NotUnderstood();  // Python's own notation for lists and objects
  }
}

Text to_json(const Value& v, bool ensure_ascii, int indent, Heap& heap, int depth) {
  if (depth > kMaxListDepth) throw NotUnderstood();
  heap.step();
  const auto line = [&](int d) {
    return indent < 0 ? std::string() : "\n" + std::string(static_cast<size_t>(indent) * d, ' ');
  };
  const std::string comma = indent < 0 ? ", " : ",";
  Text out;
  switch (v.kind) {
    case Kind::kNone:
      return Text("null");
    case Kind::kBool:
      return Text(v.boolean ? "true" : "false");
    case Kind::kInt:
    case Kind::kFloat:
      return to_text(v);
    case Kind::kString:
      heap.touch(v.text->size());
      return Text(json_string(v.text->bytes(), ensure_ascii), v.text->has_input());
    case Kind::kList:
      if (v.list->empty()) return Text("[]");
      for (const Value& item : *v.list) {
        out += (out.empty() ? "[" : comma) + line(depth + 1);
        out += to_json(item, ensure_ascii, indent, heap, depth + 1);
        heap.touch(out.size());
      }
      return out += line(depth) + "]";
    case Kind::kDict:
      if (v.dict->empty()) return Text("{}");
      for (const auto& [key, value] : *v.dict) {
        out +=
            (out.empty() ? "{" : comma) + line(depth + 1) + json_string(key, ensure_ascii) + ": ";
        out += to_json(value, ensure_ascii, indent, heap, depth + 1);
        heap.touch(out.size());
      }
      return out += line(depth) + "}";
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
      for (const auto& entry : *v.dict) out.push_back(heap.text(entry.first));
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
      return static_cast<int64_t>(v.list->size());
    case Kind::kDict:
      return static_cast<int64_t>(v.dict->size());
    default:
      throw NotUnderstood();
  }
}

}  // namespace specbound::jinja
