#include "gui/window/window.h"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>
#include <imgui.h>
#include <imgui_impl_glfw.h>
#include <imgui_impl_opengl3.h>
#include <imgui_impl_opengl3_loader.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "error.h"
#include "gui/view/keys.h"
#include "gui/view/text_box.h"
#include "gui/view/theme.h"
#include "gui/window/glfw_table.h"
#include "gui/window/paired_triangles.h"

namespace specbound::gui {

namespace {

// What ImGui's loader leaves out.
constexpr GLint kNearest = 0x2600;
constexpr GLenum kRenderer = 0x1f01;

std::string glfw_error() {
  const char* text = nullptr;
  glfwGetError(&text);
  return text ? text : "no reason was given";
}

// A key that does nothing by itself but bring a character.
bool is_text_key(int key, int mods) {
  return key >= GLFW_KEY_SPACE && key <= GLFW_KEY_GRAVE_ACCENT &&
         (mods & (GLFW_MOD_CONTROL | GLFW_MOD_ALT | GLFW_MOD_SUPER)) == 0;
}

}  // namespace

// What GLFW calls. Keys and mouse wait for their frame; the rest goes on to ImGui.
struct Window::Callbacks {
  static inline Window* current = nullptr;
  using Kind = InputEvent::Kind;

  // Something happened that a frame is due for.
  template <class... Args>
  static void noticed(GLFWwindow*, Args...) {
    current->activity_ = true;
  }
  // What the screen showed of it.
  static void lost(GLFWwindow*) {
    current->activity_ = true;
    current->damage_.forget();
  }
  // Its size, its scale or its being there; a size that comes back came with other buffers.
  template <class... Args>
  static void reshaped(GLFWwindow* w, Args...) {
    current->reshaped_ = true;
    lost(w);
  }
  template <auto next, class... Args>
  static void passed_on(GLFWwindow* w, Args... args) {
    current->activity_ = true;
    next(w, args...);
  }
  static void push(const InputEvent& event) {
    current->activity_ = true;
    current->input_.push(event);
  }
  static void key(GLFWwindow*, int key, int scancode, int action, int mods) {
    // ImGui repeats by itself. In the queue, where each takes a frame, repeats of a key held down
    // on a slow screen would go on after it was let go.
    if (action == GLFW_REPEAT) return noticed<>(nullptr);
#if IMGUI_VERSION_NUM < 18900  // later ones do so themselves
    key = key_by_name(key, glfwGetKeyName(key, scancode));
#endif
    push({.kind = action == GLFW_PRESS ? Kind::kKeyDown : Kind::kKeyUp,
          .key = key,
          .scancode = scancode,
          .mods = mods,
          .text = is_text_key(key, mods)});
  }
  static void character(GLFWwindow*, unsigned code) {
    push({.kind = Kind::kCharacter, .character = code});
  }
  static void moved(GLFWwindow*, double x, double y) {
    push({.kind = Kind::kMove, .x = x, .y = y});
  }
  static void wheel(GLFWwindow*, double x, double y) {
    push({.kind = Kind::kWheel, .x = x, .y = y});
  }
  static void button(GLFWwindow*, int button, int action, int) {
    push({.kind = action == GLFW_PRESS ? Kind::kButtonDown : Kind::kButtonUp, .button = button});
  }
  static void entered(GLFWwindow* w, int inside) {
    ImGui_ImplGlfw_CursorEnterCallback(w, inside);
    double x = -FLT_MAX, y = -FLT_MAX;
    if (inside) {
      glfwGetCursorPos(w, &x, &y);  // it may be where it left, which GLFW calls no movement
    } else {
      for (int i = 0; i < InputQueue::kButtons; ++i) {
        if (current->input_.holds(i)) return;  // something is dragged out, and moves on
      }
    }
    moved(w, x, y);
  }
  static void drop(GLFWwindow*, int n, const char** paths) {
    current->activity_ = true;
    for (int i = 0; i < n; ++i) current->dropped_.emplace_back(paths[i]);
  }
};

Window::Window(int width, int height, const std::string& title) : title_(title) {
  open_glfw();
  if (!glfwInit()) {
    throw Error(ErrorCode::kUnsupported,
                format("no window can be opened here: %s; gui needs a graphical session (DISPLAY), "
                       "specbound chat does without",
                       glfw_error().c_str()));
  }
  glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 0);
  // Nothing has a depth here; memory that a software renderer need not touch.
  glfwWindowHint(GLFW_DEPTH_BITS, 0);
  glfwWindowHint(GLFW_STENCIL_BITS, 0);
  glfwWindowHintString(GLFW_X11_CLASS_NAME, "specbound");  // as packaging/desktop has it
  glfwWindowHintString(GLFW_X11_INSTANCE_NAME, "specbound");
  window_ = glfwCreateWindow(width, height, title.c_str(), nullptr, nullptr);
  if (!window_) {
    const std::string why = glfw_error();
    glfwTerminate();
    throw Error(
        ErrorCode::kUnsupported,
        format("no OpenGL 3 window can be opened here: %s; install libgl1-mesa-dri (Debian's "
               "name) or a graphics driver, or use specbound chat",
               why.c_str()));
  }
  glfwMakeContextCurrent(window_);
  // A frame is shown at once: the main loop keeps the pace, and never waits for a hidden window.
  glfwSwapInterval(0);
  bool ready = load_gl();
  ImGui::CreateContext();
  ImGui_ImplGlfw_InitForOpenGL(window_, false);
  ready = ready && ImGui_ImplOpenGL3_Init(nullptr);
  if (!ready) {
    ImGui_ImplGlfw_Shutdown();
    ImGui::DestroyContext();
    glfwDestroyWindow(window_);
    glfwTerminate();
    throw Error(ErrorCode::kUnsupported,
                "OpenGL 3 has no functions here: expected libGL.so.1 (Debian: libgl1, "
                "libgl1-mesa-dri); specbound chat does without");
  }
  glfwSetWindowSizeLimits(window_, 480, 360, GLFW_DONT_CARE, GLFW_DONT_CARE);
  in_parts_ = software_ && keeps_frames();
  install_callbacks();
}

