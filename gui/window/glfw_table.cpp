#include "gui/window/glfw_table.h"

#include <dlfcn.h>

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

#include <type_traits>

#include "error.h"

// Everything that is called: result, name, parameters, arguments.
#define SPECBOUND_GLFW_FUNCTIONS(F)                                                               \
  F(int, glfwInit, (), ())                                                                        \
  F(void, glfwTerminate, (), ())                                                                  \
  F(int, glfwGetError, (const char** text), (text))                                               \
  F(GLFWerrorfun, glfwSetErrorCallback, (GLFWerrorfun f), (f))                                    \
  F(double, glfwGetTime, (), ())                                                                  \
  F(GLFWglproc, glfwGetProcAddress, (const char* name), (name))                                   \
  F(void, glfwWindowHint, (int hint, int value), (hint, value))                                   \
  F(void, glfwWindowHintString, (int hint, const char* value), (hint, value))                     \
  F(GLFWwindow*, glfwCreateWindow,                                                                \
    (int width, int height, const char* title, GLFWmonitor* monitor, GLFWwindow* share),          \
    (width, height, title, monitor, share))                                                       \
  F(void, glfwDestroyWindow, (GLFWwindow * w), (w))                                               \
  F(void, glfwMakeContextCurrent, (GLFWwindow * w), (w))                                          \
  F(void, glfwSwapInterval, (int interval), (interval))                                           \
  F(void, glfwSwapBuffers, (GLFWwindow * w), (w))                                                 \
  F(int, glfwWindowShouldClose, (GLFWwindow * w), (w))                                            \
  F(void, glfwSetWindowShouldClose, (GLFWwindow * w, int value), (w, value))                      \
  F(void, glfwSetWindowTitle, (GLFWwindow * w, const char* title), (w, title))                    \
  F(void, glfwSetWindowSizeLimits,                                                                \
    (GLFWwindow * w, int min_width, int min_height, int max_width, int max_height),               \
    (w, min_width, min_height, max_width, max_height))                                            \
  F(void, glfwGetWindowSize, (GLFWwindow * w, int* width, int* height), (w, width, height))       \
  F(void, glfwGetFramebufferSize, (GLFWwindow * w, int* width, int* height), (w, width, height))  \
  F(void, glfwGetWindowContentScale, (GLFWwindow * w, float* x, float* y), (w, x, y))             \
  F(int, glfwGetWindowAttrib, (GLFWwindow * w, int attribute), (w, attribute))                    \
  F(void, glfwPollEvents, (), ())                                                                 \
  F(void, glfwWaitEvents, (), ())                                                                 \
  F(void, glfwWaitEventsTimeout, (double seconds), (seconds))                                     \
  F(void, glfwPostEmptyEvent, (), ())                                                             \
  F(int, glfwGetInputMode, (GLFWwindow * w, int mode), (w, mode))                                 \
  F(void, glfwSetInputMode, (GLFWwindow * w, int mode, int value), (w, mode, value))              \
  F(int, glfwGetMouseButton, (GLFWwindow * w, int button), (w, button))                           \
  F(int, glfwGetKey, (GLFWwindow * w, int key), (w, key))                                         \
  F(const char*, glfwGetKeyName, (int key, int scancode), (key, scancode))                        \
  F(void, glfwGetCursorPos, (GLFWwindow * w, double* x, double* y), (w, x, y))                    \
  F(void, glfwSetCursorPos, (GLFWwindow * w, double x, double y), (w, x, y))                      \
  F(GLFWcursor*, glfwCreateStandardCursor, (int shape), (shape))                                  \
  F(void, glfwDestroyCursor, (GLFWcursor * c), (c))                                               \
  F(void, glfwSetCursor, (GLFWwindow * w, GLFWcursor * c), (w, c))                                \
  F(const char*, glfwGetClipboardString, (GLFWwindow * w), (w))                                   \
  F(void, glfwSetClipboardString, (GLFWwindow * w, const char* text), (w, text))                  \
  F(const float*, glfwGetJoystickAxes, (int id, int* n), (id, n))                                 \
  F(const unsigned char*, glfwGetJoystickButtons, (int id, int* n), (id, n))                      \
  F(int, glfwGetGamepadState, (int id, GLFWgamepadstate* state), (id, state))                     \
  F(GLFWkeyfun, glfwSetKeyCallback, (GLFWwindow * w, GLFWkeyfun f), (w, f))                       \
  F(GLFWcharfun, glfwSetCharCallback, (GLFWwindow * w, GLFWcharfun f), (w, f))                    \
  F(GLFWmousebuttonfun, glfwSetMouseButtonCallback, (GLFWwindow * w, GLFWmousebuttonfun f),       \
    (w, f))                                                                                       \
  F(GLFWcursorposfun, glfwSetCursorPosCallback, (GLFWwindow * w, GLFWcursorposfun f), (w, f))     \
  F(GLFWcursorenterfun, glfwSetCursorEnterCallback, (GLFWwindow * w, GLFWcursorenterfun f),       \
    (w, f))                                                                                       \
  F(GLFWscrollfun, glfwSetScrollCallback, (GLFWwindow * w, GLFWscrollfun f), (w, f))              \
  F(GLFWdropfun, glfwSetDropCallback, (GLFWwindow * w, GLFWdropfun f), (w, f))                    \
  F(GLFWmonitorfun, glfwSetMonitorCallback, (GLFWmonitorfun f), (f))                              \
  F(GLFWwindowfocusfun, glfwSetWindowFocusCallback, (GLFWwindow * w, GLFWwindowfocusfun f),       \
    (w, f))                                                                                       \
  F(GLFWwindowrefreshfun, glfwSetWindowRefreshCallback, (GLFWwindow * w, GLFWwindowrefreshfun f), \
    (w, f))                                                                                       \
  F(GLFWwindowiconifyfun, glfwSetWindowIconifyCallback, (GLFWwindow * w, GLFWwindowiconifyfun f), \
    (w, f))                                                                                       \
  F(GLFWframebuffersizefun, glfwSetFramebufferSizeCallback,                                       \
    (GLFWwindow * w, GLFWframebuffersizefun f), (w, f))                                           \
  F(GLFWwindowcontentscalefun, glfwSetWindowContentScaleCallback,                                 \
    (GLFWwindow * w, GLFWwindowcontentscalefun f), (w, f))

