// The worker thread with the bundled model behind it: what is asked, what comes back, and that the
// text is the terminal's to the byte.
#include "gui/worker/worker_thread.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <utility>

#include "gui/worker_rig.h"
#include "runtime/loaded_model.h"
#include "trace/trace_reader.h"
#include "unit/temp_dir.h"
#include "unit/tiny_gguf.h"

namespace specbound::gui::worker_thread_test {

namespace {

using Role = ChatMessage::Role;

SamplingParams seeded(uint64_t seed, float temperature = 0.8f) {
  SamplingParams params;
  params.seed = seed;
  params.temperature = temperature;
  return params;
}

DraftingChange switched(bool on) {
  DraftingChange change;
  change.on = on;
  return change;
}

// What `chat` would reply.
std::string terminal_reply(const std::vector<ChatMessage>& messages, uint64_t seed,
                           uint32_t number = 0) {
  ModelOptions flags;
  flags.model = demo_model();
  flags.n_threads = 1;
  LoadedModel model(flags);
  LoadWatcher quiet;
  quiet.progress = [](const std::string&, size_t, size_t) {};
  quiet.note = [](const std::string&) {};
  model.load(nullptr, quiet);
  const auto chat_template = ChatTemplate::from_gguf(model.gguf());
  Session session(model.backend(), Sampler(seeded(seed)));
  GenerateOptions options;
  options.reply = number;
  options.is_end = [&](int32_t id) { return model.ends_reply(id); };
  std::string text;
  options.on_token = [&](const TokenEvent& event) { text += model.tokenizer().piece(event.token); };
  session.generate(chat_template->encode(model.tokenizer(), messages), options);
  return chat_template->reply_text(text);
}

// Watches for the second round of a reply, and then does something, once.
std::function<void(const WorkerEvent&)> at_second_round(uint64_t id, std::function<void()> f) {
  return [id, f = std::move(f)](const WorkerEvent& event) {
    const RoundDone* done = std::get_if<RoundDone>(&event);
    if (done && done->id == id && done->round.round == 1) f();
  };
}

// A conversation of two turns and one more message.
ReplyRequest second_turn(uint64_t id) {
  ReplyRequest request = ask(id, "Hello! Who are you?");
  request.messages.push_back({Role::kAssistant, "I am Mia."});
  request.messages.push_back({Role::kUser, "What did you do today?"});
  return request;
}

}  // namespace

TEST_CASE("worker thread: loading tells how far it is, what it runs on and what drafts") {
  WorkerRig rig;
  const ModelInfo model = rig.load_demo();
  CHECK(model.path == demo_model());
  CHECK(model.n_layers == 16);
  const uintmax_t file = std::filesystem::file_size(demo_model());  // little of it is no weights
  CHECK(model.memory_bytes <= file);
  CHECK(model.memory_bytes > file / 10 * 8);
  CHECK_FALSE(model.backend.empty());
  CHECK(model.drafting.possible);
  CHECK(model.drafting.on);
  CHECK_FALSE(model.drafting.head_layers.empty());
  CHECK_FALSE(model.drafting.params.check_layers.empty());
  CHECK(std::holds_alternative<LoadProgress>(rig.events.front()));
  CHECK_FALSE(rig.all<Note>().empty());
}

TEST_CASE("worker thread: a model that cannot be loaded is one line, and another one works") {
  test::TempDir folder;
  WorkerRig rig;
  LoadRequest request;
  request.model.model = folder / "none.gguf";
  rig->load(request);
  const std::string missing = rig.next<LoadFailed>().message;
  CHECK(missing.find("none.gguf") != std::string::npos);
  CHECK(missing.find('\n') == std::string::npos);

  const std::string broken = folder / "broken.gguf";
  std::ofstream(broken, std::ios::binary) << "GGUF" << std::string(100, '\xff');
  request.model.model = broken;
  rig->load(request);
  CHECK(rig.next<LoadFailed>().message.find("broken.gguf") != std::string::npos);

  request.model.model = demo_model();
  request.speculation.heads = broken;
  rig->load(request);
  CHECK(rig.next<LoadFailed>().message.find("broken.gguf") != std::string::npos);

  rig->reply(ask(1, "Hello"));  // without a model
  CHECK(rig.next<ReplyFailed>().message.find("no model") != std::string::npos);
  rig->compare(ask(2, "Hello"));
  CHECK(rig.next<ReplyFailed>().id == 2);
  rig->set_drafting(switched(true));
  const DraftingChanged changed = rig.next<DraftingChanged>();
  CHECK_FALSE(changed.refusal.empty());
  CHECK_FALSE(changed.drafting.possible);

  rig.load_demo();
  CHECK_FALSE(rig.answer(ask(3, "Hello", 8)).empty());
}

TEST_CASE("worker thread: loading can be stopped, which leaves no model") {
  WorkerRig rig;
  rig.watch([&](const WorkerEvent& event) {
    const LoadProgress* progress = std::get_if<LoadProgress>(&event);
    if (progress && progress->label != "opening") rig->stop();
  });
  LoadRequest request;
  request.model.model = demo_model();
  rig->load(request);
  CHECK_FALSE(rig.next<LoadFailed>().message.empty());
  rig.watch(nullptr);
  rig->reply(ask(1, "Hello"));
  CHECK(rig.next<ReplyFailed>().message.find("no model") != std::string::npos);
  rig.load_demo();
  CHECK_FALSE(rig.answer(ask(2, "Hello", 4)).empty());
}

TEST_CASE("worker thread: a load that another one overtakes says nothing of its end") {
  WorkerRig rig;
  LoadRequest none, demo;
  none.model.model = "/nonexistent.gguf";
  demo.model.model = demo_model();
  bool first = true;
  rig.watch([&](const WorkerEvent& event) {  // the first one is under way
    if (!std::holds_alternative<LoadProgress>(event) || !std::exchange(first, false)) return;
    for (int i = 0; i < 5; ++i) rig->load(none);
    rig->load(demo);
  });
  rig->load(none);
  rig.next<ModelLoaded>();
  CHECK(rig.all<LoadFailed>().empty());
  CHECK(rig.all<ModelLoaded>().size() == 1);
}

TEST_CASE("worker thread: nor does one that ended before anybody looked") {
  WorkerRig rig;
  LoadRequest none, demo;
  none.model.model = "/nonexistent.gguf";
  demo.model.model = demo_model();
  rig->load(demo);
  std::this_thread::sleep_for(std::chrono::seconds(1));  // it is there by then, or is overtaken
  rig->load(none);
  rig.next<LoadFailed>();
  CHECK(rig.all<ModelLoaded>().empty());
}

TEST_CASE("worker thread: the text is the terminal's, drafting or not, in a conversation") {
  WorkerRig rig;
  rig->set_sampling(seeded(11));
  rig.load_demo();
  const ReplyRequest request = second_turn(1);
  const std::string expected = terminal_reply(request.messages, 11);
  REQUIRE_FALSE(expected.empty());
  CHECK(rig.answer(request) == expected);
  const GenerateStats drafted = rig.all<ReplyEnded>().back().stats;
  CHECK(drafted.counters.accepted_tokens > 0);

  rig->set_drafting(switched(false));
  CHECK_FALSE(rig.next<DraftingChanged>().drafting.on);
  CHECK(rig.answer(second_turn(2)) == expected);
  CHECK(rig.all<ReplyEnded>().back().stats.counters.drafted_tokens == 0);

  ReplyRequest again = second_turn(3);
  again.number = 1;
  const std::string other = terminal_reply(again.messages, 11, 1);
  CHECK(other != expected);
  CHECK(rig.answer(again) == other);
}

TEST_CASE("worker thread: every token of a reply is told once, in order, with its place") {
  WorkerRig rig;
  rig->set_sampling(seeded(3));
  rig.load_demo();
  rig.answer(ask(5, "Tell me about the sea."));
  const ReplyBegan began = rig.all<ReplyBegan>().back();
  const ReplyEnded ended = rig.all<ReplyEnded>().back();
  CHECK(began.id == 5);
  CHECK(began.reply.seed == 3);
  CHECK(began.reply.settings.has_value());
  int pos = began.reply.prompt_tokens, round = 0, tokens = 0;
  double seconds = 0;
  Counters counters;
  for (const RoundDone& done : rig.all<RoundDone>()) {
    CHECK(done.id == 5);
    CHECK(done.round.round == round++);
    CHECK(done.seconds >= seconds);
    seconds = done.seconds;
    counters.add(done.round);
    for (const TokenRecord& token : done.round.tokens) {
      CHECK(token.pos == pos++);
      tokens += token.ends_reply ? 0 : 1;
      if (token.ends_reply) CHECK(token.text.empty());
    }
  }
  CHECK(tokens == ended.stats.generated_tokens);
  CHECK(counters == ended.stats.counters);
  CHECK(seconds <= ended.stats.decode_seconds);
  CHECK(seconds >= 0.5 * ended.stats.decode_seconds);
  CHECK(rig.text(5).front() != ' ');
}

TEST_CASE("worker thread: settings change at the next round, each with its answer") {
  WorkerRig rig;
  rig->set_sampling(seeded(4));
  rig.load_demo();
  const std::string expected = terminal_reply(second_turn(1).messages, 4);
  DraftingChange wrong, narrow;
  wrong.params = narrow.params = SpecBoundParams();
  wrong.params->tau = 7;
  narrow.params->w_max = 3;
  rig.watch(at_second_round(1, [&] {
    for (const DraftingChange& change : {switched(false), wrong, switched(true), narrow}) {
      rig->set_drafting(change);
    }
  }));
  CHECK(rig.answer(second_turn(1)) == expected);  // whatever drafts
  const auto changes = rig.all<DraftingChanged>();
  REQUIRE(changes.size() == 4);
  CHECK_FALSE(changes[0].drafting.on);
  CHECK(changes[0].refusal.empty());
  CHECK(changes[1].refusal.find("tau") != std::string::npos);
  CHECK(changes[1].drafting.params.tau != 7);
  CHECK(changes[2].drafting.on);
  CHECK(changes[3].drafting.params.w_max == 3);
  const auto applied = rig.all<SettingsApplied>();
  REQUIRE(applied.size() == 4);
  CHECK(applied[0].id == 1);
  CHECK(applied[0].reply.speculator == "none");
  CHECK(applied[3].reply.settings->w_max == 3);
  int widest = 0;
  for (const RoundDone& done : rig.all<RoundDone>()) {
    if (done.round.round > 1) widest = std::max(widest, done.round.drafted() + 1);
  }
  CHECK(widest == 3);

  DraftingChange shipped;
  shipped.preset = Preset::kShipped;
  rig.watch(at_second_round(2, [&] { rig->set_drafting(shipped); }));
  CHECK(rig.answer(second_turn(2)) == expected);
  CHECK(rig.all<DraftingChanged>().back().drafting.preset == Preset::kShipped);
  CHECK(rig.all<SettingsApplied>().back().id == 2);
  SamplingParams invalid;
  invalid.temperature = -1;
  rig->set_sampling(invalid);
  CHECK(rig.next<Note>().text.find("temperature") != std::string::npos);
  CHECK(rig.answer(second_turn(3)) == expected);
}

TEST_CASE("worker thread: stop ends a reply soon, one that has not begun too") {
  WorkerRig rig;
  rig.load_demo();
  rig.watch(at_second_round(1, [&] { rig->stop(); }));
  rig->reply(ask(1, "Tell me a very long story."));
  const ReplyEnded ended = rig.next<ReplyEnded>();
  CHECK(ended.stats.stop == StopReason::kAborted);
  CHECK(ended.stats.counters.rounds == 2);

  // The one under way, and what waits behind it.
  rig.watch(at_second_round(2, [&] {
    rig->reply(ask(3, "Hello"));
    rig->compare(ask(4, "Hello"));
    rig->stop();
  }));
  rig->reply(ask(2, "Tell me a very long story."));
  rig.next<ReplyEnded>();
  const ReplyEnded waited = rig.next<ReplyEnded>();
  CHECK(waited.id == 3);
  CHECK(waited.stats.stop == StopReason::kAborted);
  CHECK(rig.next<ComparisonEnded>().stopped);
  CHECK_FALSE(rig.answer(ask(5, "Hello", 4)).empty());  // and the next one is not stopped
}

TEST_CASE("worker thread: another model while it replies") {
  test::TempDir folder;
  WorkerRig rig;
  rig.load_demo();
  LoadRequest other;
  other.model.model = folder / "none.gguf";
  rig.watch(at_second_round(1, [&] { rig->load(other); }));
  rig->reply(ask(1, "Tell me a very long story."));
  CHECK(rig.next<ReplyEnded>().stats.stop == StopReason::kAborted);
  rig.next<LoadFailed>();
  rig->reply(ask(2, "Hello"));
  CHECK(rig.next<ReplyFailed>().id == 2);

  other.model.model = demo_model();
  rig.load(other);
  rig.watch(at_second_round(3, [&] { rig->load(other); }));
  rig->reply(ask(3, "Tell me a very long story."));
  CHECK(rig.next<ReplyEnded>().stats.stop == StopReason::kAborted);
  rig.next<ModelLoaded>();
  CHECK_FALSE(rig.answer(ask(4, "Hello", 4)).empty());
}

TEST_CASE("worker thread: it can be torn down at any moment") {
  for (const int moment : {0, 1, 2, 3}) {
    CAPTURE(moment);
    WorkerRig rig;
    if (moment == 0) continue;
    LoadRequest request;
    request.model.model = demo_model();
    rig->load(request);
    if (moment == 1) continue;
    rig.next<ModelLoaded>();
    rig->set_guessing(true);
    if (moment == 2) rig->compare(ask(1, "Tell me a very long story."));
    if (moment == 3) rig->reply(ask(1, "Tell me a very long story."));
    rig.next<RoundDone>();
  }
}

TEST_CASE("worker thread: who closes the window does not wait for the reply's end") {
  std::atomic<bool> under_way = false;
  WorkerThread* worker = nullptr;
  std::vector<WorkerEvent> events;  // of the worker's thread, until it is over
  const auto wake = [&] {
    for (WorkerEvent& event : worker->take_events()) {
      const bool round = std::holds_alternative<RoundDone>(event);
      events.push_back(std::move(event));
      if (!round || under_way.exchange(true)) continue;
      std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the window closes now
    }
  };
  auto owner = std::make_unique<WorkerThread>("", wake);
  worker = owner.get();
  LoadRequest request;
  request.model.model = demo_model();
  owner->load(request);
  owner->reply(ask(1, "Tell me a very long story."));
  while (!under_way) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  owner.reset();
  const ReplyEnded* ended = std::get_if<ReplyEnded>(&events.back());
  REQUIRE(ended);
  CHECK(ended->stats.stop == StopReason::kAborted);
  CHECK(ended->stats.counters.rounds == 1);
}

TEST_CASE(
    "worker thread: a comparison is the same reply twice, and the conversation goes on after it") {
  WorkerRig rig;
  rig->set_sampling(seeded(21));
  rig.load_demo();
  const std::string expected = terminal_reply(second_turn(1).messages, 21);
  rig->set_drafting(switched(false));  // a comparison drafts all the same
  rig->compare(second_turn(7));
  const ComparisonEnded ended = rig.next<ComparisonEnded>();
  CHECK(ended.identical);
  CHECK(ended.first_difference.empty());
  CHECK_FALSE(ended.stopped);
  CHECK(rig.text(7) == expected);
  CHECK(rig.text(8) == expected);
  CHECK(ended.plain.counters.drafted_tokens == 0);
  CHECK(ended.speculative.counters.accepted_tokens > 0);
  CHECK(ended.plain.generated_tokens == ended.speculative.generated_tokens);
  // Both began with a prompt that had been read.
  CHECK(ended.plain.prefilled_tokens == 0);
  CHECK(ended.speculative.prefilled_tokens == 0);
  // So short a reply says little the first time; a slow build's is not that short.
  const double seconds = ended.plain.decode_seconds + ended.speculative.decode_seconds;
  CHECK((ended.runs > 1 || seconds > 0.49));
  const ComparisonBegan began = rig.all<ComparisonBegan>().back();
  CHECK(began.plain == 7);
  CHECK(began.speculative == 8);
  const auto ends = rig.all<ReplyEnded>();
  REQUIRE(ends.size() == 2);
  CHECK(ends[0].id == 7);
  CHECK(ends[1].id == 8);
  CHECK(rig.answer(second_turn(9)) == expected);
  CHECK(rig.all<ReplyEnded>().back().stats.counters.drafted_tokens == 0);  // still off

  for (const uint64_t side : {11, 12}) {
    rig.watch(at_second_round(side, [&] { rig->stop(); }));
    rig->compare(second_turn(11));
    CHECK(rig.next<ComparisonEnded>().stopped);
  }
}

TEST_CASE("worker thread: a comparison without anything that drafts says so") {
  WorkerRig rig;
  LoadRequest request;
  request.model.model = demo_model();
  request.speculation.speculator = "none";
  CHECK_FALSE(rig.load(request).drafting.possible);
  rig->compare(ask(1, "Hello"));
  CHECK(rig.next<ReplyFailed>().message.find("nothing to compare with") != std::string::npos);
  rig->set_drafting(switched(true));
  CHECK_FALSE(rig.next<DraftingChanged>().refusal.empty());
  CHECK_FALSE(rig.answer(ask(2, "Hello", 4)).empty());
}

TEST_CASE("worker thread: requests that make no sense are refused in one line") {
  WorkerRig rig;
  LoadRequest small;
  small.model.model = demo_model();
  small.model.n_ctx = 64;
  rig.load(small);
  ReplyRequest request = ask(1, "Hello");
  SUBCASE("no message") {
    request.messages.clear();
  }
  SUBCASE("a reply at the end") {
    request.messages.push_back({Role::kAssistant, "Hi"});
  }
  SUBCASE("twice the same role") {
    request.messages.push_back({Role::kUser, "Hi"});
  }
  SUBCASE("a system prompt in the middle") {
    request.messages.push_back({Role::kSystem, "Hi"});
  }
  SUBCASE("too long a message") {
    for (int i = 0; i < 200; ++i) request.messages[0].content += " word";
  }
  rig->reply(request);
  const ReplyFailed failed = rig.next<ReplyFailed>();
  CHECK(failed.id == 1);
  CHECK_FALSE(failed.message.empty());
  CHECK(failed.message.find('\n') == std::string::npos);
  CHECK_FALSE(rig.answer(ask(2, "Hello", 4)).empty());
}

TEST_CASE("worker thread: the oldest turns are dropped when the context is full") {
  WorkerRig rig;
  LoadRequest small;
  small.model.model = demo_model();
  small.model.n_ctx = 96;
  rig.load(small);
  ReplyRequest request;
  request.id = 1;
  for (int i = 0; i < 10; ++i) {
    request.messages.push_back({Role::kUser, "What is your name?"});
    request.messages.push_back({Role::kAssistant, "My name is Mia."});
  }
  request.messages.push_back({Role::kUser, "And how old are you?"});
  rig->reply(request);
  const ReplyBegan began = rig.next<ReplyBegan>();
  CHECK(began.dropped_turns > 0);
  CHECK(began.reply.prompt_tokens <= 72);  // a quarter is the reply's
  const ReplyEnded ended = rig.next<ReplyEnded>();
  CHECK(ended.stats.generated_tokens > 0);
}

TEST_CASE("worker thread: layers' guesses come when nothing else is to be done") {
  WorkerRig rig;
  rig->set_sampling(greedy_sampling());
  const ModelInfo model = rig.load_demo();
  rig.answer(ask(1, "Hello! Who are you?", 40));
  rig->set_guessing(true);
  std::vector<TokenRecord> tokens;
  for (const RoundDone& done : rig.all<RoundDone>()) {
    tokens.insert(tokens.end(), done.round.tokens.begin(), done.round.tokens.end());
  }
  while (rig.all<Guesses>().size() < tokens.size()) rig.next<Guesses>();
  std::vector<bool> guessed(tokens.size());
  for (const Guesses& guesses : rig.all<Guesses>()) {
    CHECK(guesses.id == 1);
    REQUIRE(static_cast<int>(guesses.layers.size()) == model.n_layers);
    const auto at = static_cast<size_t>(guesses.pos - tokens.front().pos);
    REQUIRE(at < tokens.size());
    guessed[at] = true;
    // The last layer is the model itself, and here it is greedy.
    CHECK(guesses.layers.back().token == tokens[at].token);
    for (const LayerGuess& guess : guesses.layers) {
      CHECK(guess.probability >= 0);
      CHECK(guess.probability <= 1);
    }
  }
  CHECK(std::ranges::count(guessed, false) == 0);

  // The next reply continues as if nobody had looked.
  const std::string looked_at = rig.answer(second_turn(2));
  rig->set_guessing(false);
  rig.load_demo();
  CHECK(rig.answer(second_turn(3)) == looked_at);
}

TEST_CASE("worker thread: what is typed does not wait for guesses") {
  WorkerRig rig;
  rig->set_guessing(true);
  rig.load_demo();
  for (uint64_t id = 1; id < 20; ++id) {
    rig->reply(ask(id, "Hello", 12));
    CHECK(rig.next<ReplyEnded>().id == id);
  }
}

TEST_CASE("worker thread: the window is woken once until it looks") {
  WorkerRig rig;
  rig.load_demo();
  rig->take_events();
  const int before = rig.wakes();
  rig->reply(ask(1, "Hello", 30));
  // Nobody looks but five times a second: the worker does not wait for it.
  const auto deadline = std::chrono::steady_clock::now() + WorkerRig::kPatience;
  rig->set_drafting(switched(true));  // answered by the reply's end at the latest
  std::vector<WorkerEvent> seen;
  for (int looks = 1; std::chrono::steady_clock::now() < deadline; ++looks) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const int wakes = rig.wakes() - before;
    for (WorkerEvent& event : rig->take_events()) seen.push_back(std::move(event));
    CHECK(wakes <= looks + 1);  // one may have been on its way before
    if (std::ranges::any_of(
            seen, [](const WorkerEvent& e) { return std::holds_alternative<ReplyEnded>(e); })) {
      break;
    }
  }
  CHECK(std::ranges::count_if(
            seen, [](const WorkerEvent& e) { return std::holds_alternative<RoundDone>(e); }) > 1);
}

