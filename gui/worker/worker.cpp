#include "gui/worker/worker.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decode/generate.h"
#include "decode/layer_guesses.h"
#include "error.h"
#include "gui/worker/load_teller.h"
#include "gui/worker/model_learning.h"
#include "runtime/conversation.h"
#include "runtime/speculative_model.h"
#include "runtime/trace_output.h"
#include "system/file_output.h"
#include "text/stop_strings.h"
#include "trace/round_record.h"
#include "trace/statistics.h"

namespace specbound::gui {

namespace {

// Of a comparison: runs of each side at most, and how long they may take together.
constexpr int kMostRuns = 9;
constexpr double kEnoughSeconds = 0.5;

constexpr const char* kNoModel = "no model is loaded: open one first";

using Clock = std::chrono::steady_clock;
using Role = ChatMessage::Role;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// In an exception's handler: what is to be said of it, in one line.
std::string what_failed() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return "out of memory: expected less to be asked for; a smaller context (-c) or a smaller "
           "model needs less";
  } catch (const std::exception& e) {
    return e.what();
  }
}

// What templates and the dropping of turns build on. Conversations come from files, too.
void check_turns(const std::vector<ChatMessage>& messages) {
  const size_t first = !messages.empty() && messages[0].role == Role::kSystem ? 1 : 0;
  for (size_t i = first; i < messages.size(); ++i) {
    if (messages[i].role != ((i - first) % 2 == 0 ? Role::kUser : Role::kAssistant)) {
      throw Error(ErrorCode::kUsage,
                  format("message %zu: expected user and assistant in turn, found the same again; "
                         "edit the conversation or begin another one",
                         i + 1));
    }
  }
  if (messages.size() == first || messages.back().role != Role::kUser) {
    throw Error(ErrorCode::kUsage, "expected a message to answer, found none; write one");
  }
}

// Where two texts part.
std::string first_difference(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
  const auto n = std::min(a.size(), b.size());
  if (static_cast<size_t>(at) < n) return format("token %zu", static_cast<size_t>(at) + 1);
  return format("one ends after %zu tokens, the other after %zu", a.size(), b.size());
}

}  // namespace

// In order of dependence.
struct Worker::Model {
  // Opens; session and learning come once it is loaded.
  Model(const LoadRequest& asked, LoadWatcher watcher)
      : request(asked), opened(request.model, request.speculation, std::move(watcher)) {}

  const LoadRequest request;
  SpeculativeModel opened;
  LoadedModel& loaded = opened.model();
  Speculation& speculation = opened.speculation();
  std::optional<Session> session;
  std::optional<ModelLearning> learning;
};

struct Worker::Reply {
  uint64_t id = 0;
  std::vector<int32_t> prompt;
  int dropped_turns = 0;
  uint32_t number = 0;
  int max_tokens = -1;
  bool comparing = false;  // nothing but the reply: no plain rounds to compare with, settings wait
  Speculator* speculator = nullptr;

  // What came of it.
  GenerateStats stats;
  std::string text;
  std::vector<int32_t> tokens;
};

Worker::Worker(WorkerHost& host, const std::string& trace) : host_(host) {
  if (!trace.empty()) trace_.emplace(trace, open_output(trace));
}

Worker::~Worker() = default;

// ---- loading ----

void Worker::load(const LoadRequest& request) {
  close_trace();
  unload();  // two may not fit into memory
  try {
    open(request);
  } catch (...) {
    host_.emit(LoadFailed{what_failed()});
    unload();
  }
}

void Worker::unload() {
  unguessed_ = {};
  model_.reset();
}

void Worker::open(const LoadRequest& request) {
  host_.emit(LoadProgress{"opening", 0});
  LoadWatcher watcher;
  watcher.progress = [this, teller = LoadTeller()](const std::string& label, size_t done,
                                                   size_t total) mutable {
    if (model_ && model_->session) return;  // a draft model that is switched on later
    if (auto told = teller.at(label, done, total, Clock::now())) host_.emit(std::move(*told));
  };
  watcher.note = [this](const std::string& line) { host_.emit(Note{line}); };
  watcher.abort = &host_.abort_flag();
  model_ = std::make_unique<Model>(request, watcher);
  LoadedModel& loaded = model_->loaded;
  Speculation& speculation = model_->speculation;
  (void)loaded.chat_template();
  model_->opened.load();
  model_->session.emplace(loaded.backend(), Sampler(sampling_));
  model_->session->set_speculator(speculation.speculator());

  ModelInfo info;
  info.path = loaded.path();
  info.architecture = loaded.config().architecture;
  info.backend = loaded.backend().description();
  info.n_layers = loaded.config().n_layers;
  info.vocab_size = loaded.config().vocab_size;
  info.n_ctx = loaded.n_ctx();
  for (const GgufTensor& tensor : loaded.gguf().tensors()) {
    if (!loaded.backend().gpu()) info.memory_bytes += tensor.bytes.size();
  }
  info.load_seconds = loaded.load_seconds();
  info.drafting = drafting();
  model_->learning.emplace(host_, model_->request, loaded, speculation);
  host_.emit(ModelLoaded{std::move(info)});
  model_->learning->begin();
}

