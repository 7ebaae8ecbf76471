// The window: GLFW, an OpenGL 3 context, ImGui's backends on both. Everything happens on the thread
// that made it, but for wake().
#pragma once

#include <imgui.h>

#include <array>
#include <cfloat>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gui/view/input_queue.h"

struct GLFWwindow;

namespace specbound::gui {

class Window {
 public:
  // Throws Error(kUnsupported) where there is no GLFW, no display, or no OpenGL 3. One at a time.
  Window(int width, int height, const std::string& title);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  bool closing() const;
  void close();

  // Waits until something happens, for so many seconds at most; below 0: for as long as it takes.
  void wait(double seconds);
  // Ends a wait, from any thread; one that has not begun yet ends at once.
  static void wake();
  static double now();  // seconds

  // Whether the person did anything, or the screen needs its picture, since this was asked last.
  bool take_activity() { return std::exchange(activity_, false); }
  std::vector<std::string> take_dropped_files() { return std::exchange(dropped_, {}); }
  bool has_input() const { return !input_.empty(); }  // for the next frame
  // Of keys and mouse, as far as frames have seen them.
  int64_t inputs_seen() const { return inputs_seen_; }
  bool minimized() const;
  // Pixels per point.
  float content_scale() const;
  std::pair<int, int> size() const;  // in the units of Window()

  void begin_frame();
  // Draws over the backdrops (gui/view/theme.h) and shows it.
  void end_frame();
  // After ImGui's atlas was filled anew.
  void upload_fonts();
  void set_title(const std::string& title);
  const std::string& renderer() const { return renderer_; }  // as OpenGL calls itself
  bool software() const { return software_; }                // it draws on the CPU

 private:
  struct Callbacks;

  bool load_gl();
  void install_callbacks();
  void show_input(const InputEvent& event);
  void show_modifiers(const InputEvent& event);
  void clear_backdrops(int width, int height);

  GLFWwindow* window_ = nullptr;
  InputQueue input_;
  int64_t inputs_seen_ = 0;
  ImVec2 pointer_{-FLT_MAX, -FLT_MAX};  // as ImGui says nowhere
  std::array<bool, InputQueue::kButtons> buttons_ = {};
  std::array<bool, 8> modifiers_ = {};  // GLFW's keys from the left Shift on: held, by the frames
  bool activity_ = true;
  std::vector<std::string> dropped_;
  std::string title_, renderer_;
  bool software_ = false;
};

}  // namespace specbound::gui
