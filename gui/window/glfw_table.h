// GLFW, opened at run time: the functions that gui/ and ImGui's window backend call carry GLFW's
// own names and forward to the library, so that a program with the desktop app in it starts on
// machines that have neither GLFW nor X11.
#pragma once

namespace specbound::gui {

// To be called before any function of GLFW. Throws Error(kUnsupported) when the library is not
// here, or lacks a function.
void open_glfw();

}  // namespace specbound::gui