// ---- learning ----

// What fails is a line: nobody waits for an answer of its own.
void Worker::attempt(const std::function<void()>& action) {
  try {
    action();
  } catch (...) {
    host_.emit(Note{what_failed()});
  }
}

void Worker::set_learning(bool on) {
  if (!model_ || !model_->learning) return;
  attempt([&] { model_->learning->set(on); });
}

void Worker::forget_conversation(const std::string& id) {
  if (model_ && model_->learning) model_->learning->forget(id);
}

void Worker::look_at_learning() {
  if (!model_ || !model_->learning) return;
  attempt([&] {
    if (const auto line = model_->learning->take_heads()) {
      model_->session->set_speculator(model_->speculation.speculator());
      host_.emit(HeadsTaken{drafting(), *line});
    }
    model_->learning->tell();
  });
}

void Worker::learn_from(const ReplyRequest& request, const Reply& reply) {
  if (reply.stats.generated_tokens > 0) model_->learning->said(request, reply.text);
}

// ---- settings ----

Drafting Worker::drafting() const {
  Drafting drafting;
  if (!model_) return drafting;
  const Speculation& speculation = model_->speculation;
  drafting.drafter = speculation.drafter();
  drafting.possible = !drafting.drafter.empty();
  drafting.on = speculation.active();
  drafting.description = speculation.description();
  drafting.preset = speculation.preset();
  drafting.params = speculation.params();
  drafting.head_layers = speculation.head_layers();
  return drafting;
}

void Worker::change(const WorkerSetting& setting) {
  std::visit([this](const auto& s) { apply(s); }, setting);
  if (!under_way_) return;
  under_way_->speculator = model_->speculation.speculator();
  const TraceReply settings = settings_of(*under_way_);
  if (trace_) trace_->settings(settings);
  host_.emit(SettingsApplied{under_way_->id, settings});
}

void Worker::apply(const SamplingParams& params) {
  attempt([&] {
    validate(params);
    if (model_) model_->session->set_sampling(params);
    sampling_ = params;
  });
}

void Worker::apply(const DraftingChange& change) {
  std::string refusal = model_ ? "" : kNoModel;
  if (model_) {
    Speculation& speculation = model_->speculation;
    try {
      if (change.preset) speculation.choose(*change.preset);
      if (change.params) speculation.change(*change.params);
      if (change.on && !speculation.set_active(*change.on, "switched off")) {
        refusal = speculation.description();
      }
    } catch (...) {
      refusal = what_failed();
    }
    model_->session->set_speculator(speculation.speculator());
  }
  host_.emit(DraftingChanged{drafting(), std::move(refusal)});
}

// ---- the layers' guesses ----

void Worker::guess() {
  if (!can_guess()) return;
  const IdleLearning::Work work = model_->learning->work();
  const Tokenizer& tokenizer = model_->loaded.tokenizer();
  const int from = std::max(unguessed_.begin, unguessed_.end - kMaxRows);
  const auto take = [&](int row, std::span<const LayerTop> layers) {
    Guesses guesses{unguessed_.id, row + 1, {}};
    for (const LayerTop& top : layers) {
      guesses.layers.push_back({top.token, top.probability, tokenizer.piece(top.token)});
    }
    host_.emit(std::move(guesses));
  };
  try {
    const auto goes_on = [&] { return !host_.wanted_elsewhere(); };
    if (guess_layers(*model_->session, from, unguessed_.end, take, goes_on)) unguessed_.end = from;
  } catch (...) {
    unguessed_ = {};
    host_.emit(Note{what_failed()});
  }
}

// ---- trace ----

