#include "gui/view/main_view.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "error.h"
#include "gui/model/file_list.h"
#include "gui/model/markdown.h"
#include "gui/view/fonts.h"
#include "gui/view/keys.h"
#include "gui/view/learning_view.h"
#include "gui/view/probe.h"
#include "gui/view/theme.h"
#include "gui/view/widgets.h"

namespace specbound::gui {

namespace {

// In points: from these widths on there is room for a panel more.
constexpr float kTwoColumns = 860, kThreeColumns = 1120;
constexpr float kErrorLines = 4;  // of each error, at most
constexpr float kLeastSide = 140, kLeastChat = 300, kLeastLive = 320, kSplitter = 6;

constexpr ImGuiWindowFlags kFixed = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                                    ImGuiWindowFlags_NoSavedSettings |
                                    ImGuiWindowFlags_NoBringToFrontOnFocus;

// A bar between two panels; how far it was dragged in this frame, in pixels.
float splitter(const char* name, float height) {
  const Theme& t = theme();
  ImGui::SameLine(0, 0);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = t.px(kSplitter);
  ImGui::InvisibleButton(name, {width, std::max(height, 1.0f)});
  const bool active = ImGui::IsItemActive(), hot = active || ImGui::IsItemHovered();
  if (hot) ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeEW);
  const float x = std::floor(at.x + width / 2);
  ImGui::GetWindowDrawList()->AddLine({x, at.y}, {x, at.y + height}, hot ? t.accent : t.border,
                                      t.px(hot ? 2 : 1));
  ImGui::SameLine(0, 0);
  return active ? ImGui::GetIO().MouseDelta.x : 0;
}

// A child window with the padding of a panel, on a backdrop of its own where the window's is
// another.
void begin_panel(const char* name, ImVec2 size, ImU32 fill) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  if (fill != backdrops().front().color) {
    backdrops().push_back({at, {at.x + size.x, at.y + size.y}, fill});
  }
  ImGui::BeginChild(name, size, false,
                    ImGuiWindowFlags_AlwaysUseWindowPadding | ImGuiWindowFlags_NoScrollbar |
                        ImGuiWindowFlags_NoScrollWithMouse);
}

std::string file_name(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return name.empty() ? "demo model" : name;
}

}  // namespace

MainView::MainView(const WindowSettings& settings) : settings_(settings) {
  chat_.set_tinted(settings.tinted);
  chat_.set_raw(settings.raw);
}

void MainView::draw(AppState& state, Probe& probe, const FrameTimes& times,
                    const std::string& renderer) {
  take_keys(state);
  live_drawn_ = false;
  backdrops().assign(1, {{0, 0}, ImGui::GetIO().DisplaySize, theme().panel});
  draw_menu(state, probe);
  const ImGuiViewport& viewport = *ImGui::GetMainViewport();
  ImGui::SetNextWindowPos(viewport.WorkPos);
  ImGui::SetNextWindowSize(viewport.WorkSize);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, 0);
  ImGui::Begin("specbound", nullptr, kFixed | ImGuiWindowFlags_NoBackground);
  ImGui::PopStyleVar(2);
  draw_errors(state, probe);
  draw_learning_offer(state, probe);
  draw_panels(state, probe);
  draw_status(state, probe);
  picker_.draw(state, probe);
  models_.draw(state, probe);
  exporter_.draw(state, probe);
  ImGui::End();
  draw_help(help_open_, probe);
  draw_overlay(probe, times, renderer);
  if (!live_drawn_) state.set_guessing(false);  // else the panel says whether its map is seen
  settings_.tinted = chat_.tinted();
  settings_.raw = chat_.raw();
  settings_.recent = state.recent_models();
  tell(state, probe);
}

void MainView::take_keys(AppState& state) {
  // What a dialog asks is about what is behind it.
  if (!ImGui::GetTopMostPopupModal()) {
    if (ctrl_pressed('N')) state.new_conversation();
    if (ctrl_pressed('O')) picker_.open();
    if (ctrl_pressed('M')) models_.open();
    if (ctrl_pressed('S')) exporter_.open(state);
  }
  if (ctrl_pressed('Q')) quit_ = true;
  if (ctrl_pressed('D') || key_pressed(Key::kF12)) overlay_open_ = !overlay_open_;
  if (key_pressed(Key::kF1)) help_open_ = !help_open_;
}

