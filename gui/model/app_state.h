// The state behind the window: conversations, the model, the reply under way, what is selected. It
// takes the worker's events and the person's wishes; views draw it and call it. No drawing, no
// threads: the worker is behind WorkerCommands, so that tests drive all of it without a screen.
//
// A reply that brings not one token (stopped before it began, refused, failed) leaves the
// conversation as it was before it was asked for, and its message comes back through
// returned_text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gui/model/conversation.h"
#include "gui/model/trace_model.h"
#include "gui/worker/messages.h"

namespace specbound::gui {

class ConversationStore;
class ReplayPlayer;

// As much of a message as is shown: it may hold names from hostile files, nobody reads more, and
// ImGui takes no text of any length at once.
std::string told(const std::string& text);

enum class ModelState { kNone, kLoading, kReady, kFailed };

struct Comparison {
  bool running = false;
  std::string prompt;                   // its last message
  uint64_t plain = 0, speculative = 0;  // reply ids, for TraceModel
  std::string plain_text, speculative_text;
  std::optional<ComparisonEnded> result;  // empty too when it was stopped
  std::string error;
};

class AppState {
 public:
  // Reads the stored conversations; in front of them stands an empty one, which is shown. All three
  // must outlive it.
  AppState(WorkerCommands& worker, ConversationStore& store, TraceModel& trace);

  ~AppState();
  AppState(const AppState&) = delete;
  AppState& operator=(const AppState&) = delete;

  void apply(const WorkerEvent& event);

  // ---- model ----
  ModelState model_state() const { return model_state_; }
  const ModelInfo& model() const { return model_; }              // when kReady
  const std::string& model_path() const { return model_path_; }  // of the newest load()
  const std::string& load_label() const { return load_label_; }  // while kLoading
  double load_share() const { return load_share_; }              // 0..1
  const std::string& load_error() const { return load_error_; }  // when kFailed
  void load(const std::string& path);  // with the flags the program was started with
  // Models that were loaded, the newest first: by their names, or by their files.
  const std::vector<std::string>& recent_models() const { return recent_models_; }
  void set_recent_models(std::vector<std::string> models) { recent_models_ = std::move(models); }
  // Those flags; loads nothing by itself.
  void set_launch(LoadRequest request) { launch_ = std::move(request); }

  // ---- conversations ----
  const std::vector<Conversation>& conversations() const { return conversations_; }  // newest first
  size_t current() const { return current_; }  // index of the one shown; there always is one
  const Conversation& conversation() const { return conversations_[current_]; }
  Conversation& conversation() { return conversations_[current_]; }
  // What is chosen is shown: a replay that is open is closed.
  void select(size_t index);
  void new_conversation();  // an empty one in front is taken
  void remove(size_t index);
  void rename(size_t index, const std::string& title);
  // A conversation's file becomes one more of them and is shown; false: an error tells why not.
  bool import_conversation(const std::string& path);
  void set_system(const std::string& text);  // of the current one, from the next reply on
  // Where a reply's text stands: a conversation and a message of it.
  std::optional<std::pair<size_t, size_t>> find_reply(uint64_t reply) const;

  // ---- replies ----
  bool busy() const { return flight_.has_value() || comparison_.running; }
  std::optional<uint64_t> replying() const;  // the reply under way in the current conversation
  // While replying(): how far the prompt has been read.
  int prompt_read() const { return prompt_read_; }
  int prompt_total() const { return prompt_total_; }
  bool stopping() const { return stopping_; }  // asked to, and not over yet
  bool can_send() const { return model_state_ == ModelState::kReady && !busy(); }
  void send(const std::string& text);  // nothing where !can_send() or `text` is all white space
  void stop();
  bool can_regenerate() const { return can_send() && !conversation().messages.empty(); }
  // Another reply to the last message; the first one if it was never answered.
  void regenerate();
  // A user's message: what follows it goes, and it is sent again.
  void edit(size_t message, const std::string& text);
  int reply_budget() const { return reply_budget_; }  // tokens; -1: none
  void set_reply_budget(int tokens) { reply_budget_ = tokens; }
  // The text of a message that got no reply, for the composer, which takes it out of here.
  std::optional<std::string> returned_text;

  // ---- settings, from the next round on ----
  const SamplingParams& sampling() const { return sampling_; }
  void set_sampling(const SamplingParams& params);
  // A new seed for each message and comparison; another reply to the same message keeps it.
  bool random_seed() const { return random_seed_; }
  void set_random_seed(bool on) { random_seed_ = on; }
  const Drafting& drafting() const { return model_.drafting; }
  void change_drafting(const DraftingChange& change);
  int drafting_pending() const { return drafting_pending_; }  // changes not answered yet
  // Why the newest answered change was refused; empty: it was not.
  const std::string& drafting_refusal() const { return drafting_refusal_; }
  void set_guessing(bool on);  // whether anybody looks at the layers' guesses
  // Idle learning with this model; of one that is loading it says nothing.
  const Learning& learning() const { return learning_; }
  void set_learning(bool on);