void Worker::close_trace() {
  if (!trace_ || !trace_->has_header()) return;
  // Its header names one model, whose vocabulary spells its tokens.
  trace_->close();
  check_trace();
  host_.emit(Note{trace_->path() + ": the trace ends here, with the model that it began with"});
  trace_.reset();
}

void Worker::check_trace() {
  if (!trace_ || trace_failed_ || trace_->error() == 0) return;
  trace_failed_ = true;
  host_.emit(Note{format("%s: cannot write the trace: %s; what is there is not all of it",
                         trace_->path().c_str(), std::strerror(trace_->error()))});
}

Worker::Reply Worker::prepare(const ReplyRequest& request, uint64_t id) const {
  check_turns(request.messages);
  const bool has_system = request.messages[0].role == Role::kSystem;
  LoadedModel& loaded = model_->loaded;
  Conversation conversation(loaded.tokenizer(), loaded.chat_template(),
                            has_system ? request.messages[0].content : "");
  for (size_t i = has_system ? 1 : 0; i < request.messages.size(); ++i) {
    const ChatMessage& message = request.messages[i];
    if (message.role == Role::kUser) {
      conversation.add_user(message.content);
    } else {
      conversation.add_reply(message.content);
    }
  }
  auto prompt =
      conversation.prompt(loaded.n_ctx(), reply_reserve(loaded.n_ctx(), request.max_tokens));
  Reply reply;
  reply.id = id;
  reply.prompt = std::move(prompt.ids);
  reply.dropped_turns = prompt.dropped_turns;
  reply.number = request.number;
  reply.max_tokens = request.max_tokens;
  reply.speculator = model_->speculation.speculator();
  return reply;
}

TraceReply Worker::settings_of(const Reply& reply) const {
  TraceReply settings = trace_reply(sampling_, reply.speculator);
  settings.regen = reply.number;
  settings.prompt_tokens = static_cast<int>(reply.prompt.size());
  settings.max_tokens = reply.max_tokens;
  return settings;
}

void Worker::reply(const ReplyRequest& request) {
  unguessed_ = {};
  try {
    if (!model_) throw Error(ErrorCode::kUsage, kNoModel);
    const IdleLearning::Work work = model_->learning->work();
    look_at_learning();
    Reply reply = prepare(request, request.id);
    make(reply);
    remember(reply);
    learn_from(request, reply);
  } catch (...) {
    host_.emit(ReplyFailed{request.id, what_failed()});
  }
  under_way_ = nullptr;
}

// From its beginning to its end, as events and in the trace.
void Worker::make(Reply& reply) {
  const auto start = Clock::now();
  const TraceReply settings = settings_of(reply);
  host_.emit(ReplyBegan{reply.id, settings, reply.dropped_turns});
  if (trace_) {
    begin_trace(*trace_, model_->loaded);
    trace_->begin_reply(settings);
  }
  model_->session->set_speculator(reply.speculator);
  if (!reply.comparing) under_way_ = &reply;
  generate(reply);
  under_way_ = nullptr;
  if (trace_) trace_->end_reply(trace_end(reply.stats));
  check_trace();
  host_.emit(ReplyEnded{reply.id, reply.stats, seconds_between(start, Clock::now())});
}

// What every run of a reply has in common, told or not. `reply` must outlive it.
GenerateOptions Worker::options_of(const Reply& reply) const {
  GenerateOptions options;
  options.max_tokens = reply.max_tokens;
  options.reply = reply.number;
  options.is_end = [this](int32_t id) { return model_->loaded.ends_reply(id); };
  options.abort = &host_.abort_flag();
  options.on_prefill = [this, &reply](int done, int total) {
    host_.emit(PromptRead{reply.id, done, total});
  };
  return options;
}

void Worker::generate(Reply& reply) {
  const Tokenizer& tokenizer = model_->loaded.tokenizer();
  const StopStrings none;
  ReplyText text(
      none, [&](int32_t id) { return tokenizer.piece(id); },
      [&](int32_t, std::string_view piece) {
        return model_->loaded.chat_template().reply_text(piece);
      });
  const auto no_text = [](int32_t) { return std::string(); };

  GenerateOptions options = options_of(reply);
  options.measure_plain = !reply.comparing;
  options.on_round = [&](const RoundEvent& event) {
    if (trace_) trace_->round(event);
    RoundRecord round = record_round(event, no_text);
    for (TokenRecord& token : round.tokens) {
      reply.tokens.push_back(token.token);
      if (token.ends_reply) continue;
      for (const auto& stretch : text.push(token.token)) token.text += stretch.bytes;
      reply.text += token.text;
    }
    host_.emit(RoundDone{reply.id, std::move(round), event.decode_seconds});
    if (!reply.comparing) {
      while (const auto setting = host_.next_setting()) change(*setting);
    }
  };
  reply.stats = model_->session->generate(reply.prompt, options);
}

