#include "gui/view/side_list.h"

#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <ctime>

#include "error.h"
#include "gui/model/app_state.h"
#include "gui/view/fonts.h"
#include "gui/view/keys.h"
#include "gui/view/probe.h"
#include "gui/view/theme.h"
#include "gui/view/widgets.h"
#include "runtime/saved_conversation.h"

namespace specbound::gui {

namespace {

constexpr const char* kQuestion = "Delete this conversation?";
constexpr size_t kMostSearchBytes = 200;

// "today 14:05", "3 March", "3 March 2023"
std::string date_text(int64_t seconds) {
  const std::time_t then = seconds, now = std::time(nullptr);
  std::tm a = {}, b = {};
  if (seconds <= 0 || !localtime_r(&then, &a) || !localtime_r(&now, &b)) return "";
  char text[64] = {};
  const bool year = a.tm_year == b.tm_year, day = year && a.tm_yday == b.tm_yday;
  std::strftime(text, sizeof text, day ? "today %H:%M" : year ? "%e %B" : "%e %B %Y", &a);
  return text[0] == ' ' ? text + 1 : text;
}

std::string title_of(const Conversation& conversation) {
  if (!conversation.title.empty()) return conversation.title;
  return "New conversation";
}

}  // namespace

void SideList::draw(AppState& state, Probe& probe) {
  const float width = ImGui::GetContentRegionAvail().x;
  if (ImGui::Button("New conversation", {width, 0})) state.new_conversation();
  probe.item("sidebar.new");
  tooltip("Begins another conversation. This one stays in the list. (Ctrl+N)");
  ImGui::SetNextItemWidth(width);
  ImGui::InputTextWithHint("##search", "Search", &search_);
  probe.item("sidebar.search");
  use_glyphs(std::string_view(search_).substr(0, kMostSearchBytes));
  search(state);
  ImGui::BeginChild("conversations", {0, 0}, false);
  if (found_.empty()) wrapped_text("Nothing found.", theme().dim);
  const float height = 2 * ImGui::GetFontSize() + theme().px(14);
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(found_.size()), height + ImGui::GetStyle().ItemSpacing.y);
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      // A click on a row may have changed the order, or taken one away.
      const size_t index = found_[static_cast<size_t>(i)];
      if (index < state.conversations().size()) draw_row(state, index, probe);
    }
  }
  clipper.End();
  ImGui::EndChild();
  draw_question(state, probe);
  probe.value("sidebar.count", static_cast<double>(state.conversations().size()));
  probe.value("sidebar.found", static_cast<double>(found_.size()));
}

void SideList::search(const AppState& state) {
  const std::string needle = search_.substr(0, kMostSearchBytes);
  if (needle != searched_) results_.clear();
  searched_ = needle;
  found_.clear();
  const std::vector<Conversation>& all = state.conversations();
  for (size_t i = 0; i < all.size(); ++i) {
    if (needle.empty() || is_found(all[i])) found_.push_back(i);
  }
}

bool SideList::is_found(const Conversation& conversation) {
  const std::vector<Message>& messages = conversation.messages;
  Searched now{conversation.title, messages.size(), messages.empty() ? 0 : messages.back().key,
               messages.empty() ? 0 : messages.back().text.size()};
  auto& [before, found] = results_[conversation.id];
  if (before != now) {
    before = std::move(now);
    found = conversation.mentions(searched_);
  }
  return found;
}