bool Window::load_gl() {
  if (imgl3wInit2(glfwGetProcAddress) != 0) return false;
  const auto text = [](GLenum name) {
    const GLubyte* s = glGetString(name);
    return std::string(s ? reinterpret_cast<const char*>(s) : "?");
  };
  renderer_ = text(kRenderer) + ", OpenGL " + text(GL_VERSION);
  for (const char* name : {"llvmpipe", "softpipe", "swrast", "SwiftShader"}) {
    software_ = software_ || renderer_.find(name) != std::string::npos;
  }
  return true;
}

// Whether a frame is drawn onto the one before: OpenGL promises it to nobody, and Mesa's software
// renderer does so. Two frames tell, that nobody can tell apart. Zink on such a renderer has images
// that take turns, and what is read is always the newest one: they would tell nothing.
bool Window::keeps_frames() const {
  if (renderer_.find("zink") != std::string::npos) return false;
  for (const unsigned char shade : {20, 21}) {
    const auto part = static_cast<float>(shade) / 255;
    glClearColor(part, part, part, 1);
    glClear(GL_COLOR_BUFFER_BIT);
    glfwSwapBuffers(window_);
    unsigned char pixel[4] = {};
    glReadPixels(0, 0, 1, 1, GL_RGBA, GL_UNSIGNED_BYTE, pixel);
    if (pixel[0] != shade || pixel[1] != shade || pixel[2] != shade) return false;
  }
  return true;
}

void Window::install_callbacks() {
  Callbacks::current = this;
  glfwSetKeyCallback(window_, Callbacks::key);
  glfwSetCharCallback(window_, Callbacks::character);
  glfwSetMouseButtonCallback(window_, Callbacks::button);
  glfwSetScrollCallback(window_, Callbacks::wheel);
  glfwSetCursorPosCallback(window_, Callbacks::moved);
  glfwSetCursorEnterCallback(window_, Callbacks::entered);
  glfwSetWindowFocusCallback(window_, Callbacks::passed_on<ImGui_ImplGlfw_WindowFocusCallback>);
  glfwSetDropCallback(window_, Callbacks::drop);
  glfwSetWindowRefreshCallback(window_, Callbacks::lost);
  glfwSetFramebufferSizeCallback(window_, Callbacks::reshaped);
  glfwSetWindowContentScaleCallback(window_, Callbacks::reshaped);
  glfwSetWindowIconifyCallback(window_, Callbacks::reshaped);
}

Window::~Window() {
  ImGui_ImplOpenGL3_Shutdown();
  ImGui_ImplGlfw_Shutdown();
  ImGui::DestroyContext();
  glfwDestroyWindow(window_);
  glfwTerminate();
  Callbacks::current = nullptr;
}

bool Window::closing() const {
  return glfwWindowShouldClose(window_) != 0;
}

void Window::close() {
  glfwSetWindowShouldClose(window_, 1);
}

