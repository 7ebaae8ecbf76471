// What the window costs the worker: the same replies, number by number, by a bare session and by
// the worker thread while its events are taken, applied and drawn sixty times a second (without
// OpenGL: that part is the driver's, tests/bench/gui_frames.py has it). One JSON object on stdout.
// bench_gui_engine -m FILE [-t N] [--gen TOKENS a reply] [--repeats PAIRS of replies]
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench_model.h"
#include "gui/headless.h"
#include "gui/model/app_state.h"
#include "gui/model/conversation.h"
#include "gui/view/main_view.h"
#include "gui/worker/worker_thread.h"
#include "runtime/loaded_model.h"
#include "runtime/speculation.h"
#include "templates/chat_template.h"

using namespace specbound;

namespace {

const std::string kMessage = "What did you do today? Tell me about it.";

SamplingParams sampling() {
  SamplingParams params;
  params.seed = 1;
  return params;
}

gui::LoadRequest request(const bench::Arguments& a, bool speculate) {
  gui::LoadRequest request;
  request.model.model = a.model;
  request.model.n_threads = a.threads;
  request.speculation.on = speculate;
  request.speculation.specbound.preset = Preset::kShipped;
  return request;
}

struct Took {
  double seconds = 0;
  double telling = 0;  // of these: neither prompt nor decoding
  std::vector<int32_t> tokens;
};

// A session with nobody looking on.
class Bare {
 public:
  explicit Bare(const gui::LoadRequest& request)
      : model_(request.model), speculation_(request.speculation, model_) {
    template_ = ChatTemplate::from_gguf(model_.gguf());
    LoadWatcher quiet;
    quiet.progress = [](const std::string&, size_t, size_t) {};
    quiet.note = [](const std::string&) {};
    model_.load(speculation_.heads(), quiet);
    speculation_.attach(model_.backend());
    session_.emplace(model_.backend(), Sampler(sampling()));
    session_->set_speculator(speculation_.speculator());
  }

  Took reply(uint32_t number, int max_tokens) {
    const ChatMessage message{ChatMessage::Role::kUser, kMessage};
    const std::vector<int32_t> prompt = template_->encode(model_.tokenizer(), {&message, 1});
    GenerateOptions options;
    options.max_tokens = max_tokens;
    options.reply = number;
    options.is_end = [&](int32_t id) { return model_.ends_reply(id); };
    options.measure_plain = true;
    const double start = bench::now();
    session_->generate(prompt, options);
    Took took{bench::now() - start, 0, {}};
    const auto tokens = session_->tokens().subspan(prompt.size());
    took.tokens.assign(tokens.begin(), tokens.end());
    return took;
  }
  std::string backend() { return model_.backend().description(); }

 private:
  LoadedModel model_;
  Speculation speculation_;
  std::unique_ptr<ChatTemplate> template_;
  std::optional<Session> session_;
};

// The window but for its pixels.
class Window {
 public:
  explicit Window(const gui::LoadRequest& request) : worker_("", [] {}) {
    ui_.set_frame([this] { view_.draw(app_, gui::probe(), times_, "none"); });
    app_.set_random_seed(false);
    app_.set_sampling(sampling());
    app_.set_launch(request);
    app_.load(request.model.model);
    until([this] { return app_.model_state() != gui::ModelState::kLoading; });
    if (!app_.can_send()) throw Error(ErrorCode::kUsage, app_.load_error());
  }

  // Replies are numbered from 0, one by one.
  Took reply(int max_tokens) {
    app_.set_reply_budget(max_tokens);
    took_ = {};
    if (app_.conversation().messages.empty()) {
      app_.send(kMessage);
    } else {
      app_.regenerate();
    }
    until([this] { return !app_.busy(); });
    return took_;
  }

 private:
  template <class F>
  void until(F over) {
    while (!over()) {
      for (const gui::WorkerEvent& event : worker_.take_events()) {
        if (const auto* ended = std::get_if<gui::ReplyEnded>(&event)) {
          took_.seconds = ended->seconds;
          took_.telling =
              ended->seconds - ended->stats.prefill_seconds - ended->stats.decode_seconds;
        } else if (const auto* done = std::get_if<gui::RoundDone>(&event)) {
          for (const TokenRecord& token : done->round.tokens) took_.tokens.push_back(token.token);
        }
        app_.apply(event);
      }
      ui_.frame();
      ++frames;
      next_ = std::max(next_ + std::chrono::microseconds(16667), Clock::now());
      std::this_thread::sleep_until(next_);
    }
  }

 public:
  int frames = 0;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point next_ = Clock::now();
  Took took_;
  gui::Headless ui_;
  gui::ConversationStore store_{""};
  gui::TraceModel trace_;
  gui::WorkerThread worker_;
  gui::AppState app_{worker_, store_, trace_};
  gui::FrameTimes times_;
  gui::MainView view_{gui::WindowSettings()};
};

nlohmann::json measure(const bench::Arguments& a, bool speculate) {
  Bare bare(request(a, speculate));
  Window window(request(a, speculate));
  std::vector<double> ratios;
  double bare_seconds = 0, window_seconds = 0, telling = 0;
  size_t tokens = 0;
  for (int i = 0; i <= a.repeats; ++i) {
    // Who goes first changes, so that neither always finds the machine as the other left it.
    Took alone, shown;
    if (i % 2 == 0) alone = bare.reply(i, a.gen);
    shown = window.reply(a.gen);
    if (i % 2 == 1) alone = bare.reply(i, a.gen);
    if (alone.tokens != shown.tokens) {
      throw Error(ErrorCode::kUsage, format("reply %d: the window's is another one", i));
    }
    if (i == 0) continue;  // warms up
    ratios.push_back(shown.seconds / alone.seconds);
    bare_seconds += alone.seconds;
    window_seconds += shown.seconds;
    telling += shown.telling;
    tokens += shown.tokens.size();
  }
  return {{"backend", bare.backend()},
          {"replies", ratios.size()},
          {"tokens", tokens},
          {"frames", window.frames},
          {"bare_tokens_per_second", static_cast<double>(tokens) / bare_seconds},
          {"window_tokens_per_second", static_cast<double>(tokens) / window_seconds},
          {"telling_share", telling / window_seconds},
          {"ratio", median(ratios)}};
}

}  // namespace

int main(int argc, char** argv) try {
  bench::Arguments a;
  a.threads = 1;
  a.gen = 400;
  a.repeats = 200;
  a = bench::parse(argc, argv, a);
  const nlohmann::json results = {{"plain", measure(a, false)}, {"speculative", measure(a, true)}};
  std::printf("%s\n", results.dump().c_str());
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
