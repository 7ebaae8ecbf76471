// The filters of Jinja that chat templates use.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "jinja/arguments.h"
#include "jinja/functions.h"
#include "jinja/json.h"

namespace specbound::jinja {

namespace {

// The string that a filter works on: anything is written out first.
const Text& soft_text(const Value& v, Heap& heap) {
  return v.is(Kind::kString) ? *v.text : *heap.text(to_text(v, heap)).text;
}

// select, reject, selectattr, rejectattr: the items for which a test (truth if none is named) is
// `wanted`.
Value selected(const Value& v, const CallValues& args, bool by_name, bool wanted, Heap& heap) {
  CallValues test = args;
  std::string path, name;
  const auto take = [&](std::string& into) {
    if (test.list.empty()) return;
    into = string_of(test.list[0]);
    test.list.erase(test.list.begin());
  };
  if (by_name) take(path);
  take(name);
  if (!truth(v)) return heap.list({}, ListForm::kGenerator);  // none, too
  List out;
  for (const Value& item : *elements(v, heap)) {
    const Value tested = by_name ? by_attribute(item, path, heap) : item;
    if ((name.empty() ? truth(tested) : apply_test(name, tested, test, heap)) == wanted) {
      out.push_back(item);
    }
  }
  return heap.list(std::move(out), ListForm::kGenerator);
}

Value mapped(const Value& v, const CallValues& args, Heap& heap) {
  const Value* path = jinja::find(args.named, "attribute");
  const Value* other = jinja::find(args.named, "default");
  if (!path && args.list.empty()) throw NotUnderstood();
  // Each of map(map, map, ...) would be a call within the one before.
  if (!path && string_of(args.list[0]) == "map") throw NotUnderstood();
  if (!truth(v)) return heap.list({}, ListForm::kGenerator);
  List out;
  for (const Value& item : *elements(v, heap)) {
    if (path) {
      const Value found = by_attribute(item, string_of(*path), heap);
      out.push_back(found.is(Kind::kUndefined) && other ? *other : found);
    } else {
      CallValues rest = args;
      rest.list.erase(rest.list.begin());
      out.push_back(apply_filter(string_of(args.list[0]), item, rest, heap));
    }
  }
  return heap.list(std::move(out), ListForm::kGenerator);
}

// sort and dictsort compare strings without case.
Value sort_key(const Value& v, Heap& heap) {
  return v.is(Kind::kString) ? changed(*v.text, heap, lower) : v;
}

Value sorted(const Value& v, const CallValues& args, Heap& heap) {
  const Value* reversed = args.find(0, "reverse");
  const Value* with_case = args.find(1, "case_sensitive");
  const Value* path = args.find(2, "attribute");
  if ((reversed && truth(*reversed)) || (with_case && truth(*with_case))) throw NotUnderstood();
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : *elements(v, heap)) {
    const Value key = path ? by_attribute(item, string_of(*path), heap) : item;
    keyed.emplace_back(sort_key(key, heap), item);
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return compare(a.first, b.first, heap) < 0;
  });
  List out;
  for (const auto& entry : keyed) out.push_back(entry.second);
  return heap.list(std::move(out));
}

Value sorted_dict(const Value& v, const CallValues& args, Heap& heap) {
  if (!v.is(Kind::kDict) || !args.list.empty() || !args.named.empty()) throw NotUnderstood();
  std::vector<std::pair<Value, Dict::value_type>> keyed;
  for (const auto& entry : *v.dict) keyed.emplace_back(sort_key(entry.first, heap), entry);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return compare(a.first, b.first, heap) < 0;
  });
  Dict out;
  for (const auto& [key, entry] : keyed) out.push_back(entry);
  return items_of(heap.dict(std::move(out)), heap);
}

Value unique(const Value& v, Heap& heap) {
  List out;
  for (const Value& item : *elements(v, heap)) {
    const Value key = sort_key(item, heap);
    if (std::none_of(out.begin(), out.end(),
                     [&](const Value& kept) { return equal(sort_key(kept, heap), key, heap); })) {
      out.push_back(item);
    }
  }
  return heap.list(std::move(out), ListForm::kGenerator);
}

Value indented(const Text& text, const CallValues& args, Heap& heap) {
  const Value* width = args.find(0, "width");
  const Value* first = args.find(1, "first");
  const Value* blank = args.find(2, "blank");
  const int64_t n = width && width->is(Kind::kInt) ? width->integer : 4;
  if (n < 0 || n > 64) throw NotUnderstood();
  const Text pad = width && width->is(Kind::kString) ? *width->text : Text(std::string(n, ' '));
  Text lines = text;
  lines += "\n";
  Text out;
  bool head = true;
  for (const std::string_view line : split_lines(lines.bytes())) {
    heap.grow(pad.size() + line.size());
    if (!head) out += "\n";
    const bool padded = head ? first && truth(*first) : !line.empty() || (blank && truth(*blank));
    if (padded) out += pad;
    out += lines.part(line);
    head = false;
  }
  return heap.text(std::move(out));
}

