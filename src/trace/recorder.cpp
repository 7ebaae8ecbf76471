#include "trace/recorder.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstring>
#include <nlohmann/json.hpp>

#include "descriptor.h"
#include "error.h"

namespace specbound {

namespace {

constexpr int kVersion = 1;
constexpr size_t kBufferBytes = size_t{1} << 18;    // gathered before they are written,
constexpr std::chrono::milliseconds kLongest{500};  // or as long: what a killed run loses

// Writes JSON straight into a string: tokens come by the thousand a second, and building a tree for
// each would be seen in what the trace measures.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  void open(char bracket) {
    separate();
    out_ += bracket;
  }
  void close(char bracket) { out_ += bracket; }
  void key(std::string_view name) {
    separate();
    out_ += '"';
    out_ += name;
    out_ += "\":";
  }

  void value(std::nullptr_t) { raw("null"); }
  void value(bool b) { raw(b ? "true" : "false"); }
  template <std::integral T>
  void value(T number) {
    put_number(number);
  }
  template <std::floating_point T>
  void value(T number) {
    std::isfinite(number) ? put_number(number) : value(nullptr);
  }
  void value(const char* text) { value(std::string_view(text)); }
  void value(std::string_view text) {
    using nlohmann::json;
    raw(json(text).dump(-1, ' ', false, json::error_handler_t::replace));
  }
  void value(const std::string& text) { value(std::string_view(text)); }
  template <class T>
  void value(const std::optional<T>& maybe) {
    maybe ? value(*maybe) : value(nullptr);
  }
  template <class T>
  void value(const std::vector<T>& list) {
    open('[');
    for (const T& item : list) value(item);
    close(']');
  }
  void value(std::span<const ExitCheck> checks) {
    open('[');
    for (const ExitCheck& check : checks) {
      open('{');
      field("layer", check.layer);
      field("confidence", check.confidence);
      close('}');
    }
    close(']');
  }
  void value(const std::array<int64_t, kPhases>& ns) {
    open('{');
    for (int i = 0; i < kPhases; ++i) field(kPhaseNames[i], ns[i]);
    close('}');
  }
  void value(const LayerPass& pass) {
    open('{');
    field("from", pass.from);
    field("to", pass.to);
    field("slot", pass.slot);
    field("rows", pass.rows);
    field("phase", kPhaseNames[static_cast<int>(pass.phase)]);
    close('}');
  }
  void value(const TraceSettings& settings) {
    open('{');
    field("w_max", settings.w_max);
    field("d_max", settings.d_max);
    field("alpha", settings.alpha);
    field("tau", settings.tau);
    field("check_layers", settings.check_layers);
    field("anneal", settings.anneal);
    field("depth_bound", settings.depth_bound);
    field("width_bound", settings.width_bound);
    if (settings.anneal_learned) field("anneal_learned", true);
    close('}');
  }

  template <class T>
  void field(std::string_view name, const T& v) {
    key(name);
    value(v);
  }

 private:
  // A comma where something stands before.
  void separate() {
    if (!out_.empty() && !std::strchr("{[:\n", out_.back())) out_ += ',';
  }
  void raw(std::string_view text) {
    separate();
    out_ += text;
  }
  template <class T>
  void put_number(T number) {
    char text[32];
    raw({text, std::to_chars(text, text + sizeof(text), number).ptr});
  }

  std::string& out_;
};

std::optional<int> layer_or_null(int exit_layer) {
  return exit_layer >= 0 ? std::optional(exit_layer) : std::nullopt;
}

// One line: an object with a type.
class Line : public JsonWriter {
 public:
  Line(std::string& out, const char* type) : JsonWriter(out), out_(out) {
    open('{');
    field("type", type);
  }
  Line(const Line&) = delete;
  ~Line() { out_ += "}\n"; }

  // How a reply's tokens are picked and drafted.
  void settings(const TraceReply& reply) {
    field("seed", reply.seed);
    field("temperature", reply.temperature);
    field("top_k", reply.top_k);
    field("top_p", reply.top_p);
    field("min_p", reply.min_p);
    field("repeat_penalty", reply.repeat_penalty);
    field("repeat_last_n", reply.repeat_last_n);
    field("speculator", reply.speculator);
    field("settings", reply.settings);
  }

 private:
  std::string& out_;
};

}  // namespace

Recorder::Recorder(std::string path, int fd) : path_(std::move(path)), fd_(fd) {
  SB_CHECK(fd_ >= 0);
}

