#include "gui/view/controls_view.h"

#include <algorithm>
#include <cfloat>
#include <cstdio>
#include <optional>
#include <string>
#include <type_traits>

#include "error.h"
#include "gui/view/fonts.h"
#include "gui/view/learning_view.h"
#include "gui/view/probe.h"
#include "gui/view/theme.h"
#include "gui/view/widgets.h"

namespace specbound::gui {

namespace {

// In points.
constexpr float kLabelWidth = 150;   // beside a control
constexpr float kNarrowPanel = 310;  // narrower panels have the label above it

// Where sliders end; who types (Ctrl + click) may go on to whatever is allowed.
constexpr float kMaxTemperature = 2, kMaxAlpha = 2, kMaxMinP = 0.5f;
constexpr int kMaxTopK = 200;

// Of the newest item, while it is pointed at: what the field does.
void teach(Field field) {
  if (ImGui::IsItemActive()) return;
  const FieldText& text = field_text(field);
  tooltip(format("%s\n\nOn the command line: %s", text.teaches, text.flag));
}

// The control comes next, as wide as what is left.
void label(Field field) {
  const bool beside = ImGui::GetContentRegionAvail().x >= theme().px(kNarrowPanel);
  const float left = ImGui::GetCursorPosX();
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted(field_text(field).label);
  teach(field);
  if (beside) ImGui::SameLine(left + theme().px(kLabelWidth));
  ImGui::SetNextItemWidth(-FLT_MIN);
}

void ask(AppState& state, const std::optional<DraftingChange>& change) {
  if (change) state.change_drafting(*change);
}

void ask(AppState& state, const std::optional<SamplingParams>& params) {
  if (params) state.set_sampling(*params);
}

// "controls.tau"
std::string probed(const char* name) {
  return std::string("controls.") + name;
}

}  // namespace

void ControlsView::draw(AppState& state, Probe& probe) {
  const bool ready = state.model_state() == ModelState::kReady;
  form_.sync(ready ? state.drafting() : Drafting(), ready ? state.model().n_layers : 0,
             state.drafting_pending(), state.drafting_refusal());
  wrapped_text(state.comparison().running ? "Changes take effect when the comparison is over."
               : state.busy()
                   ? "Changes take effect from the next round of the reply under way, its budget "
                     "from the next reply on."
                   : "Changes take effect from the next round on. Point at a name to learn "
                     "what it does.",
               theme().dim);
  ImGui::Spacing();
  draw_speculation(state, probe);
  ImGui::Spacing();
  ImGui::Separator();
  ImGui::Spacing();
  draw_sampling(state, probe);
}

// ---- one control ----

// Behind the control: what it is called, what it does, why the newest wish was refused.
void ControlsView::end_control(Field field, Probe& probe) {
  if (probe.on()) probe.item(probed(field_text(field).name));
  teach(field);
  const std::string& refusal = form_.refusal(field);
  if (refusal.empty()) return;
  wrapped_text("Not changed: " + refusal, theme().error);
  if (probe.on()) probe.value(probed("refusal.") + field_text(field).name, refusal);
}

template <class T>
bool ControlsView::slider(Field field, T& value, T low, T high, Probe& probe) {
  constexpr bool kWhole = std::is_same_v<T, int>;
  label(field);
  if (probe.on()) probe.value(probed(field_text(field).name), value);
  ImGui::PushID(field_text(field).name);
  const bool moved =
      ImGui::SliderScalar("##slider", kWhole ? ImGuiDataType_S32 : ImGuiDataType_Float, &value,
                          &low, &high, kWhole ? "%d" : "%.2f");
  ImGui::PopID();
  end_control(field, probe);
  return moved;
}

// ---- what drafts ----

void ControlsView::draw_speculation(AppState& state, Probe& probe) {
  heading("Speculation");
  if (state.model_state() != ModelState::kReady) {
    wrapped_text("Once a model is loaded, this is where its drafts are switched on and tuned.",
                 theme().dim);
    return;
  }
  bool on = form_.on();
  ImGui::BeginDisabled(!form_.possible());
  if (ImGui::Checkbox("Draft ahead, then verify", &on)) ask(state, form_.set_on(on));
  ImGui::EndDisabled();
  if (probe.on()) probe.value("controls.speculation", on ? "on" : "off");
  end_control(Field::kSpeculation, probe);
  wrapped_text(state.drafting().description, theme().dim);
  draw_learning(state, probe);
  if (!form_.has_settings()) return;
  ImGui::Spacing();
  draw_presets(state, probe);
  draw_bounds(state, probe);
  draw_check_layers(state, probe);
}

void ControlsView::draw_presets(AppState& state, Probe& probe) {
  label(Field::kPreset);
  ImGui::BeginGroup();
  for (const PresetText& text : preset_texts()) {
    const bool chosen = form_.preset() == text.preset;
    if (ImGui::RadioButton(text.label, chosen) && (!chosen || form_.changed())) {
      ask(state, form_.choose(text.preset));
    }
    if (probe.on()) probe.item(probed("preset.") + text.name);
    if (chosen && probe.on()) probe.value("controls.preset", text.name);
    tooltip(text.teaches);
  }
  if (form_.changed()) {
    if (ImGui::SmallButton("Reset what was moved")) ask(state, form_.choose(form_.preset()));
    probe.item("controls.reset");
  }
  if (probe.on()) probe.value("controls.changed", form_.changed() ? "yes" : "no");
  ImGui::EndGroup();
  const std::string& refusal = form_.refusal(Field::kPreset);
  if (!refusal.empty()) wrapped_text("Not changed: " + refusal, theme().error);
}

void ControlsView::draw_bounds(AppState& state, Probe& probe) {
  const SpecBoundParams params = form_.params();
  float tau = params.tau, alpha = params.alpha;
  int d_max = params.d_max, w_max = params.w_max;
  if (slider(Field::kTau, tau, 0.0f, 1.0f, probe)) ask(state, form_.set_tau(tau));
  if (slider(Field::kAlpha, alpha, 0.0f, kMaxAlpha, probe)) ask(state, form_.set_alpha(alpha));
  if (slider(Field::kDMax, d_max, 1, form_.deepest(), probe)) ask(state, form_.set_d_max(d_max));
  if (slider(Field::kWMax, w_max, 2, kMaxRows, probe)) ask(state, form_.set_w_max(w_max));
}

// A button a layer, in as many lines as they take; of many, only those that can be seen.
void ControlsView::draw_check_layers(AppState& state, Probe& probe) {
  label(Field::kCheckLayers);
  ImGui::BeginGroup();
  const std::vector<SettingsForm::LayerToggle> layers = form_.layers();
  const float cell = ImGui::CalcTextSize("0000").x + theme().px(6);
  const float gap = ImGui::GetStyle().ItemInnerSpacing.x;
  const float width = ImGui::GetContentRegionAvail().x;
  const int columns = std::max(1, static_cast<int>((width + gap) / (cell + gap)));
  const int n = static_cast<int>(layers.size());
  ImGuiListClipper clipper;
  clipper.Begin((n + columns - 1) / columns, ImGui::GetFrameHeightWithSpacing());
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart * columns; i < std::min(n, clipper.DisplayEnd * columns);
         ++i) {
      const auto& [layer, on, beyond] = layers[i];
      if (i % columns != 0) ImGui::SameLine(0, gap);
      const ImU32 fill = on ? faded(theme().accent, beyond ? 0.35f : 1.0f) : theme().raised;
      ImGui::PushStyleColor(ImGuiCol_Button, fill);
      ImGui::PushStyleColor(ImGuiCol_Text, on && !beyond ? theme().on_accent
                                           : beyond      ? theme().faint
                                                         : theme().text);
      char name[32];
      std::snprintf(name, sizeof name, "%d##layer", layer);
      if (ImGui::Button(name, {cell, 0})) ask(state, form_.toggle_layer(layer, !on));
      ImGui::PopStyleColor(2);
      if (probe.on()) {
        probe.item(probed("layer.") + std::to_string(layer));
        probe.value(probed("layer.") + std::to_string(layer),
                    beyond ? (on ? "on, beyond" : "off, beyond") : (on ? "on" : "off"));
      }
      tooltip(beyond ? "Deeper than d_max: not asked."
              : on   ? "Is asked for a guess. Click: no more."
                     : "Not asked. Click to ask it.");
    }
  }
  ImGui::EndGroup();
  end_control(Field::kCheckLayers, probe);
}

