#include "corpus/self_generate.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <optional>
#include <utility>

#include "corpus/running_time.h"
#include "decode/generate.h"
#include "decode/reply_batch.h"
#include "descriptor.h"
#include "drafters/row_costs.h"
#include "drafters/tree_speculator.h"
#include "error.h"

namespace specbound {
namespace {

constexpr int kPlainHistory = 32;  // tokens of plain text that the model goes on from
constexpr int kMinReply = 8;       // room that a history must leave

constexpr uint64_t kHashBasis = 0xcbf29ce484222325u, kHashPrime = 0x100000001b3u;  // FNV-1a

// The file: this, then records {text, turn, n_prompt, n | tokens[n] | hash}.
struct Header {
  char magic[8] = {'S', 'B', 'T', 'E', 'X', 'T', '2', '\n'};
  uint64_t model = kHashBasis;  // hash of its fingerprint
};

// In the turn of a greedy reply; files of before have it in none.
constexpr uint32_t kGreedyTurn = 1u << 31;

struct Record {
  uint32_t text = 0, turn = 0, n_prompt = 0, n = 0;
};

// A reply's place in the corpus.
struct Place {
  size_t text = 0, turn = 0;
};

// A prompt that the model is to reply to.
struct WantedReply {
  Place place;
  std::vector<int32_t> prompt;
};

// What an earlier run wrote; there are more records if some are too long for the context.
struct EarlierReplies {
  std::vector<TrainingText> texts;
  size_t n_records = 0;
  std::optional<WantedReply> newest;  // of all records
};

class ReplyFile {
 public:
  ReplyFile(std::string path, const std::string& model, int vocab_size, int max_tokens)
      : path_(std::move(path)), vocab_size_(vocab_size), max_tokens_(max_tokens) {
    if (path_.empty()) return;
    for (const char c : model) {
      header_.model = (header_.model ^ static_cast<unsigned char>(c)) * kHashPrime;
    }
    file_ = Descriptor(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!file_) fail("open");
    if (held_by_another(file_)) {
      throw Error(ErrorCode::kFile, printable(path_) +
                                        ": another training writes to it: wait for that, or give "
                                        "another name");
    }
  }

  // The file ends behind its last good record then. Throws Error(kFile) for what is no such file
  // of this model, which stays as it is.
  EarlierReplies read(const std::function<void(const std::string&)>& warn) {
    EarlierReplies found;
    if (!file_) return found;
    off_t good = check_header() ? sizeof header_ : 0;
    while (good > 0) {
      Record record;
      std::vector<int32_t> tokens;
      if (!get_record(record, tokens, good)) break;
      good += record_bytes(record);
      const Place place = {record.text, record.turn & ~kGreedyTurn};
      found.newest = {place, {tokens.begin(), tokens.begin() + record.n_prompt}};
      ++found.n_records;
      if (record.n > static_cast<uint32_t>(max_tokens_)) continue;
      found.texts.push_back(reply_text(std::move(tokens), record.n_prompt));
      found.texts.back().greedy = (record.turn & kGreedyTurn) != 0;
    }
    if (good > 0 && !is_torn(good)) {
      const std::string aside = keep_aside();
      if (warn) {
        warn(
            format("%s: damaged at byte %lld of %lld: going on with the %zu texts before it, %s "
                   "has all as it was",
                   path_.c_str(), static_cast<long long>(good), static_cast<long long>(file_size()),
                   found.n_records, aside.c_str()));
      }
    }
    if (ftruncate(file_.get(), good) != 0) fail("write");
    if (good == 0) put({reinterpret_cast<const char*>(&header_), sizeof header_});
    lseek(file_.get(), 0, SEEK_END);
    return found;
  }

  void write(const Place& place, const std::vector<int32_t>& tokens, size_t n_prompt, bool greedy) {
    if (!file_) return;
    const uint32_t turn = static_cast<uint32_t>(place.turn) | (greedy ? kGreedyTurn : 0);
    const Record record = {static_cast<uint32_t>(place.text), turn, static_cast<uint32_t>(n_prompt),
                           static_cast<uint32_t>(tokens.size())};
    const uint64_t sum = hash(record, tokens);
    std::string bytes(reinterpret_cast<const char*>(&record), sizeof record);
    bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(int32_t));
    bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
    put(bytes);
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
  // False where the file has none yet: it is empty, or a kill left it so short.
  bool check_header() const {
    Header there;
    const off_t size = std::min<off_t>(file_size(), sizeof there);
    if (!get(&there, static_cast<size_t>(size), 0)) return false;
    const size_t magic = std::min(static_cast<size_t>(size), sizeof there.magic);
    const char* why = nullptr;
    if (std::memcmp(&there, &header_, magic) != 0) {
      why = "expected texts that train-heads keeps, found another file";
    } else if (std::memcmp(&there, &header_, static_cast<size_t>(size)) != 0) {
      why = "expected texts that this model wrote, found another model's";
    }
    if (why) {
      throw Error(ErrorCode::kFile, format("%s: %s, which is not written over: give another name",
                                           printable(path_).c_str(), why));
    }
    return size == sizeof there;
  }

