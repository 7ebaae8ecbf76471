#include "repl/line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "error.h"
#include "repl/cells.h"
#include "repl/history_file.h"
#include "repl/pastes.h"
#include "repl/terminal_signals.h"
#include "terminal/exit_colors.h"
#include "terminal/interrupt.h"
#include "terminal/terminal_text.h"
#include "terminal/word_wrap.h"
#include "text/utf8.h"

namespace specbound {

namespace {

constexpr wchar_t kInterruptKey = 3;       // Ctrl-C
constexpr wchar_t kInsertKey = 0x1c;       // Ctrl-\, bound to what inserts a text that is waiting
constexpr size_t kMostRecalledLines = 10;  // that can be edited as they are; more become a mark
constexpr std::string_view kPasteBegins = "\x1b[?2004h", kPasteEnds = "\x1b[?2004l";
constexpr std::string_view kEndOfPaste = "\x1b[201~";
constexpr int kPasteWaitMs = 10000;  // for the rest of a paste; then what has come is all
constexpr std::string_view kBeginningOfPaste = "\x1b[200~";
constexpr int kTypedAheadMs = 30;  // for the rest of what was pasted during a reply
constexpr size_t kMostListed = 100;

// What C++ and libedit say in characters of one size: a locale of UTF-8, the person's own or the
// system's.
bool use_utf8() {
  const auto is_utf8 = [] { return std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0; };
  if (setlocale(LC_CTYPE, "") != nullptr && is_utf8()) return true;
  return setlocale(LC_CTYPE, "C.UTF-8") != nullptr && is_utf8();
}

// \r\n and \r, as terminals send them, are line ends; one at the very end is none.
std::string with_line_ends(std::string_view pasted) {
  std::string text;
  for (size_t i = 0; i < pasted.size(); ++i) {
    if (pasted[i] == '\r') {
      text += '\n';
      if (i + 1 < pasted.size() && pasted[i + 1] == '\n') ++i;
    } else {
      text += pasted[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class LineEditor final : public LineInput {
 public:
  LineEditor(const std::string& history, CompletionSource source)
      : history_file_(history), source_(std::move(source)) {
    if (!use_utf8()) return;
    cookie_io_functions_t output = {};
    output.write = write_out;
    out_ = fopencookie(this, "w", output);
    no_errors_ = std::fopen("/dev/null", "w");
    if (!out_ || !no_errors_) return;
    el_ = el_init_fd("specbound", stdin, out_, no_errors_, STDIN_FILENO, STDERR_FILENO,
                     STDERR_FILENO);
    if (el_) set_up();
  }

  ~LineEditor() override {
    if (el_) el_end(el_);
    if (history_) history_wend(history_);
    if (out_) std::fclose(out_);
    if (no_errors_) std::fclose(no_errors_);
  }

  bool usable() const {
    if (!el_ || !history_) return false;
    // Up a line, and clear the rest of one: without them libedit can only guess.
    for (const char* name : {"up", "ce"}) {
      char* value = nullptr;
      if (el_get(el_, EL_GETTC, name, &value) != 0 || !value || *value == '\0') return false;
    }
    return true;
  }

  Status next(LinePrompt prompt, std::string& line) override {
    const bool more = prompt == LinePrompt::kMore;
    // Between two \1 the terminal is told; libedit puts it in front of the character that follows.
    prompt_ = more ? L"... " : colour_ ? L"\1\x1b[1;36m\1>\1\x1b[0m\1 " : L"> ";
    prompt_columns_ = more ? 4 : 2;
    cancelled_ = false;
    signals_.emplace();
    el_resize(el_);
    el_wset(el_, EL_PREP_TERM, 1);  // before anything shows that keys are awaited: Ctrl-D is one
    if (!more) take_typed_ahead();
    if (!more) put("\n");
    put(kPasteBegins);
    int n = 0;
    const wchar_t* cells = el_wgets(el_, &n);
    put(kPasteEnds);
    signals_.reset();
    line.clear();
    if (cancelled_) {
      line = std::move(cancelled_line_);
      return Status::kCancelled;
    }
    if (!cells || n <= 0) {
      put("\n");
      return Status::kEnd;
    }
    std::wstring_view typed(cells, static_cast<size_t>(n));
    if (typed.ends_with(L'\n')) typed.remove_suffix(1);
    line = pastes_.put_back(cells_.decode(typed));
    return Status::kLine;
  }

  bool prefill(const std::string& text) override {
    waiting_ = in_line(text);
    return true;
  }

  void remember(const std::string& text) override {
    if (text.empty() || text == newest_) return;
    newest_ = text;
    HistEventW event;
    history_w(history_, &event, H_ENTER, cells_.encode(in_line(text)).c_str());
    if (history_failed_) return;
    try {
      history_file_.add(text);
    } catch (const Error& e) {
      history_failed_ = true;
      std::fprintf(stderr, "warning: %s\n", terminal_text(e.what()).c_str());
    }
  }

  bool cancel_leaves() const override { return false; }

 private:
  using Key = unsigned char (LineEditor::*)();
  enum class Wait { kBytes, kEnd, kInterrupt, kSignal, kTimeout };

  template <Key key>
  void bind(const wchar_t* name, std::initializer_list<const wchar_t*> keys) {
    unsigned char (*const call)(EditLine*, wint_t) = [](EditLine* el, wint_t) {
      return (of(el)->*key)();
    };
    el_wset(el_, EL_ADDFN, name, L"", call);
    for (const wchar_t* sequence : keys) el_wset(el_, EL_BIND, sequence, name, nullptr);
  }

  void set_up() {
    el_wset(el_, EL_CLIENTDATA, this);
    el_wset(el_, EL_EDITOR, L"emacs");
    el_wset(el_, EL_GETCFN, static_cast<int (*)(EditLine*, wchar_t*)>(read_key));
    el_wset(el_, EL_PROMPT_ESC, prompt, 1);
    // Ctrl-C and Ctrl-Z are keys here: a signal could come at any moment.
    el_wset(el_, EL_SETTY, L"-d", L"-isig", nullptr);
    bind<&LineEditor::insert_waiting>(L"specbound-insert", {L"^\\"});
    bind<&LineEditor::paste>(L"specbound-paste", {L"\\e[200~"});
    bind<&LineEditor::cancel>(L"specbound-cancel", {L"^C"});
    bind<&LineEditor::end_or_delete>(L"specbound-end", {L"^D"});
    bind<&LineEditor::suspend>(L"specbound-suspend", {L"^Z"});
    bind<&LineEditor::new_line>(L"specbound-new-line", {L"\\e^M", L"\\e^J"});
    bind<&LineEditor::complete_word>(L"specbound-complete", {L"^I"});
    constexpr const wchar_t* kKeys[][2] = {
        {L"^R", L"em-inc-search-prev"},  {L"\\e[1;5C", L"em-next-word"},
        {L"\\e[1;5D", L"ed-prev-word"},  {L"\\e[3~", L"ed-delete-next-char"},
        {L"\\e[H", L"ed-move-to-beg"},   {L"\\e[F", L"ed-move-to-end"},
        {L"\\e[1~", L"ed-move-to-beg"},  {L"\\e[4~", L"ed-move-to-end"},
        {L"^?", L"em-delete-prev-char"}, {L"^H", L"em-delete-prev-char"},
        {L"^W", L"ed-delete-prev-word"},
    };
    for (const auto& [key, function] : kKeys) el_wset(el_, EL_BIND, key, function, nullptr);
    colour_ = color_refusal(STDERR_FILENO, "stderr").empty();

    history_ = history_winit();
    if (!history_) return;
    HistEventW event;
    history_w(history_, &event, H_SETSIZE, static_cast<int>(HistoryFile::kMostEntries));
    for (const std::string& entry : history_file_.load()) {
      history_w(history_, &event, H_ENTER, cells_.encode(in_line(entry)).c_str());
      newest_ = entry;
    }
    el_wset(el_, EL_HIST, history_w, history_);
  }

  // A text as it is edited again.
  std::string in_line(const std::string& text) {
    return fits_line(text, kMostRecalledLines) ? text : pastes_.put_aside(text);
  }

  // What was pasted while a reply ran came without the marks of a paste. Several lines of it are
  // one text, which waits in the line; a single one is taken as the keys that it is.
  void take_typed_ahead() {
    for (int patience = 0; buffer_.size() <= kMaxTextBytes && wait(patience) == Wait::kBytes;) {
      patience = kTypedAheadMs;
    }
    const std::string_view keys = std::string_view(buffer_).substr(at_);
    std::string text = with_line_ends(keys);
    text.resize(text.find_last_not_of('\n') + 1);  // Enter, as often as it was pressed
    if (text.find('\n') == std::string::npos || keys.find(kBeginningOfPaste) != keys.npos) return;
    waiting_ += pastes_.put_aside(text);
    buffer_.clear();
    at_ = 0;
  }

  // ---- what libedit calls ----

  static LineEditor* of(EditLine* el) {
    void* self = nullptr;
    el_wget(el, EL_CLIENTDATA, &self);
    return static_cast<LineEditor*>(self);
  }

  static wchar_t* prompt(EditLine* el) { return of(el)->prompt_.data(); }

  static int read_key(EditLine* el, wchar_t* key) { return of(el)->read_key(*key); }

  static ssize_t write_out(void* self, const char* bytes, size_t n) {
    auto& editor = *static_cast<LineEditor*>(self);
    editor.unfinished_.append(bytes, n);
    const std::string text = editor.cells_.shown(editor.unfinished_);
    for (size_t done = 0; done < text.size();) {
      const ssize_t written = write(STDERR_FILENO, text.data() + done, text.size() - done);
      if (written < 0 && errno == EAGAIN) {
        pollfd ready = {STDERR_FILENO, POLLOUT, 0};
        (void)poll(&ready, 1, -1);
      } else if (written < 0 && errno != EINTR) {
        break;  // the terminal is gone: reading will tell
      }
      if (written > 0) done += static_cast<size_t>(written);
    }
    return static_cast<ssize_t>(n);
  }

  int read_key(wchar_t& key) {
    if (cancelled_) {  // the cursor has come to the end of the line by now
      put("^C\n");
      return 0;
    }
    if (OrderlyEnd::begun()) return 0;  // whatever has been typed
    if (!waiting_.empty()) {
      key = kInsertKey;
      return 1;
    }
    for (;;) {
      handle_signals();
      if (const std::optional<wchar_t> taken = take_key()) {
        key = *taken;
        return 1;
      }
      switch (wait(-1)) {
        case Wait::kEnd:
          return 0;
        case Wait::kInterrupt:
          clear_interrupt();
          key = kInterruptKey;
          return 1;
        case Wait::kBytes:
        case Wait::kSignal:
        case Wait::kTimeout:
          break;
      }
    }
  }

  // The next key of the buffer. A character that does not stand for itself in the line waits, and
  // the key is the one that inserts it.
  std::optional<wchar_t> take_key() {
    if (at_ == buffer_.size()) {
      buffer_.clear();
      at_ = 0;
      return std::nullopt;
    }
    const std::string_view rest = std::string_view(buffer_).substr(at_);
    const Utf8Head head = utf8_head(rest);
    if (head.kind == Utf8Head::kCut) return std::nullopt;
    const std::string_view c = rest.substr(0, head.length);
    at_ += c.size();
    if (c.size() == 1 && head.kind == Utf8Head::kWhole) return static_cast<wchar_t>(c[0]);
    const std::wstring cell = cells_.encode(c);
    const std::wstring_view before = cells_before_cursor();
    const bool joins = !before.empty() && cells_.joins(before.back(), c);
    const bool itself =
        head.kind == Utf8Head::kWhole && cell[0] == static_cast<wchar_t>(code_point(c));
    if (itself && !joins) return cell[0];
    waiting_ = c;
    return kInsertKey;
  }

  // ---- keys: what they return is libedit's CC_ ----

  unsigned char insert_waiting() {
    std::string text = std::exchange(waiting_, {});
    const std::wstring_view before = cells_before_cursor();
    if (!before.empty() && cells_.joins(before.back(), text)) {
      text.insert(0, cells_.decode(before.substr(before.size() - 1)));
      el_deletestr(el_, 1);
    }
    const std::wstring cells = cells_.encode(text);
    if (cells.empty()) return CC_NORM;
    return el_winsertstr(el_, cells.c_str()) == 0 ? CC_REFRESH : CC_REFRESH_BEEP;
  }

  unsigned char paste() {
    buffer_.erase(0, std::exchange(at_, 0));
    bool too_long = false;
    size_t searched = 0, end;
    while ((end = buffer_.find(kEndOfPaste, searched)) == std::string::npos) {
      const size_t tail = std::min(buffer_.size(), kEndOfPaste.size() - 1);
      if (buffer_.size() > kMaxTextBytes) {
        too_long = true;
        buffer_.erase(0, buffer_.size() - tail);
      }
      searched = buffer_.size() - tail;
      const Wait waited = wait(kPasteWaitMs);
      if (waited == Wait::kEnd || waited == Wait::kTimeout) {
        end = buffer_.size();
        break;
      }
      if (waited == Wait::kInterrupt) clear_interrupt();
      if (waited == Wait::kSignal) handle_signals();
    }
    const std::string text = with_line_ends(std::string_view(buffer_).substr(0, end));
    at_ = std::min(buffer_.size(), end + kEndOfPaste.size());
    if (too_long) return CC_REFRESH_BEEP;
    waiting_ = fits_line(text, 1) ? text : pastes_.put_aside(text);
    return insert_waiting();
  }

  unsigned char cancel() {
    const LineInfoW* line = el_wline(el_);
    const std::wstring_view all(line->buffer, static_cast<size_t>(line->lastchar - line->buffer));
    cancelled_line_ = cells_.decode(all);
    cancelled_ = true;
    el_cursor(el_, static_cast<int>(line->lastchar - line->cursor));
    return CC_REFRESH;
  }

  unsigned char end_or_delete() {
    const LineInfoW* line = el_wline(el_);
    if (line->lastchar == line->buffer) return CC_EOF;
    if (line->cursor == line->lastchar) return CC_ERROR;
    el_cursor(el_, 1);
    el_deletestr(el_, 1);
    return CC_REFRESH;
  }

  unsigned char suspend() {
    put(kPasteEnds);
    el_wset(el_, EL_PREP_TERM, 0);
    kill(0, SIGTSTP);  // all of a pipeline, as the terminal would have it
    redraw();
    return CC_NORM;
  }

  unsigned char new_line() { return el_winsertstr(el_, L"\n") == 0 ? CC_REFRESH : CC_REFRESH_BEEP; }

  unsigned char complete_word() {
    const std::string head = cells_.decode(cells_before_cursor());
    const Completion completion = complete(head, source_);
    const std::string insertion = completion.insertion();
    const size_t begun = head.size() - std::min(head.size(), completion.from);
    if (insertion.size() > begun) {
      waiting_ = insertion.substr(begun);
      return insert_waiting();
    }
    if (completion.words.size() < 2) return CC_ERROR;
    list(completion);
    return CC_NORM;
  }

  // ---- the terminal ----

  // For more bytes, a Ctrl-C that came as a signal, or another signal.
  Wait wait(int timeout_ms) {
    pollfd waits[3] = {
        {STDIN_FILENO, POLLIN, 0}, {interrupt_fd(), POLLIN, 0}, {TerminalSignals::fd(), POLLIN, 0}};
    const int ready = poll(waits, 3, timeout_ms);
    if (ready == 0) return Wait::kTimeout;
    if (ready < 0) return errno == EINTR ? Wait::kSignal : Wait::kEnd;
    if (waits[1].revents & POLLIN) return OrderlyEnd::begun() ? Wait::kEnd : Wait::kInterrupt;
    if (waits[2].revents & POLLIN) return Wait::kSignal;
    char bytes[64 << 10];
    const ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return Wait::kSignal;
    if (n <= 0) return Wait::kEnd;
    tell_keys();
    buffer_.append(bytes, static_cast<size_t>(n));
    return Wait::kBytes;
  }

  void handle_signals() {
    bool redraws = false;
    while (const int number = TerminalSignals::take()) {
      if (number == SIGCONT) el_wset(el_, EL_PREP_TERM, 0);  // whatever the shell has made of it
      redraws = true;
    }
    if (redraws) redraw();
  }

  // The line from its beginning on, over what is there. A window that changed its width has wrapped
  // what it shows anew, so the cursor is as many rows below as the line now takes up to it.
  void redraw() {
    el_wset(el_, EL_PREP_TERM, 1);
    const int rows = place_after(cells_before_cursor(), prompt_columns_, columns()).row;
    std::string sequence = "\r";
    if (rows > 0) sequence += format("\x1b[%dA", rows);
    put(sequence + "\x1b[J" + std::string(kPasteBegins));
    el_resize(el_);
    el_wset(el_, EL_REFRESH);
  }

  // The words below the line, and the line again below them.
  void list(const Completion& completion) {
    const LineInfoW* line = el_wline(el_);
    const std::wstring_view all(line->buffer, static_cast<size_t>(line->lastchar - line->buffer));
    const int width = columns();
    const int below = place_after(all, prompt_columns_, width).row -
                      place_after(cells_before_cursor(), prompt_columns_, width).row;
    std::vector<std::string> names;
    int widest = 0;
    for (const std::string& word : completion.words) {
      if (names.size() == kMostListed) break;
      const size_t end = word.size() - (word.size() > 1 && word.ends_with('/') ? 1 : 0);
      const size_t slash = word.substr(0, end).rfind('/');
      const bool is_path = slash != std::string::npos && slash > 0;
      names.push_back(terminal_text(is_path ? word.substr(slash + 1) : word));
      widest = std::max(widest, display_width(names.back()));
    }
    std::string text(static_cast<size_t>(below) + 1, '\n');
    const size_t per_row = static_cast<size_t>(std::max(1, width / (widest + 2)));
    for (size_t i = 0; i < names.size(); ++i) {
      const bool ends = i + 1 == names.size() || (i + 1) % per_row == 0;
      text += ends ? names[i] + '\n' : fit_width(names[i], widest + 2);
    }
    const size_t left = completion.words.size() - names.size();
    if (left > 0) text += format("and %zu more\n", left);
    put(text);
    el_wset(el_, EL_REFRESH);
  }

  void put(std::string_view bytes) {
    for (const char c : bytes) {
      if (c == '\n') std::fputc('\r', out_);  // the terminal may be raw
      std::fputc(c, out_);
    }
    std::fflush(out_);
  }

  int columns() const {
    const int known = terminal_columns(STDERR_FILENO);
    return known > 1 ? known : 80;
  }

  std::wstring_view cells_before_cursor() const {
    const LineInfoW* line = el_wline(el_);
    return {line->buffer, static_cast<size_t>(line->cursor - line->buffer)};
  }

  EditLine* el_ = nullptr;
  FILE* out_ = nullptr;
  FILE* no_errors_ = nullptr;  // libedit's words about terminals that it does not know
  HistoryW* history_ = nullptr;
  HistoryFile history_file_;
  std::string newest_;  // of the history
  bool history_failed_ = false;
  CompletionSource source_;
  Cells cells_;
  Pastes pastes_;

  std::wstring prompt_;
  int prompt_columns_ = 0;
  bool colour_ = false;
  std::optional<TerminalSignals> signals_;  // while a line is read
  std::string buffer_;                      // bytes of the terminal; those up to at_ are taken
  size_t at_ = 0;
  std::string waiting_;     // a text to insert
  std::string unfinished_;  // the beginning of a character on its way to the terminal
  bool cancelled_ = false;
  std::string cancelled_line_;
};

}  // namespace

std::unique_ptr<LineInput> open_line_editor(const std::string& history, CompletionSource source) {
  if (isatty(STDIN_FILENO) != 1 || !can_move_cursor(STDERR_FILENO)) return nullptr;
  auto editor = std::make_unique<LineEditor>(history, std::move(source));
  return editor->usable() ? std::move(editor) : nullptr;
}

}  // namespace specbound
