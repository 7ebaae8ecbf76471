#include "text/template_shape.h"

#include <algorithm>

namespace specbound {

namespace {

constexpr std::string_view kWhite = " \t\r\n";

std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kWhite);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhite) - begin + 1);
}

// A stretch of a template: text as it stands, {{ an output }} or {% a statement %}.
struct Node {
  enum Kind { kText, kOutput, kStatement };
  Kind kind;
  std::string text;
};

// White space is cut as Jinja does it with trim_blocks and lstrip_blocks, the settings chat
// templates are written for. Nullopt if a tag is never closed.
std::optional<std::vector<Node>> split_tags(std::string_view source) {
  std::vector<Node> nodes;
  size_t at = 0;
  for (;;) {
    size_t open = source.find('{', at);
    while (open != source.npos && source.find_first_of("{%#", open + 1) != open + 1) {
      open = source.find('{', open + 1);
    }
    size_t text_end = std::min(open, source.size());
    const char kind = open == source.npos ? '\0' : source[open + 1];
    if (kind && open + 2 < source.size() && source[open + 2] == '-') {
      while (text_end > at && kWhite.find(source[text_end - 1]) != kWhite.npos) --text_end;
    } else if (kind == '%' || kind == '#') {
      size_t line = text_end;
      while (line > at && (source[line - 1] == ' ' || source[line - 1] == '\t')) --line;
      if (line == 0 || source[line - 1] == '\n') text_end = line;
    }
    if (text_end > at)
      nodes.push_back({Node::kText, std::string(source.substr(at, text_end - at))});
    if (!kind) return nodes;
    const std::string_view close = kind == '{' ? "}}" : kind == '%' ? "%}" : "#}";
    const size_t end = source.find(close, open + 2);
    if (end == source.npos) return std::nullopt;
    std::string_view inside = source.substr(open + 2, end - open - 2);
    if (inside.starts_with('-')) inside.remove_prefix(1);
    const bool cut_right = inside.ends_with('-');
    if (cut_right) inside.remove_suffix(1);
    if (kind != '#') {
      nodes.push_back({kind == '{' ? Node::kOutput : Node::kStatement, std::string(trim(inside))});
    }
    at = end + 2;
    if (cut_right) {
      at = std::min(source.find_first_not_of(kWhite, at), source.size());
    } else if (kind != '{' && at < source.size() && source[at] == '\n') {
      ++at;
    }
  }
}

void append_text(TemplateAtoms& atoms, std::string_view text) {
  while (!text.empty()) {
    const bool bos = text.starts_with("<s>"), eos = text.starts_with("</s>");
    if (bos || eos) {
      atoms.push_back({bos ? TemplateAtom::kBos : TemplateAtom::kEos});
      text.remove_prefix(bos ? 3 : 4);
      continue;
    }
    const size_t plain = std::min(text.find('<', 1), text.size());
    if (!atoms.empty() && atoms.back().kind == TemplateAtom::kLiteral) {
      atoms.back().text += text.substr(0, plain);
    } else {
      atoms.push_back({TemplateAtom::kLiteral, std::string(text.substr(0, plain))});
    }
    text.remove_prefix(plain);
  }
}

// The string that `source` begins with (its quote is source[0]), cut off it.
std::optional<std::string> take_string(std::string_view& source) {
  const char quote = source[0];
  std::string out;
  for (size_t i = 1; i < source.size(); ++i) {
    if (source[i] == quote) {
      source.remove_prefix(i + 1);
      return out;
    }
    if (source[i] == '\\' && i + 1 < source.size()) {
      ++i;
      out += source[i] == 'n' ? '\n' : source[i] == 't' ? '\t' : source[i];
    } else {
      out += source[i];
    }
  }
  return std::nullopt;
}

