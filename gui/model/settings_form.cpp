#include "gui/model/settings_form.h"

#include <algorithm>

#include "error.h"
#include "system/number_text.h"

namespace specbound::gui {

namespace {

constexpr std::array<FieldText, kFields> kFieldTexts = {{
    {Field::kSpeculation, "speculation", "Speculation", "--spec",
     "Shallow layers guess the next tokens, all layers check the guesses together. The text stays "
     "the same to the last byte; only the time it takes changes."},
    {Field::kPreset, "preset", "Settings", "--preset",
     "Where the settings below come from. Moving one of them overrides it until you reset."},
    {Field::kTau, "tau", "Threshold tau", "--tau",
     "How sure a layer must be of the next token for its guess to be taken as a draft. Higher: "
     "fewer drafts, and more of them right."},
    {Field::kAlpha, "alpha", "Annealing alpha", "--alpha",
     "Shallow layers are too sure of themselves. At layer l of L their scores are divided by "
     "T = 1 + alpha (1 - l / L) before they are compared with tau, so the shallowest are trusted "
     "least. 0 trusts all alike."},
    {Field::kDMax, "d_max", "Depth bound d_max", "--d-max",
     "The deepest layer a draft may leave at. A token that no layer up to here is sure of is a "
     "hard one: drafting stops, and all layers look at it."},
    {Field::kWMax, "w_max", "Width bound w_max", "--w-max",
     "How many tokens one round works on at most: drafts that wait to be verified together. More "
     "gain more when the guesses are right, and waste more when they are not."},
    {Field::kCheckLayers, "check_layers", "Check layers", "--check-layers",
     "The layers that are asked for a guess. Each check costs time, so a few good ones beat many. "
     "Layer 0 guesses before any layer has run."},
    {Field::kTemperature, "temperature", "Temperature", "--temp",
     "How adventurous the choice of tokens is. 0 always takes the likeliest one; around 0.8 is "
     "lively; far above 1 becomes random."},
    {Field::kTopP, "top_p", "Top-p", "--top-p",
     "Only the likeliest tokens that together reach this share of the probability can be chosen. 1 "
     "switches it off."},
    {Field::kTopK, "top_k", "Top-k", "--top-k",
     "Only this many of the likeliest tokens can be chosen. 0 switches it off."},
    {Field::kMinP, "min_p", "Min-p", "--min-p",
     "Tokens less likely than this share of the likeliest one's probability are never chosen. 0 "
     "switches it off."},
    {Field::kSeed, "seed", "Seed", "--seed",
     "Where chance starts from. The same seed, settings and messages give the same reply again, "
     "with speculation and without."},
    {Field::kReplyBudget, "reply_budget", "Reply budget", "-n",
     "The most tokens a reply may have. 0: it ends when the model says so."},
}};

constexpr std::array<PresetText, kPresets> kPresetTexts = {{
    {Preset::kTuned, "tuned", "Tuned for this machine",
     "What `specbound tune` found to be fastest here. Where it never ran: as shipped."},
    {Preset::kShipped, "shipped", "As shipped", "What the exit heads were published with."},
    {Preset::kPaper, "paper", "The paper's",
     "As in the SpecBound paper: up to 8 rows, layers 1-10, alpha 0.2, tau 0.55, and it never sits "
     "out a round."},
}};

bool same(const SamplingParams& a, const SamplingParams& b) {
  return a.temperature == b.temperature && a.top_k == b.top_k && a.top_p == b.top_p &&
         a.min_p == b.min_p && a.presence_penalty == b.presence_penalty &&
         a.frequency_penalty == b.frequency_penalty && a.repeat_penalty == b.repeat_penalty &&
         a.repeat_last_n == b.repeat_last_n && a.seed == b.seed;
}

bool contains(const std::vector<int>& layers, int layer) {
  return std::binary_search(layers.begin(), layers.end(), layer);
}

// "tau: expected ..." -> "expected ...": beside the control its name says nothing new.
std::string without_name(const std::string& message, std::string_view name) {
  if (!message.starts_with(name)) return message;
  const std::string_view rest = std::string_view(message).substr(name.size());
  return rest.starts_with(": ") ? std::string(rest.substr(2)) : message;
}

}  // namespace

const FieldText& field_text(Field field) {
  return kFieldTexts[static_cast<size_t>(field)];
}

const std::array<PresetText, kPresets>& preset_texts() {
  return kPresetTexts;
}

// ---- what drafts ----

void SettingsForm::sync(const Drafting& drafting, int n_layers, int pending,
                        const std::string& refusal) {
  if (pending > 0) return;
  if (n_layers != n_layers_ || drafting.head_layers != drafting_.head_layers) {  // another model
    wanted_layers_.clear();
    changed_ = changed_confirmed_ = false;
    refusals_.fill("");
    awaiting_ = false;
  }
  n_layers_ = n_layers;
  take(drafting);
  if (!awaiting_) return;
  awaiting_ = false;
  if (refusal.empty()) {
    changed_confirmed_ = changed_;
  } else {
    changed_ = changed_confirmed_;
    place_refusal(refusal, asked_);
  }
}

// The bounds leave out layers that were asked for: where they say nothing, the person's wish stays.
void SettingsForm::take(const Drafting& drafting) {
  drafting_ = drafting;
  const std::vector<int>& told = drafting.params.check_layers;
  const int d_max = drafting.params.d_max;
  bool all = true;
  std::vector<int> wanted;
  for (const int layer : drafting.head_layers) {
    const bool beyond = drafting.params.depth_bound && layer > d_max;
    const bool on = told.empty() || contains(told, layer);
    if (!beyond) all = all && on;
    if (on || (beyond && contains(wanted_layers_, layer))) wanted.push_back(layer);
  }
  // Who asked for every layer means those of a deeper bound, too.
  if (all && wanted_layers_.empty()) wanted = drafting.head_layers;
  wanted_layers_ = std::move(wanted);
}

std::vector<SettingsForm::LayerToggle> SettingsForm::layers() const {
  std::vector<LayerToggle> toggles;
  for (const int layer : drafting_.head_layers) {
    toggles.push_back({layer, contains(wanted_layers_, layer),
                       drafting_.params.depth_bound && layer > drafting_.params.d_max});
  }
  return toggles;
}

std::optional<DraftingChange> SettingsForm::ask(DraftingChange change, Field field) {
  awaiting_ = true;
  asked_ = field;
  return change;
}

std::optional<DraftingChange> SettingsForm::set_on(bool on) {
  refusals_.fill("");
  if (on == drafting_.on) return std::nullopt;
  drafting_.on = on;
  DraftingChange change;
  change.on = on;
  return ask(change, Field::kSpeculation);
}

std::optional<DraftingChange> SettingsForm::choose(Preset preset) {
  refusals_.fill("");
  drafting_.preset = preset;
  changed_ = false;
  wanted_layers_.clear();  // the preset's
  DraftingChange change;
  change.preset = preset;
  return ask(change, Field::kPreset);
}

std::optional<DraftingChange> SettingsForm::set_params(SpecBoundParams params, Field field) {
  refusals_.fill("");
  if (params.check_layers.empty()) {  // would mean all of them
    refuse(field,
           "expected at least one check layer, found none; to draft nothing, switch "
           "speculation off");
    return std::nullopt;
  }
  if (bounded_check_layers(params, n_layers_).empty()) {
    refuse(field, format("expected a check layer up to d_max %d, found none: the shallowest one is "
                         "%d",
                         params.d_max, params.check_layers.front()));
    return std::nullopt;
  }
  try {
    validate(params, n_layers_, std::min(1, drafting_.head_layers.front()));
  } catch (const Error& e) {
    place_refusal(e.what(), field);
    return std::nullopt;
  }
  wanted_layers_ = params.check_layers;
  drafting_.params = params;
  changed_ = true;
  DraftingChange change;
  change.params = params;
  return ask(change, field);
}

// The settings as they are, with every layer that was asked for.
SpecBoundParams SettingsForm::wanted() const {
  SpecBoundParams params = drafting_.params;
  params.check_layers = wanted_layers_;
  return params;
}

std::optional<DraftingChange> SettingsForm::toggle_layer(int layer, bool on) {
  const std::vector<int>& possible = drafting_.head_layers;
  if (!contains(possible, layer) || contains(wanted_layers_, layer) == on) return std::nullopt;
  SpecBoundParams params = wanted();
  std::erase(params.check_layers, layer);
  if (on) {
    params.check_layers.push_back(layer);
    std::sort(params.check_layers.begin(), params.check_layers.end());
  }
  return set_params(std::move(params), Field::kCheckLayers);
}

// ---- how tokens are drawn ----

std::optional<SamplingParams> SettingsForm::set_sampling(const SamplingParams& now,
                                                         const SamplingParams& wanted,
                                                         Field field) {
  refusals_.fill("");
  try {
    validate(wanted);
  } catch (const Error& e) {
    place_refusal(e.what(), field);
    return std::nullopt;
  }
  return same(now, wanted) ? std::nullopt : std::optional(wanted);
}

SamplingParams SettingsForm::default_sampling(const SamplingParams& now) {
  SamplingParams params;
  params.seed = now.seed;
  return params;
}

std::optional<SamplingParams> SettingsForm::set_seed(const SamplingParams& now,
                                                     std::string_view text) {
  SamplingParams wanted = now;
  const std::optional<uint64_t> seed = parse_uint(text);
  if (seed) wanted.seed = *seed;
  std::optional<SamplingParams> params = set_sampling(now, wanted, Field::kSeed);
  if (!seed) {
    refuse(Field::kSeed, format("expected a whole number from 0 to 18446744073709551615, found "
                                "\"%s\"",
                                printable(text).c_str()));
  }
  return params;
}

std::optional<int> SettingsForm::set_reply_budget(int tokens) {
  refusals_.fill("");
  if (tokens >= 0) return tokens == 0 ? -1 : tokens;
  refuse(Field::kReplyBudget, format("expected 0 (no budget) or more tokens, found %d", tokens));
  return std::nullopt;
}

// Beside the control that it names; else beside the one that was moved.
void SettingsForm::place_refusal(const std::string& message, Field field) {
  for (const FieldText& text : kFieldTexts) {
    const std::string why = without_name(message, text.name);
    if (why.size() == message.size()) continue;
    refuse(text.field, why);
    return;
  }
  refuse(field, message);
}

}  // namespace specbound::gui
