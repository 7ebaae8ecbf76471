// A world for the controller: rows whose confidences and fates are drawn from given distributions,
// and layers that take given times. The rounds are those of the loop, down to which rows run
// together; no model, no clock.
#pragma once

#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <vector>

#include "chain_rows.h"
#include "decode/controller.h"
#include "tiny_gguf.h"

namespace specbound::test {

struct World {
  const char* name;
  std::vector<int> check_layers;
  // How sure a check is of a row, from how easy the row is, 0..1, and its share of the layers.
  std::function<double(double easy, double depth)> confidence;
  // The chance that a draft which leaves at that check is right.
  std::function<double(double confidence, double depth)> right;
  double layer_slope = 0.05;                           // of a layer's time, each row more
  double rest = 0.05, rest_slope = 0.5, check = 0.02;  // of a plain round's layers
  double noise = 0.05;                                 // of every measured time
  double further = 1;                                  // times `right`, each row of a round more
  double length_slope = 0;                             // of all times, each token of text more
};

struct Tally {
  double tokens = 0, seconds = 0, drafts = 0;
  double rate() const { return tokens / seconds; }
};

class WorldLoop {
 public:
  static constexpr int kLayers = 16;

  explicit WorldLoop(uint64_t seed = 1) : random_(seed) {}

  double layer(const World& w, int rows) const {
    return (1 + w.layer_slope * (rows - 1)) / kLayers;
  }
  double rest(const World& w, int rows) const { return w.rest * (1 + w.rest_slope * (rows - 1)); }
  double plain(const World& w) const { return kLayers * layer(w, 1) + rest(w, 1); }

  // One round; `policy` nullptr: tau and the width decide. Its seconds are those without noise, of
  // an empty text.
  void round(const World& world, DraftPolicy* policy, double tau, int width, Tally& tally) {
    world_ = &world;
    rows_.clear();
    passes_.clear();
    done_.fill(0);
    draft_seconds_ = verify_seconds_ = 0;
    append();
    if (policy) width = std::min(width, policy->width());
    // As the switch asks for one now and then.
    if (policy && world.length_slope > 0 && number_ % 32 == 0) width = 1;
    DraftEnd end = DraftEnd::kPlain;
    if (width > 1) {
      if (policy) policy->start();
      end = draft(policy, tau, width);
    }
    run(1, kLayers, Phase::kVerify);
    const int rows = static_cast<int>(rows_.size());
    verify_seconds_ += rest(world, rows);
    tokens_.clear();
    for (int slot = 0; slot < rows; ++slot) {
      TokenEvent token{};
      token.slot = slot;
      token.checks = rows_[slot].checks;
      token.token = 1;
      token.draft = slot + 1 < rows ? (rows_[slot].right ? 1 : 2) : -1;
      token.exit_layer = rows_[slot].exit;
      tokens_.push_back(token);
      if (!token.accepted()) break;
    }
    tally.tokens += static_cast<double>(tokens_.size());
    tally.seconds += draft_seconds_ + verify_seconds_;
    tally.drafts += rows - 1;
    write(tokens_.size());
    text_.erase(text_.begin(), text_.begin() + static_cast<long>(tokens_.size()));
    if (!policy) return;
    events_.clear();
    for (size_t i = 0; i < rows_.size(); ++i) {
      const bool right = i == 0 || rows_[i - 1].right;
      events_.push_back({right ? 1 : 2, rows_[i].exit, rows_[i].checks});
    }
    make_chain(events_);
    RoundEvent event{++number_, pos_, end, events_, tokens_, passes_, {}};
    const double slower = 1 + world.length_slope * pos_;
    event.ns[static_cast<size_t>(Phase::kDraft)] = noisy(slower * draft_seconds_);
    event.ns[static_cast<size_t>(Phase::kVerify)] = noisy(slower * verify_seconds_);
    policy->learn(event);
    if (world.length_slope > 0) move(static_cast<int>(tokens_.size()));
  }

 private:
  struct Row {
    double easy;
    bool right = false;
    int exit = kNoDraft;
    std::vector<ExitCheck> checks;
  };

  // Replies of 64 tokens to prompts of any length.
  void move(int tokens) {
    pos_ += tokens;
    left_ -= tokens;
    if (left_ > 0) return;
    pos_ = static_cast<int>(40 + 600 * random_.uniform());
    left_ = 64;
  }
  int64_t noisy(double seconds) {
    return static_cast<int64_t>(1e7 * seconds * (1 + world_->noise * (2 * random_.uniform() - 1)));
  }
  // Up to the token `place` behind the root.
  void write(size_t place) {
    while (text_.size() <= place) {
      const bool alike = !text_.empty() && random_.uniform() < 0.5;
      text_.push_back(alike ? text_.back() : random_.uniform());
    }
  }
  // The text is what it is, whatever is drafted: a token is often about as easy as the one before.
  // Behind a wrong draft rows are of another text.
  void append() {
    const bool right = rows_.empty() || (rows_.back().right && on_text_);
    on_text_ = right;
    write(rows_.size());
    rows_.push_back({right ? text_[rows_.size()] : random_.uniform(), false, kNoDraft, {}});
  }
  void run(int from, int to, Phase phase) {
    for (int l = from; l <= to; ++l) {
      const int n = static_cast<int>(rows_.size()) - done_[l];
      if (n == 0) continue;
      (phase == Phase::kDraft ? draft_seconds_ : verify_seconds_) += layer(*world_, n);
      passes_.push_back({l, l, done_[l], n, phase});
      done_[l] += n;
    }
  }
  DraftEnd draft(DraftPolicy* policy, double tau, int width) {
    while (static_cast<int>(rows_.size()) < width) {
      bool left = false;
      int from = 1;
      for (size_t i = 0; i < world_->check_layers.size() && !left; ++i) {
        const int check = static_cast<int>(i), layer = world_->check_layers[i];
        if (policy && !policy->should_check(check)) {
          if (check > 0) return DraftEnd::kDifficult;
          return rows_.size() == 1 ? DraftEnd::kPlain : DraftEnd::kWidth;
        }
        run(from, layer, Phase::kDraft);
        from = layer + 1;
        draft_seconds_ += world_->check;
        const double depth = static_cast<double>(layer) / kLayers;
        const double noisy_ease = rows_.back().easy + 0.1 * (random_.uniform() - 0.5);
        const double sure = std::clamp(world_->confidence(noisy_ease, depth), 0.0, 1.0);
        rows_.back().checks.push_back({layer, static_cast<float>(sure)});
        const bool confident = sure >= tau;
        left = policy ? policy->should_exit(check, static_cast<float>(sure), confident) : confident;
        if (!left) continue;
        rows_.back().exit = layer;
        const double distance = static_cast<double>(rows_.size() - 1);
        rows_.back().right =
            random_.uniform() < world_->right(sure, depth) * std::pow(world_->further, distance);
      }
      if (!left) return DraftEnd::kDifficult;
      append();
    }
    return DraftEnd::kWidth;
  }

  TinyRandom random_;
  const World* world_ = nullptr;
  bool on_text_ = true;
  std::deque<double> text_;  // how easy, from the root on
  double draft_seconds_ = 0, verify_seconds_ = 0;
  int number_ = 0;
  int pos_ = 0, left_ = 64;  // tokens, before the round and to the end of the reply
  std::vector<Row> rows_;
  std::vector<RowEvent> events_;
  std::vector<TokenEvent> tokens_;
  std::vector<LayerPass> passes_;
  std::array<int, kLayers + 1> done_{};
};

}  // namespace specbound::test