void MainView::draw_menu(AppState& state, Probe& probe) {
  ImGui::PushStyleColor(ImGuiCol_WindowBg, 0);  // the bar has a colour of its own
  const bool drawn = ImGui::BeginMainMenuBar();
  ImGui::PopStyleColor();
  if (!drawn) return;
  const auto menu = [&probe](const char* label, const char* name) {
    const bool open = ImGui::BeginMenu(label);
    probe.item(name);
    return open;
  };
  const auto item = [&probe](const char* label, const char* keys, const char* name,
                             bool enabled = true, bool checked = false) {
    const bool chosen = ImGui::MenuItem(label, keys, checked, enabled);
    probe.item(name);
    return chosen;
  };
  if (menu("File", "menu.file")) {
    if (item("New conversation", "Ctrl+N", "menu.new")) state.new_conversation();
    if (item("Models...", "Ctrl+M", "menu.models")) models_.open();
    if (item("Open a model's file...", "Ctrl+O", "menu.open")) picker_.open();
    if (item("Open a saved conversation...", nullptr, "menu.import")) {
      picker_.open(FileKind::kConversation);
    }
    if (item("Replay a trace...", nullptr, "menu.replay")) picker_.open(FileKind::kTrace);
    if (item("Export this conversation...", "Ctrl+S", "menu.export", ExportView::possible(state))) {
      exporter_.open(state);
    }
    if (state.replay() && item("Close the replay", nullptr, "menu.close_replay")) {
      state.close_replay();
    }
    ImGui::Separator();
    if (item("Quit", "Ctrl+Q", "menu.quit")) quit_ = true;
    ImGui::EndMenu();
  }
  if (menu("View", "menu.view")) {
    if (item("Dark", nullptr, "menu.dark", true, settings_.dark)) settings_.dark = true;
    if (item("Light", nullptr, "menu.light", true, !settings_.dark)) settings_.dark = false;
    ImGui::Separator();
    if (item("Colour tokens by how they came about", nullptr, "menu.tint", true, chat_.tinted())) {
      chat_.set_tinted(!chat_.tinted());
    }
    if (markdown_available() &&
        item("Show replies as they were written", nullptr, "menu.raw", true, chat_.raw())) {
      chat_.set_raw(!chat_.raw());
    }
    if (item("Frame times", "F12", "menu.overlay", true, overlay_open_)) {
      overlay_open_ = !overlay_open_;
    }
    ImGui::EndMenu();
  }
  if (menu("Help", "menu.help")) {
    if (item("What is this?", "F1", "menu.what")) help_open_ = true;
    ImGui::Separator();
    ImGui::TextDisabled("SpecBound %s", SPECBOUND_VERSION);
    ImGui::EndMenu();
  }
  draw_model_summary(state, probe);
  ImGui::EndMainMenuBar();
}

// At the right end of the menu: which model, and what it runs on.
void MainView::draw_model_summary(AppState& state, Probe& probe) {
  std::string text, about;
  ImU32 color = theme().dim;
  switch (state.model_state()) {
    case ModelState::kNone:
      text = "no model: File > Models";
      break;
    case ModelState::kLoading:
      text = file_name(state.model_path()) + ": " + state.load_label() +
             format(" %.0f %%", state.load_share() * 100);
      break;
    case ModelState::kReady:
      // What follows the kind of processor (formats, sizes) is for the tooltip.
      about = state.model().backend;
      text = file_name(state.model().path) + " on " +
             about.substr(0, std::min(about.find("), "), about.size() - 1) + 1);
      break;
    case ModelState::kFailed:
      text = file_name(state.model_path()) + " could not be loaded";
      color = theme().error;
      break;
  }
  use_glyphs(text);
  const float left = ImGui::GetCursorPosX() + theme().px(16);
  const float right = ImGui::GetWindowWidth() - theme().px(12);
  const std::string shown = fitted(text, right - left);
  ImGui::SetCursorPosX(std::max(left, right - ImGui::CalcTextSize(shown.c_str()).x));
  colored_text(shown, color);
  probe.item("menu.model");
  if (shown != text) about = about.empty() ? text : text + "\n" + about;
  if (!about.empty()) tooltip(about);
}

