#include "train/self_generate.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "decode/generate.h"
#include "decode/row_costs.h"
#include "decode/tree_speculator.h"
#include "error.h"

namespace specbound {
namespace {

constexpr int kPlainHistory = 32;  // tokens of plain text that the model goes on from
constexpr int kMinReply = 8;       // room that a history must leave

// The file: a magic, then records {text, turn, n_prompt, n | tokens[n] | hash}.
constexpr char kTextMagic[8] = {'S', 'B', 'T', 'E', 'X', 'T', '1', '\n'};

struct Record {
  uint32_t text = 0, turn = 0, n_prompt = 0, n = 0;
};

// A reply's place in the corpus.
struct Place {
  size_t text = 0, turn = 0;
};

class ReplyFile {
 public:
  ReplyFile(std::string path, int vocab_size, int max_tokens)
      : path_(std::move(path)), vocab_size_(vocab_size), max_tokens_(max_tokens) {
    if (path_.empty()) return;
    fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd_ < 0) fail("open");
  }
  ~ReplyFile() {
    if (fd_ >= 0) close(fd_);
  }
  ReplyFile(const ReplyFile&) = delete;
  ReplyFile& operator=(const ReplyFile&) = delete;

  // The texts of an earlier run; the place of the newest. The file ends behind them then.
  std::optional<Place> read(std::vector<TrainingText>& texts) {
    std::optional<Place> newest;
    if (fd_ < 0) return newest;
    char magic[sizeof kTextMagic];
    off_t good = 0;
    if (get(magic, sizeof magic, 0) && !std::memcmp(magic, kTextMagic, sizeof magic)) {
      good = sizeof magic;
      for (;;) {
        Record record;
        if (!get(&record, sizeof record, good)) break;
        if (record.n < 2 || record.n > static_cast<uint32_t>(max_tokens_) || record.n_prompt == 0 ||
            record.n_prompt >= record.n) {
          break;
        }
        std::vector<int32_t> tokens(record.n);
        uint64_t sum = 0;
        const size_t bytes = tokens.size() * sizeof(int32_t);
        if (!get(tokens.data(), bytes, good + sizeof record)) break;
        if (!get(&sum, sizeof sum, good + sizeof record + bytes)) break;
        if (sum != hash(record, tokens)) break;
        texts.push_back(reply_text(std::move(tokens), record.n_prompt));
        newest = Place{record.text, record.turn};
        good += static_cast<off_t>(sizeof record + bytes + sizeof sum);
      }
    }
    if (ftruncate(fd_, good) != 0) fail("write");
    if (good == 0) put(kTextMagic, sizeof kTextMagic);
    lseek(fd_, 0, SEEK_END);
    return newest;
  }

  void write(const Place& place, const std::vector<int32_t>& tokens, size_t n_prompt) {
    if (fd_ < 0) return;
    const Record record = {static_cast<uint32_t>(place.text), static_cast<uint32_t>(place.turn),
                           static_cast<uint32_t>(n_prompt), static_cast<uint32_t>(tokens.size())};
    const uint64_t sum = hash(record, tokens);
    std::string bytes(reinterpret_cast<const char*>(&record), sizeof record);
    bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(int32_t));
    bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
    put(bytes.data(), bytes.size());
  }

  // Learnt is everything behind the first `n_prompt` tokens.
  static TrainingText reply_text(std::vector<int32_t> tokens, size_t n_prompt) {
    TrainingText text;
    text.learn.assign(tokens.size(), 0);
    std::fill(text.learn.begin() + static_cast<int64_t>(n_prompt) - 1, text.learn.end() - 1, 1);
    text.tokens = std::move(tokens);
    return text;
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw Error(ErrorCode::kFile,
                format("%s: cannot %s: %s", path_.c_str(), what, std::strerror(errno)));
  }

  bool get(void* to, size_t n, off_t at) const {
    size_t got = 0;
    while (got < n) {
      const ssize_t k =
          pread(fd_, static_cast<char*>(to) + got, n - got, at + static_cast<off_t>(got));
      if (k < 0 && errno == EINTR) continue;
      if (k < 0) fail("read");
      if (k == 0) return false;
      got += static_cast<size_t>(k);
    }
    return true;
  }

  void put(const char* from, size_t n) const {
    while (n > 0) {
      const ssize_t k = ::write(fd_, from, n);
      if (k < 0 && errno == EINTR) continue;
      if (k < 0) fail("write");
      from += k;
      n -= static_cast<size_t>(k);
    }
  }

