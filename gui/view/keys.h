// Keys as the views ask for them, by the numbers that GLFW has for them. ImGui 1.86 knows them by
// these; since 1.89 it has names of its own.
#pragma once

#include <imgui.h>

namespace specbound::gui {

// Letters as in ASCII; ImGui 1.86 has them all as indices into io.KeysDown.
enum class Key {
  kSpace = 32,
  kEscape = 256,
  kEnter,
  kTab,
  kBackspace,
  kDelete = 261,
  kRight,
  kLeft,
  kDown,
  kUp,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kF1 = 290,
  kF2,
  kF12 = 301,
};

#if IMGUI_VERSION_NUM >= 18900
inline ImGuiKey imgui_key(Key key) {
  const int code = static_cast<int>(key);
  if (code >= 'A' && code <= 'Z') return static_cast<ImGuiKey>(ImGuiKey_A + (code - 'A'));
  static constexpr struct {
    Key key;
    ImGuiKey name;
  } kKeys[] = {{Key::kSpace, ImGuiKey_Space},
               {Key::kEscape, ImGuiKey_Escape},
               {Key::kEnter, ImGuiKey_Enter},
               {Key::kTab, ImGuiKey_Tab},
               {Key::kBackspace, ImGuiKey_Backspace},
               {Key::kDelete, ImGuiKey_Delete},
               {Key::kRight, ImGuiKey_RightArrow},
               {Key::kLeft, ImGuiKey_LeftArrow},
               {Key::kDown, ImGuiKey_DownArrow},
               {Key::kUp, ImGuiKey_UpArrow},
               {Key::kPageUp, ImGuiKey_PageUp},
               {Key::kPageDown, ImGuiKey_PageDown},
               {Key::kHome, ImGuiKey_Home},
               {Key::kEnd, ImGuiKey_End},
               {Key::kF1, ImGuiKey_F1},
               {Key::kF2, ImGuiKey_F2},
               {Key::kF12, ImGuiKey_F12}};
  for (const auto& known : kKeys) {
    if (known.key == key) return known.name;
  }
  return ImGuiKey_None;
}
#else
inline int imgui_key(Key key) {
  return static_cast<int>(key);
}
#endif

// Of a key that GLFW numbers by its place on a US keyboard, the number of what it writes in the
// layout that is set: `name`, as GLFW has it (nullptr: it writes nothing). Where that is no ASCII
// character, as in other scripts, places are what shortcuts go by.
inline int key_by_name(int key, const char* name) {
  if (key < static_cast<int>(Key::kSpace) || key >= static_cast<int>(Key::kEscape)) return key;
  if (!name || name[0] <= ' ' || name[0] > '~' || name[1] != '\0') return key;
  return name[0] >= 'a' && name[0] <= 'z' ? name[0] - 'a' + 'A' : name[0];
}

// In this frame; `repeat`: also as often as a key held down says itself again.
inline bool key_pressed(Key key, bool repeat = false) {
  return ImGui::IsKeyPressed(imgui_key(key), repeat);
}

// A letter with Ctrl and nothing else.
inline bool ctrl_pressed(char letter) {
  const ImGuiIO& io = ImGui::GetIO();
  return io.KeyCtrl && !io.KeyShift && !io.KeyAlt && !io.KeySuper && key_pressed(Key{letter});
}

}  // namespace specbound::gui