void SideList::draw_row(AppState& state, size_t index, Probe& probe) {
  const Theme& t = theme();
  const Conversation& conversation = state.conversations()[index];
  ImGui::PushID(conversation.id.c_str());
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size{ImGui::GetContentRegionAvail().x, 2 * ImGui::GetFontSize() + t.px(14)};
  const ImVec2 end{at.x + size.x, at.y + size.y};
  const bool shown = index == state.current() && !state.replay();
  // While a button of the row is held down, too.
  const bool hovered = ImGui::IsWindowHovered(ImGuiHoveredFlags_AllowWhenBlockedByActiveItem) &&
                       ImGui::IsMouseHoveringRect(at, end);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImU32 fill = shown ? mixed(t.panel, t.accent, 0.25f) : hovered ? t.hover : 0;
  if (fill) list.AddRectFilled(at, end, fill, t.px(6));
  if (shown) list.AddRectFilled(at, {at.x + t.px(3), end.y}, t.accent, t.px(2));
  const float pad = t.px(10);
  bool pressed = false, twice = false;
  if (renaming_ == conversation.id) {
    ImGui::SetCursorScreenPos({at.x + pad / 2, at.y + t.px(2)});
    draw_rename(state, index, probe);
    ImGui::SetCursorScreenPos(at);
    ImGui::Dummy(size);
  } else {
    const std::string title = fitted(title_of(conversation), size.x - 2 * pad);
    use_glyphs(title);
    list.AddText({at.x + pad, at.y + t.px(5)}, t.text, title.c_str());
    const std::string date = conversation.messages.empty() ? "" : date_text(conversation.changed);
    list.AddText({at.x + pad, at.y + t.px(8) + ImGui::GetFontSize()}, t.dim, date.c_str());
    // What comes first has the mouse: the buttons are on top of the row.
    if (hovered || shown) draw_row_buttons(conversation, index, at, end.x - t.px(4), probe);
    ImGui::SetCursorScreenPos(at);
    pressed = ImGui::InvisibleButton("row", size);
    twice = ImGui::IsItemHovered() && ImGui::IsMouseDoubleClicked(0);
  }
  probe.row("sidebar.row", index, title_of(conversation));
  ImGui::PopID();
  const bool wanted = twice || (shown && ImGui::IsWindowFocused() && key_pressed(Key::kF2));
  if (wanted && !conversation.messages.empty()) begin_rename(conversation);
  if (pressed) state.select(index);
}

void SideList::begin_rename(const Conversation& conversation) {
  renaming_ = conversation.id;
  title_ = title_of(conversation);
  focus_title_ = true;
}

void SideList::draw_row_buttons(const Conversation& conversation, size_t index, ImVec2 row,
                                float right, Probe& probe) {
  if (conversation.messages.empty()) return;
  const Theme& t = theme();
  const float padding = 2 * ImGui::GetStyle().FramePadding.x;
  const float width = ImGui::CalcTextSize("RenameDelete").x + 2 * padding;
  if (right - width < row.x + ImGui::CalcTextSize("today 00:00").x) return;
  ImGui::SetCursorScreenPos({right - width, row.y + t.px(8) + ImGui::GetFontSize()});
  if (quiet_button("Rename")) begin_rename(conversation);
  probe.item("sidebar.rename." + std::to_string(index));
  ImGui::SameLine(0, 0);
  if (quiet_button("Delete")) {
    removing_ = conversation.id;
    ask_ = true;
  }
  probe.item("sidebar.delete." + std::to_string(index));
}

void SideList::draw_rename(AppState& state, size_t index, Probe& probe) {
  if (focus_title_) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(ImGui::GetContentRegionAvail().x);
  const bool done = ImGui::InputText(
      "##title", &title_, ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_AutoSelectAll);
  probe.item("sidebar.title");
  const bool left = !focus_title_ && ImGui::IsItemDeactivated();
  focus_title_ = false;
  if (!done && !left) return;
  renaming_.clear();
  // Escape has brought the old one back.
  const std::string title = title_from(title_);
  if (!is_blank(title_) && title != state.conversations()[index].title) state.rename(index, title);
}

void SideList::draw_question(AppState& state, Probe& probe) {
  if (!begin_dialog(kQuestion, ask_, 360)) return;
  const auto& all = state.conversations();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Conversation& c) { return c.id == removing_; });
  bool close = found == all.end();
  if (!close) {
    const auto index = static_cast<size_t>(found - all.begin());
    wrapped_text(format("\"%s\" and its %zu messages go for good.", title_of(*found).c_str(),
                        found->messages.size()),
                 theme().text);
    ImGui::Spacing();
    if (accent_button("Delete")) {
      state.remove(index);
      close = true;
    }
    probe.item("sidebar.confirm");
    ImGui::SameLine();
  }
  if (ImGui::Button("Keep it") || key_pressed(Key::kEscape)) close = true;
  probe.item("sidebar.keep");
  if (close) {
    removing_.clear();
    ImGui::CloseCurrentPopup();
  }
  ImGui::EndPopup();
}

}  // namespace specbound::gui
