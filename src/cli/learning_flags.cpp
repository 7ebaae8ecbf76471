#include "cli/learning_flags.h"

#include <algorithm>

#include "error.h"
#include "terminal/flag_names.h"
#include "tools/tuning_prompts.h"

namespace specbound {

namespace {

constexpr size_t kQuestions = 16;

}  // namespace

void add_learning_flags(Flags& flags, IdleLearningOptions& options) {
  const Flags::Group group(flags, "Idle learning");
  const bool asks = options.mode == LearningMode::kAsk;
  const bool offers = options.mode == LearningMode::kOffer;
  flags.add_choice(
      "--idle-learning", options.mode,
      {{"ask", LearningMode::kAsk}, {"on", LearningMode::kOn}, {"off", LearningMode::kOff}},
      format("learn faster drafts while nobody works with the model, from what it "
             "writes and from what was said with it; no text changes. ask: as was "
             "answered on this machine%s (default %s)",
             asks ? ", by a line that asks once" : "",
             asks     ? "ask"
             : offers ? "off, and on a terminal a line says once that it could"
                      : "off"));
  flags.add_real("--idle-seconds", options.idle_seconds, 0, 86400,
                 "seconds without a key or a reply before it learns (default 20)");
  flags.add_real("--idle-minutes", options.minutes, 0.01, 1e5,
                 "minutes of its first round; each later one takes twice as long, eight times at "
                 "most (default 30)");
  const auto openers = tuning_openers();
  options.questions.assign(openers.begin(), openers.begin() + std::min(kQuestions, openers.size()));
}

void begin_learning(IdleLearning& learning, bool quiet) {
  try {
    const std::string line = learning.begin();
    if (!line.empty() && !quiet) say(line);
  } catch (const Error& e) {
    say(std::string("idle learning: ") + e.what());
  }
}

}  // namespace specbound
