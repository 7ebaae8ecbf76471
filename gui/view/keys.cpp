#include "gui/view/keys.h"

#include <imgui.h>

namespace specbound::gui {

#if IMGUI_VERSION_NUM >= 18700

int key_number(Key key) {
  static constexpr ImGuiKey kKeys[] = {
      ImGuiKey_Enter,   ImGuiKey_Escape,    ImGuiKey_Tab,       ImGuiKey_Backspace,
      ImGuiKey_Delete,  ImGuiKey_Space,     ImGuiKey_LeftArrow, ImGuiKey_RightArrow,
      ImGuiKey_UpArrow, ImGuiKey_DownArrow, ImGuiKey_Home,      ImGuiKey_End,
      ImGuiKey_PageUp,  ImGuiKey_PageDown,  ImGuiKey_A,         ImGuiKey_C,
      ImGuiKey_D,       ImGuiKey_N,         ImGuiKey_O,         ImGuiKey_Q,
      ImGuiKey_S,       ImGuiKey_V,         ImGuiKey_X,         ImGuiKey_Y,
      ImGuiKey_Z,       ImGuiKey_F1,        ImGuiKey_F2,        ImGuiKey_F12};
  return kKeys[static_cast<int>(key)];
}

void number_keys() {}

#else

int key_number(Key key) {
  // As GLFW numbers them.
  static constexpr int kKeys[] = {257, 256, 258, 259, 261, 32,  263, 262, 265, 264,
                                  268, 269, 266, 267, 'A', 'C', 'D', 'N', 'O', 'Q',
                                  'S', 'V', 'X', 'Y', 'Z', 290, 291, 301};
  return kKeys[static_cast<int>(key)];
}

void number_keys() {
  static constexpr struct {
    ImGuiKey imgui;
    Key key;
  } kKeys[] = {{ImGuiKey_Tab, Key::kTab},
               {ImGuiKey_LeftArrow, Key::kLeft},
               {ImGuiKey_RightArrow, Key::kRight},
               {ImGuiKey_UpArrow, Key::kUp},
               {ImGuiKey_DownArrow, Key::kDown},
               {ImGuiKey_PageUp, Key::kPageUp},
               {ImGuiKey_PageDown, Key::kPageDown},
               {ImGuiKey_Home, Key::kHome},
               {ImGuiKey_End, Key::kEnd},
               {ImGuiKey_Delete, Key::kDelete},
               {ImGuiKey_Backspace, Key::kBackspace},
               {ImGuiKey_Space, Key::kSpace},
               {ImGuiKey_Enter, Key::kEnter},
               {ImGuiKey_Escape, Key::kEscape},
               {ImGuiKey_A, Key::kA},
               {ImGuiKey_C, Key::kC},
               {ImGuiKey_V, Key::kV},
               {ImGuiKey_X, Key::kX},
               {ImGuiKey_Y, Key::kY},
               {ImGuiKey_Z, Key::kZ}};
  for (const auto& k : kKeys) ImGui::GetIO().KeyMap[k.imgui] = key_number(k.key);
}

#endif

bool key_pressed(Key key, bool repeat) {
#if IMGUI_VERSION_NUM >= 18700
  return ImGui::IsKeyPressed(static_cast<ImGuiKey>(key_number(key)), repeat);
#else
  return ImGui::IsKeyPressed(key_number(key), repeat);
#endif
}

bool ctrl_pressed(Key key) {
  const ImGuiIO& io = ImGui::GetIO();
  return io.KeyCtrl && !io.KeyShift && !io.KeyAlt && !io.KeySuper && key_pressed(key);
}

}  // namespace specbound::gui