  static off_t record_bytes(const Record& record) {
    return static_cast<off_t>(sizeof record + record.n * sizeof(int32_t) + sizeof(uint64_t));
  }

  static bool makes_sense(const Record& record) {
    return record.n >= 2 && record.n_prompt > 0 && record.n_prompt < record.n;
  }

  // Whether from `at` on there is nothing, or the beginning of the one record that a kill may cut
  // short. A damaged count may ask for more than there is too; then hashes are among its tokens.
  bool is_torn(off_t at) const {
    Record record;
    const off_t left = file_size() - at;
    if (left < static_cast<off_t>(sizeof record)) return true;
    if (!get(&record, sizeof record, at) || !makes_sense(record)) return false;
    if (record_bytes(record) <= left) return false;
    const size_t there = static_cast<size_t>(left) - sizeof record;
    std::vector<int32_t> tokens(std::min<size_t>(record.n, there / sizeof(int32_t)));
    if (!get(tokens.data(), tokens.size() * sizeof(int32_t),
             at + static_cast<off_t>(sizeof record)))
      return false;
    return std::ranges::all_of(tokens, [this](int32_t token) { return is_token(token); });
  }

  // A copy: this one stays locked, and a link stays one.
  std::string keep_aside() const {
    const std::string aside = path_ + ".damaged";
    std::error_code error;
    std::filesystem::copy_file(path_, aside, std::filesystem::copy_options::overwrite_existing,
                               error);
    if (!error) return aside;
    throw Error(ErrorCode::kFile, format("%s: damaged, and cannot be kept as %s: %s", path_.c_str(),
                                         aside.c_str(), error.message().c_str()));
  }

  // False for what is torn or damaged.
  bool get_record(Record& record, std::vector<int32_t>& tokens, off_t at) const {
    if (!get(&record, sizeof record, at) || !makes_sense(record)) return false;
    if (record_bytes(record) > file_size() - at) return false;
    tokens.resize(record.n);
    const size_t bytes = tokens.size() * sizeof(int32_t);
    const off_t behind = at + static_cast<off_t>(sizeof record);
    uint64_t sum = 0;
    return get(tokens.data(), bytes, behind) &&
           get(&sum, sizeof sum, behind + static_cast<off_t>(bytes)) && sum == hash(record, tokens);
  }

  off_t file_size() const {
    struct stat status = {};
    if (fstat(file_.get(), &status) != 0) fail("read");
    return status.st_size;
  }

  [[noreturn]] void fail(const char* what) const {
    throw Error(ErrorCode::kFile,
                format("%s: cannot %s: %s", path_.c_str(), what, std::strerror(errno)));
  }

  bool get(void* to, size_t n, off_t at) const {
    size_t got = 0;
    while (got < n) {
      const ssize_t k =
          pread(file_.get(), static_cast<char*>(to) + got, n - got, at + static_cast<off_t>(got));
      if (k < 0 && errno == EINTR) continue;
      if (k < 0) fail("read");
      if (k == 0) return false;
      got += static_cast<size_t>(k);
    }
    return true;
  }

  void put(std::string_view bytes) const {
    errno = write_whole(file_.get(), bytes);
    if (errno != 0) fail("write");
  }

  // Tokens that the model lacks count as damage.
  uint64_t hash(const Record& record, const std::vector<int32_t>& tokens) const {
    uint64_t h = kHashBasis;
    const auto add = [&h](uint32_t word) { h = (h ^ word) * kHashPrime; };
    for (const uint32_t word : {record.text, record.turn, record.n_prompt, record.n}) add(word);
    for (const int32_t token : tokens) {
      add(static_cast<uint32_t>(token));
      if (!is_token(token)) return ~h;
    }
    return h;
  }

  bool is_token(int32_t token) const { return token >= 0 && token < vocab_size_; }