// ---- how tokens are drawn ----

void ControlsView::draw_sampling(AppState& state, Probe& probe) {
  heading("Sampling");
  const SamplingParams now = state.sampling();
  SamplingParams wanted = now;
  const auto apply = [&](Field field) { ask(state, form_.set_sampling(now, wanted, field)); };
  if (slider(Field::kTemperature, wanted.temperature, 0.0f, kMaxTemperature, probe)) {
    apply(Field::kTemperature);
  }
  if (slider(Field::kTopP, wanted.top_p, 0.0f, 1.0f, probe)) apply(Field::kTopP);
  if (slider(Field::kTopK, wanted.top_k, 0, kMaxTopK, probe)) apply(Field::kTopK);
  if (slider(Field::kMinP, wanted.min_p, 0.0f, kMaxMinP, probe)) apply(Field::kMinP);
  draw_seed(state, probe);
  draw_reply_budget(state, probe);
  if (ImGui::SmallButton("Reset sampling")) {
    const SamplingParams params = SettingsForm::default_sampling(state.sampling());
    ask(state, form_.set_sampling(state.sampling(), params, Field::kTemperature));
  }
  probe.item("controls.reset_sampling");
}

void ControlsView::draw_seed(AppState& state, Probe& probe) {
  label(Field::kSeed);
  ImGui::BeginGroup();
  if (ImGui::RadioButton("New each time", state.random_seed())) state.set_random_seed(true);
  probe.item("controls.seed.random");
  tooltip("Each message gets a seed of its own, which is shown here once it was used.");
  if (ImGui::RadioButton("Keep", !state.random_seed())) state.set_random_seed(false);
  probe.item("controls.seed.keep");
  tooltip("Every reply starts from this seed: the same messages give the same replies.");
  draw_seed_number(state, probe);
  ImGui::EndGroup();
}