namespace {

struct Table {
#define SPECBOUND_ENTRY(result, name, parameters, arguments) decltype(&::name) name = nullptr;
  SPECBOUND_GLFW_FUNCTIONS(SPECBOUND_ENTRY)
#undef SPECBOUND_ENTRY
} table;

}  // namespace

extern "C" {
#define SPECBOUND_FORWARD(result, name, parameters, arguments) \
  result name parameters {                                     \
    return table.name arguments;                               \
  }
SPECBOUND_GLFW_FUNCTIONS(SPECBOUND_FORWARD)
#undef SPECBOUND_FORWARD
}

namespace specbound::gui {

void open_glfw() {
  constexpr const char* kLibrary = "libglfw.so.3";
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    throw Error(
        ErrorCode::kUnsupported,
        format("no window can be opened without GLFW (%s): install libglfw3 (Debian's name), "
               "or use specbound chat",
               why ? why : kLibrary));
  }
  const auto load = [library](auto& entry, const char* name) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(library, name));
    if (!entry) {
      throw Error(ErrorCode::kUnsupported,
                  format("%s has no %s: expected GLFW 3.3 or newer", kLibrary, name));
    }
  };
#define SPECBOUND_LOAD(result, name, parameters, arguments) load(table.name, #name);
  SPECBOUND_GLFW_FUNCTIONS(SPECBOUND_LOAD)
#undef SPECBOUND_LOAD
}

}  // namespace specbound::gui
