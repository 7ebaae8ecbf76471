// From the text of an entry to a Kernel.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <unordered_map>

#include "ptx/program.h"

namespace ptx {

namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view trimmed(std::string_view s) {
  const size_t begin = s.find_first_not_of(kBlanks);
  if (begin == s.npos) return {};
  return s.substr(begin, s.find_last_not_of(kBlanks) - begin + 1);
}

bool in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}

std::string_view take_word(std::string_view& s) {
  s = trimmed(s);
  const size_t end = s.find_first_of(kBlanks);
  const std::string_view word = s.substr(0, end);
  s = end == s.npos ? std::string_view() : trimmed(s.substr(end));
  return word;
}

std::vector<std::string_view> split(std::string_view s, char by) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = s.find(by);
    parts.push_back(trimmed(s.substr(0, at)));
    if (at == s.npos) return parts;
    s.remove_prefix(at + 1);
  }
}

// Hints: they say where bytes are kept, not which.
bool is_hint(std::string_view part) {
  static constexpr std::string_view kHints[] = {"nc", "ca",   "cg",       "cs",      "cv", "lu",
                                                "wb", "weak", "volatile", "relaxed", "uni"};
  static constexpr std::string_view kPrefixes[] = {"L1::", "L2::", "level::"};
  if (std::find(std::begin(kHints), std::end(kHints), part) != std::end(kHints)) return true;
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes), [&](std::string_view prefix) {
    return part.substr(0, prefix.size()) == prefix;
  });
}

size_t type_bytes(std::string_view type) {
  if (type == "pred") return 0;
  const size_t digits = type.find_first_of("0123456789");
  size_t bits = 0;
  if (digits != type.npos) {
    std::from_chars(type.data() + digits, type.data() + type.size(), bits);
  }
  if (bits < 8 || bits > 64) throw TextError("no type: " + std::string(type));
  return bits / 8;
}

// Digits at the end of a name; -1: none.
int64_t number_at_end(std::string_view name, std::string_view& prefix) {
  const size_t last = name.find_last_not_of("0123456789");
  prefix = name.substr(0, last + 1);
  int64_t number = -1;
  if (last + 1 < name.size()) {
    std::from_chars(name.data() + last + 1, name.data() + name.size(), number);
  }
  return number;
}

// An operand as the text has it: registers, constants or symbols, and an offset in an address.
struct Argument {
  std::vector<std::string_view> values;
  bool address = false;
  int64_t offset = 0;
};

class Parser {
 public:
  Parser(std::string_view text, const std::vector<std::string>& dynamic_shared)
      : text_(text),
        counted_(text.data()),
        kernel_(std::make_unique<Kernel>()),
        dynamic_shared_(dynamic_shared) {
    kernel_->n_predicates = 3;
  }

