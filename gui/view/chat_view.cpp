#include "gui/view/chat_view.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "error.h"
#include "gui/model/app_state.h"
#include "gui/view/export_view.h"
#include "gui/view/file_picker.h"
#include "gui/view/fonts.h"
#include "gui/view/model_picker.h"
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
  if (state.model_state() == ModelState::kReady) return "Write a message: Enter sends it";
  return state.model_state() == ModelState::kLoading ? "You can write already: the model is loading"
                                                     : "Load a model, then write to it here";
}

// Why nothing can be sent now.
const char* hindrance(const AppState& state) {
  if (state.model_state() == ModelState::kLoading) return "The model is still loading";
  if (state.model_state() != ModelState::kReady) return "Load a model first";
  if (state.comparison().running) return "Wait for the comparison to end, or stop it";
  if (state.busy()) return "Another conversation's reply is under way";
  return "Write a message first";
}

// In points.
constexpr float kWidestColumn = 820;  // longer lines are hard to read
constexpr float kSwatch = 12;
constexpr int kLeastSystemLines = 3, kMostSystemLines = 10;
constexpr const char* kDemoExamples[] = {"I need a table for two tonight.",
                                         "Find me a flight to Paris on Friday.",
                                         "What is on at the cinema this evening?"};
constexpr const char* kExamples[] = {"Explain how a rainbow comes about, in simple words.",
                                     "Write a Python function that counts the words of a text.",
                                     "Compare tea and coffee in a short table."};

// Below the cursor in the middle of what is left of the width.
void centre(float width) {
  const float room = ImGui::GetContentRegionAvail().x - width;
  if (room > 0) ImGui::SetCursorPosX(ImGui::GetCursorPosX() + std::floor(room / 2));
}