void Recorder::header(const TraceHeader& header, std::function<std::string(int32_t)> piece) {
  SB_CHECK(!has_header() && piece);
  piece_ = std::move(piece);
  Line line(buffer_, "header");
  line.field("version", kVersion);
  line.field("specbound", header.specbound);
  line.field("model", header.model);
  line.field("n_layers", header.n_layers);
  line.field("vocab_size", header.vocab_size);
  line.field("n_ctx", header.n_ctx);
  line.field("backend", header.backend);
}

void Recorder::begin_reply(const TraceReply& reply) {
  SB_CHECK(has_header());
  Line line(buffer_, "reply");
  line.field("reply", ++reply_);
  line.field("regen", reply.regen);
  line.field("prompt_tokens", reply.prompt_tokens);
  line.field("max_tokens", reply.max_tokens >= 0 ? std::optional(reply.max_tokens) : std::nullopt);
  line.field("stop_strings", reply.stop_strings);
  line.settings(reply);
  next_round_ = 0;
}

void Recorder::settings(const TraceReply& reply) {
  SB_CHECK(reply_ >= 0);
  Line line(buffer_, "settings");
  line.field("reply", reply_);
  line.field("round", next_round_);
  line.settings(reply);
}

void Recorder::round(const RoundEvent& round) {
  if (error_ != 0) return;
  next_round_ = round.round + 1;
  for (const TokenEvent& token : round.tokens) {
    Line line(buffer_, "token");
    line.field("reply", reply_);
    line.field("round", token.round);
    line.field("rows", token.rows);
    line.field("slot", token.slot);
    line.field("pos", token.pos);
    line.field("token", token.token);
    line.field("text", piece_(token.token));
    line.field("draft", token.draft >= 0 ? std::optional(token.draft) : std::nullopt);
    line.field("exit_layer", layer_or_null(token.exit_layer));
    line.field("accepted", token.accepted());
    line.field("ends_reply", token.ends_reply);
    line.field("checks", token.checks);
  }
  {
    Line line(buffer_, "round");
    line.field("reply", reply_);
    line.field("round", round.round);
    line.field("pos", round.pos);
    line.field("rows", round.rows.size());
    line.field("emitted", round.tokens.size());
    line.field("draft_end", kDraftEndNames[static_cast<int>(round.draft_end)]);
    const bool chain = is_chain(round.rows);
    line.key("slots");
    line.open('[');
    for (const RowEvent& row : round.rows) {
      line.open('{');
      line.field("token", row.token);
      line.field("text", piece_(row.token));
      line.field("exit_layer", layer_or_null(row.exit_layer));
      line.field("checks", row.checks);
      if (!chain) {
        line.field("parent", row.parent >= 0 ? std::optional(row.parent) : std::nullopt);
        line.field("drafted_at", layer_or_null(row.drafted_at));
      }
      line.close('}');
    }
    line.close(']');
    line.key("passes");
    line.open('[');
    for (const LayerPass& pass : round.passes) line.value(pass);
    line.close(']');
    line.field("ns", round.ns);
  }
  if (buffer_.size() >= kBufferBytes || Clock::now() - flushed_ >= kLongest) flush();
}

void Recorder::end_reply(const TraceEnd& end) {
  {
    const Counters& c = end.counters;
    const auto measured = [](double value) {
      return value > 0 ? std::optional(value) : std::nullopt;
    };
    Line line(buffer_, "end");
    line.field("reply", reply_);
    line.field("stop", end.stop);
    line.field("generated_tokens", end.generated_tokens);
    line.field("prefilled_tokens", end.prefilled_tokens);
    line.field("prefill_seconds", end.prefill_seconds);
    line.field("ttft_seconds", end.ttft_seconds);
    line.field("decode_seconds", end.decode_seconds);
    line.field("rounds", c.rounds);
    line.field("decoded_tokens", c.decoded_tokens);
    line.field("drafted_tokens", c.drafted_tokens);
    line.field("accepted_tokens", c.accepted_tokens);
    line.field("checks", c.checks);
    line.field("accepted_at", c.accepted_at);
    line.field("mean_exit_layer", c.mean_exit_layer());
    line.field("ns", c.ns);
    line.field("plain_token_seconds", measured(end.plain_token_seconds));
    line.field("plain_rounds", end.plain_rounds);
  }
  flush();
}

void Recorder::flush() {
  if (error_ == 0) error_ = write_whole(fd_, buffer_);
  buffer_.clear();
  flushed_ = Clock::now();
}

void Recorder::close() {
  if (fd_ < 0) return;
  flush();
  if (::close(fd_) != 0 && error_ == 0) error_ = errno;
  fd_ = -1;
}

}  // namespace specbound
