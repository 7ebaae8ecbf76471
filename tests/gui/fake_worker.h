// a worker that only writes down what it is asked for; a test says what comes of it. And an
// AppState on it, with a folder of its own.
#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "gui/model/app_state.h"
#include "gui/model/conversation.h"
#include "gui/model/trace_model.h"
#include "gui/worker/messages.h"
#include "gui/worker/worker_thread.h"
#include "unit/chain_rows.h"
#include "unit/temp_dir.h"

namespace specbound::gui {

class FakeWorker final : public WorkerCommands {
 public:
  std::vector<LoadRequest> loads;
  std::vector<ReplyRequest> replies, comparisons;
  std::vector<SamplingParams> samplings;
  std::vector<DraftingChange> draftings;
  std::vector<bool> guessings, learnings;
  std::vector<std::string> traces, forgotten;
  int stops = 0;

  void load(const LoadRequest& request) override { loads.push_back(request); }
  void reply(const ReplyRequest& request) override { replies.push_back(request); }
  void compare(const ReplyRequest& request) override { comparisons.push_back(request); }
  void stop() override { ++stops; }
  void set_sampling(const SamplingParams& params) override { samplings.push_back(params); }
  void set_drafting(const DraftingChange& change) override { draftings.push_back(change); }
  void set_learning(bool on) override { learnings.push_back(on); }
  void forget_conversation(const std::string& id) override { forgotten.push_back(id); }
  void set_guessing(bool on) override { guessings.push_back(on); }
  void open_trace(const std::string& path) override { traces.push_back(path); }
};

// A round of `texts`: accepted drafts of layer 2, and the last token from the last layer. One
// without text ends the reply.
inline RoundRecord round_of(int number, int pos, const std::vector<std::string>& texts) {
  RoundRecord round;
  round.round = number;
  round.pos = pos;
  const int n = static_cast<int>(texts.size());
  for (int i = 0; i < n; ++i) {
    RowRecord row;
    row.token = 100 + i;
    if (i + 1 < n) {
      row.exit_layer = 2;
      row.checks = {{2, 0.9f}};
    }
    round.rows.push_back(row);
    TokenRecord token;
    token.round = number;
    token.rows = n;
    token.slot = i;
    token.pos = pos + i + 1;
    token.token = 101 + i;
    if (i + 1 < n) {
      token.draft = token.token;
      token.exit_layer = 2;
      token.checks = row.checks;
    }
    token.text = texts[i];
    token.ends_reply = texts[i].empty();
    round.tokens.push_back(token);
  }
  test::make_chain(round.rows);
  round.ns = {100000, 100000, 400000, 100000, 1000};
  return round;
}

struct FakeApp {
  test::TempDir folder;
  FakeWorker worker;
  ConversationStore store{folder / "conversations"};
  TraceModel trace;
  AppState app{worker, store, trace};

  // With a model that can draft.
  explicit FakeApp(bool loaded = true) {
    if (!loaded) return;
    app.load("demo.gguf");
    app.apply(ModelLoaded{model()});
  }
  static ModelInfo model() {
    ModelInfo model;
    model.path = "/models/demo.gguf";
    model.architecture = "llama";
    model.backend = "CPU";
    model.n_layers = 4;
    model.vocab_size = 1000;
    model.n_ctx = 512;
    model.drafting.possible = model.drafting.on = true;
    model.drafting.drafter = "chained heads";
    model.drafting.description = "speculation on";
    model.drafting.head_layers = {1, 2, 3};
    model.drafting.params.check_layers = {1, 2, 3};
    return model;
  }

  void begin(uint64_t id, int dropped_turns = 0) {
    TraceReply settings;
    settings.seed = app.sampling().seed;
    app.apply(ReplyBegan{id, settings, dropped_turns});
  }
  void round(uint64_t id, const std::vector<std::string>& texts) {
    app.apply(RoundDone{id, round_of(n_rounds_, pos_, texts), 0.001 * ++n_rounds_});
    pos_ += static_cast<int>(texts.size());
  }
  void end(uint64_t id, StopReason stop = StopReason::kEnd, int tokens = 1) {
    GenerateStats stats;
    stats.stop = stop;
    stats.generated_tokens = tokens;
    app.apply(ReplyEnded{id, stats, 0});
    n_rounds_ = 0;
  }
  // A whole reply to what was asked last.
  void answer(const std::vector<std::string>& texts) {
    const uint64_t id = worker.replies.back().id;
    begin(id);
    round(id, texts);
    end(id, StopReason::kEnd, static_cast<int>(texts.size()));
  }
  void talk(const std::string& message, const std::vector<std::string>& texts) {
    app.send(message);
    answer(texts);
  }
  // The answer to the trace that was asked for last, as a worker would read it.
  void answer_trace() {
    const std::atomic<bool> stop = false;
    app.apply(open_trace(worker.traces.back(), stop));
  }
  bool open_replay(const std::string& path) {
    app.open_replay(path);
    answer_trace();
    return app.replay() != nullptr;
  }
  // What a next start would find.
  std::vector<Conversation> stored() {
    std::vector<std::string> problems;
    return store.load(problems);
  }

 private:
  int n_rounds_ = 0, pos_ = 10;
};

}  // namespace specbound::gui
