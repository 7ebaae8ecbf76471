// The window: GLFW, an OpenGL 3 context, ImGui's backends on both. Everything happens on the thread
// that made it, but for wake().
#pragma once

#include <imgui.h>

#include <array>
#include <cfloat>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gui/view/input_queue.h"
#include "gui/window/damage.h"

struct GLFWcursor;
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
  bool minimized() { return shape().minimized; }
  // Units of Window() per point, and pixels per unit: with X11 a unit is a pixel, with Wayland it
  // may be several.
  float content_scale() { return shape().scale; }
  float density() { return shape().density; }
  std::pair<int, int> size() { return {shape().width, shape().height}; }  // in units of Window()

  void begin_frame();
  // Draws over the backdrops (gui/view/theme.h) and shows it; on a software renderer only what
  // has changed since the frame before.
  void end_frame();
  int64_t whole_frames() const { return whole_frames_; }  // of those that were drawn
  // After ImGui's atlas was filled anew.
  void upload_fonts();
  void set_title(const std::string& title);
  const std::string& renderer() const { return renderer_; }  // as OpenGL calls itself
  bool software() const { return software_; }                // it draws on the CPU

 private:
  struct Callbacks;
  struct Shape {
    int width = 0, height = 0;  // in the units of Window()
    int pixels_wide = 0, pixels_high = 0;
    float scale = 1, density = 1;
    bool minimized = false;
  };

  bool load_gl();
  bool keeps_frames() const;
  void install_callbacks();
  void show_input(const InputEvent& event);
  void show_modifiers(const InputEvent& event);
  const Shape& shape();
  void show_state();
  void show_cursor();
  void clear_backdrops(const PixelRect& region);

  GLFWwindow* window_ = nullptr;
  InputQueue input_;
  int64_t inputs_seen_ = 0;
  ImVec2 pointer_{-FLT_MAX, -FLT_MAX};  // as ImGui says nowhere
  std::array<bool, InputQueue::kButtons> buttons_ = {};
  std::array<bool, 8> modifiers_ = {};  // GLFW's keys from the left Shift on: held, by the frames
  double frame_time_ = 0;
  ImGuiMouseCursor cursor_ = ImGuiMouseCursor_Arrow;  // as it is shown
  std::map<int, GLFWcursor*> cursors_;                // by GLFW's shape
  Shape shape_;
  bool reshaped_ = true;   // since shape_ was asked for
  bool in_parts_ = false;  // a frame is drawn onto the one before
  Damage damage_;
  int64_t whole_frames_ = 0;
  bool activity_ = true;
  std::vector<std::string> dropped_;
  std::string title_, renderer_;
  bool software_ = false;
};

}  // namespace specbound::gui
