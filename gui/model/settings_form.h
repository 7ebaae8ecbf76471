// What the controls show, and what a person's wish becomes: a change for the worker, or a refusal
// beside the control. It keeps a slider steady while answers to its older places still come in. No
// drawing, no worker.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decode/sampler.h"
#include "drafters/specbound.h"
#include "gui/worker/messages.h"
#include "runtime/speculation_options.h"

namespace specbound::gui {

enum class Field {
  kSpeculation,
  kPreset,
  kTau,
  kAlpha,
  kDMax,
  kWMax,
  kCheckLayers,
  kTemperature,
  kTopP,
  kTopK,
  kMinP,
  kSeed,
  kReplyBudget,
};
inline constexpr int kFields = 13;

// What a control says of itself.
struct FieldText {
  Field field;
  const char* name;     // for probes: "tau"
  const char* label;    // what stands beside it
  const char* flag;     // that asks for the same on the command line
  const char* teaches;  // for someone who meets it for the first time
};
const FieldText& field_text(Field field);

struct PresetText {
  Preset preset;
  const char* name;  // for probes
  const char* label;
  const char* teaches;
};
inline constexpr int kPresets = 3;
const std::array<PresetText, kPresets>& preset_texts();

class SettingsForm {
 public:
  // ---- what drafts ----

  // Before each drawing: what the worker says, how many changes it has not answered yet, and why it
  // refused the newest one that it did (empty: it did not).
  void sync(const Drafting& drafting, int n_layers, int pending, const std::string& refusal);

  bool possible() const { return drafting_.possible; }  // something can draft
  // A drafter with settings; others can only be switched on and off.
  bool has_settings() const { return possible() && !drafting_.head_layers.empty(); }
  bool on() const { return drafting_.on; }
  Preset preset() const { return drafting_.preset; }
  // Something was set by hand since the preset was chosen.
  bool changed() const { return changed_; }
  const SpecBoundParams& params() const { return drafting_.params; }
  int deepest() const { return n_layers_ > 1 ? n_layers_ - 1 : 1; }  // that d_max may be

  struct LayerToggle {
    int layer = 0;
    bool on = false;
    bool beyond = false;  // deeper than d_max: not asked, whatever it is set to
  };
  std::vector<LayerToggle> layers() const;

  // Each gives what to ask of the worker; nothing when that would change nothing, or is refused
  // here already.
  std::optional<DraftingChange> set_on(bool on);
  std::optional<DraftingChange> choose(Preset preset);
  std::optional<DraftingChange> set_tau(float tau) {
    return set_bound(&SpecBoundParams::tau, tau, Field::kTau);
  }
  std::optional<DraftingChange> set_alpha(float alpha) {
    return set_bound(&SpecBoundParams::alpha, alpha, Field::kAlpha);
  }
  std::optional<DraftingChange> set_d_max(int layer) {
    return set_bound(&SpecBoundParams::d_max, layer, Field::kDMax);
  }
  std::optional<DraftingChange> set_w_max(int rows) {
    return set_bound(&SpecBoundParams::w_max, rows, Field::kWMax);
  }
  std::optional<DraftingChange> toggle_layer(int layer, bool on);

  // ---- how tokens are drawn ----

  // `wanted` if it is other than `now` and can be had; `field`: what was moved.
  std::optional<SamplingParams> set_sampling(const SamplingParams& now,
                                             const SamplingParams& wanted, Field field);
  // A seed as typed: any 64-bit number.
  std::optional<SamplingParams> set_seed(const SamplingParams& now, std::string_view text);
  // The program's own settings; the seed stays.
  static SamplingParams default_sampling(const SamplingParams& now);
  // Tokens of a reply as asked for, 0: as many as it takes. As AppState has it; nothing when that
  // cannot be.
  std::optional<int> set_reply_budget(int tokens);

  // Why the newest wish for this field was refused; empty: it was not.
  const std::string& refusal(Field field) const { return refusals_[static_cast<int>(field)]; }

 private:
  void take(const Drafting& drafting);
  SpecBoundParams wanted() const;
  std::optional<DraftingChange> ask(DraftingChange change, Field field);
  std::optional<DraftingChange> set_params(SpecBoundParams params, Field field);
  template <class T>
  std::optional<DraftingChange> set_bound(T SpecBoundParams::*bound, T value, Field field) {
    if (!has_settings() || value == drafting_.params.*bound) return std::nullopt;
    SpecBoundParams params = wanted();
    params.*bound = value;
    if (field == Field::kAlpha) params.learned = false;
    return set_params(std::move(params), field);
  }
  void place_refusal(const std::string& message, Field field);
  void refuse(Field field, const std::string& why) { refusals_[static_cast<int>(field)] = why; }

  Drafting drafting_;  // as the person left it
  int n_layers_ = 0;
  std::vector<int> wanted_layers_;  // ascending, those beyond d_max too
  bool changed_ = false, changed_confirmed_ = false;
  bool awaiting_ = false;              // the answer to the newest change
  Field asked_ = Field::kSpeculation;  // what that was about
  std::array<std::string, kFields> refusals_;
};

}  // namespace specbound::gui