  std::unique_ptr<Kernel> parse() {
    for (std::string_view line : split(text_, '\n')) kernel_->lines.emplace_back(line);
    const size_t body = text_.find('{');
    if (body == text_.npos) throw TextError("an entry without a body");
    header(text_.substr(0, body));
    at_ = body;
    statements();
    for (const auto& [instruction, label] : jumps_) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) throw TextError("no label " + std::string(label));
      kernel_->code[instruction].target = found->second;
    }
    for (const std::string& name : dynamic_shared_) {
      place_symbol(name, static_cast<int64_t>((kernel_->static_shared_bytes + 15) / 16 * 16));
    }
    if (!unplaced_.empty()) throw TextError("no symbol " + std::string(unplaced_[0]));
    return std::move(kernel_);
  }

 private:
  struct Registers {
    int first, count;
    bool predicates;
  };
  using Scope = std::unordered_map<std::string_view, Registers>;

  void header(std::string_view text) {
    const size_t open = text.find('('), close = text.find(')');
    kernel_->name = demangled(std::string(trimmed(text.substr(0, open))));
    if (open == text.npos || close == text.npos) return;
    const std::string_view parameter = trimmed(text.substr(open + 1, close - open - 1));
    if (!parameter.empty()) {
      if (parameter.find(',') != parameter.npos) throw TextError("more than one parameter");
      const Declared declared = declaration(parameter);
      kernel_->parameter_bytes = declared.bytes;
      place_symbol(declared.name, 0);
    }
    std::string_view rest = text.substr(close + 1);
    for (const std::string_view limit : {".maxntid", ".reqntid"}) {
      const size_t at = rest.find(limit);
      if (at == rest.npos) continue;
      std::string_view number = trimmed(rest.substr(at + limit.size()));
      std::from_chars(number.data(), number.data() + number.size(), kernel_->max_threads);
    }
  }

  struct Declared {
    std::string_view name;
    size_t bytes, align;
  };

  // ".param .align 8 .b8 name[272]", ".shared .f32 name"
  static Declared declaration(std::string_view text) {
    Declared declared{{}, 0, 0};
    size_t each = 0;
    while (!text.empty()) {
      std::string_view word = take_word(text);
      if (word == ".align") {
        const std::string_view number = take_word(text);
        std::from_chars(number.data(), number.data() + number.size(), declared.align);
      } else if (word == ".param" || word == ".shared" || word == ".local") {
        continue;
      } else if (word[0] == '.') {
        each = type_bytes(word.substr(1));
      } else {
        const size_t open = word.find('[');
        declared.name = word.substr(0, open);
        size_t count = 1;
        if (open != word.npos) {
          std::from_chars(word.data() + open + 1, word.data() + word.size(), count);
        }
        declared.bytes = count * each;
      }
    }
    if (declared.align == 0) declared.align = each;
    if (declared.name.empty() || each == 0) throw TextError("a declaration without name or type");
    return declared;
  }

  // ---- statements ----

  void statements() {
    while (true) {
      at_ = text_.find_first_not_of(kBlanks, at_);
      if (at_ == text_.npos) throw TextError("an entry without an end");
      if (text_[at_] == '{') {
        scopes_.emplace_back();
        ++at_;
      } else if (text_[at_] == '}') {
        scopes_.pop_back();
        ++at_;
        if (scopes_.empty()) break;
      } else if (!label()) {
        const size_t end = text_.find(';', at_);
        if (end == text_.npos) throw TextError("a statement without an end");
        statement(trimmed(text_.substr(at_, end - at_)));
        at_ = end + 1;
      }
    }
    Instruction end;  // who falls off the end has returned
    end.kind = Kind::kExit;
    kernel_->code.push_back(end);
    kernel_->ran.resize(kernel_->code.size());
  }

  bool label() {
    size_t end = at_;
    while (end < text_.size() && in_name(text_[end])) ++end;
    if (end == at_ || end >= text_.size() || text_[end] != ':') return false;
    const std::string_view name = text_.substr(at_, end - at_);
    if (!labels_.emplace(name, static_cast<int>(kernel_->code.size())).second) {
      throw TextError("a label twice: " + std::string(name));
    }
    at_ = end + 1;
    return true;
  }

  void statement(std::string_view text) {
    if (text[0] == '.') return directive(text);
    Instruction out;
    const char* const begin = text_.data() + at_;
    line_ += static_cast<int>(std::count(counted_, begin, '\n'));
    counted_ = begin;
    out.line = line_;
    try {
      instruction(text, out);
    } catch (const TextError& error) {
      throw TextError(std::string(text) + ": " + error.what());
    }
    kernel_->code.push_back(out);
  }

  void directive(std::string_view text) {
    std::string_view rest = text;
    const std::string_view word = take_word(rest);
    if (word == ".reg") {
      declare_registers(rest);
    } else if (word == ".shared" || word == ".local") {
      const Declared declared = declaration(text);
      size_t& used = word == ".shared" ? kernel_->static_shared_bytes : kernel_->local_bytes;
      used = (used + declared.align - 1) / declared.align * declared.align;
      place_symbol(declared.name, static_cast<int64_t>(used));
      used += declared.bytes;
    } else if (word != ".pragma" && word != ".loc" && word != ".file") {
      throw TextError("no such directive: " + std::string(word));
    }
  }

  // "b32 %r<7>" has %r0 to %r6; "pred wanted, found" has these two.
  void declare_registers(std::string_view rest) {
    const bool predicates = take_word(rest) == ".pred";
    int& used = predicates ? kernel_->n_predicates : kernel_->n_rows;
    for (std::string_view name : split(rest, ',')) {
      int count = 1;
      const size_t open = name.find('<');
      if (open != name.npos) {
        std::from_chars(name.data() + open + 1, name.data() + name.size(), count);
      }
      scopes_.back()[name.substr(0, open)] = {used, count, predicates};
      used += count;
    }
  }

  void instruction(std::string_view text, Instruction& out) {
    if (text[0] == '@') {
      std::string_view guard = take_word(text).substr(1);
      out.negated = guard[0] == '!';
      out.guard = resolve(out.negated ? guard.substr(1) : guard);
    }
    const std::string_view word = take_word(text);
    Opcode opcode;
    for (const std::string_view part : split(word, '.')) {
      if (!is_hint(part)) opcode.push_back(part);
    }
    if (opcode[0] == "bra") {
      out.kind = Kind::kBranch;
      jumps_.emplace_back(kernel_->code.size(), text);
      return;
    }
    std::vector<Argument> arguments = parse_arguments(text);
    // The second result that the text may leave out.
    if (opcode[0] == "shfl" && arguments.at(0).values.size() == 1) {
      arguments[0].values.emplace_back("_p");
    }
    const bool of_predicate = opcode.back() == "pred" && opcode[0] != "vote";
    size_t n_addresses = 0;
    for (const Argument& argument : arguments) {
      for (const std::string_view value : argument.values) {
        if (out.n_rows == static_cast<int>(out.rows.size())) throw TextError("too many operands");
        out.rows[out.n_rows++] = of_predicate ? resolve_predicate(value) : resolve(value);
      }
      if (argument.address) out.offsets[n_addresses++ % 2] = argument.offset;
    }
    out.n_values = static_cast<uint8_t>(arguments.empty() ? 0 : arguments[0].values.size());
    if (!arguments.empty() && arguments[0].address) {
      out.n_values = static_cast<uint8_t>(out.n_rows - 1);
    }
    decode(opcode, out);
  }

  // "%r1|%p2, {%r3, %r4}, [%rd5+16], 7"
  static std::vector<Argument> parse_arguments(std::string_view text) {
    std::vector<Argument> arguments;
    while (!(text = trimmed(text)).empty()) {
      Argument argument;
      size_t end;
      if (text[0] == '{') {
        end = text.find('}');
        if (end == text.npos) throw TextError("{ without }");
        argument.values = split(text.substr(1, end - 1), ',');
        end = text.find(',', end);
      } else if (text[0] == '[') {
        end = text.find(']');
        if (end == text.npos) throw TextError("[ without ]");
        std::string_view inside = text.substr(1, end - 1);
        const size_t plus = inside.find('+');
        if (plus != inside.npos) {
          const std::string_view number = trimmed(inside.substr(plus + 1));
          std::from_chars(number.data(), number.data() + number.size(), argument.offset);
        }
        argument.values = {trimmed(inside.substr(0, plus))};
        argument.address = true;
        end = text.find(',', end);
      } else {
        end = text.find(',');
        argument.values = split(text.substr(0, end), '|');
      }
      arguments.push_back(std::move(argument));
      text = end == text.npos ? std::string_view() : text.substr(end + 1);
    }
    return arguments;
  }

  // ---- what names mean ----

  int resolve_predicate(std::string_view name) {
    if (name == "0") return kFalse;
    if (name == "1" || name == "-1") return kTrue;
    return resolve(name);
  }

  // A row or a predicate's number.
  int resolve(std::string_view name) {
    if (name.empty()) throw TextError("an operand is missing");
    if (name == "_p") return kUnused;
    if (name == "_") return special("_");
    std::string_view prefix;
    const int64_t number = number_at_end(name, prefix);
    for (size_t s = scopes_.size(); s-- > 0;) {
      if (const auto found = scopes_[s].find(name); found != scopes_[s].end()) {
        return found->second.first;
      }
      if (const auto found = scopes_[s].find(prefix);
          found != scopes_[s].end() && number >= 0 && number < found->second.count) {
        return found->second.first + static_cast<int>(number);
      }
    }
    if (name[0] == '%') return special(name);
    if (std::isdigit(static_cast<unsigned char>(name[0])) || name[0] == '-') {
      return constant(number_of(name));
    }
    const auto found = symbols_.emplace(name, static_cast<int>(kernel_->constants.size()));
    if (found.second) kernel_->constants.emplace_back();
    if (found.second) unplaced_.push_back(name);
    return ~found.first->second;
  }

  int special(std::string_view name) {
    static constexpr std::string_view kNames[] = {
        "%tid.x", "%tid.y",   "%tid.z",   "%ntid.x",  "%ntid.y",   "%ntid.z",   "%laneid",
        "_",      "%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z"};
    if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames)) {
      throw TextError("no register " + std::string(name));
    }
    for (const Special& known : kernel_->specials) {
      if (known.name == name) return known.row;
    }
    kernel_->specials.push_back({kernel_->n_rows++, std::string(name)});
    return kernel_->specials.back().row;
  }

  int constant(uint64_t value) {
    const auto found = constants_.emplace(value, static_cast<int>(kernel_->constants.size()));
    if (found.second) {
      kernel_->constants.emplace_back();
      kernel_->constants.back().fill(value);
    }
    return ~found.first->second;
  }

  static uint64_t number_of(std::string_view text) {
    const bool negative = text[0] == '-';
    if (negative) text.remove_prefix(1);
    int base = 10;
    if (text.size() > 2 && text[0] == '0' && std::strchr("fdxFDX", text[1]) != nullptr) {
      base = 16;
      text.remove_prefix(2);
    }
    uint64_t value = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value, base);
    const std::string_view rest(end.ptr, static_cast<size_t>(text.data() + text.size() - end.ptr));
    if (end.ec != std::errc() || (!rest.empty() && rest != "U")) throw TextError("no number");
    return negative ? -value : value;
  }

  // Symbols may be used before it is known where they are.
  void place_symbol(std::string_view name, int64_t address) {
    const auto found = symbols_.emplace(name, static_cast<int>(kernel_->constants.size()));
    if (found.second) kernel_->constants.emplace_back();
    kernel_->constants[found.first->second].fill(static_cast<uint64_t>(address));
    unplaced_.erase(std::remove(unplaced_.begin(), unplaced_.end(), name), unplaced_.end());
  }

  std::string_view text_;
  const char* counted_;  // up to here for line_
  int line_ = 0;
  size_t at_ = 0;
  std::unique_ptr<Kernel> kernel_;
  const std::vector<std::string>& dynamic_shared_;
  std::vector<Scope> scopes_;
  std::unordered_map<std::string_view, int> labels_, symbols_;
  std::unordered_map<uint64_t, int> constants_;
  std::vector<std::pair<size_t, std::string_view>> jumps_;
  std::vector<std::string_view> unplaced_;
};

}  // namespace

std::unique_ptr<Kernel> parse_kernel(std::string_view text,
                                     const std::vector<std::string>& dynamic_shared) {
  return Parser(text, dynamic_shared).parse();
}

}  // namespace ptx