void Window::wait(double seconds) {
  if (seconds < 0) return glfwWaitEvents();
  if (seconds == 0) return glfwPollEvents();
  glfwWaitEventsTimeout(seconds);
}

void Window::wake() {
  glfwPostEmptyEvent();
}

double Window::now() {
  return glfwGetTime();
}

// Each of these is a question to the display's server, which a frame has no time to wait for: they
// are asked when GLFW tells of a change.
const Window::Shape& Window::shape() {
  if (!std::exchange(reshaped_, false)) return shape_;
  Shape& s = shape_;
  glfwGetWindowSize(window_, &s.width, &s.height);
  glfwGetFramebufferSize(window_, &s.pixels_wide, &s.pixels_high);
  s.minimized =
      s.pixels_wide <= 0 || s.pixels_high <= 0 || glfwGetWindowAttrib(window_, GLFW_ICONIFIED) != 0;
  float x = 1, y = 1;
  glfwGetWindowContentScale(window_, &x, &y);
  // Where the window is measured in points already, ImGui scales.
  const float already =
      s.width > 0 ? static_cast<float>(s.pixels_wide) / static_cast<float>(s.width) : 1.0f;
  s.density = std::max(already, 1.0f);
  const float scale = std::max(x, y) / s.density;
  s.scale = std::isfinite(scale) ? std::clamp(scale, 0.5f, 4.0f) : 1.0f;
  return s;
}

// ImGui's backend asks GLFW which of them are held now; a key of the queue was pressed under those
// that were held then.
void Window::show_modifiers(const InputEvent& event) {
  static_assert(GLFW_KEY_RIGHT_SHIFT == GLFW_KEY_LEFT_SHIFT + 4);
  const auto key = static_cast<size_t>(event.key - GLFW_KEY_LEFT_SHIFT);
  if (key < modifiers_.size()) modifiers_[key] = event.kind == InputEvent::Kind::kKeyDown;
#if IMGUI_VERSION_NUM >= 18900  // older ones go by the keys that they were told of
  constexpr std::array kModifiers = {ImGuiMod_Shift, ImGuiMod_Ctrl, ImGuiMod_Alt, ImGuiMod_Super};
  for (size_t i = 0; i < kModifiers.size(); ++i) {
    ImGui::GetIO().AddKeyEvent(kModifiers[i], modifiers_[i] || modifiers_[i + 4]);
  }
#endif
}

void Window::show_input(const InputEvent& event) {
  using Kind = InputEvent::Kind;
  ++inputs_seen_;
  switch (event.kind) {
    case Kind::kKeyDown:
    case Kind::kKeyUp:
      ImGui_ImplGlfw_KeyCallback(window_, event.key, event.scancode,
                                 event.kind == Kind::kKeyDown ? GLFW_PRESS : GLFW_RELEASE,
                                 event.mods);
      return show_modifiers(event);
    case Kind::kCharacter:
      if (event.character > IM_UNICODE_CODEPOINT_MAX ||
          event.character == IM_UNICODE_CODEPOINT_INVALID) {
        wide_characters() += static_cast<char32_t>(event.character);
      }
      return ImGui_ImplGlfw_CharCallback(window_, event.character);
    case Kind::kWheel:
      return ImGui_ImplGlfw_ScrollCallback(window_, event.x, event.y);
    case Kind::kMove:
      pointer_ = {static_cast<float>(event.x), static_cast<float>(event.y)};
      return;
    case Kind::kButtonDown:
    case Kind::kButtonUp:
      buttons_[static_cast<size_t>(event.button)] = event.kind == Kind::kButtonDown;
      return;
  }
}

// In place of ImGui_ImplGlfw_NewFrame(), which asks the display's server for all of it anew.
void Window::show_state() {
  ImGuiIO& io = ImGui::GetIO();
  const Shape& s = shape();
  const auto points = [](int n) { return static_cast<float>(n); };
  io.DisplaySize = {points(s.width), points(s.height)};
  if (s.width > 0 && s.height > 0) {
    io.DisplayFramebufferScale = {points(s.pixels_wide) / io.DisplaySize.x,
                                  points(s.pixels_high) / io.DisplaySize.y};
  }
  const double time = now();
  io.DeltaTime = std::max(static_cast<float>(time - frame_time_), 1e-5f);
  frame_time_ = time;
#if IMGUI_VERSION_NUM >= 18900
  // Nothing of it is put off: the queue gives a frame what it may see.
  io.ConfigInputTrickleEventQueue = false;
  io.AddMousePosEvent(pointer_.x, pointer_.y);
  for (size_t i = 0; i < buttons_.size(); ++i) {
    io.AddMouseButtonEvent(static_cast<int>(i), buttons_[i]);
  }
#else
  io.MousePos = pointer_;
  std::ranges::copy(buttons_, io.MouseDown);
#endif
}

