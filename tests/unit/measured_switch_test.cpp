// The measured switch against drafters of every quality, on a clock of our own: what it may lose,
// what it may give up, when it pauses and when it tries again.
#include "decode/measured_switch.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "decode/generate.h"
#include "engine_rig.h"

namespace measured_switch_test {

using namespace specbound;
using namespace specbound::test;

namespace {

constexpr double kPlain = 1e6;  // nanoseconds of a plain round

class Drafter final : public Speculator {
 public:
  const char* name() const override { return "drafter"; }
  int width() const override { return 8; }
  DraftEnd draft(Round&) override { return DraftEnd::kWidth; }
  void accept(Backend&, const RoundEvent&) override { ++accepted; }
  int accepted = 0;
};

Backend& backend() {
  static const TinyModel model([] {
    TinySpec spec;
    spec.type = DType::kQ8_0;
    return spec;
  }());
  static const std::unique_ptr<Backend> backend = model.backend(Isa::kPortable, 1);
  return *backend;
}

// What a speculative round of at most `width` rows gives.
struct Outcome {
  int tokens;
  double nanoseconds;
};
using Drafts = std::function<Outcome(int width, TinyRandom&)>;

// Rounds of the loop without the loop.
class Clock {
 public:
  explicit Clock(Drafts drafts, double plain = kPlain)
      : drafts_(std::move(drafts)), plain_(plain) {}

  void reply(int n_tokens, int prompt = 50) {
    const std::vector<int32_t> text(prompt);
    control.begin(text);
    int pos = prompt - 1, round = 0;
    for (int left = n_tokens; left > 0; ++round) {
      const int width = std::min(control.width(), left);
      Outcome outcome = {1, plain_};
      if (width > 1) outcome = drafts_(width, random_);
      double noise = slow > 0 && random_.uniform() < slow ? 40 * kPlain : 0;
      const double longer = 1 + length_slope * pos;
      if (unsteady > 0) noise += outcome.nanoseconds * unsteady * (2 * random_.uniform() - 1);
      const int tokens = std::min(outcome.tokens, left);
      const std::vector<RowEvent> rows(width);
      const std::vector<TokenEvent> given(tokens);
      RoundEvent event = {round, pos, width > 1 ? DraftEnd::kWidth : DraftEnd::kPlain, rows, given,
                          {},    {}};
      event.ns[0] = static_cast<int64_t>(longer * (outcome.nanoseconds + noise));
      control.accept(backend(), event);
      seconds += outcome.nanoseconds;  // what made it slow would have come plainly too
      all_tokens += tokens;
      drafting_rounds += width > 1;
      left -= tokens;
      pos += tokens;
    }
  }
  double speed() const { return all_tokens * plain_ / seconds; }
  void set_plain(double plain) { plain_ = plain; }
  void set_drafts(Drafts drafts) { drafts_ = std::move(drafts); }

  Drafter drafter;
  MeasuredSwitch control{drafter};
  double seconds = 0;       // of empty texts
  double slow = 0;          // share of the rounds that are interrupted
  double unsteady = 0;      // share of its time that a round takes more or less
  double length_slope = 0;  // of all times, each token of text more
  int64_t all_tokens = 0, drafting_rounds = 0;