void MainView::draw_errors(AppState& state, Probe& probe) {
  if (state.errors.empty()) return;
  const Theme& t = theme();
  constexpr size_t kShown = 3;
  const size_t first = state.errors.size() > kShown ? state.errors.size() - kShown : 0;
  size_t dismissed = state.errors.size();
  for (size_t i = first; i < state.errors.size(); ++i) {
    const std::string& line = state.errors[i];
    use_glyphs(line);
    ImGui::PushID(static_cast<int>(i));
    const float pad = t.px(8), button = ImGui::GetFrameHeight();
    const float wrap = ImGui::GetWindowWidth() - button - 3 * pad;
    const float text_height = std::min(ImGui::CalcTextSize(line.c_str(), nullptr, false, wrap).y,
                                       kErrorLines * ImGui::GetTextLineHeight());
    const float height = std::max(text_height, button) + pad;
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const ImVec2 end{at.x + ImGui::GetWindowWidth(), at.y + height};
    ImDrawList& list = *ImGui::GetWindowDrawList();
    list.AddRectFilled(at, end, mixed(t.background, t.error, 0.22f));
    list.AddRectFilled(at, {at.x + t.px(3), end.y}, t.error);
    ImGui::PushClipRect(at, end, true);
    list.AddText(nullptr, 0, {at.x + pad * 1.5f, at.y + (height - text_height) / 2}, t.text,
                 line.c_str(), nullptr, wrap);
    ImGui::PopClipRect();
    probe.rect("error", at, end);
    probe.value("error", line);
    ImGui::SetCursorScreenPos({end.x - button - pad, at.y + (height - button) / 2});
    if (ImGui::Button("x", {button, button})) dismissed = i;
    probe.item("error.dismiss");
    tooltip("dismiss");
    ImGui::SetCursorScreenPos({at.x, end.y + t.px(1)});
    ImGui::PopID();
  }
  if (dismissed < state.errors.size()) {
    state.errors.erase(state.errors.begin() + static_cast<std::ptrdiff_t>(dismissed));
  }
}

void MainView::draw_panels(AppState& state, Probe& probe) {
  const Theme& t = theme();
  const float status = ImGui::GetTextLineHeight() + t.px(10);
  const float width = ImGui::GetContentRegionAvail().x;
  const float height = std::max(t.px(60), ImGui::GetContentRegionAvail().y - status);
  if (width < t.px(kTwoColumns)) {
    begin_panel("tabs", {width, height}, t.background);
    draw_tabs(state, probe, "all", true, true);
    ImGui::EndChild();
    return;
  }
  const bool with_list = width >= t.px(kThreeColumns);
  float rest = width;
  if (with_list) {
    const float side = std::clamp(t.px(settings_.side_width), t.px(kLeastSide), width * 0.3f);
    begin_panel("list", {side, height}, t.panel);
    draw_panel(Panel::kList, state, probe);
    ImGui::EndChild();
    settings_.side_width += splitter("list|chat", height) / t.scale;
    settings_.side_width = std::clamp(settings_.side_width, kLeastSide, width * 0.3f / t.scale);
    rest -= side + t.px(kSplitter);
  }
  const float both = rest - t.px(kSplitter);
  const float most_live = both - t.px(kLeastChat);
  const float live = std::clamp(both * settings_.live_share, t.px(kLeastLive),
                                std::max(most_live, t.px(kLeastLive)));
  begin_panel("chat", {both - live, height}, t.background);
  draw_panel(Panel::kChat, state, probe);
  ImGui::EndChild();
  settings_.live_share -= splitter("chat|live", height) / both;
  settings_.live_share = std::clamp(settings_.live_share, 0.15f, 0.85f);
  begin_panel("live", {live, height}, t.panel);
  draw_tabs(state, probe, "right", false, !with_list);
  ImGui::EndChild();
}

void MainView::draw_tabs(AppState& state, Probe& probe, const char* id, bool with_chat,
                         bool with_list) {
  if (!ImGui::BeginTabBar(id, ImGuiTabBarFlags_NoCloseWithMiddleMouseButton)) return;
  if (with_chat) draw_tab(Panel::kChat, state, probe);
  draw_tab(Panel::kLive, state, probe);
  draw_tab(Panel::kControls, state, probe);
  draw_tab(Panel::kCompare, state, probe);
  if (with_list) draw_tab(Panel::kList, state, probe);
  ImGui::EndTabBar();
}

void MainView::draw_tab(Panel panel, AppState& state, Probe& probe) {
  static constexpr struct {
    const char *label, *name;
  } kTabs[] = {{"Chat", "tab.chat"},
               {"Chats", "tab.list"},
               {"Live", "tab.live"},
               {"Controls", "tab.controls"},
               {"Compare", "tab.compare"}};
  const auto& tab = kTabs[static_cast<int>(panel)];
  const bool open = ImGui::BeginTabItem(tab.label);
  probe.item(tab.name);
  if (!open) return;
  ImGui::BeginChild(tab.name, {0, 0}, false);
  draw_panel(panel, state, probe);
  ImGui::EndChild();
  ImGui::EndTabItem();
}