// Appends what an output of strings and names, joined by + or ~, puts out. False if there is more
// in it.
bool append_output(TemplateAtoms& atoms, std::string_view source, const std::string& variable) {
  const auto is_content = [&](std::string_view name) {
    return !variable.empty() &&
           (name == variable + ".content" || name == variable + "['content']" ||
            name == variable + "[\"content\"]");
  };
  for (;;) {
    source = trim(source);
    if (source.empty()) return false;
    if (source[0] == '\'' || source[0] == '"') {
      const auto text = take_string(source);
      if (!text) return false;
      append_text(atoms, *text);
    } else {
      const size_t end = std::min(source.find_first_of("+~"), source.size());
      const std::string_view name = trim(source.substr(0, end));
      if (name == "bos_token") {
        atoms.push_back({TemplateAtom::kBos});
      } else if (name == "eos_token") {
        atoms.push_back({TemplateAtom::kEos});
      } else if (is_content(name)) {
        atoms.push_back({TemplateAtom::kContent});
      } else {
        return false;
      }
      source.remove_prefix(end);
    }
    source = trim(source);
    if (source.empty()) return true;
    if (source[0] != '+' && source[0] != '~') return false;
    source.remove_prefix(1);
  }
}

// The role a condition on `variable` asks for; empty for any other condition.
std::string role_of(std::string_view condition, const std::string& variable) {
  std::string plain;
  for (const char c : condition) {
    if (kWhite.find(c) == kWhite.npos && c != '(' && c != ')') plain += c == '"' ? '\'' : c;
  }
  for (const std::string& role : {variable + "['role']==", variable + ".role=="}) {
    for (const char* name : {"system", "user", "assistant"}) {
      if (plain == role + "'" + name + "'") return name;
    }
  }
  return "";
}

// Walks a template from tag to tag; `place` is where output goes.
class ShapeReader {
 public:
  std::optional<TemplateShape> read(const std::vector<Node>& nodes) {
    place_ = &shape_.before;
    for (const Node& node : nodes) {
      const bool understood = node.kind == Node::kStatement ? statement(node.text)
                              : node.kind == Node::kOutput  ? output(node.text)
                                                            : text(node.text);
      if (!understood) return std::nullopt;
    }
    if (stage_ != kBehind) return std::nullopt;
    return shape_;
  }

 private:
  enum Stage { kBefore, kLoop, kBranch, kBehind, kGeneration };

  bool text(const std::string& text) {
    if (!place_) return false;
    append_text(*place_, text);
    return true;
  }

  bool output(const std::string& source) {
    if (source.starts_with("raise_exception(")) return true;  // puts nothing out
    return place_ && append_output(*place_, source, stage_ == kBranch ? variable_ : "");
  }

  bool statement(std::string_view source) {
    const auto take = [&source](std::string_view word) {
      if (!source.starts_with(word)) return false;
      source = trim(source.substr(word.size()));
      return true;
    };
    if (stage_ == kBefore && take("for ")) {
      const size_t end = source.find_first_of(kWhite);
      if (end == source.npos || trim(source.substr(end)) != "in messages") return false;
      variable_ = source.substr(0, end);
      place_ = nullptr;
      stage_ = kLoop;
      return true;
    }
    if ((stage_ == kLoop && take("if ")) || (stage_ == kBranch && take("elif "))) {
      return branch(role_of(source, variable_));
    }
    if (stage_ == kBranch && source == "else") {
      if (!has_user_) return branch("user");
      if (shape_.assistant.empty()) return branch("assistant");
      place_ = nullptr;  // some other role: nothing may be put out for it
      return true;
    }
    if (stage_ == kBranch && source == "endif") {
      place_ = nullptr;
      stage_ = kLoop;
      return true;
    }
    if (stage_ == kLoop && source == "endfor") {
      stage_ = kBehind;
      return true;
    }
    if (stage_ == kBehind && source == "if add_generation_prompt") {
      place_ = &shape_.generation;
      stage_ = kGeneration;
      return true;
    }
    if (stage_ == kGeneration && source == "endif") {
      place_ = nullptr;
      stage_ = kBehind;
      return true;
    }
    return false;
  }

  bool branch(std::string_view role) {
    stage_ = kBranch;
    place_ = role == "system" ? &shape_.system : role == "user" ? &shape_.user : &shape_.assistant;
    has_user_ |= role == "user";
    return !role.empty() && place_->empty();
  }

  TemplateShape shape_;
  Stage stage_ = kBefore;
  std::string variable_;
  TemplateAtoms* place_ = nullptr;  // null where a template of this shape puts nothing out
  bool has_user_ = false;
};

}  // namespace

std::optional<TemplateShape> read_template_shape(std::string_view source) {
  const auto nodes = split_tags(source);
  return nodes ? ShapeReader().read(*nodes) : std::nullopt;
}

}  // namespace specbound