TEST_CASE("worker thread: the trace of a session holds its replies and the changes within them") {
  test::TempDir folder;
  const std::string path = folder / "trace.jsonl";
  std::string first;
  {
    WorkerRig rig(path);
    rig->set_sampling(seeded(5));
    rig.load_demo();
    rig.watch(at_second_round(1, [&] { rig->set_drafting(switched(false)); }));
    first = rig.answer(ask(1, "Hello! Who are you?"));
    rig->compare(ask(2, "Hello! Who are you?"));
    rig.next<ComparisonEnded>();
    rig.load_demo();  // another model: the trace is over
    rig.answer(ask(4, "Hello", 4));
    const auto notes = rig.all<Note>();
    CHECK(std::ranges::any_of(notes, [](const Note& note) {
      return note.text.find("the trace ends here") != std::string::npos;
    }));
  }
  std::ifstream file(path);
  const RecordedTrace trace = read_trace(file, path);
  CHECK(trace.header.model == demo_model());
  REQUIRE(trace.replies.size() == 3);
  REQUIRE(trace.replies[0].changes.size() == 1);
  CHECK(trace.replies[0].changes[0].round == 2);
  CHECK(trace.replies[0].changes[0].reply.speculator == "none");
  for (const RoundRecord& round : trace.replies[0].rounds) {
    if (round.round >= 2) CHECK(round.drafted() == 0);
  }
  CHECK(trace.replies[1].reply.speculator == "none");
  CHECK(trace.replies[2].reply.speculator == "auto");
  for (const RecordedReply& reply : trace.replies) {
    REQUIRE(reply.end);
    std::string text;
    for (const RoundRecord& round : reply.rounds) {
      for (const TokenRecord& token : round.tokens) {
        if (!token.ends_reply) text += token.text;
      }
    }
    CHECK(text.find(first) != std::string::npos);
  }
  CHECK_THROWS_AS(WorkerThread(folder / "no/such/folder.jsonl", [] {}), Error);
}

TEST_CASE("worker thread: a trace that cannot be written is told, and the reply goes on") {
  WorkerRig rig("/dev/full");
  rig.load_demo();
  CHECK_FALSE(rig.answer(ask(1, "Hello", 20)).empty());
  CHECK_FALSE(rig.answer(ask(2, "Hello", 20)).empty());
  CHECK(std::ranges::count_if(rig.all<Note>(), [](const Note& note) {
          return note.text.find("cannot write the trace") != std::string::npos;
        }) == 1);
}

}  // namespace specbound::gui::worker_thread_test
