// The state behind the window, on a fake worker: what the person does, what the worker tells, what
// is in the files.
#include "gui/model/app_state.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "gui/fake_worker.h"
#include "gui/model/replay_player.h"

namespace specbound::gui::app_state_test {

namespace {

using Role = ChatMessage::Role;

std::vector<std::string> texts(const Conversation& conversation) {
  std::vector<std::string> result;
  for (const Message& message : conversation.messages) result.push_back(message.text);
  return result;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("app state: a model comes with progress, or with the reason why not") {
  FakeApp f(false);
  AppState& app = f.app;
  CHECK(app.model_state() == ModelState::kNone);
  CHECK_FALSE(app.can_send());
  app.send("too early");
  CHECK(f.worker.replies.empty());

  LoadRequest launch;
  launch.model.model = "first.gguf";
  launch.model.n_ctx = 77;
  launch.model.chat_template = "vicuna";
  launch.speculation.heads = "first.heads.gguf";
  app.set_launch(launch);
  app.load("first.gguf");
  REQUIRE(f.worker.loads.size() == 1);
  CHECK(f.worker.loads[0].model.n_ctx == 77);
  CHECK(f.worker.loads[0].model.chat_template == "vicuna");
  CHECK(f.worker.loads[0].speculation.heads == "first.heads.gguf");
  CHECK(app.model_state() == ModelState::kLoading);
  app.apply(LoadProgress{"repacking weights", 0.25});
  CHECK(app.load_label() == "repacking weights");
  CHECK(app.load_share() == 0.25);
  app.apply(LoadFailed{"first.gguf: no such file"});
  CHECK(app.model_state() == ModelState::kFailed);
  CHECK(app.load_error() == "first.gguf: no such file");

  app.load("other.gguf");  // its heads and its template are not the first one's
  REQUIRE(f.worker.loads.size() == 2);
  CHECK(f.worker.loads[1].model.model == "other.gguf");
  CHECK(f.worker.loads[1].model.n_ctx == 77);
  CHECK(f.worker.loads[1].model.chat_template.empty());
  CHECK(f.worker.loads[1].speculation.heads.empty());
  app.apply(ModelLoaded{FakeApp::model()});
  CHECK(app.model_state() == ModelState::kReady);
  CHECK(app.model().n_layers == 4);
  CHECK(app.trace().n_layers() == 4);
  CHECK(app.can_send());
}

TEST_CASE("app state: a message and its reply, round by round, with the bytes of each token") {
  FakeApp f;
  AppState& app = f.app;
  app.set_system("Be brief.");
  app.set_reply_budget(40);
  app.send("Hello there");
  REQUIRE(f.worker.replies.size() == 1);
  const ReplyRequest& request = f.worker.replies[0];
  CHECK(request.number == 0);
  CHECK(request.max_tokens == 40);
  REQUIRE(request.messages.size() == 2);
  CHECK(request.messages[0].role == Role::kSystem);
  CHECK(request.messages[0].content == "Be brief.");
  CHECK(request.messages[1].content == "Hello there");
  CHECK(app.busy());
  CHECK(app.replying() == request.id);
  CHECK(app.conversation().title == "Hello there");
  CHECK(texts(app.conversation()) == Texts{"Hello there", ""});
  CHECK(texts(f.stored().at(0)) == Texts{"Hello there"});  // a crash loses the reply only

  f.begin(request.id, 2);
  CHECK(app.status().find("dropped the oldest 2 turns") != std::string::npos);
  app.apply(PromptRead{request.id, 5, 9});
  CHECK(app.prompt_read() == 5);
  CHECK(app.prompt_total() == 9);
  f.round(request.id, {"Hi", " the"});
  f.round(request.id, {"re", ""});  // an end token
  CHECK(app.focus_reply() == request.id);
  f.end(request.id, StopReason::kEnd, 3);
  CHECK_FALSE(app.busy());
  const Message& reply = app.conversation().messages.back();
  CHECK(reply.role == Role::kAssistant);
  CHECK(reply.text == "Hi there");
  CHECK(reply.token_ends == std::vector<size_t>{2, 6, 8, 8});
  CHECK_FALSE(reply.figures.empty());
  REQUIRE(app.trace().find(request.id));
  CHECK(app.trace().find(request.id)->columns.size() == reply.token_ends.size());
  CHECK(texts(f.stored().at(0)) == Texts{"Hello there", "Hi there"});

  f.talk("And now?", {"Yes."});
  CHECK(f.worker.replies.back().messages.size() == 4);
  CHECK(app.conversation().title == "Hello there");
}

TEST_CASE("app state: a reply that brings nothing leaves things as they were") {
  FakeApp f;
  AppState& app = f.app;
  SUBCASE("the first message, stopped: its file is gone too") {
    app.send("Hello");
    CHECK(f.stored().size() == 1);
    app.stop();
    CHECK(app.stopping());
    CHECK(f.worker.stops == 1);
    f.end(f.worker.replies[0].id, StopReason::kAborted, 0);
    CHECK_FALSE(app.stopping());
    CHECK(app.conversation().messages.empty());
    CHECK(app.conversation().title.empty());
    CHECK(app.returned_text == "Hello");
    CHECK(f.stored().empty());
  }
  SUBCASE("a later message, refused") {
    f.talk("one", {"1"});
    app.send("two");
    app.apply(ReplyFailed{f.worker.replies[1].id, "this message needs 900 tokens"});
    CHECK(texts(app.conversation()) == Texts{"one", "1"});
    CHECK(app.returned_text == "two");
    CHECK(app.errors == Texts{"this message needs 900 tokens"});
    CHECK(texts(f.stored().at(0)) == Texts{"one", "1"});
    CHECK(app.can_send());
  }
  SUBCASE("another reply: the one before it comes back") {
    f.talk("one", {"1"});
    const uint64_t first = f.worker.replies[0].id;
    app.regenerate();
    CHECK(texts(app.conversation()) == Texts{"one", ""});
    CHECK(texts(f.stored().at(0)) == Texts{"one", "1"});  // until there is a new one
    app.rename(0, "a number");
    CHECK(f.stored().at(0).title == "a number");
    CHECK(texts(f.stored().at(0)) == Texts{"one", "1"});
    f.end(f.worker.replies[1].id, StopReason::kAborted, 0);
    CHECK(texts(app.conversation()) == Texts{"one", "1"});
    CHECK(app.conversation().messages[1].reply == first);
    CHECK(app.trace().find(first));
    CHECK_FALSE(app.returned_text);
  }
  SUBCASE("an edited message: what followed it comes back") {
    f.talk("one", {"1"});
    f.talk("two", {"2"});
    app.edit(0, "uno");
    CHECK(texts(app.conversation()) == Texts{"uno", ""});
    app.apply(ReplyFailed{f.worker.replies[2].id, "no"});
    CHECK(texts(app.conversation()) == Texts{"one", "1", "two", "2"});
    CHECK(app.returned_text == "uno");
    CHECK(texts(f.stored().at(0)) == Texts{"one", "1", "two", "2"});
  }
}

TEST_CASE("app state: a reply that is cut short stays as far as it came") {
  FakeApp f;
  AppState& app = f.app;
  app.send("Hello");
  const uint64_t id = f.worker.replies[0].id;
  f.begin(id);
  f.round(id, {"Once", " upon"});
  app.rename(0, "a tale");
  CHECK(texts(f.stored().at(0)) == Texts{"Hello"});  // saved without what is under way
  CHECK(texts(app.conversation()) == Texts{"Hello", "Once upon"});
  SUBCASE("stopped") {
    app.stop();
    f.end(id, StopReason::kAborted, 2);
    CHECK(app.errors.empty());
  }
  SUBCASE("failed") {
    app.apply(ReplyFailed{id, "the device was lost"});
    CHECK(app.errors == Texts{"the device was lost"});
    CHECK(app.conversation().messages[1].figures.find("the device was lost") != std::string::npos);
    CHECK(app.trace().find(id)->over);
  }
  SUBCASE("another model is loaded") {
    app.load("other.gguf");
    CHECK(app.stopping());
    CHECK_FALSE(app.can_send());
    f.end(id, StopReason::kAborted, 2);
    app.apply(ModelLoaded{FakeApp::model()});
    CHECK(app.can_send());
  }
  CHECK_FALSE(app.busy());
  CHECK(texts(app.conversation()) == Texts{"Hello", "Once upon"});
  CHECK(texts(f.stored().at(0)) == Texts{"Hello", "Once upon"});
}

TEST_CASE("app state: other replies to the same message have other noise and the same seed") {
  FakeApp f;
  AppState& app = f.app;
  f.talk("Hello", {"Hi"});
  const uint64_t seed = app.sampling().seed;
  const size_t samplings = f.worker.samplings.size();
  app.selected = TokenRef{f.worker.replies[0].id, 0};
  app.regenerate();
  CHECK_FALSE(app.selected);  // it is no longer there
  f.answer({"Good day"});
  app.regenerate();
  f.answer({"Moin"});
  CHECK(f.worker.replies[1].number == 1);
  CHECK(f.worker.replies[2].number == 2);
  const std::string& figures = app.conversation().messages[1].figures;
  CHECK(figures.find("seed " + std::to_string(seed) + " reply 2") != std::string::npos);
  CHECK(f.worker.replies[2].messages.size() == 1);
  CHECK(f.worker.samplings.size() == samplings);
  CHECK(app.sampling().seed == seed);
  CHECK(texts(app.conversation()) == Texts{"Hello", "Moin"});
  CHECK(app.trace().find(f.worker.replies[2].id));
  CHECK_FALSE(app.trace().find(f.worker.replies[1].id));
  // The number outlives the process.
  AppState again(f.worker, f.store, f.trace);
  again.apply(ModelLoaded{FakeApp::model()});
  again.select(1);
  again.regenerate();
  CHECK(f.worker.replies.back().number == 3);
}

TEST_CASE("app state: seeds are drawn for each message, or kept") {
  FakeApp f;
  AppState& app = f.app;
  f.talk("one", {"1"});
  const uint64_t first = app.sampling().seed;
  f.talk("two", {"2"});
  REQUIRE(f.worker.samplings.size() == 2);
  CHECK(f.worker.samplings[0].seed == first);
  CHECK(f.worker.samplings[1].seed != first);
  SamplingParams params = app.sampling();
  params.seed = 7;
  params.temperature = 0;
  app.set_random_seed(false);
  app.set_sampling(params);
  f.talk("three", {"3"});
  CHECK(f.worker.samplings.size() == 3);
  CHECK(app.sampling().seed == 7);
  params.temperature = -1;
  app.set_sampling(params);
  CHECK(f.worker.samplings.size() == 3);
  CHECK(app.sampling().temperature == 0);
  CHECK(app.errors.size() == 1);
}

TEST_CASE("app state: a message that was never answered is answered, or joined by the next") {
  FakeApp f;
  AppState& app = f.app;
  app.send("Hello");  // and then the process is killed
  AppState again(f.worker, f.store, f.trace);
  CHECK_FALSE(again.can_regenerate());
  again.apply(ModelLoaded{FakeApp::model()});
  CHECK_FALSE(again.can_regenerate());  // nothing was said in the new conversation
  again.select(1);
  CHECK(texts(again.conversation()) == Texts{"Hello"});
  REQUIRE(again.can_regenerate());
  SUBCASE("answered") {
    again.regenerate();
    CHECK(f.worker.replies.back().messages.size() == 1);
    CHECK(texts(again.conversation()) == Texts{"Hello", ""});
    again.apply(ReplyFailed{f.worker.replies.back().id, "no"});
    CHECK(texts(again.conversation()) == Texts{"Hello"});
  }
  SUBCASE("joined") {
    again.send("Anybody?");
    REQUIRE(f.worker.replies.back().messages.size() == 1);
    CHECK(f.worker.replies.back().messages[0].content == "Hello\n\nAnybody?");
    again.apply(ReplyFailed{f.worker.replies.back().id, "no"});
    CHECK(texts(again.conversation()) == Texts{"Hello"});
    CHECK(again.returned_text == "Anybody?");
  }
  SUBCASE("compared") {
    again.compare("Anybody?");
    REQUIRE(f.worker.comparisons.size() == 1);
    REQUIRE(f.worker.comparisons[0].messages.size() == 1);
    CHECK(f.worker.comparisons[0].messages[0].content == "Hello\n\nAnybody?");
  }
}

TEST_CASE("app state: what cannot be edited or sent is not") {
  FakeApp f;
  AppState& app = f.app;
  f.talk("one", {"1"});
  app.send("  \n\t ");
  app.edit(1, "a reply");
  app.edit(7, "not there");
  app.edit(0, " ");
  CHECK(f.worker.replies.size() == 1);
  app.send("two");
  app.send("three");
  app.edit(0, "uno");
  app.regenerate();
  app.compare("four");
  CHECK(f.worker.replies.size() == 2);
  CHECK(f.worker.comparisons.empty());
}

TEST_CASE("app state: several conversations, the newest in front") {
  FakeApp f;
  AppState& app = f.app;
  f.talk("one", {"1"});
  app.new_conversation();
  CHECK(app.conversation().messages.empty());
  CHECK(app.conversations().size() == 2);
  app.new_conversation();
  CHECK(app.conversations().size() == 2);  // the empty one is taken
  f.talk("two", {"2"});
  app.select(1);
  CHECK(texts(app.conversation()) == Texts{"one", "1"});
  app.send("more");
  CHECK(app.current() == 0);
  CHECK(app.conversation().title == "one");
  CHECK(app.conversations()[1].title == "two");

  // The reply goes on while another conversation is looked at.
  const uint64_t id = f.worker.replies.back().id;
  f.begin(id);
  app.select(1);
  CHECK(app.busy());
  CHECK_FALSE(app.replying());
  f.round(id, {"M"});
  CHECK(texts(app.conversation()) == Texts{"two", "2"});
  app.select_in_map({id, 0});
  CHECK(app.current() == 0);
  CHECK(app.reveal_in_chat);
  CHECK(app.find_reply(id) == std::pair<size_t, size_t>(0, 3));
  f.end(id);
  app.rename(0, "the first");
  CHECK(f.stored().size() == 2);
  CHECK(std::ranges::count(f.stored(), "the first", &Conversation::title) == 1);

  app.new_conversation();
  app.select(1);
  app.remove(0);
  CHECK(app.current() == 0);
  CHECK(app.conversation().title == "the first");
  app.remove(0);
  CHECK(app.current() == 0);
  CHECK(app.conversation().title == "two");
  CHECK(f.stored().size() == 1);
  app.remove(0);
  CHECK(app.conversations().size() == 1);
  CHECK(app.conversation().messages.empty());
  app.remove(7);
  app.rename(7, "none");
  app.select(7);
  CHECK(app.current() == 0);
}

TEST_CASE("app state: a conversation that is deleted while it is answered") {
  FakeApp f;
  AppState& app = f.app;
  app.send("one");
  const uint64_t id = f.worker.replies[0].id;
  f.begin(id);
  f.round(id, {"1"});
  app.remove(0);
  CHECK(f.worker.stops == 1);
  CHECK(app.busy());
  f.round(id, {"2"});
  f.end(id, StopReason::kAborted, 2);
  CHECK_FALSE(app.busy());
  CHECK(f.stored().empty());
  CHECK(app.conversation().messages.empty());
  CHECK_FALSE(app.trace().find(id));
}

TEST_CASE("app state: what another window went on with is not deleted, and an error says so") {
  FakeApp f;
  f.talk("one", {"1"});
  ConversationStore theirs(f.folder / "conversations");
  std::vector<std::string> problems;
  theirs.save(theirs.load(problems).at(0));
  f.app.remove(0);
  CHECK(f.app.errors == Texts{"one: another window wrote to this conversation; its file stays"});
  CHECK(f.stored().size() == 1);
}

TEST_CASE("app state: stored conversations, broken files and files that cannot be written") {
  FakeApp f;
  f.talk("one", {"1"});
  std::ofstream(f.folder / "conversations/broken.json") << "{\"version\": 1, \"mess";
  AppState again(f.worker, f.store, f.trace);
  REQUIRE(again.errors.size() == 1);
  CHECK(again.errors[0].find("broken.json") != std::string::npos);
  CHECK(again.conversations().size() == 2);
  CHECK(again.current() == 0);
  CHECK(again.conversation().messages.empty());
  CHECK(again.conversations()[1].messages[1].reply == 0);
  CHECK(std::filesystem::exists(f.folder / "conversations/broken.json"));

  CHECK_FALSE(again.import_conversation(f.folder / "conversations/broken.json"));
  CHECK_FALSE(again.import_conversation(f.folder / "none.json"));
  CHECK(again.errors.size() == 2);  // the same line once
  again.open_file(f.folder / ("conversations/" + again.conversations()[1].id + ".json"));
  CHECK(again.conversations().size() == 3);
  CHECK(texts(again.conversation()) == Texts{"one", "1"});
  CHECK(f.stored().size() == 2);

  std::filesystem::remove_all(f.folder / "conversations");
  std::ofstream(f.folder / "conversations") << "a file where the folder was";
  again.rename(0, "x");
  again.rename(0, "y");
  CHECK(again.errors.size() == 3);
  for (int i = 0; i < 100; ++i) again.add_error("error " + std::to_string(i));
  CHECK(again.errors.size() == 20);
  CHECK(again.errors.back() == "error 99");
}

TEST_CASE("app state: changes of what drafts, and their refusal") {
  FakeApp f;
  AppState& app = f.app;
  DraftingChange change;
  change.on = false;
  app.change_drafting(change);
  app.change_drafting(change);
  CHECK(f.worker.draftings.size() == 2);
  CHECK(app.drafting_pending() == 2);
  CHECK(app.drafting().on);  // as told, not as wished
  Drafting drafting = FakeApp::model().drafting;
  drafting.on = false;
  app.apply(DraftingChanged{drafting, ""});
  CHECK_FALSE(app.drafting().on);
  app.apply(DraftingChanged{drafting, "tau: expected 0 to 1, found 2"});
  CHECK(app.drafting_refusal() == "tau: expected 0 to 1, found 2");
  CHECK(app.drafting_pending() == 0);
  app.change_drafting(change);
  app.apply(ModelLoaded{FakeApp::model()});
  CHECK(app.drafting_pending() == 0);
  CHECK(app.drafting_refusal().empty());
  app.apply(DraftingChanged{drafting, ""});  // of before
  CHECK(app.drafting_pending() == 0);
  app.set_guessing(true);
  app.set_guessing(true);
  app.set_guessing(false);
  CHECK(f.worker.guessings == std::vector<bool>{true, false});
}

TEST_CASE("app state: a comparison leaves the conversation as it is") {
  FakeApp f;
  AppState& app = f.app;
  f.talk("one", {"1"});
  REQUIRE(app.can_compare());
  app.compare("two");
  REQUIRE(f.worker.comparisons.size() == 1);
  const uint64_t plain = f.worker.comparisons[0].id;
  CHECK(f.worker.comparisons[0].messages.size() == 3);
  CHECK(app.comparison().running);
  CHECK(app.busy());
  CHECK(app.comparison().speculative == plain + 1);
  app.apply(ComparisonBegan{plain, plain + 1});
  f.begin(plain);
  f.round(plain, {"a", "b"});
  CHECK(app.focus_reply() == plain);
  f.end(plain);
  f.begin(plain + 1);
  f.round(plain + 1, {"a"});
  CHECK(app.focus_reply() == plain + 1);
  CHECK(app.comparison().plain_text == "ab");
  CHECK(app.comparison().speculative_text == "a");
  SUBCASE("to its end") {
    f.round(plain + 1, {"b"});
    f.end(plain + 1);
    ComparisonEnded ended;
    ended.identical = true;
    app.apply(ended);
    REQUIRE(app.comparison().result);
    CHECK(app.comparison().result->identical);
    const uint64_t focus = app.focus_reply();
    CHECK(focus == f.worker.replies[0].id);
    app.compare("three");
    CHECK(f.worker.comparisons[1].id == plain + 2);
    CHECK_FALSE(app.comparison().result);
    CHECK_FALSE(app.trace().find(plain));  // of the comparison before
  }
  SUBCASE("stopped") {
    app.stop();
    f.end(plain + 1, StopReason::kAborted);
    ComparisonEnded ended;
    ended.stopped = true;
    app.apply(ended);
    CHECK_FALSE(app.comparison().result);
  }
  SUBCASE("failed") {
    app.apply(ReplyFailed{plain + 1, "the device was lost"});
    CHECK(app.comparison().error == "the device was lost");
  }
  CHECK(texts(app.conversation()) == Texts{"one", "1"});
  CHECK(app.comparison().running == (f.worker.comparisons.size() == 2));
  CHECK_FALSE(app.stopping());
}

TEST_CASE("app state: the file to open may be a model's name, as run and chat take it") {
  FakeApp f;
  const size_t before = f.worker.loads.size();
  f.app.open_file("hf:own/x");
  REQUIRE(f.worker.loads.size() == before + 1);
  CHECK(f.worker.loads.back().model.model == "hf:own/x");
  CHECK(f.app.errors.empty());
}

TEST_CASE("app state: a trace that is looked at stands in front of what happens") {
  FakeApp f;
  AppState& app = f.app;
  CHECK_FALSE(f.open_replay(f.folder / "none.jsonl"));
  std::ofstream(f.folder / "not.jsonl") << "hello\n";
  app.open_file(f.folder / "not.jsonl");
  f.answer_trace();
  CHECK(app.errors.size() == 2);
  CHECK_FALSE(app.replay());
  REQUIRE(mkfifo((f.folder / "pipe").c_str(), 0600) == 0);
  app.open_file(f.folder / "pipe");  // whose writer would be waited for
  app.open_file(f.folder / "");
  CHECK(app.errors.size() == 4);
  CHECK_FALSE(f.open_replay(f.folder / "pipe"));
  CHECK(app.errors.back() == f.folder / "pipe" + ": not a regular file");
  std::ofstream(f.folder / "model.bin") << "GGUF and more";
  app.open_file(f.folder / "model.bin");
  CHECK(app.model_path() == f.folder / "model.bin");
  app.apply(ModelLoaded{FakeApp::model()});
  {
    Recorder recorder(f.folder / "trace.jsonl", ::creat((f.folder / "trace.jsonl").c_str(), 0600));
    TraceHeader header;
    header.specbound = "0";
    header.model = "demo.gguf";
    header.n_layers = 4;
    header.vocab_size = 1000;
    header.n_ctx = 512;
    header.backend = "CPU";
    recorder.header(header, [](int32_t) { return std::string("x"); });
    TraceReply reply;
    reply.prompt_tokens = 10;
    recorder.begin_reply(reply);
    const RowEvent row{7, kNoDraft, {}};
    TokenEvent token{};
    token.rows = 1;
    token.pos = 10;
    token.token = 8;
    RoundEvent round{};
    round.pos = 9;
    round.rows = {&row, 1};
    round.tokens = {&token, 1};
    recorder.round(round);
  }
  app.selected = TokenRef{1, 1};
  REQUIRE(f.open_replay(f.folder / "trace.jsonl"));
  CHECK_FALSE(app.selected);
  CHECK(&app.trace() != &f.trace);
  CHECK(&app.shown() != &app.conversation());
  f.talk("one", {"1"});  // goes on behind it
  app.replay()->step_round(1);
  CHECK(app.focus_reply() >= ReplayPlayer::kFirstReply);
  SUBCASE("closed") {
    app.close_replay();
  }
  SUBCASE("another conversation is chosen") {
    app.select(0);
  }
  CHECK(&app.trace() == &f.trace);
  CHECK(app.focus_reply() == f.worker.replies[0].id);
  CHECK(texts(app.shown()) == Texts{"one", "1"});
}

TEST_CASE("app state: events of replies that nobody knows change nothing") {
  FakeApp f;
  AppState& app = f.app;
  app.apply(RoundDone{99, round_of(0, 3, {"x"}), 0.1});
  app.apply(PromptRead{99, 1, 2});
  app.apply(ReplyFailed{99, "no"});
  f.end(99);
  app.apply(ComparisonEnded{});
  app.apply(Guesses{99, 3, {{1, 0.5f, "x"}}});
  app.apply(SettingsApplied{99, TraceReply()});
  CHECK(app.errors.empty());
  CHECK_FALSE(app.busy());
  CHECK(app.conversation().messages.empty());
  CHECK_FALSE(app.find_reply(0));
}

}  // namespace specbound::gui::app_state_test