// Its rows are those that the session holds.
void Worker::remember(const Reply& reply) {
  const Session& session = *model_->session;
  const int end = static_cast<int>(session.tokens().size()) - 1;  // the newest token has no row yet
  if (reply.stats.counters.rounds > 0) unguessed_ = {reply.id, session.first_decoded(), end};
}

// ---- comparisons ----

void Worker::compare(const ReplyRequest& request) {
  unguessed_ = {};
  uint64_t side = request.id;
  try {
    if (!model_) throw Error(ErrorCode::kUsage, kNoModel);
    const IdleLearning::Work work = model_->learning->work();
    look_at_learning();
    run_comparison(request, side);
  } catch (...) {
    host_.emit(ReplyFailed{side, what_failed()});
  }
  if (model_) model_->session->set_speculator(model_->speculation.speculator());
}

void Worker::run_comparison(const ReplyRequest& request, uint64_t& side) {
  Speculation& speculation = model_->speculation;
  const bool was_on = speculation.active();
  if (!was_on && !speculation.set_active(true)) {
    throw Error(ErrorCode::kUsage, "nothing to compare with: " + speculation.description());
  }
  struct SwitchBack {
    Speculation& speculation;
    bool on;
    ~SwitchBack() {
      if (!on) speculation.set_active(false, "switched off");
    }
  } switch_back{speculation, was_on};

  Reply plain = prepare(request, request.id);
  Reply speculative = prepare(request, request.id + 1);
  plain.comparing = speculative.comparing = true;
  plain.speculator = nullptr;
  host_.emit(ComparisonBegan{plain.id, speculative.id});
  const bool ready = warm_up(plain, speculative);
  if (ready) make(plain);
  const auto stopped = [](const Reply& r) { return r.stats.stop == StopReason::kAborted; };
  if (ready && !stopped(plain)) {
    side = speculative.id;
    make(speculative);
  }
  ComparisonEnded end;
  end.plain = plain.stats;
  end.speculative = speculative.stats;
  end.stopped = !ready || stopped(plain) || stopped(speculative);
  end.identical = plain.tokens == speculative.tokens && plain.text == speculative.text;
  if (!end.identical) end.first_difference = first_difference(plain.tokens, speculative.tokens);
  if (!end.stopped) repeat(plain, speculative, end);
  if (side == speculative.id) remember(speculative);
  host_.emit(std::move(end));
}

// A side once more without a word about it, but for the prompt. Nothing if it was stopped.
std::optional<GenerateStats> Worker::run_quietly(const Reply& reply, int max_tokens) {
  GenerateOptions options = options_of(reply);
  options.max_tokens = max_tokens;
  model_->session->set_speculator(reply.speculator);
  GenerateStats stats = model_->session->generate(reply.prompt, options);
  if (stats.stop == StopReason::kAborted) return std::nullopt;
  return stats;
}

// Reads the prompt, which both sides have in common, and touches once what each of them needs: who
// begins must not pay for the other. False if it was stopped.
bool Worker::warm_up(const Reply& plain, const Reply& speculative) {
  return run_quietly(plain, 2) && run_quietly(speculative, 2);
}

// A short reply is over before a clock has much to say. What is stopped here counts as it stands.
void Worker::repeat(const Reply& plain, const Reply& speculative, ComparisonEnded& end) {
  std::vector<double> plain_seconds = {end.plain.decode_seconds};
  std::vector<double> speculative_seconds = {end.speculative.decode_seconds};
  const auto start = Clock::now();
  const double first = end.plain.decode_seconds + end.speculative.decode_seconds;
  while (end.runs < kMostRuns && first + seconds_between(start, Clock::now()) < kEnoughSeconds) {
    const auto again = run_quietly(plain, plain.max_tokens);
    const auto against = again ? run_quietly(speculative, speculative.max_tokens) : std::nullopt;
    if (!against) break;
    plain_seconds.push_back(again->decode_seconds);
    speculative_seconds.push_back(against->decode_seconds);
    ++end.runs;
  }
  end.plain.decode_seconds = median(plain_seconds);
  end.speculative.decode_seconds = median(speculative_seconds);
}

}  // namespace specbound::gui