  std::string path_;
  Header header_;  // of this model
  int vocab_size_, max_tokens_;
  Descriptor file_;
};

// The prompts of a corpus, in its order, those behind `newest` where that is one of them: replies
// to another corpus, or in another order, say nothing of where this one is.
class WantedReplies {
 public:
  WantedReplies(const Tokenizer& tokenizer, const ChatTemplate* chat_template, int n_ctx,
                std::span<const CorpusText* const> texts, const std::optional<WantedReply>& newest)
      : tokenizer_(tokenizer), template_(chat_template), n_ctx_(n_ctx), texts_(texts) {
    if (newest && has(newest->place, newest->prompt)) {
      at_ = {newest->place.text, newest->place.turn + 1};
    }
  }

  std::optional<WantedReply> next() {
    for (; at_.text < texts_.size(); at_ = {at_.text + 1, 0}) {
      const CorpusText& text = *texts_[at_.text];
      for (; at_.turn < std::max<size_t>(text.messages.size(), 1); ++at_.turn) {
        std::vector<int32_t> prompt = prompt_of(text, at_.turn);
        if (prompt.empty()) continue;
        if (std::ssize(prompt) + kMinReply > n_ctx_) break;  // later turns are longer still
        return WantedReply{{at_.text, at_.turn++}, std::move(prompt)};
      }
    }
    return {};
  }

 private:
  bool has(const Place& place, std::span<const int32_t> prompt) const {
    if (place.text >= texts_.size()) return false;
    const CorpusText& text = *texts_[place.text];
    if (place.turn >= std::max<size_t>(text.messages.size(), 1)) return false;
    const std::vector<int32_t> there = prompt_of(text, place.turn);
    // Plain text is cut at the context, which may have been another one.
    const size_t n = text.messages.empty() ? std::min(there.size(), prompt.size()) : there.size();
    return n > 0 &&
           std::ranges::equal(std::span(there).first(n), prompt.first(std::min(n, prompt.size())));
  }

  // Nothing where the turn is not the model's.
  std::vector<int32_t> prompt_of(const CorpusText& text, size_t turn) const {
    if (text.messages.empty()) {
      std::vector<int32_t> ids = tokenizer_.encode(text.text, {.parse_special = false});
      ids.resize(std::min<size_t>({ids.size(), kPlainHistory, static_cast<size_t>(n_ctx_)}));
      return ids;
    }
    SB_CHECK(template_);
    if (text.messages[turn].role != ChatMessage::Role::kAssistant) return {};
    return template_->encode(tokenizer_, std::span(text.messages).first(turn));
  }

  const Tokenizer& tokenizer_;
  const ChatTemplate* template_;
  int n_ctx_;
  std::span<const CorpusText* const> texts_;
  Place at_;
};

class Writer {
 public:
  Writer(Backend& backend, const SelfGenerateOptions& options)
      : backend_(backend),
        options_(options),
        start_(seconds_now(options.clock)),
        file_(options.file, options.model, backend.config().vocab_size, backend.n_ctx() + 1) {
    EarlierReplies earlier = file_.read(options.warn);
    out_ = std::move(earlier.texts);
    for (const TrainingText& text : out_) done_ += learnt_tokens(text);
    written_ = earlier.n_records;
    newest_ = std::move(earlier.newest);
    if (out_.empty()) states_ = options.states;
  }

  const std::optional<WantedReply>& newest() const { return newest_; }  // of an earlier run

  std::vector<TrainingText> run(WantedReplies& wanted) {
    backend_.truncate(0);  // Session expects K/V that it wrote itself
    tree_.set_costs(measure_row_costs(backend_));
    tell(done_);
    const Sequences* sequences = backend_.sequences();
    sequences && sequences->n_sequences() > 1 ? side_by_side(wanted) : in_turn(wanted);
    return std::move(out_);
  }

 private:
  bool aborted() const { return options_.abort && options_.abort->load(std::memory_order_relaxed); }

  bool time_is_up() const {
    if (states_ && states_->full()) return true;  // more would not be learnt
    return options_.seconds > 0 && seconds_now(options_.clock) - start_ >= options_.seconds;
  }

  // By the number of the reply: a run that was interrupted comes to the same.
  SamplingParams sampling(const Place& place, size_t number) const {
    SamplingParams params;
    params.temperature = number % 2 || place.text >= options_.distinct ? options_.temperature : 0;
    params.seed = options_.seed;
    return params;
  }

  // A reply with its states.
  void take(const Place& place, std::vector<int32_t> tokens, size_t n_prompt,
            std::vector<uint16_t> states) {
    SB_CHECK(tokens.size() > n_prompt);
    const bool greedy = sampling(place, written_++).temperature == 0;
    file_.write(place, tokens, n_prompt, greedy);
    done_ += std::ssize(tokens) - static_cast<int64_t>(n_prompt);
    out_.push_back(ReplyFile::reply_text(std::move(tokens), n_prompt));
    out_.back().greedy = greedy;
    if (states_) states_->take(out_.back(), std::move(states));
  }

