#include "tools/ppl_texts.h"

#include <algorithm>
#include <span>

#include "corpus/corpus.h"
#include "corpus/data_file.h"
#include "error.h"
#include "library/load_watcher.h"
#include "system/text_input.h"
#include "terminal/interrupt.h"

namespace specbound {

namespace {

constexpr const char* kEndedReading = "interrupted while the text was read";

// Plain text from BOS, where the vocabulary starts texts with one.
std::vector<int32_t> plain_tokens(std::string_view text, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids = tokenizer.encode(text, {.add_special = false});
  if (tokenizer.add_bos() && tokenizer.bos() >= 0) ids.insert(ids.begin(), tokenizer.bos());
  return ids;
}

void add_text(PplTexts& out, std::span<const int32_t> ids, int n_ctx) {
  if (ids.size() < 2) {
    ++out.too_short;
    return;
  }
  if (ids.size() > static_cast<size_t>(n_ctx)) {
    ++out.cut;
    ids = ids.first(n_ctx);
  }
  out.runs.push_back({std::ssize(out.tokens), static_cast<int>(ids.size()), 1});
  out.tokens.insert(out.tokens.end(), ids.begin(), ids.end());
}

void add_lines(PplTexts& out, const PplFile& file, const Tokenizer& tokenizer,
               const std::function<const ChatTemplate&()>& chat_template,
               const PplTextOptions& options) {
  int64_t number = 0;
  for (std::string_view rest = file.bytes; !rest.empty();) {
    if (options.most > 0 && std::ssize(out.runs) == options.most) return;
    check_interrupt(kEndedReading);
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    ++out.lines;
    CorpusText text;
    if (const std::string why = parse_corpus_line(line, text); !why.empty()) {
      if (out.skipped++ == 0) {
        out.first_skipped = format("line %lld: %s", static_cast<long long>(number), why.c_str());
      }
    } else if (text.messages.empty()) {
      add_text(out, plain_tokens(text.text, tokenizer), options.n_ctx);
    } else {
      add_text(out, chat_template().encode(tokenizer, text.messages), options.n_ctx);
    }
  }
}

[[noreturn]] void refuse_nothing(const PplTexts& texts, const PplFile& file) {
  if (texts.skipped > 0 && texts.skipped == texts.lines) {
    throw Error(ErrorCode::kFormat,
                format("%s: expected JSON lines, each a dialogue or {\"text\": ...}, found none "
                       "among %lld; the first, %s; plain text that begins with a bracket is told "
                       "by a name that ends in .txt",
                       file.name.c_str(), static_cast<long long>(texts.lines),
                       texts.first_skipped.c_str()));
  }
  throw Error(ErrorCode::kFormat,
              format("%s: expected a text of at least two tokens, found none", file.name.c_str()));
}

}  // namespace

int64_t PplTexts::scored() const {
  int64_t n = 0;
  for (const ScoredRun& run : runs) n += run.scored();
  return n;
}

int64_t PplTexts::rows() const {
  int64_t n = 0;
  for (const ScoredRun& run : runs) n += run.length - 1;
  return n;
}

std::vector<int32_t> PplTexts::text(const ScoredRun& run) const {
  const auto begin = tokens.begin() + run.begin;
  std::vector<int32_t> text(begin, begin + run.length);
  if (bos) text.front() = *bos;
  return text;
}

PplFile read_ppl_file(const std::string& path) {
  DataFile data(path, [](int fd) {
    wait_for_input(fd);
    check_interrupt(kEndedReading);
  });
  PplFile file{data.name(), {}};
  std::vector<char> block(size_t{256} << 10);
  while (const size_t n = data.read(block)) {
    file.bytes.append(block.data(), n);
    if (file.bytes.size() > kMaxTextBytes) {
      throw Error(ErrorCode::kLimit, format("%s: expected at most %zu MiB of text, found more",
                                            file.name.c_str(), kMaxTextBytes >> 20));
    }
  }
  file.json_lines = holds_json_lines(file.name, file.bytes).value_or(false);
  return file;
}

PplTexts make_ppl_texts(const PplFile& file, const Tokenizer& tokenizer,
                        const std::function<const ChatTemplate&()>& chat_template,
                        const PplTextOptions& options) {
  if (options.stride > 0 && (file.json_lines || options.whole)) {
    throw Error(ErrorCode::kUsage,
                format("--stride is for windows of plain text, %s",
                       options.whole ? "--whole makes none" : "JSON lines are scored one by one"));
  }
  PplTexts out;
  if (file.json_lines) {
    add_lines(out, file, tokenizer, chat_template, options);
  } else if (options.whole) {
    add_text(out, plain_tokens(file.bytes, tokenizer), options.n_ctx);
  } else {
    out.windows = true;
    out.tokens = plain_tokens(file.bytes, tokenizer);
    if (tokenizer.add_bos() && tokenizer.bos() >= 0) out.bos = tokenizer.bos();
    out.runs = cut_windows(std::ssize(out.tokens), options.window, options.stride, options.most);
    if (out.runs.empty() && out.tokens.size() > 1) {
      throw Error(ErrorCode::kLimit,
                  format("%s: expected at least %d tokens, one window%s, found %zu: -c sets a "
                         "shorter one, --whole scores the text as it is",
                         file.name.c_str(), options.window + (options.stride > 0 ? 1 : 0),
                         options.stride > 0 ? " and more" : "", out.tokens.size()));
    }
  }
  if (out.runs.empty()) refuse_nothing(out, file);
  return out;
}

}  // namespace specbound