  // FNV-1a; tokens that the model lacks count as damage.
  uint64_t hash(const Record& record, const std::vector<int32_t>& tokens) const {
    uint64_t h = 0xcbf29ce484222325u;
    const auto add = [&h](uint32_t word) { h = (h ^ word) * 0x100000001b3u; };
    for (const uint32_t word : {record.text, record.turn, record.n_prompt, record.n}) add(word);
    for (const int32_t token : tokens) {
      add(static_cast<uint32_t>(token));
      if (token < 0 || token >= vocab_size_) return ~h;
    }
    return h;
  }

  std::string path_;
  int vocab_size_, max_tokens_;
  int fd_ = -1;
};

class Writer {
 public:
  Writer(Backend& backend, const Tokenizer& tokenizer, const ChatTemplate* chat_template,
         const SelfGenerateOptions& options)
      : tokenizer_(tokenizer),
        template_(chat_template),
        options_(options),
        session_(backend, Sampler(sampling(0))),
        n_ctx_(backend.n_ctx()),
        file_(options.file, backend.config().vocab_size, n_ctx_ + 1) {
    newest_ = file_.read(out_);
    for (const TrainingText& text : out_) done_ += learnt_tokens(text);
    // The same texts, sooner: replies of one model have much in common.
    tree_.set_costs(measure_row_costs(backend));
    session_.set_speculator(&tree_);
  }

  std::vector<TrainingText> run(std::span<const CorpusText* const> texts) {
    for (size_t i = newest_ ? newest_->text : 0; i < texts.size() && go_on(); ++i) {
      texts[i]->messages.empty() ? plain(i, *texts[i]) : dialogue(i, *texts[i]);
    }
    return std::move(out_);
  }

 private:
  bool go_on() const {
    return done_ < options_.tokens &&
           !(options_.abort && options_.abort->load(std::memory_order_relaxed));
  }

  bool is_done(const Place& place) const {
    return newest_ && (place.text < newest_->text ||
                       (place.text == newest_->text && place.turn <= newest_->turn));
  }

  SamplingParams sampling(float temperature) const {
    SamplingParams params;
    params.temperature = temperature;
    params.seed = options_.seed;
    return params;
  }

  void dialogue(size_t index, const CorpusText& text) {
    SB_CHECK(template_);
    const std::span<const ChatMessage> messages = text.messages;
    for (size_t turn = 0; turn < messages.size() && go_on(); ++turn) {
      if (messages[turn].role != ChatMessage::Role::kAssistant || is_done({index, turn})) continue;
      const std::vector<int32_t> prompt = template_->encode(tokenizer_, messages.first(turn));
      if (std::ssize(prompt) + kMinReply > n_ctx_) break;  // later turns are longer still
      if (!prompt.empty()) reply({index, turn}, prompt);
    }
  }

  void plain(size_t index, const CorpusText& text) {
    if (is_done({index, 0})) return;
    std::vector<int32_t> prompt = tokenizer_.encode(text.text, {.parse_special = false});
    prompt.resize(std::min<size_t>({prompt.size(), kPlainHistory, static_cast<size_t>(n_ctx_)}));
    if (!prompt.empty() && std::ssize(prompt) + kMinReply <= n_ctx_) reply({index, 0}, prompt);
  }

  void reply(const Place& place, const std::vector<int32_t>& prompt) {
    // By the number of the reply: a run that was interrupted comes to the same.
    session_.sampler() = Sampler(sampling(out_.size() % 2 ? options_.temperature : 0));
    GenerateOptions options;
    options.max_tokens = options_.max_reply;
    options.reply = static_cast<uint32_t>(out_.size());
    options.is_end = options_.ends_reply;
    options.abort = options_.abort;
    const GenerateStats stats = session_.generate(prompt, options);
    if (stats.stop == StopReason::kAborted) return;
    const auto tokens = session_.tokens();
    if (tokens.size() <= prompt.size()) return;
    std::vector<int32_t> all(tokens.begin(), tokens.end());
    file_.write(place, all, prompt.size());
    done_ += std::ssize(all) - std::ssize(prompt);
    out_.push_back(ReplyFile::reply_text(std::move(all), prompt.size()));
    if (options_.progress) options_.progress(done_);
  }

  const Tokenizer& tokenizer_;
  const ChatTemplate* template_;
  const SelfGenerateOptions& options_;
  LookupMemory memory_;
  TreeSpeculator tree_{nullptr, &memory_, kMaxRows, true};
  Session session_;
  int n_ctx_;
  ReplyFile file_;
  std::vector<TrainingText> out_;
  std::optional<Place> newest_;
  int64_t done_ = 0;
};

}  // namespace

std::vector<TrainingText> self_generate(Backend& backend, const Tokenizer& tokenizer,
                                        const ChatTemplate* chat_template,
                                        std::span<const CorpusText* const> texts,
                                        const SelfGenerateOptions& options) {
  // Session expects K/V that it wrote itself.
  backend.truncate(0);
  return Writer(backend, tokenizer, chat_template, options).run(texts);
}

}  // namespace specbound
