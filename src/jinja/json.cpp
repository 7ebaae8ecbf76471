#include "jinja/json.h"

#include <algorithm>
#include <utility>

namespace specbound::jinja {

namespace {

constexpr int kMaxJsonDepth = 40;  // of lists in lists

class Writer {
 public:
  Writer(const JsonStyle& style, Heap& heap) : style_(style), heap_(heap) {}

  Text run(const Value& v) {
    write(v, 0);
    return std::move(out_);
  }

 private:
  template <typename T>  // Text, or the writer's own
  void put(const T& text) {
    heap_.grow(text.size());
    out_ += text;
  }

  void line(int depth) {
    if (style_.indent < 0) return;
    put(std::string_view("\n" + std::string(static_cast<size_t>(style_.indent) * depth, ' ')));
  }

  void string(const Text& text) {
    put(Text(json_string(text.bytes(), style_.ensure_ascii), text.has_input()));
  }

  void key(const Value& v) {
    if (v.is(Kind::kString)) return string(*v.text);
    if (!v.is(Kind::kInt)) throw NotUnderstood();
    string(to_text(v, heap_));
  }

  void dict(const Dict& entries, int depth) {
    std::vector<const Dict::value_type*> order;
    for (const auto& entry : entries) order.push_back(&entry);
    if (style_.sort_keys) {
      heap_.step(order.size() * 16);
      std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
        return compare(a->first, b->first, heap_) < 0;
      });
    }
    put(std::string_view("{"));
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) put(std::string_view(style_.comma));
      line(depth + 1);
      key(order[i]->first);
      put(std::string_view(style_.colon));
      write(order[i]->second, depth + 1);
    }
    if (!order.empty()) line(depth);
    put(std::string_view("}"));
  }

  void write(const Value& v, int depth) {
    const Deeper deeper(depth_, kMaxJsonDepth);
    heap_.step();
    switch (v.kind) {
      case Kind::kNone:
        return put(std::string_view("null"));
      case Kind::kBool:
        return put(std::string_view(v.boolean ? "true" : "false"));
      case Kind::kInt:
      case Kind::kFloat:
        return put(to_text(v, heap_));
      case Kind::kString:
        return string(*v.text);
      case Kind::kList:
        if (v.form == ListForm::kGenerator) throw NotUnderstood();
        put(std::string_view("["));
        for (size_t i = 0; i < v.list->size(); ++i) {
          if (i > 0) put(std::string_view(style_.comma));
          line(depth + 1);
          write((*v.list)[i], depth + 1);
        }
        if (!v.list->empty()) line(depth);
        return put(std::string_view("]"));
      case Kind::kDict:
        return dict(*v.dict, depth);
      default:
        throw NotUnderstood();
    }
  }

  const JsonStyle& style_;
  Heap& heap_;
  Text out_;
  int depth_ = 0;
};

}  // namespace

Text to_json(const Value& v, const JsonStyle& style, Heap& heap) {
  return Writer(style, heap).run(v);
}

}  // namespace specbound::jinja
