#include "decode/controller.h"

#include <algorithm>
#include <utility>

#include "error.h"

namespace specbound {
namespace {

constexpr int kFirstPlan = 4, kPlanEvery = 32;  // rounds; longer for many checks, which take longer
constexpr int kChecksPlanned = 4;               // in the time of kPlanEvery rounds
constexpr int kLeastWidth = 4, kSpareRows = 2;  // of a plan
constexpr double kTableKept = 0.985;            // of what the table counts, from plan to plan
constexpr double kRateKept = 0.98;              // of the running rate, from round to round
constexpr double kFirstRounds = 8;              // that a plain rate counts for at first

}  // namespace

Controller::Controller(const ControllerSettings& settings)
    : check_layers_(settings.check_layers),
      most_width_(settings.width),
      first_width_(std::min(settings.first_width, settings.width)),
      table_(static_cast<int>(settings.check_layers.size())),
      costs_(settings.n_layers, settings.check_layers, settings.tuned, settings.check_seconds),
      plan_(static_cast<int>(settings.check_layers.size()), settings.width),
      until_plan_(kFirstPlan),
      plan_every_(kFirstPlan) {
  SB_CHECK(!check_layers_.empty() && settings.width >= 2 && settings.width <= kMaxRows);
  control_.active = true;
  replan();
}

// No round is under way: also of one that was aborted, of which it hears no more.
void Controller::begin() {
  asked_ = false;
  place_ = {};
  context_ = 0;
}

void Controller::start() {
  asked_ = true;
  ++control_.rounds;
}

bool Controller::should_check(int check) {
  const bool pays =
      deciding_ ? plan_.check_value(place_, check, context_) > 0 : place_.rows < first_width_;
  if (check == 0) {
    ++(pays ? control_.asked : control_.declined);
  } else if (!pays) {
    ++control_.given_up;
  }
  return pays;
}

bool Controller::should_exit(int check, float confidence, bool confident) {
  const int bin = AcceptanceTable::bin(confidence);
  if (bin < 0) return false;
  context_ = AcceptanceTable::context(bin);
  const double acceptance = table_.acceptance(check, bin, place_.rows - 1);
  bool leaves = confident;
  if (deciding_) {
    const double stay = std::max(plan_.check_value(place_, check + 1, context_), 0.0);
    leaves = plan_.exit_value(place_, check, bin, acceptance) > stay;
    if (leaves != confident) ++control_.other_exits;
  }
  if (leaves) {
    place_.survival *= acceptance;
    ++place_.rows;
  }
  place_.deepest = std::max(place_.deepest, check);
  return leaves;
}

// Its place among the check layers, or -1.
int Controller::check_of(int layer) const {
  const auto found = std::lower_bound(check_layers_.begin(), check_layers_.end(), layer);
  return found != check_layers_.end() && *found == layer
             ? static_cast<int>(found - check_layers_.begin())
             : -1;
}

void Controller::learn(const RoundEvent& round) {
  if (round.round > 0) costs_.learn(round);  // a reply's first round comes cold from the prefill
  if (asked_) {
    count(round);
    longest_ = std::max(longest_, static_cast<int>(round.rows.size()));
    const double time = costs_.time(round);
    if (deciding_ && round.round > 0 && time > 0) {
      tokens_ = kRateKept * tokens_ + static_cast<double>(round.tokens.size());
      time_ = kRateKept * time_ + time;
    }
    if (--until_plan_ <= 0) replan();
  }
  begin();
}

// Rows up to the first wrong draft: those behind it say nothing.
void Controller::count(const RoundEvent& round) {
  int context = 0;
  for (const TokenEvent& token : round.tokens) {
    if (token.slot >= place_.rows) return;  // another drafter's row, beside its own
    int check = -1, bin = -1;
    for (const ExitCheck& seen : token.checks) {
      check = check_of(seen.layer);
      bin = AcceptanceTable::bin(seen.confidence);
      if (check < 0 || bin < 0) return;
      table_.saw(check, context, bin);
      context = AcceptanceTable::context(bin);
    }
    // Its own rows come first in the round, each behind the one before.
    const int own = token.slot + 1;
    if (own < place_.rows && check >= 0) {
      table_.learn(check, bin, token.slot, round.rows[own].token == token.token);
    }
  }
}

void Controller::replan() {
  costs_.decay();
  table_.decay(kTableKept);
  const int n_checks = static_cast<int>(check_layers_.size());
  const int longest = kPlanEvery * std::max(1, n_checks / kChecksPlanned);
  plan_every_ = std::min(2 * plan_every_, longest);
  until_plan_ = plan_every_;
  if (!costs_.known()) return;
  if (!std::exchange(deciding_, true)) {
    tokens_ = kFirstRounds;
    time_ = kFirstRounds * costs_.verify(1);
  }
  // Rounds longer than any of late need no plan yet.
  const int width = longest_ < plan_.width() ? longest_ + kSpareRows : 2 * longest_;
  plan_.make(table_, costs_, rate(), std::min(std::max(width, kLeastWidth), most_width_));
  longest_ = 0;
}

// Plain decoding is always there, so it is never less.
double Controller::rate() const {
  return std::max(tokens_ / time_, 1 / costs_.verify(1));
}

Control Controller::control() const {
  Control control = control_;
  if (deciding_) control.rate = rate();
  return control;
}

}  // namespace specbound
