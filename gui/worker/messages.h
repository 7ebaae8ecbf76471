// What the window and the worker thread say to each other. All of it is values: neither side ever
// sees the other's objects.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "decode/generate.h"
#include "decode/sampler.h"
#include "drafters/specbound.h"
#include "learning/idle_learning.h"
#include "runtime/model_options.h"
#include "runtime/speculation_options.h"
#include "templates/chat_template.h"
#include "trace/recorder.h"
#include "trace/round_record.h"
#include "trace/trace_reader.h"

namespace specbound::gui {

// ---- to the worker ----

struct LoadRequest {
  ModelOptions model;
  SpeculationOptions speculation;
  IdleLearningOptions learning;
};

struct ReplyRequest {
  uint64_t id = 0;                    // of the reply, unique in this process, above 0
  std::string conversation;           // its id
  std::vector<ChatMessage> messages;  // system (if any), then user and assistant in turn, a user's
                                      // at the end
  uint32_t number = 0;                // how often this message was answered before: other noise
  int max_tokens = -1;                // -1: no budget
  // Of the messages without the system's: those before it are not learnt from.
  size_t heard_from = 0;
};

// What is to be other from the next round on; what is not set stays.
struct DraftingChange {
  std::optional<bool> on;
  std::optional<Preset> preset;
  std::optional<SpecBoundParams> params;
};

// ---- from the worker ----

// What drafts, and with what settings.
struct Drafting {
  bool possible = false;  // something can draft
  bool on = false;
  std::string drafter;      // "chained heads", "the logit lens"
  std::string description;  // one line: whether it drafts, with what settings, or why not
  Preset preset = Preset::kTuned;
  SpecBoundParams params;        // where SpecBound drafts; check_layers: all asked for
  std::vector<int> head_layers;  // layers that could be checked, ascending; 0: before any
};

struct ModelInfo {
  std::string path, architecture, backend;
  int n_layers = 0, vocab_size = 0, n_ctx = 0;
  uint64_t memory_bytes = 0;  // of main memory, that its weights take
  double load_seconds = 0;
  Drafting drafting;
};

// Idle learning with the model that is loaded (learning/idle_learning.h).
struct Learning {
  bool on = false;
  bool asked = false;  // nobody on this machine has said yet whether it may: now is the time
  std::string cannot;  // why never with this model; empty: it can
  std::string about;   // what it brings and takes
  std::string status;  // one line: how far it is, or why it is off
  std::optional<double> share;  // of this round, 0 to 1; nullopt: none is under way
  std::string gained;           // what the newest heads have brought; empty: none have come yet

  bool operator==(const Learning&) const = default;
};

// What a layer would say for the token of a column, by the logit lens.
struct LayerGuess {
  int32_t token = 0;
  float probability = 0;
  std::string text;  // bytes of the token
};

struct LoadProgress {
  std::string label;  // "repacking weights"
  double share = 0;   // 0..1
};
struct ModelLoaded {
  ModelInfo model;
};
struct LoadFailed {
  std::string message;  // the model that was there before, if any, is gone
};
struct DraftingChanged {
  Drafting drafting;
  std::string refusal;  // why a change was refused; empty: it was not
};
struct LearningChanged {
  Learning learning;
};
// Between replies: other heads draft from now on, which were faster by the clock.
struct HeadsTaken {
  Drafting drafting;
  std::string told;
};
struct ReplyBegan {
  uint64_t id = 0;
  TraceReply reply;       // its settings, as in a trace
  int dropped_turns = 0;  // oldest turns that no longer fit the context
};
struct PromptRead {
  uint64_t id = 0;
  int done = 0, total = 0;
};
// Tokens' texts are what the reply shows: the first one without the space that a template puts in
// front. An end token has none.
struct RoundDone {
  uint64_t id = 0;
  RoundRecord round;
  double seconds = 0;  // since decoding began, the worker's callbacks left out
};
// The settings changed from the next round on.
struct SettingsApplied {
  uint64_t id = 0;
  TraceReply reply;
};
struct ReplyEnded {
  uint64_t id = 0;
  GenerateStats stats;
  double seconds = 0;  // since it began, the worker's callbacks and the trace with it
};
struct ReplyFailed {
  uint64_t id = 0;
  std::string message;
};
// A comparison is two replies to the same messages: `plain` begins and ends, then `speculative`,
// then this. Both carry ids of their own, told first.
struct ComparisonBegan {
  uint64_t plain = 0, speculative = 0;
};
struct ComparisonEnded {
  GenerateStats plain, speculative;
  // Of each side. Short replies are decoded again, turn about, and each side's decode_seconds is
  // the median.
  int runs = 1;
  bool identical = false;        // tokens and text, to the last byte
  std::string first_difference;  // where, if not
  bool stopped = false;          // before its end: the rest says nothing
};
// Every layer's guess for the token of a reply at a position: [layer - 1].
struct Guesses {
  uint64_t id = 0;
  int pos = 0;
  std::vector<LayerGuess> layers;
};
// What open_trace() was asked for.
struct TraceOpened {
  std::string path;
  std::shared_ptr<const RecordedTrace> trace;
};
struct TraceRefused {
  std::string path;
  std::string message;
};
// Something for the status line: which backend, what is not as asked for.
struct Note {
  std::string text;
};

using WorkerEvent = std::variant<LoadProgress, ModelLoaded, LoadFailed, DraftingChanged,
                                 LearningChanged, HeadsTaken, ReplyBegan, PromptRead, RoundDone,
                                 SettingsApplied, ReplyEnded, ReplyFailed, ComparisonBegan,
                                 ComparisonEnded, Guesses, TraceOpened, TraceRefused, Note>;

// What the window asks of the worker. No call waits; what comes of it comes as events. A call that
// does not fit the moment (a reply without a model) is answered by the event that says so.
class WorkerCommands {
 public:
  virtual ~WorkerCommands() = default;
  virtual void load(const LoadRequest& request) = 0;  // stops whatever is under way
  virtual void reply(const ReplyRequest& request) = 0;
  // request.id is the plain side's, request.id + 1 the speculative one's. Settings wait until it is
  // over: both sides have the same.
  virtual void compare(const ReplyRequest& request) = 0;
  virtual void stop() = 0;  // the reply, comparison or load under way
  // Each from the next round on.
  virtual void set_sampling(const SamplingParams& params) = 0;
  virtual void set_drafting(const DraftingChange& change) = 0;
  // Once nothing is under way, and remembered on this machine.
  virtual void set_learning(bool on) = 0;
  // A conversation that is deleted: what was said in it and is not kept for learning yet never is.
  virtual void forget_conversation(const std::string& id) = 0;
  // Whether guesses are wanted: of the newest reply, computed while nothing else is to be done.
  virtual void set_guessing(bool on) = 0;
  // Reads a trace file once nothing is under way; stop() does not end it. Of those that wait or are
  // being read only the newest is answered.
  virtual void open_trace(const std::string& path) = 0;
};

}  // namespace specbound::gui
