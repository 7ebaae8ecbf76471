#include "text/pre_tokenizer.h"

#include <limits>
#include <string>

#include "error.h"
#include "text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace specbound {

namespace {

// PCRE2 counts U+180E as white space, which it has not been since Unicode 6.3 and is not in the
// references: \s and \S are spelled out.
std::string with_white_space(std::string_view regex) {
  constexpr std::string_view kWhite = "\\t-\\r\\x{85}\\p{Z}";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < regex.size(); ++i) {
    const char c = regex[i];
    if (c == '\\') {
      const char escaped = regex[++i];
      if (escaped == 's' && in_class) {
        out += kWhite;
      } else if (escaped == 's') {
        out.append("[").append(kWhite).append("]");
      } else if (escaped == 'S') {
        SB_CHECK(!in_class);
        out.append("[^").append(kWhite).append("]");
      } else {
        out.append({c, escaped});
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

}  // namespace

struct PreTokenizer::Regex {
  explicit Regex(const PrePattern& pattern) {
    const std::string text = pattern.bytes ? pattern.regex : with_white_space(pattern.regex);
    int error = 0;
    PCRE2_SIZE at = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                         pattern.bytes ? 0 : PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
    SB_CHECK(code);                               // the expressions are ours
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // what it cannot compile is interpreted
  }
  ~Regex() { pcre2_code_free(code); }
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  pcre2_code* code;
};

struct PreTokenizer::Cutter {
  const PreTokenizer& owner;
  const std::function<void(std::string_view)>& word;
  pcre2_match_data* found;
  pcre2_match_context* limits;

  Cutter(const PreTokenizer& tokenizer, const std::function<void(std::string_view)>& sink)
      : owner(tokenizer),
        word(sink),
        found(pcre2_match_data_create(1, nullptr)),
        limits(pcre2_match_context_create(nullptr)) {
    SB_CHECK(found && limits);
    // Steps are bounded by the text: no expression tries a place more than a few times. The stack
    // is bounded too: JIT code has its 32 KiB, the interpreter uses the heap.
    pcre2_set_match_limit(limits, std::numeric_limits<uint32_t>::max());
  }
  ~Cutter() {
    pcre2_match_context_free(limits);
    pcre2_match_data_free(found);
  }
  Cutter(const Cutter&) = delete;
  Cutter& operator=(const Cutter&) = delete;

  // The first match at or behind `from`; false: none.
  bool match(size_t step, std::string_view part, size_t from, size_t& begin, size_t& end) {
    const auto run = [&](uint32_t options) {
      return pcre2_match(owner.steps_[step]->code, reinterpret_cast<PCRE2_SPTR>(part.data()),
                         part.size(), from, PCRE2_NO_UTF_CHECK | options, found, limits);
    };
    int result = run(0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = run(PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) return false;
    SB_CHECK(result >= 0);
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(found);
    begin = range[0];
    end = range[1];
    SB_CHECK(end > begin && begin >= from);
    return true;
  }

  // Hands a part through the steps that are left.
  void cut(size_t step, std::string_view part) {
    if (step == owner.steps_.size()) {
      word(part);
      return;
    }
    size_t from = 0, begin, end;
    while (from < part.size() && match(step, part, from, begin, end)) {
      if (begin > from) cut(step + 1, part.substr(from, begin - from));
      cut(step + 1, part.substr(begin, end - begin));
      from = end;
    }
    if (from < part.size()) cut(step + 1, part.substr(from));
  }
};

PreTokenizer::PreTokenizer(std::span<const PrePattern> patterns) {
  for (const PrePattern& pattern : patterns) steps_.push_back(std::make_unique<Regex>(pattern));
}

PreTokenizer::~PreTokenizer() = default;

void PreTokenizer::split(std::string_view text,
                         const std::function<void(std::string_view)>& word) const {
  Cutter cutter(*this, word);
  // Bytes of the longest stretch at the start that is, or is not, UTF-8.
  const auto stretch = [](std::string_view rest, bool valid) {
    size_t size = 0;
    while (size < rest.size()) {
      const Utf8Head head = utf8_head(rest.substr(size));
      if ((head.kind == Utf8Head::kWhole) != valid) break;
      size += head.length;
    }
    return size;
  };
  while (!text.empty()) {
    const size_t valid = stretch(text, true);
    if (valid > 0) cutter.cut(0, text.substr(0, valid));
    text.remove_prefix(valid);
    const size_t broken = stretch(text, false);
    if (broken > 0) word(text.substr(0, broken));
    text.remove_prefix(broken);
  }
}

}  // namespace specbound
