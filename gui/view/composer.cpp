#include "gui/view/composer.h"

#include <utility>

#include "gui/model/app_state.h"
#include "gui/view/probe.h"
#include "gui/view/theme.h"
#include "gui/view/widgets.h"

namespace specbound::gui {

namespace {

constexpr int kMostLines = 8;
constexpr float kButtonWidth = 76;  // points

float box_width(float width) {
  return width - theme().px(kButtonWidth) - ImGui::GetStyle().ItemSpacing.x;
}

std::string hint(const AppState& state) {
  switch (state.model_state()) {
    case ModelState::kNone:
    case ModelState::kFailed:
      return "Load a model, then write to it here";
    case ModelState::kLoading:
      return "You can write already: the model is loading";
    case ModelState::kReady:
      break;
  }
  return "Write a message: Enter sends it";
}

// Why nothing can be sent now.
const char* hindrance(const AppState& state) {
  if (state.model_state() == ModelState::kLoading) return "The model is still loading";
  if (state.model_state() != ModelState::kReady) return "Load a model first";
  if (state.race().running) return "Wait for the race to end, or stop it";
  if (state.busy()) return "Another conversation's reply is under way";
  return "Write a message first";
}

}  // namespace

float Composer::height(float width) {
  return box_.height(box_width(width), 1, kMostLines);
}

void Composer::draw(AppState& state, float width, Probe& probe) {
  if (state.returned_text) {
    // What was written since is not lost either.
    std::string text = std::move(*state.returned_text);
    state.returned_text.reset();
    if (!box_.text().empty()) text += "\n\n" + box_.text();
    box_.set_text(std::move(text));
  }
  const float h = height(width);
  const TextBox::Result result =
      box_.draw({box_width(width), h}, true, hint(state), "chat.input", probe);
  if (result == TextBox::Result::kSubmitted) send(state);
  if (result == TextBox::Result::kCancelled && state.replying()) state.stop();
  ImGui::SameLine();
  draw_button(state, theme().px(kButtonWidth), h, probe);
}

void Composer::draw_button(AppState& state, float width, float height, Probe& probe) {
  const float y = ImGui::GetCursorPosY(), button = TextBox::height_of(1);
  ImGui::SetCursorPosY(y + height - button);
  if (state.replying()) {
    const bool stopping = state.stopping();
    ImGui::BeginDisabled(stopping);
    if (ImGui::Button(stopping ? "Stopping" : "Stop", {width, button})) state.stop();
    probe.item("chat.stop");
    ImGui::EndDisabled();
    tooltip("Ends the reply here. What is written stays. (Esc)");
    return;
  }
  const bool ready = state.can_send() && !is_blank(box_.text());
  ImGui::BeginDisabled(!ready);
  if (accent_button("Send", {width, button})) send(state);
  probe.item("chat.send");
  ImGui::EndDisabled();
  tooltip(ready ? "Sends the message. Enter does, too; Shift+Enter begins a line"
                : hindrance(state));
}

void Composer::send(AppState& state) {
  box_.focus();
  if (!state.can_send() || is_blank(box_.text())) return;
  const std::string text = box_.text();
  box_.set_text("");
  state.send(text);
}

}  // namespace specbound::gui