// What was typed counts once it is done, and stays from then on.
void ControlsView::draw_seed_number(AppState& state, Probe& probe) {
  const unsigned long long seed = state.sampling().seed;
  if (!typing_seed_) std::snprintf(seed_text_.data(), seed_text_.size(), "%llu", seed);
  ImGui::SetNextItemWidth(-FLT_MIN);
  ImGui::InputText("##seed", seed_text_.data(), seed_text_.size());
  typing_seed_ = ImGui::IsItemActive();
  if (ImGui::IsItemDeactivatedAfterEdit()) {
    const std::optional<SamplingParams> params =
        form_.set_seed(state.sampling(), seed_text_.data());
    ask(state, params);
    if (form_.refusal(Field::kSeed).empty()) state.set_random_seed(false);
  }
  if (probe.on()) probe.value("controls.seed", std::to_string(seed));
  end_control(Field::kSeed, probe);
}

void ControlsView::draw_reply_budget(AppState& state, Probe& probe) {
  int tokens = std::max(state.reply_budget(), 0);
  label(Field::kReplyBudget);
  if (probe.on()) probe.value("controls.reply_budget", tokens);
  if (ImGui::InputInt("##reply_budget", &tokens, 16, 128)) {
    if (const auto budget = form_.set_reply_budget(tokens)) state.set_reply_budget(*budget);
  }
  end_control(Field::kReplyBudget, probe);
}

}  // namespace specbound::gui