  // ---- comparison ----
  const Comparison& comparison() const { return comparison_; }
  bool can_compare() const { return can_send() && model_.drafting.possible; }
  // After the current conversation, which stays as it is.
  void compare(const std::string& prompt);

  // ---- what is looked at ----
  // A trace file that is open is shown in place of what happens in this process, until it is
  // closed; the worker's events are taken meanwhile.
  ReplayPlayer* replay() const { return replay_.get(); }  // nullptr: none is open
  // Read by the worker; what it finds, or an error, comes with its answer.
  void open_replay(const std::string& path);
  bool opening_replay() const { return opening_.has_value(); }
  void close_replay();
  TraceModel& trace() const;
  // What is written here, whatever is replayed.
  const TraceModel& live() const { return live_; }
  const Conversation& shown() const;
  // The reply that the map shows where nothing is selected: of a comparison the side under way,
  // else the newest one of what is shown; 0: none.
  uint64_t focus_reply() const;
  std::optional<TokenRef> selected;  // clicked, in the chat or in the map
  std::optional<TokenRef> hovered;
  // A selection that the other side is to scroll to; it resets it.
  bool reveal_in_chat = false, reveal_in_map = false;
  void select_in_chat(const TokenRef& token) {
    selected = token;
    reveal_in_map = true;
  }
  void select_in_map(const TokenRef& token);  // shows the conversation that it is in

  // ---- what happened ----
  // A file that was dropped on the window, or named: a conversation (.json), a model (.gguf, or
  // what begins as one), else a trace.
  void open_file(const std::string& path);
  // Newest line; while a trace is opened, that.
  const std::string& status() const { return opening_ ? opening_->status : status_; }
  std::vector<std::string> errors;  // shown until dismissed, newest last; the newest few only
  void add_error(std::string line);

 private:
  // The reply under way, and how things were before it was asked for.
  struct Flight {
    uint64_t id = 0;
    std::string conversation;      // its id
    size_t first = 0;              // of the messages that are new
    std::vector<Message> removed;  // what stood there before
    std::optional<std::string> typed;
    std::string title;      // before
    size_t heard_from = 0;  // before
    uint32_t number = 0;
    uint64_t seed = 0;  // that it began with
  };

  // The trace file that is to be shown.
  struct Opening {
    std::string path, status;
  };

  void on(const LoadProgress& event);
  void on(const ModelLoaded& event);
  void on(const LoadFailed& event);
  void on(const DraftingChanged& event);
  void on(const LearningChanged& event);
  void on(const HeadsTaken& event);
  void on(const ReplyBegan& event);
  void on(const PromptRead& event);
  void on(const RoundDone& event);
  void on(const ReplyEnded& event);
  void on(const ReplyFailed& event);
  void on(const ComparisonEnded& event);
  void on(const TraceOpened& event);
  void on(const TraceRefused& event);
  void on(const Note& event) { status_ = told(event.text); }
  template <class Event>
  void on(const Event&) {}  // the trace's, or known

  void ask(size_t first, const std::string& message, std::optional<std::string> typed,
           uint32_t number);
  void end_flight(bool brought_nothing, const std::string& figures);
  void undo(Conversation& conversation);
  Conversation make_conversation() const;
  Conversation* find(const std::string& id);
  Message* message_under_way();
  void bring_to_front(size_t index);
  void save(Conversation& conversation);
  void remove_file(const Conversation& conversation);
  void forget(const std::vector<Message>& gone);
  void renew_seed();
  void hear_from_now();

  WorkerCommands& worker_;
  ConversationStore& store_;
  TraceModel& live_;
  std::unique_ptr<ReplayPlayer> replay_;
  std::optional<Opening> opening_;

  LoadRequest launch_;
  ModelState model_state_ = ModelState::kNone;
  ModelInfo model_;
  std::string model_path_, load_label_, load_error_;
  double load_share_ = 0;
  std::vector<std::string> recent_models_;
  Learning learning_;

  std::vector<Conversation> conversations_;
  size_t current_ = 0;

  uint64_t next_reply_ = 1;
  std::optional<Flight> flight_;
  int prompt_read_ = 0, prompt_total_ = 0;
  bool stopping_ = false;
  int reply_budget_ = -1;

  SamplingParams sampling_;
  bool guessing_ = false;
  bool random_seed_ = true;
  int drafting_pending_ = 0;
  std::string drafting_refusal_;
  Comparison comparison_;
  std::string status_;
};

}  // namespace specbound::gui