 private:
  Drafts drafts_;
  double plain_;
  TinyRandom random_{1};
};

// Each draft is right with chance `right`; a round of n rows takes 1 + (n - 1) / 5 plain ones and
// `extra` for every row that was looked for.
Drafts drafts(double right, double extra, double plain = kPlain) {
  return [=](int width, TinyRandom& random) {
    int tokens = 1;
    while (tokens < width && random.uniform() < right) ++tokens;
    return Outcome{tokens, plain * (1 + (width - 1) * (0.2 + extra))};
  };
}

}  // namespace

TEST_CASE("other settings are tried at once, whatever the ones before have lost") {
  const auto losing = [](int width, TinyRandom&) { return Outcome{1, width * kPlain}; };
  const auto winning = [](int width, TinyRandom&) { return Outcome{width, 1.5 * kPlain}; };
  Clock clock(losing);
  clock.reply(2000);
  REQUIRE(clock.control.pause().tokens_left > 0);
  REQUIRE(clock.control.width() == 1);
  const int64_t before = clock.drafting_rounds;
  clock.set_drafts(winning);
  clock.control.reconsider();
  CHECK(clock.control.pause().tokens_left == 0);
  CHECK(clock.control.pause().speed == 0);
  CHECK(clock.control.width() == MeasuredSwitch::kTrialRows);
  clock.reply(100);
  CHECK(clock.drafting_rounds > before + 5);
  CHECK(clock.control.width() == 8);

  // Those that lose too are given up as soon as the first were.
  clock.set_drafts(losing);
  clock.control.reconsider();
  const double rate = clock.speed();
  clock.reply(2000);
  CHECK(clock.control.pause().tokens_left > 0);
  CHECK(clock.speed() > 0.9 * std::min(rate, 1.0));
}

TEST_CASE("the switch: however bad the drafts, at least 0.97 of plain speed") {
  for (const double right : {0.0, 0.3, 0.6}) {
    for (const double extra : {0.05, 0.3, 1.0}) {
      Clock clock(drafts(right, extra));
      for (int i = 0; i < 40; ++i) clock.reply(100);
      CAPTURE(right);
      CAPTURE(extra);
      CHECK(clock.speed() >= 0.99);
      Clock one_reply(drafts(right, extra));
      one_reply.reply(1000);
      CHECK(one_reply.speed() >= 0.97);
    }
  }
}

TEST_CASE("the switch: drafts that win are let alone, within 1 percent") {
  for (const double right : {0.7, 0.8, 0.95}) {
    const Drafts good = drafts(right, 0.02);
    Clock clock(good);
    double alone = 0;  // nanoseconds without the switch
    TinyRandom random(2);
    for (int i = 0; i < 600; ++i) {
      clock.reply(100);
      for (int left = 100; left > 0;) {
        const Outcome outcome = good(std::min(8, left), random);
        left -= outcome.tokens;
        alone += outcome.nanoseconds;
      }
    }
    CAPTURE(right);
    CHECK(clock.seconds <= 1.01 * alone);
    CHECK(clock.speed() > 1.2);
    CHECK(clock.control.pause().tokens_left == 0);
  }
}

TEST_CASE("the switch: cooldowns grow while trials fail, end when they succeed, and are told") {
  Clock clock(drafts(0, 0.1));
  std::vector<int> cooldowns;
  int before = 0;
  for (int i = 0; i < 30000; ++i) {
    clock.reply(1);  // looks after every token; first rounds are not weighed
    clock.reply(4);
    const Pause pause = clock.control.pause();
    if (pause.tokens_left > before) {
      cooldowns.push_back(pause.tokens_left);
      CHECK(pause.speed > 0.3);
      CHECK(pause.speed < 0.9);
      CHECK(clock.control.width() == 1);
    }
    before = pause.tokens_left;
  }
  REQUIRE(cooldowns.size() >= 8);
  for (size_t i = 0; i < cooldowns.size(); ++i) {
    const int cooldown = std::min(MeasuredSwitch::kShortCooldown << std::min<size_t>(i, 20),
                                  MeasuredSwitch::kLongCooldown);
    CHECK(cooldowns[i] <= cooldown);
    CHECK(cooldowns[i] > cooldown - 5);
  }
  // The drafts get better: it notices, and a later loss begins with a short cooldown again.
  clock.set_drafts(drafts(0.9, 0));
  clock.reply(2 * MeasuredSwitch::kLongCooldown);
  CHECK(clock.control.pause().tokens_left == 0);
  CHECK(clock.control.width() == 8);
  clock.set_drafts(drafts(0, 0.1));
  clock.reply(60);
  CHECK(clock.control.pause().tokens_left > 0);
  CHECK(clock.control.pause().tokens_left <= MeasuredSwitch::kShortCooldown);
}

TEST_CASE("the switch: a machine that is busy now and then does not turn good drafts off") {
  Clock clock(drafts(0.8, 0.02));
  clock.slow = 0.01;
  for (int i = 0; i < 100; ++i) clock.reply(200);
  CHECK(clock.speed() > 1.5);
  CHECK(clock.drafting_rounds * 2 > clock.all_tokens / 4);
}

TEST_CASE("the switch: a first plain round that is interrupted does not make losing drafts win") {
  Clock clock(drafts(0.2, 0.1));
  clock.slow = 1;
  clock.reply(2);  // its second token comes plainly
  clock.slow = 0;
  for (int i = 0; i < 20; ++i) clock.reply(100);
  CHECK(clock.speed() >= 0.98);
  CHECK(clock.drafting_rounds < 100);
}

TEST_CASE("the switch: texts that get longer, and a machine that gets slower, are no reason") {
  Clock clock(drafts(0.8, 0.02));
  clock.reply(300);
  for (const double slower : {1.3, 2.0, 4.0}) {  // longer prompts take longer a token
    clock.set_plain(slower * kPlain);
    clock.set_drafts(drafts(0.8, 0.02, slower * kPlain));
    const int64_t drafted = clock.drafting_rounds;
    for (int i = 0; i < 10; ++i) clock.reply(200, static_cast<int>(500 * slower));
    CHECK(clock.drafting_rounds - drafted > 400);
  }
  // The same texts on a machine half as fast: plain rounds tell.
  clock.set_plain(8 * kPlain);
  clock.set_drafts(drafts(0.8, 0.02, 8 * kPlain));
  for (int i = 0; i < 20; ++i) clock.reply(200, 2000);
  CHECK(clock.control.pause().tokens_left == 0);
}

TEST_CASE("the switch: what longer texts cost is neither a loss nor an excuse") {
  // Rounds of 1.8 tokens that gain 6 percent or lose 5, as times vary and texts are long and short.
  for (const double cost : {1.7, 1.9}) {
    for (const double slope : {0.003, 0.01}) {
      double drafted = 0, speed = 0;  // means
      for (const uint64_t seed : {1, 2, 3, 4, 5, 6}) {
        Clock clock([&](int, TinyRandom& random) {
          return Outcome{random.uniform() < 0.6 ? 1 : 3, cost * kPlain};
        });
        clock.unsteady = 0.3;
        clock.length_slope = slope;
        TinyRandom random(seed);
        for (int i = 0; i < 400; ++i)
          clock.reply(64, static_cast<int>(20 + 600 * random.uniform()));
        const auto rounds = static_cast<double>(clock.drafting_rounds);
        drafted += 1.8 * rounds / static_cast<double>(clock.all_tokens) / 6;
        speed += clock.speed() / 6;
      }
      CAPTURE(cost);
      CAPTURE(slope);
      CHECK((cost < 1.8 ? drafted > 0.8 : drafted < 0.1));
      CHECK(speed > (cost < 1.8 ? 1.03 : 0.99));
    }
  }
}

TEST_CASE("the switch: it passes everything on, and begins narrow") {
  Clock clock(drafts(1, 0));
  CHECK(std::string(clock.control.name()) == "drafter");
  CHECK(&clock.control.drafter() == &clock.drafter);
  clock.control.begin({});
  CHECK(clock.control.width() == MeasuredSwitch::kTrialRows);  // a reply's first round
  clock.reply(40);
  CHECK(clock.drafter.accepted > 0);
  CHECK(clock.control.width() == 8);
}

namespace {

// Takes its time, and is never right.
class Waster final : public Speculator {
 public:
  const char* name() const override { return "waster"; }
  int width() const override { return 8; }
  DraftEnd draft(Round& round) override {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
    while (std::chrono::steady_clock::now() < until) {
    }
    while (!round.full()) round.append(0, 0);
    return DraftEnd::kWidth;
  }
};

}  // namespace

TEST_CASE("the switch in the loop: the same text, and the rounds it sat out are counted") {
  SamplingParams greedy;
  greedy.temperature = 0;
  const std::vector<int32_t> prompt = token_ids(9, 97);
  GenerateOptions options;
  options.max_tokens = 60;
  Session plain(backend(), Sampler(greedy));
  plain.generate(prompt, options);
  const std::vector<int32_t> text(plain.tokens().begin(), plain.tokens().end());

  Waster waster;
  MeasuredSwitch control(waster);
  Session session(backend(), Sampler(greedy));
  session.set_speculator(&control);
  int drafted = 0;
  options.on_round = [&](const RoundEvent& round) {
    drafted += round.draft_end == DraftEnd::kWidth;
  };
  const GenerateStats stats = session.generate(prompt, options);
  CHECK(std::vector<int32_t>(session.tokens().begin(), session.tokens().end()) == text);
  CHECK(stats.speculated);
  CHECK(stats.paused_rounds > 30);
  CHECK(stats.pause.tokens_left > 0);
  CHECK(stats.pause.speed > 0);
  CHECK(stats.pause.speed < 0.5);
  CHECK(drafted < 10);
  options.max_tokens = 5;
  const GenerateStats next = session.generate(text, options);
  CHECK(next.speculated);
  CHECK(next.paused_rounds == 5);
}

}  // namespace measured_switch_test