// tojson(ensure_ascii, indent, separators, sort_keys)
Value json_of(const Value& v, const CallValues& args, Heap& heap) {
  for (const auto& entry : args.named) {
    if (entry.first != "ensure_ascii" && entry.first != "indent" && entry.first != "separators" &&
        entry.first != "sort_keys") {
      throw NotUnderstood();
    }
  }
  JsonStyle style;
  if (const Value* ascii_only = args.find(0, "ensure_ascii")) {
    style.ensure_ascii = truth(*ascii_only);
  }
  if (const Value* indent = args.find(1, "indent"); indent && !indent->is(Kind::kNone)) {
    if (int_of(*indent) < 0 || int_of(*indent) > 16) throw NotUnderstood();
    style.indent = static_cast<int>(indent->integer);
    style.comma = ",";
  }
  if (const Value* separators = args.find(2, "separators");
      separators && !separators->is(Kind::kNone)) {
    const List& both = list_of(*separators);
    if (both.size() != 2) throw NotUnderstood();
    style.comma = string_of(both[0]);
    style.colon = string_of(both[1]);
  }
  if (const Value* sorted = args.find(3, "sort_keys")) style.sort_keys = truth(*sorted);
  return heap.text(to_json(v, style, heap));
}

Value whole_number(const Value& v) {
  if (v.is(Kind::kInt)) return v;
  if (!v.is(Kind::kString)) throw NotUnderstood();
  int64_t number = 0;
  const std::string& digits = v.text->bytes();
  const char* end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) throw NotUnderstood();
  return Value::of(number);
}

Value extreme(const Value& v, const CallValues& args, int wanted, Heap& heap) {
  if (!args.list.empty() || !args.named.empty()) throw NotUnderstood();
  const List& items = *elements(v, heap);
  Value best;
  for (size_t i = 0; i < items.size(); ++i) {
    const bool first = i == 0;
    if (first || compare(sort_key(items[i], heap), sort_key(best, heap), heap) == wanted) {
      best = items[i];
    }
  }
  return best;
}

}  // namespace

Value apply_filter(std::string_view name, const Value& v, const CallValues& args, Heap& heap) {
  heap.step();
  if (name == "trim") return strip_of(soft_text(v, heap), args.find(0, "chars"), Side::kBoth, heap);
  if (name == "length" || name == "count") return Value::of(length(v, heap));
  if (name == "string") return v.is(Kind::kString) ? v : heap.text(to_text(v, heap));
  if (name == "safe") return Value::markup(&soft_text(v, heap));
  if (name == "tojson") return json_of(v, args, heap);
  if (name == "default" || name == "d") {
    const Value* other = args.find(0, "default_value");
    const Value* falsy = args.find(1, "boolean");
    const bool absent = v.is(Kind::kUndefined) || (falsy && truth(*falsy) && !truth(v));
    return !absent ? v : other ? *other : heap.text("");
  }
  if (name == "upper") return changed(soft_text(v, heap), heap, upper);
  if (name == "lower") return changed(soft_text(v, heap), heap, lower);
  if (name == "capitalize") return changed(soft_text(v, heap), heap, capitalized);
  if (name == "title") return changed(soft_text(v, heap), heap, words_capitalized);
  if (name == "replace") {
    return replaced(soft_text(v, heap), string_of(needed(args, 0, "old")),
                    text_of(needed(args, 1, "new")), args.find(2, "count"), heap);
  }
  if (name == "indent") return indented(soft_text(v, heap), args, heap);
  if (name == "join") return joined(v, args, heap);
  if (name == "list") return heap.list(*elements(v, heap));
  if (name == "items") return heap.list(*items_of(v, heap).list, ListForm::kGenerator);
  if (name == "dictsort") return sorted_dict(v, args, heap);
  if (name == "sort") return sorted(v, args, heap);
  if (name == "unique") return unique(v, heap);
  if (name == "map") return mapped(v, args, heap);
  if (name == "select") return selected(v, args, false, true, heap);
  if (name == "reject") return selected(v, args, false, false, heap);
  if (name == "selectattr") return selected(v, args, true, true, heap);
  if (name == "rejectattr") return selected(v, args, true, false, heap);
  if (name == "int") return whole_number(v);
  if (name == "min" || name == "max") return extreme(v, args, name == "min" ? -1 : 1, heap);
  if (name == "abs" && int_of(v) != std::numeric_limits<int64_t>::min()) {
    return Value::of(std::abs(v.integer));
  }
  if (name == "first" || name == "last") {
    if (name == "last") (void)length(v, heap);  // of a generator there is none
    const List& items = *elements(v, heap);
    return items.empty() ? Value() : name == "first" ? items.front() : items.back();
  }
  if (name == "reverse") {
    List out = list_of(v);
    std::reverse(out.begin(), out.end());
    const bool again = v.form == ListForm::kGenerator;
    return heap.list(std::move(out), again ? ListForm::kList : ListForm::kGenerator);
  }
  throw NotUnderstood();
}

}  // namespace specbound::jinja