void Window::show_cursor() {
  const ImGuiMouseCursor wanted = ImGui::GetMouseCursor();
  if (wanted == cursor_) return;
  cursor_ = wanted;
  const int shape = wanted == ImGuiMouseCursor_TextInput  ? GLFW_IBEAM_CURSOR
                    : wanted == ImGuiMouseCursor_ResizeNS ? GLFW_VRESIZE_CURSOR
                    : wanted == ImGuiMouseCursor_ResizeEW ? GLFW_HRESIZE_CURSOR
                    : wanted == ImGuiMouseCursor_Hand     ? GLFW_HAND_CURSOR
                                                          : GLFW_ARROW_CURSOR;
  GLFWcursor*& made = cursors_[shape];
  if (!made) made = glfwCreateStandardCursor(shape);
  glfwSetCursor(window_, made);
}

void Window::begin_frame() {
  wide_characters().clear();
  for (const InputEvent& event : input_.take()) show_input(event);
  ImGui_ImplOpenGL3_NewFrame();
  show_state();
  ImGui::NewFrame();
}

void Window::clear_backdrops(const PixelRect& region) {
  const ImVec2 scale = ImGui::GetIO().DisplayFramebufferScale;
  const int width = shape_.pixels_wide, height = shape_.pixels_high;
  const PixelRect window = {0, 0, width, height};
  for (const Backdrop& b : backdrops()) {
    const PixelRect part =
        common(common({static_cast<int>(b.min.x * scale.x), static_cast<int>(b.min.y * scale.y),
                       static_cast<int>(b.max.x * scale.x), static_cast<int>(b.max.y * scale.y)},
                      window),
               region);
    if (part.empty()) continue;
    // A clear of all of the window without scissors costs next to nothing.
    if (part != window) glEnable(GL_SCISSOR_TEST);
    glScissor(part.left, height - part.bottom, part.right - part.left, part.bottom - part.top);
    const ImVec4 c = ImGui::ColorConvertU32ToFloat4(b.color);
    glClearColor(c.x, c.y, c.z, 1);
    glClear(GL_COLOR_BUFFER_BIT);
  }
  glDisable(GL_SCISSOR_TEST);
}

void Window::end_frame() {
  show_cursor();
  ImGui::Render();
  ImDrawData& data = *ImGui::GetDrawData();
  const int width = shape().pixels_wide, height = shape_.pixels_high;
  const PixelRect window = {0, 0, width, height};
  const ImVec2 scale = data.FramebufferScale;
  const bool in_parts = in_parts_ && scale.x == 1 && scale.y == 1;
  std::vector<PixelRect> regions = {window};
  if (in_parts) regions = damage_.since_last(data, backdrops(), width, height);
  if (regions.empty()) return;  // it is on the screen already
  const bool whole = regions.front() == window;
  if (whole) ++whole_frames_;
  glViewport(0, 0, width, height);
  for (const PixelRect& region : regions) clear_backdrops(region);
  if (software_) {
    if (whole) regions.clear();  // there is nothing to leave out
    for (int i = 0; i < data.CmdListsCount; ++i) {
      pair_triangles(*data.CmdLists[i], regions, height);
    }
  }
  ImGui_ImplOpenGL3_RenderDrawData(&data);
  glfwSwapBuffers(window_);
}

void Window::upload_fonts() {
  damage_.forget();
  ImGui_ImplOpenGL3_DestroyFontsTexture();
  ImGui_ImplOpenGL3_CreateFontsTexture();
  // Letters lie on whole pixels: a software renderer is spared a good part of its work. Lines are
  // smoothed by their shape then.
  int bound = 0;
  glGetIntegerv(GL_TEXTURE_BINDING_2D, &bound);
  glBindTexture(GL_TEXTURE_2D,
                static_cast<GLuint>(reinterpret_cast<uintptr_t>(ImGui::GetIO().Fonts->TexID)));
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, kNearest);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, kNearest);
  glBindTexture(GL_TEXTURE_2D, static_cast<GLuint>(bound));
}

void Window::set_title(const std::string& title) {
  if (title == title_) return;
  title_ = title;
  glfwSetWindowTitle(window_, title.c_str());
}

}  // namespace specbound::gui