void MainView::draw_panel(Panel panel, AppState& state, Probe& probe) {
  switch (panel) {
    case Panel::kChat:
      chat_.draw(state, probe);
      break;
    case Panel::kList:
      side_.draw(state, probe);
      break;
    case Panel::kLive:
      live_drawn_ = true;
      live_.draw(state, probe);
      break;
    case Panel::kControls:
      controls_.draw(state, probe);
      break;
    case Panel::kCompare:
      comparison_.draw(state, probe);
      break;
  }
}

void MainView::draw_status(AppState& state, Probe& probe) {
  const Theme& t = theme();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 end{at.x + ImGui::GetWindowWidth(),
                   ImGui::GetWindowPos().y + ImGui::GetWindowHeight()};
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddLine(at, {end.x, at.y}, t.border, t.px(1));
  const bool idle = state.status().empty() && state.model_state() == ModelState::kReady;
  const std::string& text = idle ? state.drafting().description : state.status();
  const std::string brief = without_folders(text);
  use_glyphs(text);
  const float x = at.x + t.px(10);
  const float y = at.y + (end.y - at.y - ImGui::GetTextLineHeight()) / 2;
  const std::string shown = fitted(brief, end.x - x - t.px(10));
  list.AddText({x, y}, t.dim, shown.c_str());
  probe.rect("status", at, end);
  probe.value("status", brief);
  // Pointing at the line shows all of it, where the window is narrow, and where files lie.
  if (shown != text && ImGui::IsMouseHoveringRect(at, end)) show_tooltip(text, 480);
}

void MainView::draw_overlay(Probe& probe, const FrameTimes& times, const std::string& renderer) {
  probe.value("overlay.open", overlay_open_ ? "yes" : "no");
  if (!overlay_open_) return;
  const Theme& t = theme();
  const ImGuiViewport& viewport = *ImGui::GetMainViewport();
  ImGui::SetNextWindowPos({viewport.WorkPos.x + viewport.WorkSize.x - t.px(12),
                           viewport.WorkPos.y + viewport.WorkSize.y - t.px(44)},
                          ImGuiCond_Always, {1, 1});
  ImGui::SetNextWindowBgAlpha(0.9f);
  ImGui::PushStyleColor(ImGuiCol_WindowBg, t.panel);
  // ImGui puts a window that never comes to the front behind all others when it first appears.
  ImGui::Begin("frame times", nullptr,
               (kFixed & ~ImGuiWindowFlags_NoBringToFrontOnFocus) |
                   ImGuiWindowFlags_AlwaysAutoResize | ImGuiWindowFlags_NoFocusOnAppearing |
                   ImGuiWindowFlags_NoInputs);
  const double p50 = times.work(0.5) * 1e3, p99 = times.work(0.99) * 1e3;
  const double every = times.interval(0.5);
  ImGui::PushFont(fonts().mono);
  ImGui::Text("a frame takes   p50 %5.1f ms   p99 %5.1f ms", p50, p99);
  ImGui::Text("frames come     %5.1f a second  p99 %5.1f ms apart", every > 0 ? 1 / every : 0.0,
              times.interval(0.99) * 1e3);
  ImGui::Text("newest %zu of %llu frames, %d triangles", times.kept(),
              static_cast<unsigned long long>(times.frames()),
              ImGui::GetIO().MetricsRenderIndices / 3);
  ImGui::PopFont();
  ImGui::TextDisabled("%s", renderer.c_str());
  probe.window("overlay");
  ImGui::End();
  ImGui::PopStyleColor();
  probe.value("overlay.p50", p50);
  probe.value("overlay.p99", p99);
}

// How things stand, for programs that drive the window.
void MainView::tell(AppState& state, Probe& probe) {
  if (!probe.on()) return;
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  probe.value("window.size", format("%.0fx%.0f", size.x, size.y));
  probe.value("window.theme", settings_.dark ? "dark" : "light");
  constexpr const char* kStates[] = {"none", "loading", "ready", "failed"};
  probe.value("model.state", kStates[static_cast<int>(state.model_state())]);
  probe.value("model.path", state.model_path());
  if (state.model_state() == ModelState::kLoading) {
    probe.value("model.label", state.load_label());
    probe.value("model.share", state.load_share());
  }
  if (!state.load_error().empty()) probe.value("model.error", state.load_error());
  probe.value("chat.busy", state.busy() ? "yes" : "no");
  const auto& messages = state.conversation().messages;
  probe.value("chat.replies", static_cast<double>(std::ranges::count(
                                  messages, ChatMessage::Role::kAssistant, &Message::role)));
  if (state.selected) {
    probe.value("selected", std::to_string(state.selected->reply) + "." +
                                std::to_string(state.selected->index));
  }
  probe.value("chat.conversations", static_cast<double>(state.conversations().size()));
}

}  // namespace specbound::gui