float button_width(const char* label) {
  return ImGui::CalcTextSize(label).x + 2 * ImGui::GetStyle().FramePadding.x;
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

void ChatView::draw(AppState& state, Probe& probe) {
  if (conversation_ != state.shown().id) {
    conversation_ = state.shown().id;
    following_ = true;
    editing_system_ = false;
    composer_.focus();
  }
  const bool live = state.replay() == nullptr;
  draw_header(state, probe);
  if (live && editing_system_) draw_system_editor(state, probe);
  const bool empty = state.shown().messages.empty();
  const float width = ImGui::GetContentRegionAvail().x;
  const float spacing = ImGui::GetStyle().ItemSpacing.y;
  const float composer = live ? composer_.height(width) + spacing : 0;
  const bool banner = live && !empty && state.model_state() != ModelState::kReady;
  const float below =
      composer + (banner ? 2 * ImGui::GetFrameHeightWithSpacing() + 2 * spacing : 0);
  const float height =
      std::floor(std::max(ImGui::GetContentRegionAvail().y - below, theme().px(40)));
  if (empty) {
    draw_empty(state, height, probe);
  } else {
    draw_messages(state, height, probe);
  }
  if (banner) draw_model_state(state, probe);
  if (live) composer_.draw(state, width, probe);
  if (!probe.on()) return;
  probe.value("chat.messages", static_cast<double>(state.shown().messages.size()));
  probe.value("chat.replying", state.replying() ? "yes" : "no");
  probe.value("chat.following", following_ ? "yes" : "no");
  probe.value("chat.tinted", tinted_ ? "yes" : "no");
}

void ChatView::draw_header(AppState& state, Probe& probe) {
  const bool live = state.replay() == nullptr;
  const Conversation& shown = state.shown();
  const float spacing = ImGui::GetStyle().ItemSpacing.x;
  const float left = ImGui::GetCursorPosX(), right = left + ImGui::GetContentRegionAvail().x;
  const char* system = shown.system.empty() ? "System prompt" : "System prompt (set)";
  float buttons = button_width("Colours") + ImGui::GetFrameHeight();
  if (live) buttons += button_width(system) + button_width("Export") + 2 * spacing;
  const float title_width = std::max(right - left - buttons - spacing, theme().px(20));
  const std::string title =
      shown.title.empty() ? (live ? "New conversation" : "Replay") : shown.title;
  const std::string text = fitted(title, title_width);
  use_glyphs(text);
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted(text.c_str());
  probe.item("chat.title");
  if (text != title) tooltip(title);
  ImGui::SameLine(std::max(left, right - buttons));
  if (live) {
    if (ImGui::Button(system)) {
      editing_system_ = !editing_system_;
      system_.set_text(shown.system);
      if (editing_system_) system_.focus();
    }
    probe.item("chat.system");
    tooltip(shown.system.empty() ? "What the model is told before the conversation: none now"
                                 : "The model is told before the conversation:\n" +
                                       fitted(shown.system, theme().px(1200)));
    ImGui::SameLine();
    ImGui::BeginDisabled(shown.messages.empty());
    if (ImGui::Button("Export")) exporter_.open(state);
    probe.item("chat.export");
    ImGui::EndDisabled();
    tooltip("Writes this conversation to a file");
    ImGui::SameLine();
  }
  ImGui::Checkbox("Colours", &tinted_);
  probe.item("chat.tint");
  tooltip("Tints each token of the newest replies by how it came about");
  const bool has_tokens =
      std::any_of(shown.messages.begin(), shown.messages.end(),
                  [](const Message& message) { return !message.token_ends.empty(); });
  if (tinted_ && has_tokens) draw_legend(probe);
}

void ChatView::draw_legend(Probe& probe) {
  const Theme& t = theme();
  const struct {
    const char *label, *about;
    ImU32 fill, underline;
  } kinds[] = {
      {"drafted early", "Left the network at an early layer as a draft; then all layers agreed",
       faded(t.accepted, 0.4f), 0},
      {"draft replaced", "An early layer had drafted another token; all layers said this one",
       faded(t.rejected, 0.4f), t.rejected},
      {"full depth", "Nothing was drafted: the token went through all layers", 0, 0},
  };
  const float side = t.px(kSwatch), text = ImGui::GetFontSize();
  bool first = true;
  for (const auto& kind : kinds) {
    const float width = side + t.px(6) + ImGui::CalcTextSize(kind.label).x;
    if (!first) {
      ImGui::SameLine(0, t.px(14));
      if (ImGui::GetContentRegionAvail().x < width) ImGui::NewLine();
    }
    first = false;
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const ImVec2 min{at.x, at.y + std::floor((text - side) / 2)}, max{at.x + side, min.y + side};
    ImDrawList& list = *ImGui::GetWindowDrawList();
    if (kind.fill) list.AddRectFilled(min, max, kind.fill, t.px(3));
    if (kind.underline) list.AddRectFilled({min.x, max.y - t.px(2)}, max, kind.underline);
    if (!kind.fill) list.AddRect(min, max, t.border, t.px(3));
    list.AddText({max.x + t.px(6), at.y}, t.dim, kind.label);
    ImGui::Dummy({width, text});
    tooltip(kind.about);
  }
  probe.item("chat.legend");
}

void ChatView::draw_system_editor(AppState& state, Probe& probe) {
  wrapped_text("What the model is told before the conversation, from the next reply on:",
               theme().dim);
  const float width = ImGui::GetContentRegionAvail().x;
  const float height = system_.height(width, kLeastSystemLines, kMostSystemLines);
  const TextBox::Result result = system_.draw(
      {width, height}, false, "As: You answer in one sentence.", "chat.system.box", probe);
  if (accent_button("Save")) {
    state.set_system(system_.text());
    editing_system_ = false;
  }
  probe.item("chat.system.save");
  ImGui::SameLine();
  if (ImGui::Button("Cancel") || result == TextBox::Result::kCancelled) editing_system_ = false;
  probe.item("chat.system.cancel");
}

void ChatView::draw_messages(AppState& state, float height, Probe& probe) {
  const Theme& t = theme();
  const float pane = ImGui::GetContentRegionAvail().x;
  const float inner = std::max(pane - ImGui::GetStyle().ScrollbarSize - t.px(8), t.px(60));
  const float width = std::min(inner, t.px(kWidestColumn));
  messages_.begin_frame(state);
  const size_t count = state.shown().messages.size();
  tops_.assign(1, 0);
  for (size_t i = 0; i < count; ++i) {
    tops_.push_back(tops_.back() + messages_.height(state, i, width));
  }
  set_scroll(state, width, height);
  ImGui::SetNextWindowContentSize({0, tops_.back()});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
  ImGui::BeginChild("messages", {pane, height});
  ImGui::PopStyleVar();
  list_min_ = ImGui::GetWindowPos();
  list_max_ = {list_min_.x + pane, list_min_.y + height};
  probe.rect("chat.list", list_min_, list_max_);
  // The scroll bar was used after this view had its say.
  const float scroll = ImGui::GetScrollY(), bottom = ImGui::GetScrollMaxY();
  if (following_ && scroll < bottom - 1) following_ = false;
  if (scroll >= bottom - 1) following_ = true;

  const ImVec2 origin = ImGui::GetCursorScreenPos();
  const float left = std::floor(origin.x + (inner - width) / 2);
  const auto first = std::upper_bound(tops_.begin(), tops_.end(), scroll);
  size_t i = first == tops_.begin() ? 0 : static_cast<size_t>(first - tops_.begin()) - 1;
  for (; i < state.shown().messages.size() && i < count && tops_[i] < scroll + height; ++i) {
    ImGui::SetCursorScreenPos({left, origin.y + tops_[i]});
    // What is beside a message ends where it does.
    ImGui::BeginGroup();
    ImGui::PushClipRect({left - t.px(4), list_min_.y}, {left + width + t.px(12), list_max_.y},
                        true);
    messages_.draw(state, i, width, tinted_, probe);
    ImGui::PopClipRect();
    ImGui::EndGroup();
  }
  messages_.end_frame(state);
  scroll_to_mouse();
  ImGui::EndChild();
}

// Text that is being selected goes on above and below what is in view.
void ChatView::scroll_to_mouse() {
  if (!messages_.selecting()) return;
  const float y = ImGui::GetMousePos().y;
  const float beyond = y < list_min_.y ? y - list_min_.y : std::max(0.0f, y - list_max_.y);
  if (beyond == 0) return;
  following_ = false;
  ImGui::SetScrollY(std::max(0.0f, ImGui::GetScrollY() + beyond * 0.3f));
}

// Decides where the list is scrolled to, before it is begun: by the wheel's direction, the newest
// text, or the token that was chosen in the map.
void ChatView::set_scroll(AppState& state, float width, float height) {
  const ImGuiIO& io = ImGui::GetIO();
  const bool over = io.MousePos.x >= list_min_.x && io.MousePos.x < list_max_.x &&
                    io.MousePos.y >= list_min_.y && io.MousePos.y < list_max_.y;
  if (over && io.MouseWheel > 0) following_ = false;
  if (state.reveal_in_chat) {
    state.reveal_in_chat = false;
    const auto& messages = state.shown().messages;
    const auto of_token = [&](const Message& message) {
      return state.selected && message.reply != 0 && message.reply == state.selected->reply;
    };
    const auto found = std::find_if(messages.begin(), messages.end(), of_token);
    if (found != messages.end()) {
      const auto index = static_cast<size_t>(found - messages.begin());
      const float top =
          tops_[index] + messages_.token_top(state, index, state.selected->index, width);
      following_ = false;
      ImGui::SetNextWindowScroll({-1, std::max(0.0f, top - height / 3)});
      return;
    }
  }
  if (following_) ImGui::SetNextWindowScroll({-1, std::max(0.0f, tops_.back() - height)});
}

void ChatView::draw_empty(AppState& state, float height, Probe& probe) {
  ImGui::BeginChild("empty", {0, height}, false);
  const float column = std::min(ImGui::GetContentRegionAvail().x, theme().px(520));
  ImGui::Dummy({1, std::max(height * 0.16f, 1.0f)});
  centre(column);
  ImGui::BeginChild("column", {column, 0}, false);
  if (state.replay()) {
    wrapped_text("The replay begins here: press play below, or step through it.", theme().dim);
  } else if (state.model_state() == ModelState::kReady) {
    heading("Write to the model, and watch each token leave the network");
    ImGui::Spacing();
    wrapped_text(
        "Easy tokens are guessed at an early layer and the whole network checks several guesses at "
        "once. The text is the same as without; it only comes sooner.",
        theme().dim);
    ImGui::Spacing();
    draw_examples(state, probe);
  } else {
    draw_model_state(state, probe);
  }
  ImGui::EndChild();
  ImGui::EndChild();
}

void ChatView::draw_examples(AppState& state, Probe& probe) {
  colored_text("Try one of these:", theme().dim);
  const std::string file = std::filesystem::path(state.model().path).filename().string();
  const bool demo = file.starts_with("demo-chat");
  int number = 0;
  for (const char* example : demo ? kDemoExamples : kExamples) {
    ImGui::BeginDisabled(!state.can_send());
    if (ImGui::Button(example)) state.send(example);
    probe.item("chat.example." + std::to_string(number++));
    ImGui::EndDisabled();
  }
  if (!demo) return;
  ImGui::Spacing();
  wrapped_text(
      "This is the small demo model. It knows task talk only (restaurants, flights, films, banks) "
      "and makes up names, prices and times.",
      theme().faint);
}

// What to do while there is no model to write to.
void ChatView::draw_model_state(AppState& state, Probe& probe) {
  if (state.model_state() == ModelState::kReady) return;
  if (state.model_state() == ModelState::kLoading) return draw_loading(state, probe);
  if (state.model_state() == ModelState::kFailed) {
    wrapped_text("The model could not be loaded: " + state.load_error(), theme().error);
    probe.item("chat.load.error");
  } else {
    wrapped_text(
        "A model is needed first: by its name, or a GGUF file, which can be dropped into this "
        "window.",
        theme().text);
  }
  if (accent_button("Choose a model...")) models_.open();
  probe.item("chat.models");
  ImGui::SameLine();
  if (ImGui::Button("A file...")) picker_.open();
  probe.item("chat.choose");
}

void ChatView::draw_loading(AppState& state, Probe& probe) {
  const std::string name = std::filesystem::path(state.model_path()).filename().string();
  const float width =
      ImGui::GetContentRegionAvail().x - button_width("Cancel") - ImGui::GetStyle().ItemSpacing.x;
  colored_text(fitted("Loading " + (name.empty() ? "the demo model" : name) +
                          (state.load_label().empty() ? "" : ": " + state.load_label()),
                      ImGui::GetContentRegionAvail().x),
               theme().dim);
  const double share = std::clamp(state.load_share(), 0.0, 1.0);
  ImGui::ProgressBar(static_cast<float>(share), {std::max(width, theme().px(40)), 0},
                     format("%.0f %%", 100 * share).c_str());
  probe.item("chat.load.bar");
  ImGui::SameLine();
  if (ImGui::Button("Cancel")) state.stop();
  probe.item("chat.load.cancel");
}

}  // namespace specbound::gui