  GenerateOptions reply_options(size_t number, std::vector<uint16_t>& states) const {
    GenerateOptions options;
    options.max_tokens = options_.max_reply;
    options.reply = static_cast<uint32_t>(number);
    options.is_end = options_.ends_reply;
    options.abort = options_.abort;
    if (states_) {
      options.on_state = [this, &states](std::span<const float> h) { states_->add(states, h); };
    }
    return options;
  }

  void tell(int64_t tokens) const {
    if (!options_.progress) return;
    options_.progress(std::min(tokens, std::max(done_, options_.tokens)), done_);
  }

  void in_turn(WantedReplies& wanted) {
    Session session(backend_, Sampler(greedy_sampling()));
    session.set_speculator(&tree_);
    while (done_ < options_.tokens && !time_is_up() && !aborted()) {
      const auto reply = wanted.next();
      if (!reply) return;
      session.sampler() = Sampler(sampling(reply->place, written_));
      std::vector<uint16_t> states;
      const GenerateOptions options = reply_options(written_, states);
      if (session.generate(reply->prompt, options).stop == StopReason::kAborted) return;
      const auto tokens = session.tokens();
      take(reply->place, {tokens.begin(), tokens.end()}, reply->prompt.size(), std::move(states));
      tell(done_);
    }
  }

  // As many as the backend has texts for share each pass. They are taken in the order of their
  // prompts, whichever ends first, so that the file may end behind any of them; those behind the
  // last one that is wanted are dropped.
  void side_by_side(WantedReplies& wanted) {
    struct UnderWay {
      WantedReply reply;
      std::vector<int32_t> tokens;   // once it has ended
      std::vector<uint16_t> states;  // so far
    };
    std::deque<UnderWay> waiting;  // in that order
    int64_t ended = 0;             // tokens of those among them that have
    Sessions sessions(backend_);
    ReplyBatch batch(sessions);
    const auto written = [&] { return done_ + ended + batch.tokens_under_way(); };
    bool more = true;
    while (done_ < options_.tokens && !aborted()) {
      while (more && !batch.full() && written() < options_.tokens && !time_is_up() && !aborted()) {
        auto reply = wanted.next();
        if (!(more = reply.has_value())) break;
        const size_t number = written_ + waiting.size();
        waiting.push_back({std::move(*reply), {}, {}});
        UnderWay& of = waiting.back();
        batch.add(static_cast<int64_t>(number), {.prompt = of.reply.prompt,
                                                 .sampling = sampling(of.reply.place, number),
                                                 .options = reply_options(number, of.states),
                                                 .speculator = [this] { return &tree_; }});
      }
      if (waiting.empty()) return;
      for (WrittenReply& reply : batch.step()) {
        if (reply.error) std::rethrow_exception(reply.error);
        if (reply.stats.stop == StopReason::kAborted) return;
        UnderWay& of = waiting[static_cast<size_t>(reply.id) - written_];
        of.tokens = std::move(reply.tokens);
        ended += std::ssize(of.tokens) - std::ssize(of.reply.prompt);
      }
      while (!waiting.empty() && !waiting.front().tokens.empty() && done_ < options_.tokens) {
        UnderWay& first = waiting.front();
        ended -= std::ssize(first.tokens) - std::ssize(first.reply.prompt);
        take(first.reply.place, std::move(first.tokens), first.reply.prompt.size(),
             std::move(first.states));
        waiting.pop_front();
      }
      tell(written());
    }
    tell(done_);
  }

  Backend& backend_;
  const SelfGenerateOptions& options_;
  const double start_;
  ReplyFile file_;
  WrittenStates* states_ = nullptr;
  std::vector<TrainingText> out_;
  std::optional<WantedReply> newest_;
  // Guesses make it faster: replies of one model have much in common.
  LookupMemory memory_;
  TreeSpeculator tree_{nullptr, &memory_, kMaxRows, true};
  size_t written_ = 0;  // replies, those that are too long for this context too
  int64_t done_ = 0;
};

}  // namespace

std::vector<TrainingText> self_generate(Backend& backend, const Tokenizer& tokenizer,
                                        const ChatTemplate* chat_template,
                                        std::span<const CorpusText* const> texts,
                                        const SelfGenerateOptions& options) {
  Writer writer(backend, options);
  WantedReplies wanted(tokenizer, chat_template, backend.n_ctx(), texts, writer.newest());
  return writer.run(wanted);
}

}  // namespace specbound
